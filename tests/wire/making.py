"""What replies made by hand are built from."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

from replies import Reply, nasty_offsets

__all__ = ["USAGE", "Json", "body", "data", "expect", "reply"]

Json: TypeAlias = dict[str, Any]

USAGE = {"input_tokens": 7, "output_tokens": 3}


def expect(outcome: str, text: str = "", calls: tuple[tuple[str, str, str], ...] = (), **more: Any) -> Json:
    """A conclusion in the recordings' words; calls as id, name and raw arguments."""
    return {"outcome": outcome, "text": text, "tool_calls": [expect_call(*call) for call in calls], **more}


def expect_call(call_id: str, name: str, raw: str) -> Json:
    try:
        arguments = json.loads(raw or "{}")
    except ValueError:
        arguments = None
    return {
        "id": call_id,
        "name": name,
        "arguments_raw": raw,
        "arguments": arguments,
        "arguments_valid_json": arguments is not None,
    }


def reply(name: str, dialect: str, body: bytes, expected: Json, *, stream: bool = True) -> Reply:
    return Reply(
        name=f"made-{name}", dialect=dialect, stream=stream, body=body, expected=expected, nasty=nasty_offsets(body)
    )


def body(name: str, dialect: str, content: Json | bytes, expected: Json) -> Reply:
    raw = content if isinstance(content, bytes) else json.dumps(content, ensure_ascii=False).encode()
    return reply(name, dialect, raw, expected, stream=False)


def data(event: Json, name: str = "") -> bytes:
    line = f"event: {name}\n" if name else ""
    return f"{line}data: {json.dumps(event, ensure_ascii=False)}\n\n".encode()
