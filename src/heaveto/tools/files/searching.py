"""Finding the lines that match a regular expression, for a pattern that a model made up.

Python's `re` can take longer than anyone lives ("(a+)+$"), and holds the interpreter while it does: no thread, no signal
and no stop gets through. So a pattern that has more than one place to try things out runs in a process of its own, which
is killed when its time is up, when the search is stopped, and, by an alarm of its own, when we are gone. All others cost at
most the square of a line's length, and lines that are too long are left out.
"""

from __future__ import annotations

import json
import re
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from ...errors import ToolError
from ...scopes import check_stop

__all__ = ["MAX_LINE_CHARS", "PatternTooSlow", "Searcher", "open_searcher"]

MAX_LINE_CHARS = 2_000  # longer lines are generated, and where a slow pattern is slowest
SEARCH_SECONDS = 10.0  # for all the files of one search; a plain pattern goes through 100 MB in that time
_POLL_SECONDS = 0.05
_ALARM_MARGIN_SECONDS = 2  # after our own limit, so that it is ours that speaks
_CHOICES = re.compile(r"[*+?{|]")  # each is a place where the matcher may come back and try again

# The child: frames in (length, text), the pattern first; for each text a line of JSON out (line numbers).
_CHILD = """
import json, re, signal, struct, sys
seconds, longest, most = map(int, sys.argv[1:])
signal.alarm(seconds)  # ends us even inside a match
def read():
    head = sys.stdin.buffer.read(4)
    return sys.stdin.buffer.read(*struct.unpack("=I", head)).decode("utf-8", "surrogatepass") if head else None
match = re.compile(read()).search
while (text := read()) is not None:
    lines = text.split("\\n")
    found = []
    for number, line in enumerate(lines, 1):
        if len(line) <= longest and match(line):
            found.append(number)
            if len(found) == most:
                break
    print(json.dumps(found), flush=True)
"""


class PatternTooSlow(ToolError):
    """The pattern did not come to an end in its time."""

    code = "pattern_too_slow"

    def __init__(self, pattern: str, seconds: float, path: str) -> None:
        self.pattern, self.seconds, self.path = pattern, seconds, path
        super().__init__(pattern)
        self.args = (pattern, seconds, path)

    def __str__(self) -> str:
        return (
            f'the pattern "{self.pattern}" took more than {self.seconds:.6g} s and was stopped in "{self.path}"; '
            "use a simpler one, without repeats inside repeats"
        )


class Searcher(Protocol):
    def find(self, path: str, lines: list[str], most: int) -> list[int]:
        """The numbers, from 1, of the first `most` lines that match; `path` is for the error's text.

        Raises:
            PatternTooSlow: When the time for the whole search is up.
        """
        ...


@contextmanager
def open_searcher(pattern: str, most: int, seconds: float = SEARCH_SECONDS) -> Iterator[Searcher]:
    """A block in which a pattern can be looked for.

    Args:
        most: How many lines are wanted of any one file.
        seconds: The time for the whole block.

    Raises:
        ToolError: When the pattern is no regular expression; says where.
    """
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        where = "" if error.pos is None else f" at position {error.pos}"
        raise ToolError(f'the pattern "{pattern}" is wrong{where}: {error.msg}; escape what is meant as text') from error
    except (OverflowError, RecursionError) as error:
        raise ToolError(f'the pattern "{pattern}" is too large; use a simpler one') from error
    if len(_CHOICES.findall(pattern)) <= 1:
        yield _Here(compiled, seconds)
        return
    searcher = _InChild(pattern, most, seconds)
    try:
        yield searcher
    finally:
        searcher.close()


class _Here:
    """Searches in this thread."""

    def __init__(self, pattern: re.Pattern[str], seconds: float) -> None:
        self._pattern, self._seconds = pattern, seconds
        self._until = time.monotonic() + seconds

    def find(self, path: str, lines: list[str], most: int) -> list[int]:
        found: list[int] = []
        for number, line in enumerate(lines, 1):
            if number % 100 == 0:  # often enough: a line costs a few milliseconds at the worst
                self._look_up(path)
            if len(line) <= MAX_LINE_CHARS and self._pattern.search(line):
                found.append(number)
                if len(found) == most:
                    break
        return found

    def _look_up(self, path: str) -> None:
        check_stop()
        if time.monotonic() > self._until:
            raise PatternTooSlow(self._pattern.pattern, self._seconds, path)


class _InChild:
    """Searches in a process that can be killed."""

    def __init__(self, pattern: str, most: int, seconds: float) -> None:
        self._pattern, self._seconds = pattern, seconds
        self._until = time.monotonic() + seconds
        settings = (str(int(seconds) + _ALARM_MARGIN_SECONDS), str(MAX_LINE_CHARS), str(most))
        self._child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _CHILD, *settings],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            start_new_session=True,  # Ctrl-C at a terminal is for us
        )
        self._send(pattern)

    def find(self, path: str, lines: list[str], most: int) -> list[int]:
        if not lines:
            return []  # as text they would be one line, an empty one
        self._send("\n".join(lines))
        found: list[int] = json.loads(self._receive(path))
        return found[:most]

    def close(self) -> None:
        self._child.kill()
        self._child.communicate()

    def _send(self, text: str) -> None:
        data = text.encode("utf-8", "surrogatepass")
        assert self._child.stdin  # noqa: S101 - a pipe
        try:
            # The child reads all of it before it matches or answers anything, so neither waits for the other.
            self._child.stdin.write(struct.pack("=I", len(data)) + data)
            self._child.stdin.flush()
        except BrokenPipeError:
            pass  # it is gone: the answer that does not come says so

    def _receive(self, path: str) -> bytes:
        assert self._child.stdout  # noqa: S101 - a pipe
        while not select.select([self._child.stdout], [], [], _POLL_SECONDS)[0]:
            check_stop()
            if time.monotonic() > self._until:
                raise PatternTooSlow(self._pattern, self._seconds, path)
        if answer := self._child.stdout.readline():
            return answer
        if self._child.wait() == -signal.SIGALRM:
            raise PatternTooSlow(self._pattern, self._seconds, path)
        raise ToolError(f'the search in "{path}" broke off; use a simpler pattern, or search a smaller folder')
