"""The job of both loops, so that they differ in nothing but themselves: read and write notes in turn, then answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

__all__ = ["PROMPT", "SYSTEM", "Done", "Job", "Notes", "Side", "Started"]

SYSTEM = "You keep notes with the tools that you have."
PROMPT = "Read and write the notes one by one, then say that you are done."


class Done(NamedTuple):
    """What a run came to; the benchmark checks it, so that nobody is fast by leaving something out."""

    tool_calls: int
    characters: int


class Notes:
    """What the two tools do: next to nothing, since it is not what is measured.

    Args:
        result_bytes: The length of what `read` gives back.
        on_call: Called at each tool call.
    """

    def __init__(self, result_bytes: int = 20, on_call: Callable[[], object] = bool) -> None:
        self._text, self._on_call = ("note " * (result_bytes // 5 + 1))[:result_bytes], on_call
        self.calls = 0

    def read(self, name: str) -> str:
        self._called()
        return self._text

    def write(self, name: str, text: str) -> str:
        self._called()
        return self._text

    def _called(self) -> None:
        self.calls += 1
        self._on_call()


class Job(NamedTuple):
    """What a loop is told.

    Attributes:
        url: The API's address.
        store: Where ours keeps its runs: "memory", or the path of a SQLite file. The floor keeps nothing.
        runs_at_once: How many runs there will be at the same time.
    """

    url: str
    notes: Notes
    streamed: bool = False
    store: str = "memory"
    runs_at_once: int = 1


class Started(Protocol):
    """Runs under way."""

    def cancel(self) -> None: ...

    async def ended(self) -> Sequence[object]:
        """Wait until all have ended; how each did."""
        ...


class Side(Protocol):
    """A loop that can do the job. `bare_loop.Loop` is the floor, `our_loop.Loop` is ours."""

    async def run(self) -> Done: ...

    async def run_many(self, count: int) -> list[Done]:
        """So many runs at once."""
        ...

    def start(self, count: int) -> Started: ...

    async def aclose(self) -> None: ...
