"""A SQLite file behind a lane: all jobs that wait are one transaction, and after an error of SQLite's the connection is new.

Refusals undo the whole transaction too, for a refused job has no way to take back what it wrote alone.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from ..errors import JournalError
from .lanes import Jobs, Remedy
from .problems import explained, is_busy
from .schema import Opener, connect, open_file

__all__ = ["SqliteFile", "look", "write"]

Transact: TypeAlias = Callable[[sqlite3.Connection, Jobs], list[Any]]


def write(connection: sqlite3.Connection, jobs: Jobs) -> list[Any]:
    """The results of all jobs, once they are on disk."""
    connection.execute("BEGIN IMMEDIATE")
    results = [job.work(connection) for job in jobs]
    connection.execute("COMMIT")
    return results


def look(connection: sqlite3.Connection, jobs: Jobs) -> list[Any]:
    """The results of all jobs, which only read."""
    return [job.work(connection) for job in jobs]


class SqliteFile:
    """The database of a lane. A job's work is a function of the connection.

    Args:
        transact: Does several jobs at once: `write` or `look`.
        busy_seconds: How long to wait while another process writes.
        open_file: Makes its connections.
    """

    def __init__(self, path: Path, transact: Transact, busy_seconds: float, open_file: Opener = open_file) -> None:
        self.path, self._transact, self._busy_seconds, self._open_file = path, transact, busy_seconds, open_file
        self._identity: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        return f"{self._transact.__name__} {self.path.name}"

    def connect(self) -> sqlite3.Connection:
        connection = connect(self.path, self._busy_seconds, self._open_file)
        self._identity = _identity(self.path)
        return connection

    def check(self, connection: sqlite3.Connection) -> None:
        if _identity(self.path) != self._identity:
            raise JournalError(f"the journal {self.path} was removed or replaced while it was in use")

    def transact(self, connection: sqlite3.Connection, jobs: Jobs) -> list[Any]:
        return self._transact(connection, jobs)

    def undo(self, connection: sqlite3.Connection, error: Exception) -> bool:
        if isinstance(error, sqlite3.Error):
            return False
        try:
            connection.rollback()
        except sqlite3.Error:  # closing it takes back what it wrote
            return False
        return True

    def remedy(self, error: Exception) -> Remedy:
        return "refuse" if is_busy(error) else "one by one"

    def explained(self, error: Exception) -> Exception:
        return explained(error, self.path)

    def disconnect(self, connection: sqlite3.Connection) -> None:
        """The last one moves the log into the file. What is not moved is moved at the next opening."""
        connection.close()


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file it is: SQLite would go on writing into one that was removed."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
