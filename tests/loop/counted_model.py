"""A model whose use is exact, and whose price is known beforehand or not: for tests of budgets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import anyio

from heaveto.messages import AssistantMessage, Delta, Reply, TextDelta, ToolCall, Usage
from heaveto.models import Request

INPUT_USD, OUTPUT_USD = Decimal("0.001"), Decimal("0.01")  # a token
INPUT = 100  # tokens, whatever is asked


class Writer:
    """A model that writes so many tokens a call, each of them a word of four letters and a space; then it is asked no more.

    A negative number asks for a tool with so many tokens.
    """

    name = "writer:model"
    largest_output: int | None = None
    least_output = 0

    def __init__(
        self,
        *tokens: int | Exception,
        obedient: bool = True,
        price: bool = True,
        reports: bool = True,
        counts_early: bool = False,
        input_tokens: int = INPUT,
    ) -> None:
        self.tokens = list(tokens)
        self.obedient, self.price, self.reports, self.counts_early = obedient, price, reports, counts_early
        self.input_tokens = input_tokens
        self.caps: list[int | None] = []
        self.streams: list[WriterStream] = []

    @property
    def reports_cost(self) -> bool:
        return self.price or self.reports

    def cost(self, usage: Usage) -> Decimal | None:
        return usage.input_tokens * INPUT_USD + usage.output_tokens * OUTPUT_USD if self.price else None

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[WriterStream]:
        self.caps.append(request.max_output_tokens)
        tokens = self.tokens.pop(0)
        if isinstance(tokens, Exception):
            await anyio.sleep(0)
            raise tokens
        stream = WriterStream(self, abs(tokens), request.max_output_tokens, asks=tokens < 0)
        self.streams.append(stream)
        yield stream

    async def aclose(self) -> None: ...


class WriterStream:
    def __init__(self, model: Writer, tokens: int, cap: int | None, *, asks: bool) -> None:
        self._model, self._asks, self.written, self._over = model, asks, 0, False
        self._cut = cap is not None and cap < tokens and model.obedient
        self._end = cap if self._cut and cap is not None else tokens

    @property
    def spent(self) -> Usage:
        usage = Usage(input_tokens=self._model.input_tokens, output_tokens=self.written)
        known = self._over or self._model.counts_early
        cost = usage.input_tokens * INPUT_USD + usage.output_tokens * OUTPUT_USD
        reported = cost if known and self._model.reports else self._model.cost(usage)
        return Usage(
            input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, cost_usd=reported, estimated=not known
        )

    @property
    def reply(self) -> Reply:
        calls = (ToolCall(f"call_{len(self._model.caps)}", "look", "{}"),) if self._asks else ()
        finish: Any = "truncated" if self._cut else "tool_calls" if calls else "answer"
        return Reply(message=AssistantMessage("word " * self.written, calls), finish=finish, usage=self.spent)

    def __aiter__(self) -> WriterStream:
        return self

    async def __anext__(self) -> Delta:
        await anyio.sleep(0)
        if self.written >= self._end:
            self._over = True
            raise StopAsyncIteration
        piece = min(50, self._end - self.written)
        self.written += piece
        return TextDelta("word " * piece)
