"""What a report of the tests says: which failed, where, with what error, and the values that differed."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

__all__ = ["Failure", "Frame", "Report", "parse_report"]

HEAD = re.compile(r"tests (passed|failed): (\d+)(?: failed, (\d+) passed)?")
FRAME = re.compile(
    r'^\s*(?:File "(?P<file>[^"]+)", line (?P<at>\d+)(?:, in \S+)?'  # unittest and the interpreter
    r'|(?P<path>[^\s:"]+\.py):(?P<line>\d+)(?:: .*)?)\s*$'  # pytest, short
)
RAISED = re.compile(
    r"^(?:E\s+)?(?P<type>[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning|StopIteration|Failed))(?:: (?P<text>.*))?$"
)
PYTEST_ASSERT = re.compile(r"^(?:E\s+)?(?:AssertionError: )?assert (?P<rest>.+)$")
COMPARED = (
    re.compile(r"^(?P<a>.+?) != (?P<b>.+?)(?: : .*| within .*)?$"),
    re.compile(r"^(?:Lists|Tuples|Sequences|First|Sets) differ: (?P<a>.+) != (?P<b>.+)$"),
    re.compile(r"^(?P<a>.+?) == (?P<b>.+)$"),
    re.compile(r"^(?P<a>.+?) is not (?P<b>.+)$"),
)


@dataclass(frozen=True, slots=True)
class Frame:
    path: str
    line: int


@dataclass(frozen=True)
class Failure:
    """One failed test.

    Attributes:
        test: The test's id as the runner wrote it.
        frames: Outermost first.
        error: The exception's type and text; for a bare assert, "AssertionError" and what was compared.
    """

    test: str
    frames: tuple[Frame, ...] = ()
    error: str = ""
    text: str = ""

    @property
    def name(self) -> str:
        """The test function's bare name."""
        head = self.test.split(" (")[0].split("[")[0]
        return re.split(r"::|\.", head)[-1].strip()

    @cached_property
    def values(self) -> tuple[Any, Any] | None:
        """The two values that should have been equal, in the order of the report, where both can be read."""
        for line in self.text.split("\n"):
            if pair := _compared(line.strip()):
                return pair
        return None


@dataclass(frozen=True)
class Report:
    """One run of the tests."""

    failed: int
    passed: int
    failures: tuple[Failure, ...] = ()
    hung: bool = False

    @property
    def good(self) -> bool:
        return self.failed == 0 and not self.hung

    @property
    def whole(self) -> bool:
        """Whether every failure is in the report; a long one is cut."""
        return len(self.failures) >= self.failed


def parse_report(content: str) -> Report | None:
    """The report in a result of `run_tests`, or None when it is none (an error)."""
    head, _, rest = content.partition("\n")
    match = HEAD.match(head)
    if not match:
        hung = "timed out" in head
        return Report(1, 0, tuple(_hung(content)), hung=True) if hung else None
    first, second = int(match[2]), int(match[3] or 0)
    if match[1] == "passed":
        return Report(0, first)
    return Report(first, second, tuple(_failures(rest)))


def _hung(content: str) -> list[Failure]:
    return [
        Failure(name) for name in dict.fromkeys(re.findall(r"\btest\w+", content)) if name not in ("tests", "test_seconds")
    ]


def _failures(text: str) -> list[Failure]:
    parts = re.split(r"^FAIL ", text, flags=re.MULTILINE)[1:]
    return [_failure(part) for part in parts]


def _failure(part: str) -> Failure:
    test, _, body = part.partition("\n")
    frames, error, said = [], "", ""
    for line in body.split("\n"):
        if found := FRAME.match(line):
            frames.append(Frame(found["file"] or found["path"], int(found["at"] or found["line"])))
        elif found := RAISED.match(line.strip()):
            error, said = found["type"].rpartition(".")[2], found["text"] or ""
        elif not error and (found := PYTEST_ASSERT.match(line.strip())):
            error, said = "AssertionError", found["rest"]
        elif error and line.strip().startswith(("E ", "- ", "+ ", "First ", "Second ")):
            said += "\n" + line.strip().removeprefix("E").strip()
    return Failure(test.strip(), tuple(frames), error, said)


def _compared(line: str) -> tuple[Any, Any] | None:
    line = line.removeprefix("assert ")
    for pattern in COMPARED:
        if found := pattern.match(line):
            values = [_literal(found[group]) for group in ("a", "b")]
            if UNREADABLE not in values:
                return values[0], values[1]
    return None


UNREADABLE = object()


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return UNREADABLE
