"""Reasoning: what people may read, and what has to be sent back as it came."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["ReasoningDetails", "split_content"]

JOINED = frozenset({"text", "summary", "data"})  # come in pieces; every other field comes whole
READABLE = frozenset({"type", "index", "id", "format", "text", "summary"})  # short, or counted as text


class ReasoningDetails:
    """OpenRouter's `reasoning_details`, merged by type and index: a signature may come after the text that it signs.

    Attributes:
        things: How many details it has, and how often another field than readable text came with one.
    """

    def __init__(self) -> None:
        self.things = 0
        self._merged: dict[tuple[Any, Any], dict[str, Any]] = {}

    def add(self, details: Any) -> str:
        """Take the pieces of one delta; returns the readable text in them."""
        if not isinstance(details, list):
            return ""
        text = []
        for detail in details:
            if isinstance(detail, dict):
                self._merge(detail)
                text.append(detail.get("text") or detail.get("summary"))
        return "".join(piece for piece in text if isinstance(piece, str))

    def _merge(self, detail: dict[str, Any]) -> None:
        into = self._merged.setdefault((_plain(detail.get("type")), _plain(detail.get("index"))), {})
        self.things += not (into and READABLE.issuperset(detail))
        for key, value in detail.items():
            if key in JOINED and isinstance(value, str) and isinstance(into.get(key), str):
                into[key] += value
            elif value is not None:
                into[key] = value

    def whole(self) -> list[dict[str, Any]]:
        return list(self._merged.values())


def _plain(value: Any) -> str | int | None:
    return value if isinstance(value, (str, int)) else None


def split_content(parts: list[Any]) -> Iterator[tuple[str, str]]:
    """A content list (Mistral) as pairs of "text" or "thinking" and the words."""
    for part in parts:
        if isinstance(part, str):
            yield "text", part
        elif isinstance(part, dict):
            kind = "thinking" if part.get("type") in ("thinking", "reasoning") else "text"
            words = part.get("thinking") or part.get("text")
            if isinstance(words, list):
                words = "".join(text for _, text in split_content(words))
            if isinstance(words, str) and words:
                yield kind, words
