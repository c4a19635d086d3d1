"""Threads that own a connection to a database, and the group commit.

- All jobs that wait are done together. Nobody hears of success before it is on disk.
- Where that goes wrong, all of it is undone and each job is done by itself: so a job fails for its own reasons alone, and
  a failed one has written nothing.
- A database that went away is tried again, with pauses, for as long as each job may take. Whether the lost attempt was done
  nobody knows: such a job is `in_doubt`, and its database looks before it does it again.
- A connection cannot be carried over a fork. So a fork waits until no thread is at work and finds every connection closed;
  parent and child open theirs again, the child with threads of its own.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

from ..scopes import Handoff

__all__ = ["Database", "Job", "Jobs", "Lane", "Remedy", "ask", "close_in_turn"]

T = TypeVar("T")
C = TypeVar("C")

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.05, 1.0

Remedy: TypeAlias = Literal["refuse", "one by one", "again"]

_starting = threading.Lock()  # held while a thread starts, and during a fork
_at_work: set[_ConnectionThread[Any]] = set()


class Job(Generic[T]):
    """One piece of work with a connection, and the way of its result back to the loop that waits for it.

    Attributes:
        work: What its database knows how to do.
        until: When it is given up, by the monotonic clock; it has begun by then, or is refused.
        in_doubt: An earlier attempt may have been done.
    """

    def __init__(self, work: Any, seconds: float) -> None:
        self.work = work
        self.until = time.monotonic() + seconds
        self.in_doubt = False
        self.handoff: Handoff[T] = Handoff()


Jobs: TypeAlias = Sequence[Job[Any]]


class Database(Protocol[C]):
    """What a lane knows of the database behind it. All of it is called in the lane's thread."""

    @property
    def name(self) -> str:
        """For the name of the thread."""
        ...

    def connect(self) -> C: ...

    def check(self, connection: C) -> None:
        """Raise when the connection must not be used any more; it is closed then."""
        ...

    def transact(self, connection: C, jobs: Jobs) -> list[Any]:
        """Do the jobs together; for each its result, or the exception that it is refused with."""
        ...

    def undo(self, connection: C, error: Exception) -> bool:
        """Take back what an attempt began; whether the connection can still be used."""
        ...

    def remedy(self, error: Exception) -> Remedy:
        """What to do about the jobs of an attempt that went wrong, or of a connection that cannot be opened."""
        ...

    def explained(self, error: Exception) -> Exception:
        """What the caller gets for it."""
        ...

    def disconnect(self, connection: C) -> None: ...


class Lane(Generic[C]):
    """Jobs done one after the other in a thread, which starts with the first one and ends with `close`."""

    def __init__(self, database: Database[C]) -> None:
        self._database = database
        self._thread: _ConnectionThread[C] | None = None

    def put(self, job: Job[Any]) -> None:
        with _starting:
            thread = self._thread
            if thread is None or thread.pid != os.getpid():
                thread = self._thread = _ConnectionThread(self._database)
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


async def ask(lane: Lane[Any], work: Any, seconds: float) -> Any:
    """Have something done in the lane's thread; its result.

    Args:
        seconds: How long it may be tried.
    """
    job: Job[Any] = Job(work, seconds)
    lane.put(job)
    return await job.handoff.wait()


def close_in_turn(lanes: Sequence[Lane[Any]]) -> None:
    """One after the other: of two connections that close at once, each leaves SQLite's write-ahead log to the other."""
    for lane in lanes:
        lane.close()()


class _ConnectionThread(threading.Thread, Generic[C]):
    """The thread of a lane, from its first job to its last."""

    def __init__(self, database: Database[C]) -> None:
        super().__init__(name=f"heaveto:{database.name}", daemon=True)
        self.database = database
        self._connection: C | None = None
        self._in_use = threading.Lock()  # the connection, between this thread and a fork in another
        self._waiting: list[Job[Any]] = []
        self._pause_seconds = 0.0  # before those that wait are tried again
        self._ending = False
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
        self._gather()
        with self._in_use:
            jobs, self._waiting = self._waiting, []
            if jobs:
                self._do(jobs)
            if self._waiting or not self._ending:
                return True
            self.disconnect()
            return False

    def _gather(self) -> None:
        """Wait until there is something to do; what failed in passing has its pause first."""
        if self._waiting:
            time.sleep(self._pause_seconds * random.uniform(0.5, 1))  # noqa: S311 - so that not all come back at once
        else:
            self._note(self.jobs.get())
        while not self.jobs.empty():
            self._note(self.jobs.get())

    def _note(self, job: Job[Any] | None) -> None:
        if job is None:
            self._ending = True
        else:
            self._waiting.append(job)

    def _do(self, jobs: Jobs) -> None:
        try:
            connection = self._connected()
        except Exception as error:  # boundary: it is raised where the jobs are waited for
            remedy = self.database.remedy(error)
            self._answer(jobs, error, "again" if remedy == "again" else "refuse")
            return
        try:
            results = self.database.transact(connection, jobs)
        except Exception as error:  # boundary: so is this one
            self._undo(connection, error)
            remedy = self.database.remedy(error)
            for job in jobs if remedy == "again" else ():
                job.in_doubt = True
            self._answer(jobs, error, remedy)
            return
        self._pause_seconds = 0.0
        for job, result in zip(jobs, results, strict=True):
            if isinstance(result, Exception):
                job.handoff.fail(result)
            else:
                job.handoff.deliver(result)

    def _answer(self, jobs: Jobs, error: Exception, remedy: Remedy) -> None:
        """Do what can be done about an attempt that went wrong."""
        if remedy == "again":
            self._pause_seconds = min(max(FIRST_PAUSE_SECONDS, 2 * self._pause_seconds), LONGEST_PAUSE_SECONDS)
            soon = time.monotonic() + self._pause_seconds
            self._waiting += [job for job in jobs if job.until > soon]
            jobs = [job for job in jobs if job.until <= soon]
        elif remedy == "one by one" and len(jobs) > 1:
            for job in jobs:
                self._do([job])
            return
        for job in jobs:
            job.handoff.fail(self.database.explained(error))

    def _undo(self, connection: C, error: Exception) -> None:
        if not self.database.undo(connection, error):
            self.disconnect()

    def _connected(self) -> C:
        if self._connection is None:
            self._connection = self.database.connect()
            return self._connection
        try:
            self.database.check(self._connection)
        except BaseException:
            self.disconnect()
            raise
        return self._connection

    def disconnect(self) -> None:
        """Close the connection; the next job opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self.database.disconnect(connection)

    def suspend(self) -> None:
        """Wait until the thread is not at work, and keep it so, without a connection."""
        self._in_use.acquire()
        self.disconnect()

    def go_on(self) -> None:
        self._in_use.release()


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
