"""What a test runner's printed output comes to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

__all__ = ["ToldTests", "blocks_after", "without_colours"]

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")


@dataclass(slots=True)
class ToldTests:
    """Counts and failures, as a runner told them.

    Attributes:
        runner: Its name.
        failures: (name, text) of each, in the order of failing.
        running: The tests that had begun and did not end.
    """

    runner: str
    passed: int = 0
    skipped: int = 0
    counted_failures: int = 0
    failures: list[tuple[str, str]] = field(default_factory=list)
    running: list[str] = field(default_factory=list)
    status: int | None = None

    @property
    def failed(self) -> int:
        return max(self.counted_failures, len(self.failures))

    def fail(self, name: str, text: str) -> None:
        """Add a failure; one that a runner tells again at its end is the same."""
        if all(each != name for each, _ in self.failures):
            self.failures.append((name, text))


def without_colours(text: str) -> str:
    """The text without what colours a terminal, and with plain line feeds."""
    return _COLOUR.sub("", text).replace("\r\n", "\n")


def blocks_after(
    lines: Sequence[str], begins: re.Pattern[str], ends: re.Pattern[str]
) -> Iterator[tuple[re.Match[str], str]]:
    """Each line that begins a block, with the text up to the next one that begins or ends one."""
    at = 0
    while at < len(lines):
        match = begins.match(lines[at])
        at += 1
        if match is None:
            continue
        start = at
        while at < len(lines) and not begins.match(lines[at]) and not ends.match(lines[at]):
            at += 1
        yield match, "\n".join(lines[start:at]).strip("\n")
