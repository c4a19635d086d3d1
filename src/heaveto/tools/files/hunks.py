"""A patch's changes of one file made in its text. Pure: text in, text out, or where the nearest place is."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import NamedTuple

from ...errors import ToolError
from .patch_format import Hunk

__all__ = ["apply_hunks"]

_MAX_COMPARED_LINES = 5_000  # looking for the nearest place is slow; a longer file gets it from its beginning
_MAX_SHOWN_CHARS = 200
_MOST_NAMED = 20
_SHOWN_LINES = 12


class _Line(NamedTuple):
    text: str
    end: str  # empty for a last line without one


def apply_hunks(name: str, text: str, hunks: Sequence[Hunk]) -> str:
    """The text with all changes made. Each finds its place behind the one before it; line ends stay as they are.

    Raises:
        ToolError: A change has no place, or more than one; with the nearest place.
    """
    lines = _split(text)
    end = _usual_end(lines)
    made: list[_Line] = []
    done = 0
    for number, hunk in enumerate(hunks, 1):
        place = _find(_what(name, number, hunk, len(hunks)), [line.text for line in lines], hunk, done)
        made += [*lines[done:place], *_new_lines(lines[place : place + len(hunk.old)], hunk, end)]
        done = place + len(hunk.old)
    made += lines[done:]
    return "".join(line.text + (line.end or (end if at + 1 < len(made) else "")) for at, line in enumerate(made))


def _split(text: str) -> list[_Line]:
    lines = [_Line(line[:-1], "\r\n") if line.endswith("\r") else _Line(line, "\n") for line in text.split("\n")]
    last = text[text.rfind("\n") + 1 :]
    return [*lines[:-1], _Line(last, "")] if last else lines[:-1]


def _usual_end(lines: Sequence[_Line]) -> str:
    windows = sum(line.end == "\r\n" for line in lines)
    return "\r\n" if windows * 2 > len(lines) else "\n"


def _new_lines(old: Sequence[_Line], hunk: Hunk, end: str) -> list[_Line]:
    """The lines that take the place of the old ones; those that stay keep their own ends."""
    ends = {index: line.end for index, line in enumerate(old)}
    kept = difflib.SequenceMatcher(None, hunk.old, hunk.new, autojunk=False).get_matching_blocks()
    own = {block.b + at: ends[block.a + at] for block in kept for at in range(block.size)}
    made = [_Line(text, own.get(at) or end) for at, text in enumerate(hunk.new)]
    if made and old and not old[-1].end:  # the file's last line has no end, and neither has what follows on it
        made[-1] = _Line(made[-1].text, "")
    return made


def _what(name: str, number: int, hunk: Hunk, of: int) -> str:
    return f'change {number} of {of} in "{name}" (line {hunk.line} of the patch)'


def _find(what: str, lines: list[str], hunk: Hunk, start: int) -> int:
    """Where the hunk's old lines begin."""
    anchor = _find_anchors(what, lines, hunk, start)
    if not hunk.old:
        return _place_to_insert(what, lines, hunk, anchor)
    first = start if anchor is None else anchor
    places = [
        at for at in _matches(lines, hunk.old) if at >= first and (not hunk.at_end or at + len(hunk.old) == len(lines))
    ]
    if not places:
        raise ToolError(f"{what} does not match; {_why_not(lines, hunk, first)}")
    if len(places) > 1 and anchor is None:
        named = ", ".join(str(at + 1) for at in places[:_MOST_NAMED])
        raise ToolError(
            f'{what} matches at lines {named}; add lines around it, or "@@" and a line above its place, until one fits'
        )
    return places[0]


def _find_anchors(what: str, lines: list[str], hunk: Hunk, start: int) -> int | None:
    """The line of the innermost anchor; the outermost must be there once."""
    found: int | None = None
    for anchor in hunk.anchors:
        places = [at for at in range(start if found is None else found + 1, len(lines)) if lines[at].strip() == anchor]
        if not places:
            near = difflib.get_close_matches(anchor, [line.strip() for line in lines[:_MAX_COMPARED_LINES]], n=1)
            hint = f'the nearest line is "{near[0][:_MAX_SHOWN_CHARS]}"' if near else "give a whole line of the file"
            raise ToolError(f'{what} is to be below "{anchor}", and no such line follows; {hint}')
        if found is None and len(places) > 1:
            named = ", ".join(str(at + 1) for at in places[:_MOST_NAMED])
            raise ToolError(
                f'{what} is to be below "{anchor}", which is at lines {named}; put "@@" and an outer line before it'
            )
        found = places[0]
    return found


def _place_to_insert(what: str, lines: list[str], hunk: Hunk, anchor: int | None) -> int:
    if hunk.at_end or not lines:
        return len(lines)
    if anchor is None:
        raise ToolError(
            f'{what} only adds lines and does not say where; add lines around it, "@@" and the line above, or '
            '"*** End of File" behind it'
        )
    return anchor + 1


def _matches(lines: list[str], wanted: list[str]) -> list[int]:
    first, length = wanted[0], len(wanted)
    return [at for at, line in enumerate(lines) if line == first and lines[at : at + length] == wanted]


def _why_not(lines: list[str], hunk: Hunk, first: int) -> str:
    """What stands at the nearest place, and what is other there."""
    if earlier := [at for at in _matches(lines, hunk.old) if at < first]:
        return (
            f"its lines are at line {earlier[0] + 1}, above the place of what comes before it: "
            "put the changes in the order of the file"
        )
    if hunk.at_end and (places := _matches(lines, hunk.old)):
        return f"its lines are at line {places[0] + 1}, which is not the end of the file"
    at = _nearest(lines, hunk.old)
    if at is None:
        return "none of its lines is in the file; read it again"
    shown = "\n".join(f"{at + 1 + n}\t{line[:_MAX_SHOWN_CHARS]}" for n, line in enumerate(lines[at : at + _SHOWN_LINES]))
    wrong = next((n for n, line in enumerate(hunk.old) if at + n >= len(lines) or lines[at + n] != line), 0)
    other = f'line {at + 1 + wrong}, where the patch has "{hunk.old[wrong][:_MAX_SHOWN_CHARS]}"'
    cut = "\n".join(shown.split("\n")[: max(wrong + 1, min(len(hunk.old), _SHOWN_LINES))])
    return f"the nearest place differs at {other}:\n{cut}"


def _nearest(lines: list[str], wanted: list[str]) -> int | None:
    """Where most of the lines stand, up to spaces; None where none is like any of them."""
    compared = [line.strip() for line in lines[:_MAX_COMPARED_LINES]]
    keys = [line.strip() for line in wanted]
    scores: dict[int, float] = {}
    for n, key in enumerate(keys):
        for at, line in enumerate(compared):
            if key and line == key and at >= n:
                scores[at - n] = scores.get(at - n, 0) + 1
    if scores:
        return max(scores, key=lambda at: (scores[at], -at))
    for n, key in enumerate(keys):
        if key and (near := difflib.get_close_matches(key, dict.fromkeys(compared), n=1, cutoff=0.6)):
            return max(0, compared.index(near[0]) - n)
    return None
