"""Models that stand in for one another, as one model.

The rules of this file:
- The next one is asked only where it could do better: what is down, busy or out of credit is; a request of ours that is
  wrong would be wrong there too, and a stop is a stop.
- While nothing of a reply was handed on, the next one is asked within the call. After that the error goes up, so that the
  loop's retry voids what was handed on; its next attempt begins with the next model.
- What each of them spent is counted, also when another one answers.
"""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Self

import anyio
import msgspec

from ..causes import Cancelled
from ..errors import APIError, ConfigError, GaveUp, NoneAnswered, find
from ..messages import Delta, Part, Reply, Sampling, Transcript, Usage
from ..retry import classify
from ..scopes import finish, pending_cause, tasks
from .protocol import AnswerSchema, ChecksInputs, Model, ModelStream, Priced, Request, checked

__all__ = ["FallbackModel", "fallback"]

CLOSE_SECONDS = 10.0
ELSEWHERE_STATUSES = frozenset({402, 429})  # out of credit, or busy for long: nothing to wait for here, and no fault of ours


def fallback(*models: Model) -> FallbackModel:
    """One model of several: each is asked only when those before it could not be reached or were too busy.

        model = fallback(anthropic("claude-sonnet-4-5"), openrouter("anthropic/claude-sonnet-4.5"))

    Raises:
        ConfigError: When there is none, or one is there twice.
    """
    names = [each.name for each in models]
    if not models or len(set(names)) < len(names):
        raise ConfigError("a fallback needs models, each of them once", "as in fallback(first, second)")
    return FallbackModel(models)


class FallbackModel:
    """See `fallback`. It closes the models that it was given."""

    def __init__(self, models: Sequence[Model]) -> None:
        self.models = tuple(models)
        self._next: weakref.WeakKeyDictionary[Transcript, tuple[int, int]] = weakref.WeakKeyDictionary()

    @property
    def name(self) -> str:
        return ", else ".join(each.name for each in self.models)

    @property
    def reports_cost(self) -> bool:
        return all(each.reports_cost for each in self.models)

    @property
    def largest_output(self) -> int | None:
        """That of the most talkative; None where one does not know."""
        largest = [each.largest_output if isinstance(each, Priced) else None for each in self.models]
        return None if None in largest else max(each for each in largest if each is not None)

    @property
    def least_output(self) -> int:
        """What all of them take."""
        return max(each.least_output if isinstance(each, Priced) else 0 for each in self.models)

    def cost(self, usage: Usage) -> Decimal | None:
        """Dollars at the dearest of them; None where nobody knows of one."""
        costs = [each.cost(usage) if isinstance(each, Priced) else None for each in self.models]
        return None if None in costs else max(each for each in costs if each is not None)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[FallbackStream]:
        """One call, of the first model that can be had.

        Raises:
            NoneAnswered: None could; with what each of them said.
            AgentError, Stop: As a single model's; what another model would not do better.
        """
        async with tasks() as group:
            stream = FallbackStream(self, request)
            group.start_soon(stream.fetch, name=f"models {self.name}")
            try:
                yield stream
            finally:
                stream.close()
                group.scope.cancel(Cancelled("its stream was left"))

    def check_inputs(self, parts: Sequence[Part]) -> None:
        """Refuse images and files that one of them does not take: nobody knows yet which will be asked.

        Raises:
            ConfigError: One does not take one of them.
        """
        for each in self.models:
            if isinstance(each, ChecksInputs):
                each.check_inputs(parts)

    sampling = Sampling()  # each of them has its own

    def check_sampling(self, sampling: Sampling) -> None:
        """Refuse settings that one of them does not have.

        Raises:
            ConfigError: One does not have one of them.
        """
        for each in self.models:
            checked(each).check_sampling(sampling)

    def check_answer(self, answer: AnswerSchema, *, with_tools: bool) -> None:
        """Refuse a schema that one of them holds no answer to.

        Raises:
            ConfigError: One does not.
        """
        for each in self.models:
            checked(each).check_answer(answer, with_tools=with_tools)

    async def aclose(self) -> None:
        """Close the connections of all."""
        for each in self.models:
            await finish(CLOSE_SECONDS, each.aclose)

    def first_for(self, request: Request) -> int:
        """Where this call begins: behind the model that broke off in the middle of it, if that just happened."""
        length, index = self._next.pop(request.transcript, (-1, 0))
        return index if length == len(request.transcript) else 0

    def broke_off(self, request: Request, index: int) -> None:
        """The model failed after something of its reply was handed on."""
        if index + 1 < len(self.models):
            self._next[request.transcript] = (len(request.transcript), index + 1)


