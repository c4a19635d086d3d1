"""The output items of one reply from their pieces: messages, reasoning, calls, and what the API's own tools did.

An item comes three times: begun, in pieces, and whole. Taken: any of these missing, one index for all items, ids that
change from event to event, items of kinds that are new. What comes whole adds what the pieces left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, Literal, TypeAlias

from ...messages import CallDelta, Delta, ReasoningDelta, TextDelta, ToolCall
from ..call_ids import new_call_id, unused_id

__all__ = ["Channel", "Items", "Piece"]

Channel: TypeAlias = Literal["text", "refusal", "summary", "reasoning", "arguments"]
Piece: TypeAlias = "Delta | str"  # a str: of a refusal, which no delta shows

PARTS: dict[str, Channel] = {
    "output_text": "text",
    "text": "text",  # older compatible servers
    "refusal": "refusal",
    "summary_text": "summary",
    "reasoning_text": "reasoning",
}
KIND_OF_CHANNEL = {"arguments": "function_call", "summary": "reasoning", "reasoning": "reasoning"}  # else "message"
BETWEEN_SUMMARIES = "\n\n"  # each is a paragraph with a heading
PLAIN_FIELDS = frozenset({"type", "role", "content", "call_id", "name", "arguments", "id", "status"})  # nothing new in them


class _Item:
    """One item under way."""

    __slots__ = ("call_id", "data", "name", "part", "position", "said", "whole")

    def __init__(self, data: dict[str, Any], position: int) -> None:
        self.data, self.position = data, position
        self.said: dict[Channel, list[str]] = {}
        self.part: int | None = None  # the summary that is under way
        self.call_id = self.name = ""
        self.whole = False

    @property
    def kind(self) -> str:
        return _text(self.data, "type")

    def text(self, channel: Channel) -> str:
        return "".join(self.said.get(channel, ()))


class Items:
    """The items of one reply as far as they came, in the order in which they began.

    Attributes:
        things: How many items it has taken, begun or whole.
    """

    def __init__(self) -> None:
        self._items: list[_Item] = []
        self._by_id: dict[str, _Item] = {}
        self._by_index: dict[int, _Item] = {}  # the latest, where a server numbers all items the same
        self._calls = self.things = 0

    @property
    def has_calls(self) -> bool:
        return self._calls > 0

    @property
    def has_cut_call(self) -> bool:
        """Whether the API itself says that a call is not whole."""
        return any(item.kind == "function_call" and item.data.get("status") == "incomplete" for item in self._items)

    def begin(self, index: int | None, data: dict[str, Any]) -> Iterator[Piece]:
        """Take an item's start; what it says already."""
        yield from self._say_all(self._begin(index, data))

    def _begin(self, index: int | None, data: dict[str, Any]) -> _Item:
        item = _Item(data, self._calls)
        self._items.append(item)
        self.things += 1
        if item.kind == "function_call":
            self._calls += 1
        if item_id := _text(data, "id"):
            self._by_id[item_id] = item
        if index is not None:
            self._by_index[index] = item
        return item

    def _find(self, index: int | None, item_id: str | None) -> _Item | None:
        by_id = self._by_id.get(item_id) if item_id else None
        return by_id or (self._by_index.get(index) if index is not None else None)

    def add(
        self, channel: Channel, text: str, *, index: int | None, item_id: str | None, part: int | None
    ) -> Iterator[Piece]:
        """Take a piece."""
        item = self._find(index, item_id)
        if item is None:
            item = self._begin(index, {"type": KIND_OF_CHANNEL.get(channel, "message"), "id": item_id or ""})
        if channel == "summary" and text:
            text = (BETWEEN_SUMMARIES if item.part not in (None, part) else "") + text
            item.part = part
        yield from self._say(item, channel, text)

    def complete(self, index: int | None, data: dict[str, Any]) -> Iterator[Piece]:
        """Take a whole item; what its pieces left out."""
        item = self._find(index, _text(data, "id"))
        if item is None:
            item = self._begin(index, data)
        item.data, item.whole = data, True
        self.things += 1
        yield from self._say_all(item)

    def complete_all(self, output: list[dict[str, Any]]) -> Iterator[Piece]:
        """Take the reply's items at its end, where a server sent none of them before, or not whole."""
        if not self._items:
            for index, data in enumerate(output):
                yield from self.complete(index, data)
        elif len(output) == len(self._items):
            for item, data in zip(self._items, output, strict=True):
                if not item.whole and item.kind == _text(data, "type"):
                    item.data, item.whole = data, True
                    yield from self._say_all(item)

    def complete_arguments(self, index: int | None, item_id: str | None, arguments: str) -> Iterator[Piece]:
        """Take a call's whole arguments; what its pieces left out."""
        item = self._find(index, item_id)
        if item is not None:
            yield from self._say_rest(item, "arguments", arguments)

    def _say_all(self, item: _Item) -> Iterator[Piece]:
        if item.kind == "function_call":
            yield from self._name(item)
            yield from self._say_rest(item, "arguments", _text(item.data, "arguments"))
        elif item.kind in ("message", "reasoning"):
            for channel, text in _spoken(item.data).items():
                yield from self._say_rest(item, channel, text)

    @staticmethod
    def _name(item: _Item) -> Iterator[Piece]:
        call_id = "" if item.call_id else _text(item.data, "call_id")
        name = "" if item.name else _text(item.data, "name")
        item.call_id, item.name = item.call_id or call_id, item.name or name
        if call_id or name:
            yield CallDelta(item.position, call_id, name)

    def _say_rest(self, item: _Item, channel: Channel, text: str) -> Iterator[Piece]:
        said = item.text(channel)
        if text.startswith(said):
            yield from self._say(item, channel, text[len(said) :])

    @staticmethod
    def _say(item: _Item, channel: Channel, text: str) -> Iterator[Piece]:
        if not text:
            return
        item.said.setdefault(channel, []).append(text)
        match channel:
            case "text":
                yield TextDelta(text)
            case "refusal":
                yield text
            case "arguments":
                yield CallDelta(item.position, arguments=text)
            case _:
                yield ReasoningDelta(text)

    def finished(
        self, taken: Collection[str] = (), make_id: Callable[[], str] = new_call_id
    ) -> tuple[tuple[ToolCall, ...], list[dict[str, Any]]]:
        """The calls with unique ids, and the items to send back; none where text and calls say it all.

        Args:
            taken: Ids that the conversation has already.
        """
        seen, calls, back = set(taken), [], []
        for item in self._items:
            if item.kind == "function_call":
                call_id = unused_id(item.call_id, seen, make_id)
                calls.append(ToolCall(call_id, item.name, item.text("arguments") or "{}"))
                named = {key: value for key, value in _without_nulls(item.data).items() if key not in ("arguments", "name")}
                back.append({**named, "call_id": call_id})
            elif item.whole:
                back.append(_without_nulls(item.data))
            elif item.kind == "message":  # of other items what was cut off has no form that the API takes
                back.append({"type": "message", "role": "assistant", "content": item.text("text")})
        return tuple(calls), back if self._more_than_text_then_calls() else []

    def _more_than_text_then_calls(self) -> bool:
        kinds = [item.kind for item in self._items]
        return (
            not {"message", "function_call"}.issuperset(kinds)
            or kinds != sorted(kinds, key=lambda kind: kind == "function_call")
            or kinds.count("message") > 1
            or any(not PLAIN_FIELDS.issuperset(_without_nulls(item.data)) for item in self._items)
        )


def _spoken(data: dict[str, Any]) -> dict[Channel, str]:
    """What a message or reasoning says, by channel."""
    parts: dict[Channel, list[str]] = {}
    for field in ("summary", "content"):
        listed = data.get(field)
        for part in listed if isinstance(listed, list) else ():
            if isinstance(part, dict) and (channel := PARTS.get(_text(part, "type"))):
                parts.setdefault(channel, []).append(_text(part, "refusal" if channel == "refusal" else "text"))
    return {
        channel: (BETWEEN_SUMMARIES if channel == "summary" else "").join(filter(None, texts))
        for channel, texts in parts.items()
    }


def _without_nulls(data: dict[str, Any]) -> dict[str, Any]:
    """The API sends fields as null that it refuses as null."""
    return {key: value for key, value in data.items() if value is not None}


def _text(data: dict[str, Any], key: str) -> str:
    value = data.get(key)
    return value if isinstance(value, str) else ""
