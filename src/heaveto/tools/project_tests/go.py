"""The output of `go test`, with `-v` and without. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from .told import ToldTests, blocks_after

__all__ = ["read_go"]

_BEGINS = re.compile(r"(?:ok  |FAIL|\?   )\t\S|=== RUN   |\s*--- (?:FAIL|PASS|SKIP): ")
_RESULT = re.compile(r"(?P<indent>\s*)--- (?P<result>FAIL|PASS|SKIP): (?P<name>\S+) \(")
_RUN = re.compile(r"=== (?P<what>RUN|CONT|PAUSE|NAME)\s+(?P<name>\S+)")
_PACKAGE = re.compile(r"(?:ok  |FAIL)\t(?P<package>\S+)")
_NOT_BUILT = re.compile(r"FAIL\t(?P<package>\S+) \[(?P<what>build|setup) failed\]")
_BUILDING = re.compile(r"# (?P<package>\S+)")
_PANIC = re.compile(r"panic: |fatal error: ")
_TIMED_OUT = re.compile(r"panic: test timed out after ")
_STUCK = re.compile(r"(?:\t(?P<name>Test\S+) \(|\S+\.(?P<frame>Test\w+)\()")
_NOTHING = re.compile(r"(?:PASS|FAIL|exit status \d+|\s*)$")
MAX_PANIC_LINES = 40


def read_go(lines: Sequence[str]) -> ToldTests | None:
    """What go told; None when it was not go."""
    if not any(_BEGINS.match(line) for line in lines):
        return None
    reading = _Reading()
    for line in lines:
        reading.take(line)
    reading.end_package("")
    errors = {match["package"]: text for match, text in blocks_after(lines, _BUILDING, re.compile(r"#|FAIL|ok  |\?   "))}
    for line in lines:
        if match := _NOT_BUILT.match(line):
            package = match["package"]
            reading.told.fail(f"{package} ({match['what']})", errors.get(package, ""))
    return reading.told


class _Reading:
    """The tests of a package, until the line that ends it."""

    def __init__(self) -> None:
        self.told = ToldTests("go test")
        self._results: dict[str, str] = {}
        self._texts: dict[str, list[str]] = {}
        self._current = ""
        self._panic: list[str] | None = None

    def take(self, line: str) -> None:
        if match := _PACKAGE.match(line):
            self.end_package(match["package"])
        elif _PANIC.match(line) or self._panic is not None:
            self._panic = [*(self._panic or ()), line]
        elif match := _RESULT.match(line):
            self._current = match["name"]
            self._results[self._current] = match["result"]
        elif match := _RUN.match(line):
            self._current = match["name"]
            self._results.setdefault(self._current, "")
        elif not _NOTHING.match(line) and self._current:
            self._texts.setdefault(self._current, []).append(line.strip())

    def end_package(self, package: str) -> None:
        """Count what the package's tests came to. A test that failed only by its own subtests is told by these."""
        self._take_panic()
        told, results = self.told, self._results
        for name, result in results.items():
            below = any(each.startswith(f"{name}/") and results[each] == "FAIL" for each in results)
            if result == "FAIL" and not (below and name not in self._texts):
                told.fail(name, "\n".join(self._texts.get(name, [])))
            told.passed += result == "PASS"
            told.skipped += result == "SKIP"
            if not result:
                told.running.append(name)
        self._results, self._texts, self._current, self._panic = {}, {}, "", None

    def _take_panic(self) -> None:
        lines = self._panic
        if lines is None:
            return
        if _TIMED_OUT.match(lines[0]):
            for name in _stuck_tests(lines):
                self._results.setdefault(name, "")
            return
        name = self._current or "panic"
        self._results[name] = "FAIL"
        self._texts.setdefault(name, []).extend(lines[:MAX_PANIC_LINES])


def _stuck_tests(lines: Iterable[str]) -> list[str]:
    """The tests that were running when the time was over: listed since Go 1.20, before that in the goroutines' frames."""
    found = [match["name"] or match["frame"] for line in lines if (match := _STUCK.match(line))]
    return list(dict.fromkeys(found))
