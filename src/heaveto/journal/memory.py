"""A store that forgets everything with its process: for tests, and for runs that nobody wants to keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..errors import Fenced, JournalError, RunNotFound, RunTaken
from ..scopes import wall_time
from .owner import LEASE_SECONDS, describe, holds
from .store import Entry, RunRow, Summary, chosen

__all__ = ["MemoryStore"]


@dataclass(slots=True)
class _Run:
    created: float
    updated: float
    owner: str
    summary: Summary
    epoch: int = 1
    stop: tuple[int, bytes] = (0, b"")  # the epoch that is asked, and the cause
    entries: list[Entry] = field(default_factory=list)

    def extend(self, at: float, bodies: Sequence[bytes]) -> None:
        self.entries += [Entry(seq, at, bytes(body)) for seq, body in enumerate(bodies, len(self.entries) + 1)]


class MemoryStore:
    """Runs kept in memory. It never waits, so no stop comes between.

    Args:
        lease_seconds: How long a run counts as driven after its last record where its owner cannot be looked at.
    """

    def __init__(self, *, lease_seconds: float = LEASE_SECONDS) -> None:
        self._lease_seconds = lease_seconds
        self._runs: dict[str, _Run] = {}  # the last touched is the last

    async def create(self, run_id: str, owner: str, bodies: Sequence[bytes], summary: Summary) -> int:
        if run_id in self._runs:
            raise JournalError(f"there is a run {run_id} already")
        now = wall_time()
        run = self._runs[run_id] = _Run(now, now, owner, summary)
        run.extend(now, bodies)
        return run.epoch

    async def restore(self, run_id: str, epoch: int, entries: Sequence[Entry], summary: Summary) -> None:
        if run_id in self._runs:
            raise JournalError(f"there is a run {run_id} already")
        self._runs[run_id] = _Run(entries[0].at, entries[-1].at, "", summary, epoch, entries=list(entries))
        self._runs = dict(sorted(self._runs.items(), key=lambda item: item[1].updated))

    async def take(self, run_id: str, owner: str) -> int:
        run, now = self._find(run_id), wall_time()
        if holds(run.owner, run.updated, now, self._lease_seconds):
            raise RunTaken(run_id, describe(run.owner))
        run.owner, run.epoch = owner, run.epoch + 1
        self._touch(run_id, now)
        return run.epoch

    async def append(self, run_id: str, epoch: int, bodies: Sequence[bytes], summary: Summary) -> int:
        run, now = self._find(run_id), wall_time()
        if run.epoch != epoch:
            raise Fenced(run_id)
        run.extend(now, bodies)
        run.summary = summary
        self._touch(run_id, now)
        return len(run.entries)

    async def release(self, run_id: str, epoch: int) -> None:
        run = self._runs.get(run_id)
        if run is not None and run.epoch == epoch:
            run.owner = ""

    async def ask_stop(self, run_id: str, cause: bytes) -> int:
        run = self._find(run_id)
        if not run.owner:
            return 0
        run.stop = run.epoch, cause
        return run.epoch

    async def asked_to_stop(self, run_id: str, epoch: int) -> bytes | None:
        run = self._runs.get(run_id)
        return run.stop[1] if run is not None and run.stop[0] == epoch else None

    async def delete(self, run_id: str, epoch: int) -> None:
        if self._find(run_id).epoch != epoch:
            raise Fenced(run_id)
        del self._runs[run_id]

    async def read(self, run_id: str, after: int = 0) -> list[Entry]:
        return self._find(run_id).entries[max(0, after) :]

    async def runs(self, limit: int = 50) -> list[RunRow]:
        return [_row(run_id, self._runs[run_id]) for run_id in list(reversed(self._runs))[: max(0, limit)]]

    async def find(self, prefix: str) -> str:
        if prefix in self._runs:
            return prefix
        found = [run_id for run_id in reversed(self._runs) if run_id.startswith(prefix)]
        return chosen(prefix, found if prefix else found[:1])

    async def aclose(self) -> None: ...

    def _find(self, run_id: str) -> _Run:
        try:
            return self._runs[run_id]
        except KeyError as error:
            raise RunNotFound(run_id) from error

    def _touch(self, run_id: str, now: float) -> None:
        run = self._runs[run_id] = self._runs.pop(run_id)
        run.updated = now


def _row(run_id: str, run: _Run) -> RunRow:
    return RunRow(
        run_id=run_id,
        created=run.created,
        updated=run.updated,
        epoch=run.epoch,
        owner=run.owner,
        entries=len(run.entries),
        summary=run.summary,
    )
