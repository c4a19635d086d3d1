"""Tool calls from their pieces, whatever the provider does with ids and indexes.

Seen: no index (Mistral), one index for all calls, ids that come once, in each piece, blank, or not at all; names whole,
repeated or in pieces; arguments whole, in pieces, "", missing, or as an object.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from ...messages import CallDelta, ToolCall
from ..call_ids import new_call_id, unused_id
from ..json_bytes import encode
from .wire import CallPart

__all__ = ["CallsUnderWay"]


class _Call:
    __slots__ = ("arguments", "extra", "id", "name")

    def __init__(self) -> None:
        self.id = self.name = ""
        self.arguments: list[str] = []
        self.extra: Any = None


class CallsUnderWay:
    """The calls of one reply as far as they came, in the order in which they began.

    Attributes:
        things: How many calls, pieces of names and extras it has taken.
    """

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._by_index: dict[int, int] = {}
        self.things = 0

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, part: CallPart, *, whole: bool = False) -> CallDelta | None:
        """Take a piece, or a whole call; the delta that it makes, None when it says nothing new."""
        part_id = str(part.id) if part.id is not None else ""
        name = (part.function and part.function.name) or ""
        position = self._begin() if whole else self._position(part.index, part_id, name)
        call = self._calls[position]
        new_id = part_id if not call.id else ""
        call.id = call.id or part_id
        new_name = self._take_name(call, name)
        arguments = _text(part.function.arguments) if part.function else ""
        if arguments:
            call.arguments.append(arguments)
        if part.extra_content is not None:
            call.extra = part.extra_content
            self.things += 1
        return CallDelta(position, new_id, new_name, arguments) if new_id or new_name or arguments else None

    def _position(self, index: int | None, part_id: str, name: str) -> int:
        if index is not None:
            position = self._by_index.get(index)
            if position is None or self._begins_another(self._calls[position], part_id, name):
                position = self._by_index[index] = self._begin()
            return position
        if part_id:
            known = next((i for i, call in enumerate(self._calls) if call.id == part_id), None)
            return self._begin() if known is None else known
        return self._begin() if name or not self._calls else len(self._calls) - 1

    def _begin(self) -> int:
        self._calls.append(_Call())
        self.things += 1
        return len(self._calls) - 1

    @staticmethod
    def _begins_another(call: _Call, part_id: str, name: str) -> bool:
        return bool(part_id and call.id and part_id != call.id and name)

    def _take_name(self, call: _Call, name: str) -> str:
        if not name or name == call.name or call.arguments:
            return ""
        call.name += name
        self.things += 1
        return name

    def finished(
        self, taken: Collection[str] = (), make_id: Callable[[], str] = new_call_id
    ) -> tuple[tuple[ToolCall, ...], dict[str, Any]]:
        """The calls with unique ids, and what the API wants back with each, by its id.

        Args:
            taken: Ids that the conversation has already.
        """
        seen, calls = set(taken), []
        extras: dict[str, Any] = {}
        for call in self._calls:
            call_id = unused_id(call.id, seen, make_id)
            calls.append(ToolCall(call_id, call.name, "".join(call.arguments) or "{}"))
            if call.extra is not None:
                extras[call_id] = call.extra
        return tuple(calls), extras


def _text(arguments: str | dict[str, Any] | None) -> str:
    return encode(arguments).decode() if isinstance(arguments, dict) else arguments or ""
