"""What a script says, as the bytes of a chat completion: one event for each delta, and the end of the stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..messages import Finish, Reply
from ..models.json_bytes import encode

__all__ = ["events_of"]

REASONS: dict[Finish, str] = {"tool_calls": "tool_calls", "truncated": "length", "filtered": "content_filter"}  # else "stop"
WORD, WORD_END = b'data: {"choices":[{"index":0,"delta":{"content":', b"}}]}\n\n"
DONE = b"data: [DONE]\n\n"


def events_of(reply: Reply) -> Iterator[bytes]:
    """The events of a streamed reply: reasoning, words and calls, then why it ended. What it used is the script's."""
    message = reply.message
    if message.reasoning:
        yield _delta({"reasoning": message.reasoning})
    for word in _words(message.content):
        yield b"".join((WORD, encode(word), WORD_END))
    for index, call in enumerate(message.tool_calls):
        function = {"name": call.name, "arguments": call.arguments}
        yield _delta({"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]})
    if reply.refusal:
        yield _delta({"refusal": reply.refusal})
    end = {} if reply.finish == "incomplete" else {"finish_reason": _reason(reply)}
    choice = {"index": 0, "delta": {}, **end}
    yield _event({"id": reply.id, "model": reply.model, "choices": [choice]}) + DONE


def _delta(delta: dict[str, Any]) -> bytes:
    return _event({"choices": [{"index": 0, "delta": delta}]})


def _event(data: dict[str, Any]) -> bytes:
    return b"data: " + encode(data) + b"\n\n"


def _words(text: str) -> list[str]:
    first, *rest = text.split(" ")
    return [first, *(f" {word}" for word in rest)] if text else []


def _reason(reply: Reply) -> str:
    if reply.finish == "refused" and not reply.refusal:
        return "refusal"
    return REASONS.get(reply.finish, "stop")
