"""The `edit_file` calls that turn one text into another: whole lines, with enough around them to occur once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

__all__ = ["changed_lines", "occurs_once", "replacements"]

JOIN_GAP = 3  # hunks closer than this are one call: one's context would overlap the other's anyway


def replacements(before: str, after: str) -> Iterator[tuple[str, str]]:
    """Pairs (old, new) that applied in order make `after` of `before`; each `old` occurs once when its turn comes."""
    current, wanted = before.split("\n"), after.split("\n")
    while current != wanted:
        start, end, low, high = _last_hunk(current, wanted)
        first, last = _unique(current, start, end, alone=low < high)
        old = "\n".join(current[first:last])
        current = [*current[:start], *wanted[low:high], *current[end:]]
        yield old, "\n".join(current[first : last + high - low - (end - start)])


def occurs_once(text: str, piece: str) -> bool:
    """Whether a piece is in a text at one place only; places that overlap are two."""
    return bool(piece) and text.find(piece) == text.rfind(piece) >= 0


def _last_hunk(current: Sequence[str], wanted: Sequence[str]) -> tuple[int, int, int, int]:
    """The last span that differs: lines start:end of the one are to be low:high of the other."""
    hunks: list[tuple[int, int, int, int]] = []
    for tag, start, end, low, high in SequenceMatcher(None, current, wanted, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        if hunks and start - hunks[-1][1] < JOIN_GAP:
            start, _, low, _ = hunks.pop()
        hunks.append((start, end, low, high))
    return hunks[-1]


def _unique(lines: Sequence[str], first: int, last: int, *, alone: bool) -> tuple[int, int]:
    """The span, widened line by line on both sides until its text occurs once.

    Args:
        alone: Whether the span itself will do. Lines that go without others in their place take a neighbour along, whose
            line break goes with them.
    """
    text = "\n".join(lines)
    upwards = True
    while True:
        old = "\n".join(lines[first:last])
        if alone and old.strip() and occurs_once(text, old):
            return first, last
        alone = True
        if first == 0 and last == len(lines):
            return first, last
        if (upwards and first > 0) or last == len(lines):
            first -= 1
        else:
            last += 1
        upwards = not upwards


def changed_lines(before: str, after: str) -> tuple[int, str, str]:
    """The number of the first line that differs, and the lines of both texts from there to where they are the same again."""
    old, new = before.split("\n"), after.split("\n")
    start = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    old, new = old[start:], new[start:]
    while old and new and old[-1] == new[-1]:
        old.pop()
        new.pop()
    return start + 1, "\n".join(old).strip(), "\n".join(new).strip()