class FallbackStream:
    """A reply on its way, from whichever model it is. Made by `FallbackModel.stream`.

    The models' calls are made in a task of their own (`fetch`), since a call's limits end its whole block: the blocks of two
    models cannot both be around the one that iterates.
    """

    def __init__(self, model: FallbackModel, request: Request) -> None:
        self._model, self._request = model, request
        self._stream: ModelStream | None = None
        self._failed: list[tuple[str, Exception]] = []
        self._spent_before = Usage(cost_usd=Decimal(0))
        self._handed_on = self._whole = False
        self._error: Exception | None = None
        self._begun = anyio.Event()
        self._put, self._take = anyio.create_memory_object_stream[Delta](0)

    @property
    def spent(self) -> Usage:
        return self._spent_before if self._stream is None else _sum(self._spent_before, self._stream.spent)

    @property
    def reply(self) -> Reply:
        """The whole reply, with what all models together used; after the iteration has ended, not before."""
        if self._stream is None:
            raise RuntimeError("the reply is there when the iteration over the stream has ended")
        reply = self._stream.reply
        return msgspec.structs.replace(reply, usage=_sum(self._spent_before, reply.usage)) if self._failed else reply

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delta:
        self._begun.set()
        try:
            return await self._take.receive()
        except anyio.EndOfStream as end:
            if self._error is not None:
                raise self._error from self._error.__cause__
            if self._whole:
                raise StopAsyncIteration from end
        await anyio.sleep_forever()  # the fetching task was stopped, and so are we in a moment
        raise AssertionError("a stop comes out of the await before")

    def close(self) -> None:
        """Whoever iterated has left."""
        self._take.close()

    async def fetch(self) -> None:
        """Ask the models, one after the other, and hand on what the first that can be had says."""
        with self._put:
            await self._begun.wait()
            try:
                await self._ask_in_turn()
                self._whole = True
            except Exception as error:  # boundary: it is raised where the stream is iterated over
                self._error = error

    async def _ask_in_turn(self) -> None:
        for index in range(self._model.first_for(self._request), len(self._model.models)):
            model = self._model.models[index]
            try:
                await self._ask(model)
                return
            except Exception as error:  # boundary: the boundary that decides whether another model is asked
                if pending_cause() is not None or not could_do_better(error):
                    raise
                if self._handed_on:
                    self._model.broke_off(self._request, index)
                    raise
                self._failed.append((model.name, error))
                self._book()
        if len(self._failed) == 1:
            raise self._failed[0][1]
        raise NoneAnswered([name for name, _ in self._failed], [error for _, error in self._failed])

    async def _ask(self, model: Model) -> None:
        async with model.stream(self._request) as stream:
            self._stream = stream
            async for delta in stream:
                self._handed_on = True
                await self._put.send(delta)

    def _book(self) -> None:
        """Keep what a call that failed has spent."""
        if self._stream is not None:
            self._spent_before, self._stream = _sum(self._spent_before, self._stream.spent), None


def could_do_better(error: Exception) -> bool:
    """Whether another model could answer where this error came of one."""
    last = gave_up.last if (gave_up := find(error, GaveUp)) is not None else error
    api_error = find(last, APIError)
    if api_error is not None and (api_error.status in ELSEWHERE_STATUSES or 500 <= api_error.status < 600):
        return True
    return classify(last, scope_stopped=False).retry


def _sum(one: Usage, other: Usage) -> Usage:
    known = one.cost_usd is not None and other.cost_usd is not None
    return Usage(
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        cached_input_tokens=one.cached_input_tokens + other.cached_input_tokens,
        cache_write_tokens=one.cache_write_tokens + other.cache_write_tokens,
        reasoning_tokens=one.reasoning_tokens + other.reasoning_tokens,
        cost_usd=(one.cost_usd or Decimal(0)) + (other.cost_usd or Decimal(0)) if known else None,
        estimated=one.estimated or other.estimated,
    )
