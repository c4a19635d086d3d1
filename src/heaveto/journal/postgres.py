"""The store of many machines: a Postgres database. Installed with `pip install "heaveto[postgres]"`.

Writes go through one thread, reads through another with a connection of its own, as in the SQLite store.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import psycopg

from ..scopes import call_in_thread, finish
from .lanes import Job, Jobs, Lane, Remedy, ask, close_in_turn
from .owner import LEASE_SECONDS
from .postgres_address import Address, read_address
from .postgres_problems import explained, remedy_for
from .postgres_schema import Connection, connect
from .postgres_statements import (
    Append,
    Asked,
    AskedToStop,
    AskStop,
    Create,
    Delete,
    Drives,
    Find,
    Read,
    Release,
    Restore,
    Runs,
    Take,
)
from .store import Entry, RunRow, Summary, encode_summary

__all__ = ["PostgresStore"]

T = TypeVar("T")

SAVE_SECONDS = 10.0  # of which a server that is restarted takes one or two
WAIT_SHARE = 0.8  # of that: so that the error which says what is wrong comes before the one which does not
LEAST_SECONDS = 0.1  # that a server has to answer


class PostgresStore:
    """Runs kept in a Postgres database, each record on its disk before its append returns.

    Nothing is opened or made before the first use; after `aclose` the next use opens it again. Loops, threads, forked
    processes and machines may share a database. Writing completes although the caller is being stopped; reading stops at
    once. A connection that is lost is opened again, and what the lost answer was is looked up, for as long as a write may
    take; a database that this store has never reached is not waited for. Whoever drives a run renews its lease when it
    looks for a stop, so a long call does not lose it.

    Args:
        address: As libpq reads it: `postgresql://user@host/database`; the password is better kept in PGPASSWORD or
            ~/.pgpass. It is shown nowhere.
        save_seconds: The longest that a write or a read may take; for a write `SaveTimeout` is raised beyond it, and it may
            yet be written.
        lease_seconds: How long a run counts as driven after its driver's last sign of life where its owner cannot be looked
            at; by the server's clock.

    Raises:
        ConfigError: When the address is none.
    """

    def __init__(self, address: str, *, save_seconds: float = SAVE_SECONDS, lease_seconds: float = LEASE_SECONDS) -> None:
        self._address = read_address(address)
        self._save_seconds, self._lease_seconds = save_seconds, lease_seconds
        known, wait_seconds = _Known(), save_seconds * WAIT_SHARE
        self._writer = Lane(_Database("write", self._address, known, wait_seconds))
        self._reader = Lane(_Database("look", self._address, known, wait_seconds))
        for lane in (self._writer, self._reader):
            weakref.finalize(self, lane.abandon).atexit = False

    def __repr__(self) -> str:
        return f"PostgresStore({self._address.place!r})"

    def __str__(self) -> str:
        return self._address.place

    async def create(self, run_id: str, owner: str, bodies: Sequence[bytes], summary: Summary) -> int:
        return await self._write(Create(run_id, owner, bodies, encode_summary(summary), self._lease_seconds))

    async def restore(self, run_id: str, epoch: int, entries: Sequence[Entry], summary: Summary) -> None:
        await self._write(Restore(run_id, epoch, entries, encode_summary(summary)))

    async def take(self, run_id: str, owner: str) -> int:
        return await self._write(Take(run_id, owner, self._lease_seconds))

    async def append(self, run_id: str, epoch: int, bodies: Sequence[bytes], summary: Summary) -> int:
        return await self._write(Append(run_id, epoch, bodies, encode_summary(summary), self._lease_seconds))

    async def release(self, run_id: str, epoch: int) -> None:
        await self._write(Release(run_id, epoch))

    async def ask_stop(self, run_id: str, cause: bytes) -> int:
        return await self._write(AskStop(run_id, cause))

    async def asked_to_stop(self, run_id: str, epoch: int) -> bytes | None:
        return await self._look(AskedToStop(run_id, epoch, self._lease_seconds))

    async def delete(self, run_id: str, epoch: int) -> None:
        await self._write(Delete(run_id, epoch))

    async def compact(self) -> int:
        """Have the server reuse the room of deleted runs; returns the bytes that it gave back to its disk at once.

        Raises:
            JournalError: When it cannot be reached, or refuses.
        """
        return await call_in_thread(_compact, self._address, self._save_seconds)

    async def read(self, run_id: str, after: int = 0) -> list[Entry]:
        return await self._look(Read(run_id, after))

    async def runs(self, limit: int = 50) -> list[RunRow]:
        return await self._look(Runs("", limit))

    async def find(self, prefix: str) -> str:
        return await self._look(Find(prefix))

    async def aclose(self) -> None:
        """Write what waits, close the connections, and end the threads, although the caller is being stopped.

        Raises:
            SaveTimeout: When that took longer than a write may. It goes on by itself.
        """
        await finish(self._save_seconds, call_in_thread, close_in_turn, (self._reader, self._writer))

    async def _write(self, asked: Asked[T]) -> T:
        seconds = self._save_seconds
        return cast(T, await finish(seconds, ask, self._writer, asked, seconds * WAIT_SHARE))

    async def _look(self, asked: Asked[T]) -> T:
        return cast(T, await ask(self._reader, asked, self._save_seconds * WAIT_SHARE))


@dataclass
class _Known:
    """What both lanes of a store know.

    Attributes:
        was_there: Whether the database was ever reached.
    """

    drives: Drives = field(default_factory=dict)
    was_there: bool = False


class _Database:
    """What the lanes know of Postgres. A job's work is an `Asked`."""

    def __init__(self, task: str, address: Address, known: _Known, wait_seconds: float) -> None:
        self._task, self._address, self._known, self._wait_seconds = task, address, known, wait_seconds

    @property
    def name(self) -> str:
        return f"{self._task} {self._address.place}"

    def connect(self) -> Connection:
        connection = connect(self._address, self._wait_seconds)
        self._known.was_there = True
        return connection

    def check(self, connection: Connection) -> None: ...

    def transact(self, connection: Connection, jobs: Jobs) -> list[Any]:
        for job in jobs:
            job.work.in_doubt = job.in_doubt
        connection.until = max(min(job.until for job in jobs), time.monotonic() + LEAST_SECONDS)
        try:
            return self._done(connection, jobs)
        except BaseException:
            for job in jobs:  # what was counted on the way is not true
                if (driven := self._known.drives.get(job.work.run_id)) is not None:
                    driven.entries = None
            raise

    def _done(self, connection: Connection, jobs: Jobs) -> list[Any]:
        groups = list(_groups(jobs))
        at_once = len(jobs) == 1 or (len(groups) == 1 and groups[0][0].work.together)
        answers: dict[int, Any] = {}
        with nullcontext() if at_once else connection.transaction():
            for group in groups:
                asked = [job.work for job in group]
                results = type(asked[0]).do(connection, self._known.drives, asked)
                answers |= {id(job): result for job, result in zip(group, results, strict=True)}
        return [answers[id(job)] for job in jobs]

    def undo(self, connection: Connection, error: Exception) -> bool:
        """A transaction is rolled back by now."""
        return not connection.closed

    def remedy(self, error: Exception) -> Remedy:
        remedy = remedy_for(error)
        return "refuse" if remedy == "again" and not self._known.was_there else remedy

    def explained(self, error: Exception) -> Exception:
        return explained(error, self._address)

    def disconnect(self, connection: Connection) -> None:
        connection.close()


def _groups(jobs: Jobs) -> Iterator[list[Job[Any]]]:
    """The jobs in groups that are done one after the other: each of one kind, and no run twice; a run's jobs in order."""
    left = list(jobs)
    while left:
        first: dict[str, Job[Any]] = {}
        left = [job for job in left if first.setdefault(job.work.run_id, job) is not job]
        kinds: dict[type, list[Job[Any]]] = {}
        for job in first.values():
            kinds.setdefault(type(job.work), []).append(job)
        yield from kinds.values()


def _compact(address: Address, wait_seconds: float) -> int:
    size = "SELECT pg_total_relation_size('heaveto_run') + pg_total_relation_size('heaveto_entry')"
    try:
        with closing(connect(address, wait_seconds)) as connection:
            connection.execute("SET statement_timeout = 0")
            connection.until = float("inf")
            before = connection.execute(size).fetchone()
            connection.execute("VACUUM heaveto_run, heaveto_entry")
            after = connection.execute(size).fetchone()
    except psycopg.Error as error:
        raise explained(error, address) from error
    return int(before[0] - after[0]) if before and after else 0
