"""One model call: its attempts, its deltas to the watchers, and its spend, also when it comes to nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio
import msgspec

from ..causes import StoppedFromOutside, to_data
from ..errors import AgentError, BadReply, EmptyReply, IncompleteStream, OutputFiltered, OutputTruncated, Refused
from ..journal.records import CallSpent, Replied, Retried
from ..messages import Delta, Finish, ReasoningDelta, Reply, Sampling, TextDelta, Transcript, Usage
from ..models import AnswerSchema, Model, Request, ToolSpec
from ..retry import Attempt, RetryNotice, RetryPolicy, retrying
from ..scopes import Slots, current_cause
from .answering import raise_pending_stop
from .budget import Budgeting
from .events import ReasoningPiece, TextPiece, TurnStarted
from .log import Log
from .shared_budget import Budget
from .usual_time import UsualTimes

__all__ = ["Calling", "unusable"]

MODEL_CALL = "a model call"


class Calling:
    """Calls the model for one run. A failed attempt's deltas are void, and its spend is counted."""

    def __init__(
        self,
        log: Log,
        model: Model,
        tools: Sequence[ToolSpec],
        policy: RetryPolicy,
        slots: Slots,
        budget: Budget | None = None,
        sampling: Sampling | None = None,
        answer: AnswerSchema | None = None,
        secret_schemas: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self._log, self._model, self._tools, self._policy, self._slots = log, model, tools, policy, slots
        self._sampling, self._answer = sampling or Sampling(), answer
        self._secret_schemas = secret_schemas or {}
        self._times = UsualTimes()
        self._budgeting = Budgeting(model, tools, budget, self._sampling.max_tokens, answer)

    async def call(self) -> None:
        """Get the next reply and add it to the log.

        A stop cuts the call at once, and what it cost so far is added.

        Raises:
            NotEnoughTime: Its calls take longer than the time left; none was made.
            GaveUp, APIError, TransportFailed, DeadlinePassed: There is no reply.
            BadReply: There is one that cannot be used; it is in the log, for what it cost.
            MaxTurns, CostBudget, TokenBudget: There is no room for it, or it was cut where there was no more.
        """
        self._times.need(MODEL_CALL)
        turn = self._log.state.turns + 1
        lost: list[Usage] = []
        try:
            reply, cut = await retrying(
                lambda attempt: self._attempt(attempt, turn),
                self._policy,
                on_retry=lambda notice: self._log.add(_retried(turn, notice)),
                before_wait=self._log.commit,  # watchers void what the attempt streamed, and see the wait while it lasts
                on_lost=lost.append,
            )
        except BaseException as error:
            for usage in lost:
                self._log.add(CallSpent(turn=turn, usage=usage, error=to_data(_cause_of(error))))
            raise
        self._log.add(self._replied(turn, reply))
        if (unusable_because := cut or unusable(reply)) is not None:
            raise unusable_because

    async def _attempt(self, attempt: Attempt, turn: int) -> tuple[Reply, AgentError | None]:
        """The reply, and the limit that cut it."""
        state = self._log.state
        async with self._slots.hold(), self._budgeting.held(state) as allowance:
            raise_pending_stop()  # a grace may have begun while it waited for its turn
            if attempt.number == 1:
                self._log.tell(TurnStarted(turn))
            request = self._request(state.transcript, allowance.cap)
            async with self._model.stream(request) as stream:
                began = anyio.current_time()
                attempt.spends(lambda: stream.spent)
                allowance.spends(lambda: stream.spent)
                telling = Telling(self._log, turn, attempt.number)
                async for delta in stream:
                    telling.tell(delta)
                    allowance.look(delta)
                telling.end()
                self._times.took(MODEL_CALL, anyio.current_time() - began)
                reply = stream.reply
            return reply, allowance.answered(reply)

    def _replied(self, turn: int, reply: Reply) -> Replied:
        message = self._log.secrets.hide(reply.message, self._secret_schemas)
        return _replied(turn, msgspec.structs.replace(reply, message=message))

    def _request(self, transcript: Transcript, cap: int | None) -> Request:
        return Request(
            transcript=transcript,
            tools=self._tools,
            max_output_tokens=cap,
            sampling=self._sampling,
            answer=self._answer,
        )


class Telling:
    """Tells the watchers what one attempt streams, without what is secret."""

    def __init__(self, log: Log, turn: int, attempt: int) -> None:
        self._log, self._turn, self._attempt = log, turn, attempt
        self._text, self._reasoning = log.secrets.piecewise(), log.secrets.piecewise()

    def tell(self, delta: Delta) -> None:
        match delta:
            case TextDelta(text=text):
                self._tell(TextPiece, self._text.feed(text))
            case ReasoningDelta(text=text):
                self._tell(ReasoningPiece, self._reasoning.feed(text))
            case _:
                pass  # a call is told when it is whole

    def end(self) -> None:
        self._tell(ReasoningPiece, self._reasoning.end())
        self._tell(TextPiece, self._text.end())

    def _tell(self, kind: type[TextPiece | ReasoningPiece], text: str) -> None:
        if text:
            self._log.tell(kind(self._turn, self._attempt, text))


_UNUSABLE: dict[Finish, Callable[[Reply], BadReply]] = {
    "truncated": lambda _: OutputTruncated(),
    "filtered": lambda reply: OutputFiltered(reply.native_finish),
    "refused": lambda reply: Refused(reply.refusal or reply.message.content),
    "incomplete": lambda _: IncompleteStream(),
    "empty": lambda _: EmptyReply(),
}


def unusable(reply: Reply) -> AgentError | None:
    """Why a reply cannot be used; None when it can."""
    make = _UNUSABLE.get(reply.finish)
    return make(reply) if make else None


def _retried(turn: int, notice: RetryNotice) -> Retried:
    return Retried(
        turn=turn,
        attempt=notice.attempt,
        of=notice.of,
        wait_seconds=round(notice.after, 3),
        error=to_data(notice.error),
        usage=notice.spent,
    )


def _replied(turn: int, reply: Reply) -> Replied:
    return Replied(
        turn=turn,
        message=reply.message,
        finish=reply.finish,
        native_finish=reply.native_finish,
        usage=reply.usage,
        model=reply.model,
        reply_id=reply.id,
    )


def _cause_of(error: BaseException) -> BaseException:
    return (current_cause() or StoppedFromOutside()) if isinstance(error, anyio.get_cancelled_exc_class()) else error
