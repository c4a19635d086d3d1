"""Threads that own a connection, and the group commit.

- All jobs that wait are one transaction. Nobody hears of success before it is on disk.
- Where anything in it goes wrong, refusals included, all of it is undone and each job is done by itself: so a job fails
  for its own reasons alone, and a failed one has written nothing.
- After an error of SQLite's the connection is thrown away; the next job opens another.
- SQLite cannot be carried over a fork. So a fork waits until no thread is at work and finds every connection closed;
  parent and child open theirs again, the child with threads of its own.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Generic, TypeAlias, TypeVar

from ..errors import JournalError
from ..scopes import Handoff
from .problems import explained, is_busy
from .schema import connect

__all__ = ["Job", "Lane", "look", "write"]

T = TypeVar("T")

_starting = threading.Lock()  # held while a thread starts, and during a fork
_at_work: set[_ConnectionThread] = set()


class Job(Generic[T]):
    """One piece of work with a connection, and the way of its result back to the loop that waits for it."""

    def __init__(self, work: Callable[[sqlite3.Connection], T]) -> None:
        self.work = work
        self.handoff: Handoff[T] = Handoff()


Jobs: TypeAlias = Sequence[Job[Any]]


def write(connection: sqlite3.Connection, jobs: Jobs) -> list[Any]:
    """The results of all jobs, once they are on disk."""
    connection.execute("BEGIN IMMEDIATE")
    results = [job.work(connection) for job in jobs]
    connection.execute("COMMIT")
    return results


def look(connection: sqlite3.Connection, jobs: Jobs) -> list[Any]:
    """The results of all jobs, which only read."""
    return [job.work(connection) for job in jobs]


class Lane:
    """Jobs done one after the other in a thread, which starts with the first one and ends with `close`.

    Args:
        transact: Does several jobs at once: `write` or `look`.
        busy_seconds: How long to wait while another process writes.
    """

    def __init__(self, path: Path, transact: Callable[[sqlite3.Connection, Jobs], list[Any]], busy_seconds: float) -> None:
        self._path, self._transact, self._busy_seconds = path, transact, busy_seconds
        self._thread: _ConnectionThread | None = None

    def put(self, job: Job[Any]) -> None:
        with _starting:
            thread = self._thread
            if thread is None or thread.pid != os.getpid():
                thread = self._thread = _ConnectionThread(self._path, self._transact, self._busy_seconds)
            thread.jobs.put(job)

    def close(self) -> Callable[[], None]:
        """Have the thread end after the jobs that it has; returns a function that waits for that."""
        with _starting:
            thread, self._thread = self._thread, None
        if thread is None or thread.pid != os.getpid():
            return _nothing
        thread.jobs.put(None)
        return thread.join

    def abandon(self) -> None:
        """The same for a lane that nobody can use any more. Takes no lock: a garbage collection may come at any time."""
        if self._thread is not None:
            self._thread.jobs.put(None)


class _ConnectionThread(threading.Thread):
    """The thread of a lane, from its first job to its last."""

    def __init__(self, path: Path, transact: Callable[[sqlite3.Connection, Jobs], list[Any]], busy_seconds: float) -> None:
        super().__init__(name=f"heaveto:{transact.__name__} {path.name}", daemon=True)
        self._path, self._transact, self._busy_seconds = path, transact, busy_seconds
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._in_use = threading.Lock()  # the connection, between this thread and a fork in another
        self.jobs: SimpleQueue[Job[Any] | None] = SimpleQueue()
        self.pid = os.getpid()
        _at_work.add(self)
        self.start()

    def run(self) -> None:
        while self._serve():
            pass
        with _starting:
            _at_work.discard(self)

    def _serve(self) -> bool:
        """Do all jobs that wait; whether more may come."""
        waiting = [self.jobs.get()]
        while not self.jobs.empty():
            waiting.append(self.jobs.get())
        with self._in_use:
            if jobs := [job for job in waiting if job is not None]:
                self._do(jobs)
            if None not in waiting:
                return True
            self.disconnect()
            return False

    def _do(self, jobs: Jobs) -> None:
        try:
            connection = self._connected()
        except Exception as error:  # boundary: it is raised where the jobs are waited for
            self._refuse(jobs, error)
            return
        try:
            results = self._transact(connection, jobs)
        except Exception as error:  # boundary: so is this one
            self._undo(connection, error)
            if len(jobs) == 1 or is_busy(error):
                self._refuse(jobs, error)
                return
            for job in jobs:
                self._do([job])
            return
        for job, result in zip(jobs, results, strict=True):
            job.handoff.deliver(result)

    def _refuse(self, jobs: Jobs, error: Exception) -> None:
        for job in jobs:
            job.handoff.fail(explained(error, self._path))

    def _undo(self, connection: sqlite3.Connection, error: Exception) -> None:
        if isinstance(error, sqlite3.Error):
            self.disconnect()
        else:
            connection.rollback()

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = connect(self._path, self._busy_seconds)
            self._file = _identity(self._path)
        elif _identity(self._path) != self._file:
            self.disconnect()
            raise JournalError(f"the journal {self._path} was removed or replaced while it was in use")
        return self._connection

    def disconnect(self) -> None:
        """Close the connection; the last one moves the log into the file. What is not moved is moved at the next opening."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def suspend(self) -> None:
        """Wait until the thread is not at work, and keep it so, without a connection."""
        self._in_use.acquire()
        self.disconnect()

    def go_on(self) -> None:
        self._in_use.release()


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file it is: SQLite would go on writing into one that was removed."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _nothing() -> None: ...


def _before_fork() -> None:
    _starting.acquire()
    for thread in _at_work:
        thread.suspend()


def _after_fork_in_parent() -> None:
    for thread in _at_work:
        thread.go_on()
    _starting.release()


def _after_fork_in_child() -> None:
    _at_work.clear()
    _starting.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
