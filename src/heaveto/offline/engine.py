"""The model's side of a chat completion: a request as plain data in, the message with its calls out."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

from .strategy import Said, next_reply

__all__ = ["MODEL", "answer"]

MODEL = "repair"


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """The assistant's message, in the API's form. The same request always gets the same message."""
    said = next_reply(request)
    message: dict[str, Any] = {"role": "assistant", "content": said.text}
    if said.calls:
        message["tool_calls"] = _calls(said, sum(each.get("role") == "assistant" for each in request["messages"]))
    return message


def _calls(said: Said, turn: int) -> list[dict[str, Any]]:
    calls = []
    for number, use in enumerate(said.calls):
        arguments = json.dumps(use.arguments, ensure_ascii=False)
        # the checksum keeps ids apart when a history was shortened and turns are counted anew
        identity = f"call_{turn}_{number}_{zlib.crc32(f'{use.name}{arguments}'.encode(errors='replace')):08x}"
        calls.append({"id": identity, "type": "function", "function": {"name": use.name, "arguments": arguments}})
    return calls
