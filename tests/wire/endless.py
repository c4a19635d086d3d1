"""Replies that go on for ever, through the real client: they are cut off, or nothing of them is kept.

The limits of what is kept are made small, so that a little is much; what Python holds must stay near them.
"""

from __future__ import annotations

import gc
import itertools
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import anyio.lowlevel
from making import data
from points import DIALECTS

from heaveto.errors import AgentError
from heaveto.messages import Transcript, UserMessage
from heaveto.models import Answer, HTTPRequest, RemoteModel, Request, client, decoder
from heaveto.models.sse import SSESplitter
from heaveto.testing import FakeClock

__all__ = ["SHAPES", "largest_kept"]

EVENTS, BODY = "text/event-stream", "application/json"
FILL = "x" * 30_000  # one piece of it; large, so that the bytes come quickly

Shape = Callable[[int], bytes]


def chat(**part: Any) -> bytes:
    return data({"id": "i", "choices": [{"index": 0, "delta": part}]})


def chat_call(index: int, extra: Any = None, **function: Any) -> bytes:
    return chat(tool_calls=[{"index": index, "id": f"c{index}", "function": function, "extra_content": extra}])


def block(index: int, kind: str, **more: Any) -> bytes:
    return data({"type": "content_block_start", "index": index, "content_block": {"type": kind, **more}})


def piece(kind: str, **more: Any) -> bytes:
    return data({"type": "content_block_delta", "index": 0, "delta": {"type": kind, **more}})


def item(kind: str, index: int, **more: Any) -> bytes:
    return data({"type": f"response.output_item.{kind}", "output_index": index, "item": {"id": f"i{index}", **more}})


def gemini(**part: Any) -> bytes:
    return data({"candidates": [{"content": {"parts": [part]}}]})


SHAPES: dict[str, tuple[str, Shape]] = {
    "chat text": ("chat", lambda _: chat(content=FILL)),
    "chat reasoning": ("chat", lambda _: chat(reasoning=FILL)),
    "chat reasoning beside other": ("chat", lambda _: chat(reasoning="a", reasoning_content=FILL)),
    "chat reasoning beside details": (
        "chat",
        lambda _: chat(reasoning="a", reasoning_details=[{"type": "t", "text": FILL}]),
    ),
    "chat encrypted reasoning": ("chat", lambda _: chat(reasoning_details=[{"type": "t", "index": 0, "data": FILL}])),
    "chat new details": ("chat", lambda at: chat(reasoning_details=[{"type": "t", "index": at, "kept": FILL}])),
    "chat refusal": ("chat", lambda _: chat(refusal=FILL)),
    "chat extra content": ("chat", lambda at: chat(extra_content={str(at): FILL})),
    "chat calls": ("chat", lambda at: chat_call(at, name=f"n{at}{FILL}", arguments="")),
    "chat arguments": ("chat", lambda _: chat_call(0, name="n", arguments=FILL)),
    "chat names in pieces": ("chat", lambda at: chat_call(0, name=f"{at}{FILL}")),
    "chat extras of calls": ("chat", lambda at: chat_call(at, {"kept": FILL}, name="n")),
    "chat nothing": ("chat", lambda _: chat(unknown=FILL)),
    "chat other choices": ("chat", lambda _: data({"choices": [{"index": 1, "delta": {"content": FILL}}]})),
    "chat usage": ("chat", lambda _: data({"choices": [], "usage": {"prompt_tokens": 1, "note": FILL}})),
    "comments": ("chat", lambda _: f": {FILL}\n\n".encode()),
    "comments of one event": ("chat", lambda _: f": {FILL}\n".encode()),
    "unknown fields": ("chat", lambda _: f"x: {FILL}\n\n".encode()),
    "one event": ("chat", lambda _: f"data: {FILL}\n".encode()),
    "one line": ("chat", lambda _: FILL.encode()),
    "empty lines": ("chat", lambda _: b"\n" * 30_000),
    "anthropic text": ("anthropic", lambda _: piece("text_delta", text=FILL)),
    "anthropic blocks": ("anthropic", lambda at: block(at, "new", kept=FILL)),
    "anthropic text blocks": ("anthropic", lambda at: block(at, "text", text="", kept=FILL)),
    "anthropic signatures": ("anthropic", lambda _: piece("signature_delta", signature=FILL)),
    "anthropic citations": ("anthropic", lambda _: piece("citations_delta", citation={"cited_text": FILL})),
    "anthropic own tools": (
        "anthropic",
        lambda at: piece("input_json_delta", partial_json=FILL) if at else block(0, "server_tool_use", id="s", name="n"),
    ),
    "anthropic pings": ("anthropic", lambda _: data({"type": "ping", "note": FILL})),
    "responses words": (
        "responses",
        lambda _: data({"type": "response.output_text.delta", "output_index": 0, "item_id": "i", "delta": FILL}),
    ),
    "responses items": ("responses", lambda at: item("added", at, type="new", kept=FILL)),
    "responses whole items": ("responses", lambda at: item("done", at, type="reasoning", encrypted_content=FILL)),
    "responses refusal": (
        "responses",
        lambda _: data({"type": "response.refusal.delta", "output_index": 0, "item_id": "i", "delta": FILL}),
    ),
    "responses long ids": (
        "responses",
        lambda at: data({"type": "response.output_text.delta", "item_id": f"{at}{FILL}", "delta": ""}),
    ),
    "responses news": ("responses", lambda _: data({"type": "response.new", "kept": FILL})),
    "gemini text": ("gemini", lambda _: gemini(text=FILL)),
    "gemini thoughts": ("gemini", lambda at: gemini(text=FILL, thought=bool(at % 2))),
    "gemini parts": ("gemini", lambda at: gemini(new=f"{at}{FILL}")),
    "gemini calls": ("gemini", lambda at: gemini(functionCall={"name": "n", "args": {"kept": f"{at}{FILL}"}})),
}


