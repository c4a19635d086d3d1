"""The store of one machine: a SQLite file that any number of processes may use at once.

Writes go through one thread, reads through another with a connection of its own, so that neither waits for the other.
"""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

from ..scopes import call_in_thread, finish
from . import statements
from .lanes import Lane, ask, close_in_turn
from .owner import LEASE_SECONDS
from .schema import Opener, compact, open_file
from .store import Entry, RunRow, Summary, encode_summary
from .writer import SqliteFile, look, write

__all__ = ["SqliteStore"]

T = TypeVar("T")

SAVE_SECONDS = 10.0  # a healthy disk takes milliseconds; a run should not hang for a broken one
BUSY_SHARE = 0.8  # of that: so that the error which names who is in the way comes before the one which does not


class SqliteStore:
    """Runs kept in a SQLite file, each record on disk before its append returns.

    Nothing is opened or made before the first use; after `aclose` the next use opens it again. Loops, threads and forked
    processes may share a store. Writing completes although the caller is being stopped; reading stops at once.

    Args:
        path: The file; its folder is made where there is none.
        save_seconds: The longest that a write may take; beyond it `SaveTimeout` is raised, and it may yet be written.
        lease_seconds: How long a run counts as driven after its driver's last sign of life, where that process cannot be
            looked at.
        open_file: Makes the connections, of an address and the seconds to wait while another process writes; for another
            build of SQLite than Python's own.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        save_seconds: float = SAVE_SECONDS,
        lease_seconds: float = LEASE_SECONDS,
        open_file: Opener = open_file,
    ) -> None:
        self.path = Path(path)
        self._save_seconds, self._lease_seconds = save_seconds, lease_seconds
        self._writer = Lane(SqliteFile(self.path, write, save_seconds * BUSY_SHARE, open_file))
        self._reader = Lane(SqliteFile(self.path, look, save_seconds * BUSY_SHARE, open_file))
        for lane in (self._writer, self._reader):
            weakref.finalize(self, lane.abandon).atexit = False

    def __repr__(self) -> str:
        return f"SqliteStore({str(self.path)!r})"

    def __str__(self) -> str:
        return str(self.path)

    async def create(self, run_id: str, owner: str, bodies: Sequence[bytes], summary: Summary) -> int:
        encoded = encode_summary(summary)
        return await self._write(partial(statements.create, run_id=run_id, owner=owner, bodies=bodies, summary=encoded))

    async def restore(self, run_id: str, epoch: int, entries: Sequence[Entry], summary: Summary) -> None:
        encoded = encode_summary(summary)
        await self._write(partial(statements.restore, run_id=run_id, epoch=epoch, entries=entries, summary=encoded))

    async def take(self, run_id: str, owner: str) -> int:
        return await self._write(partial(statements.take, run_id=run_id, owner=owner, lease_seconds=self._lease_seconds))

    async def append(self, run_id: str, epoch: int, bodies: Sequence[bytes], summary: Summary) -> int:
        encoded = encode_summary(summary)
        return await self._write(partial(statements.append, run_id=run_id, epoch=epoch, bodies=bodies, summary=encoded))

    async def release(self, run_id: str, epoch: int) -> None:
        await self._write(partial(statements.release, run_id=run_id, epoch=epoch))

    async def ask_stop(self, run_id: str, cause: bytes) -> int:
        return await self._write(partial(statements.ask_stop, run_id=run_id, cause=cause))

    async def asked_to_stop(self, run_id: str, epoch: int) -> bytes | None:
        """That a driver looks is a sign of life, which it writes down when a third of its lease is gone."""
        quiet_seconds = self._lease_seconds / 3
        cause, beat_is_due = await self._look(
            partial(statements.asked_to_stop, run_id=run_id, epoch=epoch, quiet_seconds=quiet_seconds)
        )
        if beat_is_due:
            await self._write(partial(statements.beat, run_id=run_id, epoch=epoch))
        return cause

    async def delete(self, run_id: str, epoch: int) -> None:
        await self._write(partial(statements.delete, run_id=run_id, epoch=epoch))

    async def compact(self) -> int:
        """Give the room of deleted runs back to the disk; returns the bytes that this freed. Others may use the journal.

        Raises:
            JournalError: When somebody else writes for too long, or there is no room for a copy.
        """
        return await call_in_thread(compact, self.path, self._save_seconds)

    async def read(self, run_id: str, after: int = 0) -> list[Entry]:
        return await self._look(partial(statements.read, run_id=run_id, after=after))

    async def runs(self, limit: int = 50) -> list[RunRow]:
        return await self._look(partial(statements.runs, limit=limit))

    async def find(self, prefix: str) -> str:
        return await self._look(partial(statements.find, prefix=prefix))

    async def aclose(self) -> None:
        """Write what waits, close the file, and end the threads, although the caller is being stopped.

        Raises:
            SaveTimeout: When that took longer than a write may. It goes on by itself.
        """
        await finish(self._save_seconds, call_in_thread, close_in_turn, (self._reader, self._writer))

    async def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return cast(T, await finish(self._save_seconds, ask, self._writer, work, self._save_seconds))

    async def _look(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return cast(T, await ask(self._reader, work, self._save_seconds))
