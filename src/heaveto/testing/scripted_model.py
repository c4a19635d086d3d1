"""A model that says what a script tells it to, for tests of agents and tools."""

from __future__ import annotations

import itertools
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any, TypeAlias

import anyio
import anyio.lowlevel
import msgspec

from ..messages import AssistantMessage, CallDelta, Delta, Message, Reply, Sampling, TextDelta, ToolCall, Usage
from ..models import AnswerSchema, Request

__all__ = ["Line", "ScriptedModel", "calls", "scripted"]

USAGE = Usage(input_tokens=100, output_tokens=10, cost_usd=Decimal("0.001"))

Line: TypeAlias = "str | Reply | BaseException | Callable[[Request], Line]"


def scripted(*lines: Line, name: str = "scripted", pause_seconds: float = 0.0) -> ScriptedModel:
    """A model that replies with these lines, one a call.

    Args:
        lines: A text is an answer, `calls(...)` asks for tools, a `Reply` is itself, an exception is raised, and a function
            is given the request and returns one of these.
        pause_seconds: How long it waits before each delta.

    A call beyond the last line raises AssertionError.
    """
    return ScriptedModel(lines, name=name, pause_seconds=pause_seconds)


def calls(*asked: tuple[str, dict[str, Any] | str], text: str = "") -> Reply:
    """A reply that asks for tools: `calls(("read_file", {"path": "a.py"}), ...)`. A string is sent as the raw arguments."""
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
        yield ScriptedStream(line, self._pause_seconds)

    def check_sampling(self, sampling: Sampling) -> None:
        """It has every setting, and heeds none."""

    def check_answer(self, answer: AnswerSchema, *, with_tools: bool) -> None:
        """It takes any schema: whether an answer fits is for the script."""

    async def aclose(self) -> None:
        await anyio.lowlevel.checkpoint()


class ScriptedStream:
    """A reply on its way, word by word."""

    def __init__(self, reply: Reply, pause_seconds: float) -> None:
        self._reply, self._pause_seconds = reply, pause_seconds
        self._deltas = deque(_deltas_of(reply.message))
        self._over = False

    @property
    def spent(self) -> Usage:
        return self._reply.usage if self._over else msgspec.structs.replace(self._reply.usage, estimated=True)

    @property
    def reply(self) -> Reply:
        return self._reply

    def __aiter__(self) -> ScriptedStream:
        return self

    async def __anext__(self) -> Delta:
        await anyio.sleep(self._pause_seconds)
        if not self._deltas:
            self._over = True
            raise StopAsyncIteration
        return self._deltas.popleft()


def _deltas_of(message: AssistantMessage) -> Sequence[Delta]:
    words = [TextDelta(word) for word in _words(message.content)]
    asked = [CallDelta(index, call.id, call.name, call.arguments) for index, call in enumerate(message.tool_calls)]
    return [*words, *asked]


def _words(text: str) -> list[str]:
    first, *rest = text.split(" ")
    return [first, *(f" {word}" for word in rest)] if text else []
