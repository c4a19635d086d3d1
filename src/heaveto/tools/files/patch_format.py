"""A patch of several files as text, taken apart. Pure.

    *** Begin Patch
    *** Update File: src/app.py
    @@ def greet(name):
         name = name.strip()
    -    return "hi"
    +    return f"hi {name}"
    *** Add File: docs/new.md
    +# New
    *** Delete File: old.py
    *** Update File: a.py
    *** Move to: b.py
    *** End Patch

A change finds its place by its lines, not by numbers, which models count wrong. The numbers of a unified diff's `@@` lines
are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ...errors import ToolError

__all__ = ["FilePatch", "Hunk", "parse_patch"]

Kind: TypeAlias = Literal["add", "delete", "update"]

MAX_FILES = 50

BEGIN, END, END_OF_FILE = "*** Begin Patch", "*** End Patch", "*** End of File"
_HEADER = re.compile(r"\*\*\* (?P<kind>Add|Delete|Update) File: (?P<path>.*\S)\s*")
_MOVE = re.compile(r"\*\*\* Move to: (?P<path>.*\S)\s*")
_ANCHOR = re.compile(r"@@(?: -\d+(?:,\d+)? \+\d+(?:,\d+)? @@)?(?P<text>.*)")
_SHAPE = (
    'it looks like "*** Begin Patch", then for each file "*** Update File: path" with changes, "*** Add File: path" with '
    '"+" lines or "*** Delete File: path", then "*** End Patch"'
)


@dataclass(slots=True)
class Hunk:
    """One change within a file.

    Attributes:
        line: Where it begins in the patch, from 1.
        anchors: Lines above its place, from the outside in.
        old: The lines that stand there, those around the change included.
        new: These lines afterwards.
        at_end: Whether its place is the end of the file.
        bare: How many lines at its end are quite empty, without even the space of a line that stays.
    """

    line: int
    anchors: list[str] = field(default_factory=list)
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    added: int = 0
    removed: int = 0
    at_end: bool = False
    bare: int = 0

    def drop_bare_end(self) -> None:
        """Blank lines before what follows on the change are no part of it."""
        for _ in range(self.bare):
            self.old.pop()
            self.new.pop()
        self.bare = 0


@dataclass(slots=True)
class FilePatch:
    """What becomes of one file; `added` are the lines of a new one."""

    kind: Kind
    path: str
    to: str = ""
    hunks: list[Hunk] = field(default_factory=list)
    added: list[str] = field(default_factory=list)


def parse_patch(text: str) -> list[FilePatch]:
    """The files of a patch, in its order.

    Raises:
        ToolError: With the line that is wrong, and what right looks like.
    """
    lines = list(_body(text))
    files: list[FilePatch] = []
    for number, line in lines:
        if header := _HEADER.fullmatch(line):
            kind: Kind = "add" if header["kind"] == "Add" else "delete" if header["kind"] == "Delete" else "update"
            files.append(FilePatch(kind, header["path"]))
        elif not files:
            raise _wrong(number, line, 'want "*** Update File: path", "*** Add File: path" or "*** Delete File: path"')
        else:
            _take_line(files[-1], number, line)
    _check(files)
    return files


def _body(text: str) -> Iterator[tuple[int, str]]:
    """The numbered lines between the first and the last one."""
    lines = text.replace("\r\n", "\n").strip("\n").split("\n")
    lines[0], lines[-1] = lines[0].strip(), lines[-1].strip()
    if lines[0] != BEGIN or lines[-1] != END:
        where = "begin" if lines[0] != BEGIN else "end"
        raise ToolError(f'the patch does not {where} with "{BEGIN if where == "begin" else END}"; {_SHAPE}')
    return iter(list(enumerate(lines, 1))[1:-1])


def _take_line(file: FilePatch, number: int, line: str) -> None:
    if file.kind == "delete":
        if line.strip():
            raise _wrong(number, line, f'after "*** Delete File: {file.path}" comes the next file')
    elif file.kind == "add":
        if line and not line.startswith("+"):
            raise _wrong(number, line, 'each line of a new file begins with "+"')
        file.added.append(line)
    elif move := _MOVE.fullmatch(line):
        if file.hunks or file.to:
            raise _wrong(number, line, '"*** Move to:" comes right after "*** Update File:"')
        file.to = move["path"]
    elif anchor := _ANCHOR.fullmatch(line):
        _take_anchor(file, number, anchor["text"].strip())
    else:
        _take_change(file, number, line)


def _take_anchor(file: FilePatch, number: int, anchor: str) -> None:
    if not file.hunks or file.hunks[-1].old or file.hunks[-1].new:
        file.hunks.append(Hunk(number))
    if anchor:
        file.hunks[-1].anchors.append(anchor)


def _take_change(file: FilePatch, number: int, line: str) -> None:
    if not file.hunks:
        file.hunks.append(Hunk(number))
    hunk = file.hunks[-1]
    if hunk.at_end:
        raise _wrong(number, line, f'after "{END_OF_FILE}" comes "@@" or the next file')
    sign, rest = line[:1] or " ", line[1:]  # a blank line that is kept has often lost its space
    hunk.bare = 0 if line else hunk.bare + 1
    match sign:
        case " ":
            hunk.old.append(rest)
            hunk.new.append(rest)
        case "-":
            hunk.old.append(rest)
            hunk.removed += 1
        case "+":
            hunk.new.append(rest)
            hunk.added += 1
        case "*" if line.strip() == END_OF_FILE:
            hunk.at_end = True
        case "\\":  # "\ No newline at end of file", as a unified diff has it
            pass
        case _:
            raise _wrong(number, line, 'a line of a change begins with " " (it stays), "-" (it goes) or "+" (it is new)')


def _check(files: list[FilePatch]) -> None:
    """Refuse a patch that says nothing, and take off what is only air."""
    if not files:
        raise ToolError(f"the patch is empty; {_SHAPE}")
    if len(files) > MAX_FILES:
        raise ToolError(f"the patch has {len(files)} files, and {MAX_FILES} is the most; make several patches of it")
    for file in files:
        while file.added and not file.added[-1]:
            file.added.pop()
        file.added = [line[1:] for line in file.added]
        if file.kind == "update" and not file.hunks and not file.to:
            raise ToolError(f'"*** Update File: {file.path}" has no change; leave the file out, or add lines')
        for hunk in file.hunks:
            hunk.drop_bare_end()
            if not hunk.added and not hunk.removed:
                raise ToolError(f'the change at line {hunk.line} of the patch has no line that begins with "-" or "+"')


def _wrong(number: int, line: str, right: str) -> ToolError:
    shown = line if len(line) <= 80 else f"{line[:80]}..."
    return ToolError(f'line {number} of the patch is "{shown}"; {right}')
