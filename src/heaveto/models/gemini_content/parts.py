"""The parts of one reply from its chunks: text, thoughts, calls, their signatures, and what the API's own tools did.

Text comes in pieces, which are one part again when they go back; a part with a signature stays by itself, since it signs
that part and no other. A call comes whole, with an id or without.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from ...messages import CallDelta, Delta, ReasoningDelta, TextDelta, ToolCall
from ..call_ids import new_call_id, unused_id
from ..json_bytes import encode

__all__ = ["Parts"]

TEXT_FIELDS = frozenset({"text", "thought"})  # of a text that may be joined with the next


class _Call:
    __slots__ = ("arguments", "id", "name")

    def __init__(self, data: dict[str, Any]) -> None:
        self.id, self.name = _text(data, "id"), _text(data, "name")
        args = data.get("args")
        self.arguments = encode(args).decode() if args is not None else ""


class _Joined:
    """Text whose pieces are one part."""

    __slots__ = ("pieces", "thought")

    def __init__(self, thought: bool) -> None:
        self.thought = thought
        self.pieces: list[str] = []

    def part(self) -> dict[str, Any]:
        return {"text": "".join(self.pieces)} | ({"thought": True} if self.thought else {})


class Parts:
    """The parts of one reply as far as they came, in their order."""

    def __init__(self) -> None:
        self._parts: list[dict[str, Any] | _Joined] = []
        self._calls: list[_Call] = []

    def __len__(self) -> int:
        return len(self._parts)

    @property
    def has_calls(self) -> bool:
        return bool(self._calls)

    def add(self, data: dict[str, Any]) -> Delta | None:
        """Take a part; the delta that people may read, None where there is none."""
        data = {key: value for key, value in data.items() if value is not None}
        if "functionCall" in data:
            call = data["functionCall"]
            return self._add_call(data, _Call(call if isinstance(call, dict) else {}))
        text = _text(data, "text")
        thought = bool(data.get("thought"))
        if not TEXT_FIELDS.issuperset(data):
            self._parts.append(data)
        elif text:
            self._join(text, thought)
        if not text:
            return None
        return ReasoningDelta(text) if thought else TextDelta(text)

    def _add_call(self, data: dict[str, Any], call: _Call) -> Delta:
        self._parts.append(data)
        self._calls.append(call)
        return CallDelta(len(self._calls) - 1, call.id, call.name, call.arguments)

    def _join(self, text: str, thought: bool) -> None:
        last = self._parts[-1] if self._parts else None
        if not isinstance(last, _Joined) or last.thought is not thought:
            last = _Joined(thought)
            self._parts.append(last)
        last.pieces.append(text)

    def finished(
        self, taken: Collection[str] = (), make_id: Callable[[], str] = new_call_id
    ) -> tuple[tuple[ToolCall, ...], list[dict[str, Any]]]:
        """The calls with unique ids, and the parts to send back; none where text and calls say it all.

        Args:
            taken: Ids that the conversation has already.
        """
        seen = set(taken)
        calls = tuple(ToolCall(unused_id(c.id, seen, make_id), c.name, c.arguments or "{}") for c in self._calls)
        if not self._more_than_text_then_calls():
            return calls, []
        ids = iter(calls)
        return calls, [part.part() if isinstance(part, _Joined) else _back(part, ids) for part in self._parts]

    def _more_than_text_then_calls(self) -> bool:
        said = [part for part in self._parts if not (isinstance(part, _Joined) and part.thought)]
        are_calls = [not isinstance(part, _Joined) for part in said]
        plain = all(isinstance(part, _Joined) or set(part) == {"functionCall"} for part in said)
        return not plain or are_calls != sorted(are_calls) or are_calls.count(False) > 1


def _back(part: dict[str, Any], calls: Iterator[ToolCall]) -> dict[str, Any]:
    """A part for the next request; a call's name and arguments stand in the message itself."""
    if "functionCall" in part:
        return {**part, "functionCall": {"id": next(calls).id}}
    return part


def _text(data: dict[str, Any], key: str) -> str:
    value = data.get(key)
    return value if isinstance(value, str) else ""
