"""What the model reads of a test run: what happened in, text out.

The most useful comes first: which tests failed, and of each failure the assertion, the innermost frame, then the project's
own frames. What there is no room for is dropped in the opposite order.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from ..processes import ProcessResult
from ..results import cut_middle

__all__ = [
    "GAP_CHARS",
    "MAX_CHARS",
    "Progress",
    "count_line",
    "end_text",
    "last_of",
    "relative",
    "write_report",
    "write_stack",
]

MAX_CHARS = 6_000  # of a report: some 1,500 tokens, which is a few failures in full
MAX_ID_CHARS = 2_000  # of these, for the names of the failed tests
MAX_NAME_CHARS = 300  # of one test: parameters may be long texts
USEFUL_CHARS = 700  # a failure shown with less than this says too little; its name alone is better
MAX_STACK_FRAMES = 8
MAX_ERROR_CHARS = 2_000  # of what a runner that could not run said
PROGRESS_SECONDS = 1.0  # between two lines of progress
GAP_CHARS = 60  # the line that says what was cut from a text

_FRAME = re.compile(r'^(?:  File ".*", line \d+|\S.*:\d+: in )', re.MULTILINE)
_LIBRARY = re.compile(r'^(?:  File "[/<]|[/<]|  File "[^"]*site-packages/|\S*site-packages/)')
_STACK_FRAME = re.compile(r'  File "(?P<path>.*)", line (?P<line>\d+) in (?P<function>.*)')


class Counts(Protocol):
    """How many tests came to what, and the runner's exit status, where it is known."""

    @property
    def passed(self) -> int: ...

    @property
    def failed(self) -> int: ...

    @property
    def skipped(self) -> int: ...

    @property
    def status(self) -> int | None: ...


class Progress:
    """Lines for whoever watches, not more than one a second."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell, self._said = tell, time.monotonic()

    def tell(self, text: str) -> None:
        if time.monotonic() - self._said >= PROGRESS_SECONDS:
            self._said = time.monotonic()
            self._tell(text)


def last_of(text: str) -> str:
    """What a runner that could not run said, within bounds."""
    return cut_middle(text.strip(), MAX_ERROR_CHARS)


def count_line(events: Counts) -> str:
    """Such as "tests failed: 1 failed, 12 passed, 2 skipped"."""
    skipped = f", {events.skipped} skipped" if events.skipped else ""
    if events.failed or events.status not in (0, None):
        return f"tests failed: {events.failed} failed, {events.passed} passed{skipped}"
    return f"tests passed: {events.passed}{skipped}"


def write_report(failures: Iterable[tuple[str, str]], folder: Path, max_chars: int = MAX_CHARS) -> str:
    """The failures within `max_chars`: some with their texts, then the names of others, then how many more there are.

    Args:
        failures: (name, text) of each.
        folder: The project's; paths below it become relative.
    """
    listed = [(f"FAIL {name[:MAX_NAME_CHARS]}", relative(text.rstrip(), folder)) for name, text in failures]
    named = _how_many_fit([name for name, _ in listed], min(MAX_ID_CHARS, max_chars // 2))
    left_out = len(listed) - named
    more = [f"... {left_out} more failed"] if left_out else []
    room = max_chars - sum(len(name) + 2 for name, _ in listed[:named]) - 40
    detailed = min(named, max(1, room // USEFUL_CHARS))
    blocks = []
    for number, (name, text) in enumerate(listed[:detailed]):
        shown = shorten(text, room // (detailed - number) - 1)
        room -= len(shown) + 1
        blocks.append(f"{name}\n{shown}\n" if shown else name)
    return "\n".join([*blocks, *(name for name, _ in listed[detailed:named]), *more]).rstrip()


def _how_many_fit(names: list[str], max_chars: int) -> int:
    used = 0
    for number, name in enumerate(names):
        used += len(name) + 2
        if used > max_chars:
            return max(1, number)
    return len(names)


def relative(text: str, folder: Path) -> str:
    """The text with every path below the folder relative to it."""
    return text.replace(f"{folder}/", "")


def shorten(text: str, max_chars: int) -> str:
    """A traceback within `max_chars`: the innermost frame with what was raised, then the project's frames before it."""
    if len(text) <= max_chars:
        return text
    if max_chars < 2 * GAP_CHARS:
        return ""
    starts = [each.start() for each in _FRAME.finditer(text)] or [0]
    frames = [text[begin:end] for begin, end in zip(starts, [*starts[1:], len(text)], strict=True)]
    room = max_chars - len("...\n")
    kept = cut_middle(frames[-1], room - GAP_CHARS) if len(frames[-1]) > room else frames[-1]
    for frame in reversed([each for each in frames[:-1] if not _LIBRARY.match(each)]):
        if len(frame) + len(kept) > room:
            break
        kept = frame + kept
    return f"...\n{kept}"


def write_stack(lines: list[str], folder: Path) -> str:
    """The place where the interpreter was, as `path:line: in function` from the outside in, from faulthandler's lines."""
    threads: list[list[str]] = [[]]
    for line in lines:
        if match := _STACK_FRAME.match(line):
            threads[-1].append(_frame(match, folder))
        elif threads[-1]:
            threads.append([])
    threads = [each for each in threads if each]
    ours = [each for each in threads if any(not _LIBRARY.match(frame) for frame in each)]
    frames = next(reversed(ours or threads), [])  # the main thread comes last
    innermost = next((at for at, frame in enumerate(frames) if not _LIBRARY.match(frame)), 0)
    shown = [frame for at, frame in enumerate(frames) if at <= innermost or not _LIBRARY.match(frame)]
    return "\n".join(reversed(shown[:MAX_STACK_FRAMES]))


def _frame(match: re.Match[str], folder: Path) -> str:
    path, line = match["path"], int(match["line"])
    place = f"{relative(path, folder)}:{line}: in {match['function']}"
    source = _source_line(Path(path), line) if Path(path).is_relative_to(folder) else ""
    return f"{place}\n    {source}" if source else place


def _source_line(path: Path, line: int) -> str:
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:  # a path that the interpreter made up, or a file that is gone
        return ""
    return lines[line - 1].strip() if line <= len(lines) else ""


def end_text(result: ProcessResult) -> str:
    """How a process ended, in words."""
    if result.signal is None:
        return f"exit status {result.exit_code}"
    try:
        return f"signal {result.signal} ({signal.Signals(result.signal).name})"
    except ValueError:  # a real-time signal has no name
        return f"signal {result.signal}"
