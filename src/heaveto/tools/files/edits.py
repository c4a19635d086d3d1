"""Text and edits of it, without files: bytes to text and back, lines, and one replacement.

An edit is written with plain line feeds; a file that has CRLF keeps it, as a byte order mark is kept.
"""

from __future__ import annotations

import difflib
import re
from typing import NamedTuple

from ...errors import ToolError

__all__ = ["Edit", "decode_text", "describe_binary", "replace_once", "split_lines"]

_BOM = b"\xef\xbb\xbf"
_LOOK_BYTES = 8_192  # as git does: a NUL byte among the first 8,000 means binary
_MAX_SHOWN_LINES = 20  # of the places that match: enough to see that it is too many
_MAX_SHOWN_CHARS = 200
_MAX_COMPARED_LINES = 5_000  # the comparison for a hint is slow; longer files get the hint from their beginning
_LINE_NUMBER = re.compile(r"\s*\d+\t")

_SIGNATURES = (
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive (or an office document)"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"\x7fELF", "a program (ELF)"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
)


class Edit(NamedTuple):
    """A replacement that was made.

    Attributes:
        line: Where it begins, from 1.
        replaced: How many lines there were.
        by: How many there are now.
    """

    text: str
    line: int
    replaced: int
    by: int


def describe_binary(data: bytes) -> str | None:
    """What kind of binary file this is; None when it may be text."""
    for signature, kind in _SIGNATURES:
        if data.startswith(signature):
            return kind
    return "binary data" if b"\0" in data[:_LOOK_BYTES] else None


def decode_text(name: str, data: bytes) -> tuple[str, bytes]:
    """The text of a file, and the byte order mark that it began with.

    Raises:
        ToolError: When it is not UTF-8 text; says what it is.
    """
    if kind := describe_binary(data):
        raise ToolError(f'"{name}" is {kind} ({len(data)} bytes), not text; only UTF-8 text is read and edited')
    bom = _BOM if data.startswith(_BOM) else b""
    try:
        return data[len(bom) :].decode(), bom
    except UnicodeDecodeError as error:
        position = len(bom) + error.start
        line = data.count(b"\n", 0, position) + 1
        raise ToolError(
            f'"{name}" is not UTF-8 text: byte 0x{data[position]:02x} in line {line} (Latin-1, perhaps); '
            "convert it to UTF-8 first"
        ) from error


def split_lines(text: str) -> list[str]:
    """The lines, without their ends; an end of line at the end of the text begins no further one."""
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def replace_once(name: str, text: str, old: str, new: str) -> Edit:
    """Replace the one place where `old` stands.

    Raises:
        ToolError: When there is none, with the nearest lines; or several, with where they are.
    """
    if not old:
        raise ToolError('"old" is empty; give the text to replace, or use write_file for a whole file')
    if old == new:
        raise ToolError('"old" and "new" are the same; there is nothing to change')
    for end in _line_ends(text):
        if places := _find_all(text, _with_ends(old, end)):
            break
    else:
        raise ToolError(f'"old" is not in "{name}"; {_hint(text, old)}')
    if len(places) > 1:
        lines = _join_lines(text, places)
        raise ToolError(f'"old" is in "{name}" {len(places)} times, at lines {lines}; add lines around it until one fits')
    start, found = places[0], _with_ends(old, end)
    edited = text[:start] + _with_ends(new, end) + text[start + len(found) :]
    return Edit(edited, _line_of(text, start), len(split_lines(old)), len(split_lines(new)))


def _line_ends(text: str) -> tuple[str, ...]:
    """The ends of line in use, the usual one first."""
    both, all_ = text.count("\r\n"), text.count("\n")
    if both == 0:
        return ("\n",)
    return ("\r\n", "\n") if both * 2 >= all_ else ("\n", "\r\n")


def _with_ends(text: str, end: str) -> str:
    plain = text.replace("\r\n", "\n")
    return plain if end == "\n" else plain.replace("\n", end)


def _find_all(text: str, wanted: str) -> list[int]:
    places = []
    place = text.find(wanted)
    while place >= 0:
        places.append(place)
        place = text.find(wanted, place + 1)  # overlapping ones too: either could be meant
    return places


def _line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _join_lines(text: str, places: list[int]) -> str:
    lines = list(dict.fromkeys(_line_of(text, place) for place in places))
    shown = ", ".join(map(str, lines[:_MAX_SHOWN_LINES]))
    return f"{shown}, ..." if len(lines) > _MAX_SHOWN_LINES else shown


def _hint(text: str, old: str) -> str:
    wanted = split_lines(old)
    if all(_LINE_NUMBER.match(line) for line in wanted):
        return "leave the line numbers of read_file out of it"
    key = next((line.strip() for line in wanted if line.strip()), "")
    lines = split_lines(text)
    same = [number for number, line in enumerate(lines, 1) if line.strip() == key] if key else []
    if same:
        return f"only its first line, up to spaces, is there:\n{_show(lines, same[:3])}"
    compared = [line.strip() for line in lines[:_MAX_COMPARED_LINES]]
    nearest = difflib.get_close_matches(key, dict.fromkeys(compared), n=3, cutoff=0.6)
    if not nearest:
        return "no line of it is like its first one; read the file again"
    return f"the nearest lines are:\n{_show(lines, sorted(compared.index(each) + 1 for each in nearest))}"


def _show(lines: list[str], numbers: list[int]) -> str:
    return "\n".join(f"{number}\t{lines[number - 1][:_MAX_SHOWN_CHARS]}" for number in numbers)
