"""A model that says what a script tells it to, for tests of agents and tools.

A request is encoded and a reply decoded as at a real API, in chat completions; only what is between the two, the network
and its limits, is left out: `FaultyExchange` is for that.
"""

from __future__ import annotations

import itertools
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any, TypeAlias

import anyio
import anyio.lowlevel
import msgspec

from ..messages import AssistantMessage, Delta, Message, Reply, Sampling, ToolCall, Usage
from ..models import AnswerSchema, Request
from ..models.chat import ChatDialect
from .scripted_bytes import events_of

__all__ = ["Line", "ScriptedModel", "calls", "scripted"]

DIALECT = ChatDialect("scripted", provider="scripted")
USAGE = Usage(input_tokens=100, output_tokens=10, cost_usd=Decimal("0.001"))

Line: TypeAlias = "str | Reply | BaseException | Callable[[Request], Line]"


def scripted(*lines: Line, name: str = "scripted", pause_seconds: float = 0.0) -> ScriptedModel:
    """A model that replies with these lines, one a call.

    Args:
        lines: A text is an answer, `calls(...)` asks for tools, a `Reply` is itself, an exception is raised, and a function
            is given the request and returns one of these; iterating over `request.transcript` gives its messages.
        pause_seconds: How long it waits before each delta.

    A call beyond the last line raises AssertionError.

    Raises:
        TypeError: A line is none of these.
    """
    for line in lines:
        if not isinstance(line, str | Reply | BaseException) and not callable(line):
            raise TypeError(f"a line is a text, calls(...), a Reply, an exception or a function, not {line!r}")
    return ScriptedModel(lines, name=name, pause_seconds=pause_seconds)


def calls(*asked: tuple[str, dict[str, Any] | str], text: str = "") -> Reply:
    """A reply that asks for tools: `calls(("read_file", {"path": "a.py"}), ...)`. A string is sent as the raw arguments.

    Raises:
        TypeError: What is asked for is no pair of a tool's name and arguments.
    """
    for each in asked:
        if not isinstance(each, tuple) or len(each) != 2 or not isinstance(each[0], str):
            raise TypeError(f'a call is a pair such as ("read_file", {{"path": "a.py"}}), not {each!r}')
    tool_calls = tuple(
        ToolCall(f"call_{next(_ids)}", name, arguments if isinstance(arguments, str) else json.dumps(arguments))
        for name, arguments in asked
    )
    return Reply(message=AssistantMessage(text, tool_calls), finish="tool_calls", usage=USAGE)


_ids = itertools.count(1)


class ScriptedModel:
    """See `scripted`.

    Attributes:
        requests: The messages of each call so far.
    """

    reports_cost = True
    sampling = Sampling()

    def __init__(self, lines: Iterable[Line], *, name: str, pause_seconds: float) -> None:
        self._lines, self.name, self._pause_seconds = deque(lines), name, pause_seconds
        self.requests: list[list[Message]] = []

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[ScriptedStream]:
        self.requests.append(list(request.transcript))
        DIALECT.encode(Request(transcript=request.transcript, tools=request.tools))  # as a real one, for what it refuses
        await anyio.lowlevel.checkpoint()
        if not self._lines:
            raise AssertionError(f"call {len(self.requests)} is beyond the script's last line")
        line = self._lines.popleft()
        while callable(line):
            line = line(request)
        if isinstance(line, BaseException):
            raise line
        if isinstance(line, str):
            line = Reply(message=AssistantMessage(line), finish="answer", usage=USAGE)
        yield ScriptedStream(line, self._pause_seconds, request.transcript.call_ids)

    def check_sampling(self, sampling: Sampling) -> None:
        """It has every setting, and heeds none."""

    def check_answer(self, answer: AnswerSchema, *, with_tools: bool) -> None:
        """It takes any schema: whether an answer fits is for the script."""

    async def aclose(self) -> None:
        await anyio.lowlevel.checkpoint()


class ScriptedStream:
    """A reply on its way, word by word: its bytes through the decoder that a real one's go through.

    Args:
        taken: Ids of earlier calls of the conversation, as for a real reply.
    """

    def __init__(self, reply: Reply, pause_seconds: float, taken: Collection[str] = ()) -> None:
        self._script, self._pause_seconds, self._taken = reply, pause_seconds, taken
        self._decoder = DIALECT.decoder(stream=True)
        self._events, self._ready = events_of(reply), deque[Delta]()
        self._reply: Reply | None = None

    @property
    def spent(self) -> Usage:
        usage = self._script.usage
        return usage if self._reply is not None else msgspec.structs.replace(usage, estimated=True)

    @property
    def reply(self) -> Reply:
        """The whole reply; after the iteration has ended, not before."""
        if self._reply is None:
            raise RuntimeError("the reply is there when the iteration over the stream has ended")
        return self._reply

    def __aiter__(self) -> ScriptedStream:
        return self

    async def __anext__(self) -> Delta:
        await anyio.sleep(self._pause_seconds)
        while not self._ready:
            if (event := next(self._events, None)) is None:
                self._reply = self._reply or self._finished()
                raise StopAsyncIteration
            self._ready.extend(self._decoder.feed(event))
        return self._ready.popleft()

    def _finished(self) -> Reply:
        """What was decoded, with its figures, and what these bytes have no word for, as the script has them."""
        script, finish = self._script, self._script.finish
        reply = self._decoder.so_far(finish, self._taken) if finish == "incomplete" else self._decoder.finish(self._taken)
        message = msgspec.structs.replace(reply.message, extras=script.message.extras)
        kept = {name: getattr(script, name) for name in ("finish", "native_finish", "id", "usage")}
        return Reply(**{**msgspec.structs.asdict(reply), **kept, "message": message})
