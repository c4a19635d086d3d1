"""Which files a search need not read, told by ripgrep where it is installed: a few thousand files are one fast look then.

The rules of this file:
- It only leaves files out. Python's `re` finds the matches in all others, so that there is one dialect and one result.
- ripgrep gets a pattern of ASCII sets that finds at least what Python's does. What it cannot say (assertions, references)
  is made wider, and a file with any other byte, or a line too long to be searched, stays in: encodings make no difference.
- It gets the paths that our own walk chose, and what it says is taken for those alone.
- Whatever goes wrong, no file is left out.
- A ripgrep that lies in the working folder is not used: an edit could have put it there.
"""

from __future__ import annotations

import functools
import os
import re
import select
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from ...scopes import check_stop
from .searching import MAX_LINE_CHARS, SEARCH_SECONDS
from .workspace import Parts

__all__ = ["FIRST_FILES", "find_ripgrep", "likely_files", "widen"]

FIRST_FILES = 300  # reading them takes as long as starting a process does
_SECONDS = SEARCH_SECONDS / 2  # it is five times as fast as we are: what it cannot do in that time, we cannot in ours
_POLL_SECONDS = 0.05
_VERSION_SECONDS = 5.0
_MAX_BATCH_BYTES = 500_000  # of paths in one command; Linux takes 2 MB, less where the stack is limited
_ARGUMENT_BYTES = 16  # what each costs besides its text
_MOST_REPEATS = 20  # more are not counted out: the automaton would grow with them
_CHUNK_BYTES = 1 << 16
_VERSION = re.compile(rb"ripgrep (\d+)\.")
_OLDEST = 12  # the first with `--encoding none`
_OPTIONS = (
    "--no-config", "--no-ignore", "--hidden", "--no-follow", "--no-mmap", "--text", "--encoding=none", "--no-messages",
    "--color=never", "--files-with-matches", "--null",
)  # fmt: skip
_OTHER = r"[\x80-\xff]"  # also what stands for no ASCII character at all: a file that has one stays in anyway
_ANYTHING = r"[\x00-\x09\x0b-\x7f]*"

_parser: Any = import_module("re._parser")  # what `re` itself reads patterns with; not in the type stubs
_compiler: Any = import_module("re._compiler")


class _NotSaid(Exception):
    """The pattern has something that this file does not know."""


def likely_files(folder: Path, pattern: str, paths: list[Parts], first: int = FIRST_FILES) -> Iterator[Parts]:
    """The files, in their order, without those that ripgrep knows to have no match and no line too long.

    Args:
        folder: The working folder, which the paths are relative to.
        pattern: In Python's syntax, and right.
        first: So many are read before ripgrep is asked about the others: what is everywhere is found in them already.
    """
    yield from paths[:first]
    yield from _leave_out(folder, pattern, paths[first:])


def find_ripgrep(folder: Path | None = None) -> str | None:
    """The program, when there is one that is new enough and lies outside the folder."""
    program = shutil.which("rg", path=os.pathsep.join(_safe_places(folder)))
    if program is None or (folder and _is_within(program, folder)):
        return None
    return program if _is_ripgrep(program) else None


def widen(pattern: str) -> str | None:
    """A pattern that every ASCII line matches in which this one finds something; None when it would be every line.

    It is made of sets of bytes, groups, alternatives and repeats, which all dialects read alike.
    """
    try:
        parsed = _parser.parse(pattern)
        wider = _widen_all(parsed, parsed.state.flags)
        return None if re.compile(wider).match("") else wider
    except (_NotSaid, RecursionError, OverflowError, re.error):
        return None


def _leave_out(folder: Path, pattern: str, paths: list[Parts]) -> list[Parts]:
    if not paths or (wider := widen(pattern)) is None or (program := find_ripgrep(folder)) is None:
        return paths
    names = [b"./" + os.fsencode("/".join(parts)) for parts in paths]
    named = _name_files(folder, [program, *_OPTIONS, "-e", _add_what_stays(wider), "--"], names)
    return paths if named is None else [parts for parts, name in zip(paths, names, strict=True) if name in named]


# --- the pattern ----------------------------------------------------------------------------------------------------


def _add_what_stays(wider: str) -> str:
    return rf"(?-u:{wider}|{_OTHER}|^[^\n]{{{MAX_LINE_CHARS + 1}}})"


def _widen_all(parsed: Iterable[tuple[Any, Any]], flags: int) -> str:
    return "".join(_widen_one(node, flags) for node in parsed)


