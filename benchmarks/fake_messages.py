"""What the fake server says in Anthropic's Messages: text alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

__all__ = ["events", "whole"]

USAGE = {"input_tokens": 100, "output_tokens": 20}


def whole(words: list[str]) -> dict[str, Any]:
    """A body that is not streamed."""
    content = [{"type": "text", "text": "".join(words)}]
    return {**_message(), "content": content, "stop_reason": "end_turn", "usage": USAGE}


def events(words: list[str]) -> list[bytes]:
    """The events of a stream, each without its empty line."""
    return [b"event: %b\ndata: %b" % (str(each["type"]).encode(), _encode(each)) for each in _events(words)]


def _events(words: list[str]) -> Iterator[dict[str, Any]]:
    yield {"type": "message_start", "message": {**_message(), "content": [], "stop_reason": None, "usage": USAGE}}
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    for word in words:
        yield {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": USAGE}
    yield {"type": "message_stop"}


def _message() -> dict[str, Any]:
    return {"id": "msg_1", "type": "message", "role": "assistant", "model": "fake", "stop_sequence": None}


def _encode(data: dict[str, Any]) -> bytes:
    return json.dumps(data, separators=(",", ":")).encode()