class Endless:
    """An exchange and its answer: one shape, as long as somebody reads and it is less than `fed` bytes."""

    status = 200

    def __init__(self, shape: Shape, kind: str, fed: int) -> None:
        self.headers = {"content-type": kind}
        self._pieces, self._left = map(shape, itertools.count()), fed

    async def send(self, _: HTTPRequest, connected: Callable[[], None]) -> Answer:
        connected()
        await anyio.lowlevel.checkpoint()
        return self

    async def read(self) -> bytes:
        await anyio.lowlevel.checkpoint()
        if self._left <= 0:
            return b""
        data = next(self._pieces)
        self._left -= len(data)
        return data

    async def aclose(self) -> None: ...


def largest_kept(limit: int) -> list[str]:
    """The shapes of which more was kept than thrice what the limits allow, of five times as much.

    Args:
        limit: What each of the limits is set to, in bytes or characters.
    """
    limits = [(decoder, "MAX_HELD_BYTES"), (decoder, "MAX_BODY_BYTES"), (client, "MAX_REPLY_CHARACTERS")]
    before = [getattr(*each) for each in limits], SSESplitter.__init__.__defaults__
    try:
        for module, name in limits:
            setattr(module, name, limit)
        SSESplitter.__init__.__defaults__ = (limit,)
        return list(_largest_kept(5 * limit, 3 * limit))
    finally:
        for (module, name), value in zip(limits, before[0], strict=True):
            setattr(module, name, value)
        SSESplitter.__init__.__defaults__ = before[1]


def _largest_kept(fed: int, most: int) -> Iterator[str]:
    streams = [(name, dialect, EVENTS, shape) for name, (dialect, shape) in SHAPES.items()]
    bodies = [(f"a body of {dialect}", dialect, BODY, lambda _: FILL.encode()) for dialect in DIALECTS]
    for name, dialect, kind, shape in (*streams, *bodies):
        if (kept := FakeClock("asyncio").run(_kept, dialect, Endless(shape, kind, fed))) > most:
            yield f"{name}: {kept:,} bytes kept of {fed:,}"


async def _kept(dialect: str, exchange: Endless) -> int:
    """The most bytes that are held while the answer comes, above those from before."""
    model = RemoteModel(DIALECTS[dialect]("m", provider="p"), base_url="http://memory", exchange=exchange)
    gc.collect()
    tracemalloc.start()
    try:
        async with model.stream(Request(transcript=Transcript([UserMessage("hi")]))) as stream:
            try:
                async for _ in stream:
                    pass
            except AgentError:
                pass
            return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
