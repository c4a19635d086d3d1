"""How far a stream has come, by its own grammar: a second opinion, which shares no code with the decoders."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

__all__ = ["Standing", "standing"]

Standing: TypeAlias = Literal["open", "ended", "done", "failed"]


@functools.lru_cache(maxsize=4)  # the points of one byte come one after another
def standing(dialect: str, data: bytes, *, closed: bool) -> Standing:
    """Open; ended, though more may come; done, so that nothing more counts; or failed.

    Args:
        closed: Whether the bytes are at their end, where a last event counts without its empty line.
    """
    state: Standing = "open"
    for name, event in events(data, closed=closed):
        now = of_chat(name, event) if dialect == "chat" else BY_EVENT[dialect](event)
        if now is not None:
            state = now
        if state in ("done", "failed"):
            break
    return state


def events(data: bytes, *, closed: bool) -> Iterator[tuple[str, Any]]:
    text = re.sub(r"\r\n?", "\n", data.decode("utf-8", "replace").removeprefix("\ufeff"))
    *blocks, rest = text.split("\n\n")
    for block in [*blocks, rest] if closed else blocks:
        fields = [re.match(r"(event|data): ?(.*)", line) for line in block.split("\n")]
        found = [match.groups() for match in fields if match]
        name = "".join(value for field, value in found if field == "event")
        joined = "\n".join(value for field, value in found if field == "data")
        try:
            yield name, joined if joined.startswith("[DONE]") else json.loads(joined)
        except ValueError:
            continue  # a piece of one


def of_chat(name: str, event: Any) -> Standing | None:
    if isinstance(event, str):
        return "done"
    choices = [choice for choice in event.get("choices") or () if not choice.get("index")]
    reasons = {choice.get("finish_reason") for choice in choices} - {None, ""}
    if name == "error" or event.get("error") or any(choice.get("error") for choice in choices) or "error" in reasons:
        return "failed"
    return "ended" if reasons else None


def of_messages(event: Any) -> Standing | None:
    match event:
        case {"type": "error"}:
            return "failed"
        case {"type": "message_stop"}:
            return "done"
        case {"type": "message_delta", "delta": {"stop_reason": str()}}:
            return "ended"
    return None


def of_responses(event: Any) -> Standing | None:
    match event:
        case {"type": "error"} | {"type": "response.failed"}:
            return "failed"
        case {"type": "response.completed" | "response.incomplete"}:
            return "done"
    return None


FAILURES = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "OTHER", "MALFORMED_RESPONSE", "MISSING_THOUGHT_SIGNATURE")


def of_gemini(event: Any) -> Standing | None:
    first = [each for each in event.get("candidates") or () if not each.get("index")]
    reasons = {each.get("finishReason") for each in first} - {None, ""}
    if event.get("error") or reasons.intersection(FAILURES):
        return "failed"
    return "ended" if reasons or (event.get("promptFeedback") or {}).get("blockReason") else None


BY_EVENT = {"anthropic": of_messages, "responses": of_responses, "gemini": of_gemini}
