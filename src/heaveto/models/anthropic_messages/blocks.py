"""The content blocks of one reply from their pieces: text, thinking, calls, and what the API's own tools did.

Taken: one index for all blocks; a block without its start or its stop; `input` whole in the start, in pieces, or all
pieces empty; a signature after its thinking or alone; thinking that is encrypted and has no pieces; blocks and pieces of
kinds that are new.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from ...messages import CallDelta, Delta, ReasoningDelta, TextDelta, ToolCall
from ..call_ids import new_call_id, unused_id
from ..json_bytes import encode, is_object, read_json
from .wire import BlockDelta

__all__ = ["Blocks"]

KIND_OF_DELTA = {"text_delta": "text", "citations_delta": "text", "input_json_delta": "tool_use"}  # else "thinking"
PLAIN = frozenset({"text", "tool_use"})  # what a message of ours holds already


class _Block:
    """One block under way: what its start said, and the pieces since."""

    __slots__ = ("citations", "data", "known", "pieces", "position", "signature", "whole_input")

    def __init__(self, data: dict[str, Any], position: int) -> None:
        self.data, self.position = data, position
        self.pieces: list[str] = []
        self.signature = _text(data, "signature")
        cited = data.get("citations")
        self.citations: list[Any] = list(cited) if isinstance(cited, list) else []
        self.known = True  # false once a piece came that we cannot put together
        self.whole_input = bool(data.get("input"))

    @property
    def kind(self) -> str:
        return _text(self.data, "type")

    @property
    def arguments(self) -> str:
        if self.whole_input:
            return encode(self.data["input"]).decode()
        return "".join(self.pieces) or "{}"

    def whole(self) -> dict[str, Any]:
        """The block as if it had come in one."""
        data = dict(self.data)
        if self.kind == "text":
            data["text"] = "".join(self.pieces)
            if self.citations:
                data["citations"] = self.citations
        elif self.kind == "thinking":
            data |= {"thinking": "".join(self.pieces), "signature": self.signature}
        elif self.pieces and is_object(self.arguments):
            data["input"] = read_json(self.arguments.encode("utf-8", "surrogatepass"))
        return data


class Blocks:
    """The blocks of one reply as far as they came, in the order in which they began.

    Attributes:
        things: How many blocks, signatures and citations it has taken.
    """

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._by_index: dict[int, _Block] = {}  # the latest, where a server numbers all blocks the same
        self._calls = self.things = 0

    @property
    def has_calls(self) -> bool:
        return self._calls > 0

    def begin(self, index: int, data: dict[str, Any]) -> Delta | None:
        """Take a block's start, which may be all of it."""
        block = self._begin(index, data)
        match block.kind:
            case "tool_use":
                arguments = block.arguments if block.whole_input else ""
                return CallDelta(block.position, _text(data, "id"), _text(data, "name"), arguments)
            case "text":
                return self._add(block, _text(data, "text"), TextDelta)
            case "thinking":
                return self._add(block, _text(data, "thinking"), ReasoningDelta)
            case _:
                return None

    def add(self, index: int, delta: BlockDelta) -> Delta | None:
        """Take a piece; the delta that people may read, None where there is none."""
        if (block := self._by_index.get(index)) is None:
            block = self._begin(index, {"type": KIND_OF_DELTA.get(delta.type or "", "thinking")})
        match delta.type:
            case "text_delta":
                return self._add(block, delta.text, TextDelta)
            case "thinking_delta":
                return self._add(block, delta.thinking, ReasoningDelta)
            case "input_json_delta":
                return self._add_input(block, delta.partial_json)
            case "signature_delta":
                block.signature = delta.signature or block.signature
                self.things += 1
            case "citations_delta":
                block.citations.append(delta.citation)
                self.things += 1
            case _:
                block.known = False
        return None

    def _begin(self, index: int, data: dict[str, Any]) -> _Block:
        block = self._by_index[index] = _Block(data, self._calls)
        self._blocks.append(block)
        self.things += 1
        self._calls += block.kind == "tool_use"
        return block

    @staticmethod
    def _add(block: _Block, text: str | None, make: type[TextDelta | ReasoningDelta]) -> Delta | None:
        if not text:
            return None
        block.pieces.append(text)
        return make(text)

    def _add_input(self, block: _Block, text: str | None) -> Delta | None:
        if not text or block.whole_input:  # pieces after a whole input would only repeat it
            return None
        block.pieces.append(text)
        if block.kind == "tool_use":
            return CallDelta(block.position, arguments=text)
        self.things += 1  # of what the API's own tools do
        return None

    def finished(
        self, taken: Collection[str] = (), make_id: Callable[[], str] = new_call_id
    ) -> tuple[tuple[ToolCall, ...], list[dict[str, Any]]]:
        """The calls with unique ids, and the blocks to send back; none where text and calls say it all.

        Args:
            taken: Ids that the conversation has already.
        """
        seen, calls, back = set(taken), [], []
        for block in self._blocks:
            if block.kind == "tool_use":
                call_id = unused_id(_text(block.data, "id"), seen, make_id)
                calls.append(ToolCall(call_id, _text(block.data, "name"), block.arguments))
                back.append({"type": "tool_use", "id": call_id})
            elif block.known:
                back.append(block.whole())
        return tuple(calls), back if self._more_than_text_then_calls() else []

    def _more_than_text_then_calls(self) -> bool:
        kinds = [block.kind for block in self._blocks]
        cited = any(block.citations for block in self._blocks)
        return cited or not PLAIN.issuperset(kinds) or kinds != sorted(kinds) or kinds.count("text") > 1


def _text(data: dict[str, Any], key: str) -> str:
    value = data.get(key)
    return value if isinstance(value, str) else ""
