"""Which tests failed, and why, out of what a test runner printed. Pure: text in, counts and failures out.

A runner is known by lines that only it prints. What none of the readers knows is left to the exit status.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from .cargo import read_cargo
from .go import read_go
from .node import read_jest, read_node_spec, read_tap, read_vitest
from .told import ToldTests, blocks_after, without_colours

__all__ = ["recognize"]

_PYTEST_END = re.compile(r"(?:=+ )?(?P<counts>(?:\d+ [a-z]+(?:, )?)+) in [\d.]+s\b")
_PYTEST_FAILURE = re.compile(r"_{3,} (?P<name>.+?) _{3,}$")
_PYTEST_COUNT = re.compile(r"(?P<count>\d+) (?P<what>[a-z]+)")
_PYTEST_NAMED = re.compile(r"(?:FAILED|ERROR) (?P<name>\S+)(?: - (?P<text>.*))?$")


def recognize(stdout: str, stderr: str) -> ToldTests | None:
    """What the runner told, of whichever kind it is; None when it is none that we know."""
    lines = without_colours(f"{stdout}\n{stderr}").split("\n")
    return next((told for read in _READERS if (told := read(lines)) is not None), None)


def read_pytest(lines: Sequence[str]) -> ToldTests | None:
    """What pytest printed; None when it was not pytest."""
    ends = [match for line in lines if (match := _PYTEST_END.match(line))]
    if not ends:
        return None
    found = _PYTEST_COUNT.finditer(ends[-1]["counts"])
    counts = {match["what"].rstrip("s"): int(match["count"]) for match in found}
    told = ToldTests("pytest", counts.get("passed", 0), counts.get("skipped", 0) + counts.get("xfailed", 0))
    told.counted_failures = counts.get("failed", 0) + counts.get("error", 0)
    sections = {match["name"]: text for match, text in blocks_after(lines, _PYTEST_FAILURE, re.compile("={3,} "))}
    for line in lines:
        if match := _PYTEST_NAMED.match(line):
            short = match["name"].partition("::")[2].replace("::", ".")
            told.fail(match["name"], sections.pop(short, match["text"] or ""))
    for name, text in sections.items():
        told.fail(name, text)
    return told


_READERS: list[Callable[[Sequence[str]], ToldTests | None]] = [
    read_go,
    read_tap,
    read_node_spec,
    read_vitest,
    read_jest,
    read_pytest,
    read_cargo,
]
