"""What `inside.py` tells, taken in piece by piece. Pure: bytes in, state out."""

from __future__ import annotations

import json
from typing import Literal, TypeAlias

__all__ = ["TestEvents"]

Outcome: TypeAlias = Literal["passed", "failed", "skipped"]

MAX_FAILURES = 500  # whose texts are kept; more are counted and named


class TestEvents:
    """A test run so far.

    Attributes:
        runner: "pytest" or "unittest"; empty until it is known.
        failures: The text of each failure by the test's name, in the order of failing.
        status: The runner's own exit status once it has told everything; None before.
        stack: The lines of the stacks that the interpreter wrote when its time was over; empty otherwise.
    """

    __test__ = False  # pytest: not a test class

    def __init__(self) -> None:
        self.runner = ""
        self.failures: dict[str, str] = {}
        self.status: int | None = None
        self.stack: list[str] = []
        self._outcomes: dict[str, Outcome] = {}
        self._running: dict[str, None] = {}  # several where the tests run in parallel
        self._collecting = ""
        self._rest = b""

    def feed(self, chunk: bytes) -> None:
        """Take in the next piece of the script's output."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._take(line)

    @property
    def passed(self) -> int:
        return self._count("passed")

    @property
    def failed(self) -> int:
        return self._count("failed")

    @property
    def skipped(self) -> int:
        return self._count("skipped")

    @property
    def total(self) -> int:
        return len(self._outcomes)

    @property
    def under_way(self) -> str:
        """What the runner is at: the name of a test, or a file that is being collected; empty when nothing is known."""
        return ", ".join(self._running) or (f"collecting {self._collecting}" if self._collecting else "")

    @property
    def tests_under_way(self) -> list[str]:
        return list(self._running)

    def end_abruptly(self, text: str) -> None:
        """The runner is gone: what it was at failed, for this reason."""
        for name in self.tests_under_way or [self._collecting]:
            self._fail(name, text)

    def _count(self, outcome: Outcome) -> int:
        return sum(each == outcome for each in self._outcomes.values())

    def _take(self, line: bytes) -> None:
        try:
            event = json.loads(line)
            kind, test, text = event["event"], event["test"], event["text"]
        except (ValueError, TypeError, KeyError):  # a stack's line: the script writes nothing else
            self.stack.append(line.decode(errors="replace"))
            return
        match kind:
            case "runner":
                self.runner = text
            case "collecting":
                self._collecting = test
            case "started":
                self._collecting = ""
                self._running[test] = None
            case "finished":
                self._running.pop(test, None)
            case "passed" | "skipped":
                self._outcomes.setdefault(test, kind)  # a test that failed in its setup, say, stays failed
            case "failed":
                self._fail(test, text)
            case "ended":
                self.status, self._collecting = int(text), ""

    def _fail(self, test: str, text: str) -> None:
        self._outcomes[test] = "failed"
        if len(self.failures) < MAX_FAILURES:
            earlier = self.failures.get(test)
            self.failures[test] = f"{earlier}\n{text}" if earlier else text
        else:
            self.failures.setdefault(test, "")