def _widen_one(node: tuple[Any, Any], flags: int) -> str:
    kind, value = node[0].name, node[1]
    if kind in ("LITERAL", "NOT_LITERAL", "ANY", "IN"):
        return _ascii_set(node, flags)
    if kind in ("AT", "ASSERT", "ASSERT_NOT"):
        return ""  # a condition less finds more
    if kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        return _repeat(value, flags)
    if kind == "SUBPATTERN":
        _, added, removed, inner = value
        return f"(?:{_widen_all(inner, _combine(flags, added, removed))})"
    if kind == "BRANCH":
        return f"(?:{'|'.join(_widen_all(each, flags) for each in value[1])})"
    if kind == "ATOMIC_GROUP":
        return f"(?:{_widen_all(value, flags)})"
    if kind == "GROUPREF_EXISTS":
        return f"(?:{'|'.join(_widen_all(each or (), flags) for each in value[1:])})"
    if kind == "GROUPREF":
        return _ANYTHING
    raise _NotSaid


def _repeat(value: tuple[int, int, Iterable[tuple[Any, Any]]], flags: int) -> str:
    least, most, inner = value
    upper = "" if most > _MOST_REPEATS else str(int(most))
    return f"(?:{_widen_all(inner, flags)}){{{min(int(least), _MOST_REPEATS)},{upper}}}"


def _combine(flags: int, added: int, removed: int) -> int:
    """As `re` does it for a group with flags of its own: of those for the kind of text, the inner one counts."""
    kinds = int(re.ASCII | re.LOCALE | re.UNICODE)
    if added & kinds:
        flags &= ~kinds
    return (flags | added) & ~removed


def _ascii_set(node: tuple[Any, Any], flags: int) -> str:
    """What of ASCII a set of characters has, by asking `re`. No line has a line feed in it."""
    state = _parser.State()
    state.flags = flags
    matches = _compiler.compile(_parser.SubPattern(state, [node])).match
    codes = [code for code in range(128) if code != ord("\n") and matches(chr(code))]
    return f"[{''.join(_ranges(codes))}]" if codes else _OTHER


def _ranges(codes: Sequence[int]) -> Iterator[str]:
    first = 0
    for at, code in enumerate(codes, 1):
        if at == len(codes) or codes[at] != code + 1:
            yield rf"\x{codes[first]:02x}-\x{code:02x}"
            first = at


# --- the program ----------------------------------------------------------------------------------------------------


def _name_files(folder: Path, command: list[str], names: list[bytes]) -> set[bytes] | None:
    """The files that it names; None when it did not come to a good end."""
    until = time.monotonic() + _SECONDS
    named: set[bytes] = set()
    for batch in _batches(names):
        answer = _ask(folder, [*command, *batch], until)
        if answer is None:
            return None
        named.update(answer.split(b"\0"))
    return named


def _batches(names: list[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for name in names:
        cost = len(name) + _ARGUMENT_BYTES
        if batch and size + cost > _MAX_BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(name)
        size += cost
    if batch:
        yield batch


def _ask(folder: Path, command: Sequence[str | bytes], until: float) -> bytes | None:
    """What a command prints; None when it fails or takes too long. It is ended with the search."""
    try:
        child = subprocess.Popen(
            command,
            cwd=folder,
            env={},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C at a terminal is for us
        )
    except OSError:
        return None
    try:
        answer = _receive(child, until)
        return answer if answer is not None and child.wait() in (0, 1) else None  # 1: nothing found
    finally:
        child.kill()
        child.communicate()


def _receive(child: subprocess.Popen[bytes], until: float) -> bytes | None:
    assert child.stdout  # noqa: S101 - a pipe
    chunks: list[bytes] = []
    while True:
        check_stop()
        if time.monotonic() > until:
            return None
        if select.select([child.stdout], [], [], _POLL_SECONDS)[0]:
            chunk = os.read(child.stdout.fileno(), _CHUNK_BYTES)
            if not chunk:
                return b"".join(chunks)
            chunks.append(chunk)


def _safe_places(folder: Path | None) -> Iterator[str]:
    for place in os.environ.get("PATH", os.defpath).split(os.pathsep):
        if place.startswith("/") and not (folder and _is_within(place, folder)):
            yield place


def _is_within(path: str, folder: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


@functools.cache
def _is_ripgrep(program: str) -> bool:
    said = _ask(Path("/"), [program, "--version"], time.monotonic() + _VERSION_SECONDS)
    version = _VERSION.match(said or b"")
    return version is not None and int(version[1]) >= _OLDEST
