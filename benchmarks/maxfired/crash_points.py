"""What outlives a killed process, and the points at which it is killed: around every write of a database and every charge.

A database is SQLite, whoever writes it: each of its commits that has something to write is a point before and one after.
"""

from __future__ import annotations

import os
import signal
import sqlite3
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

__all__ = ["Outside"]

CHARGES, ASKED = "charges", "asked"


class Outside:
    """The bank and the model's side, as one process sees them.

    Args:
        kill_at: The point at which this process kills itself, from 1; 0 for none.
    """

    def __init__(self, folder: Path, kill_at: int = 0) -> None:
        self.folder, self._kill_at, self._lock = folder, kill_at, Lock()
        self.points = 0

    def reach(self) -> None:
        """A point."""
        with self._lock:
            self.points += 1
            if self.points == self._kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    def charge(self, reference: str = "") -> str:
        """Charge the customer. The bank does it as often as it is told to."""
        self.reach()
        self._write(CHARGES, reference)
        self.reach()
        return "charged"

    def charges(self) -> list[str]:
        """The references of the charges so far."""
        return self._read(CHARGES)

    def asked(self) -> int:
        """How often the model was asked."""
        return len(self._read(ASKED))

    def note_asked(self) -> None:
        self._write(ASKED, "")

    def save(self, name: str, text: str) -> None:
        """Keep a file, whole or not at all."""
        self.reach()
        new = self.folder / f"{name}.new"
        new.write_text(text)
        new.replace(self.folder / name)
        self.reach()

    def watch_databases(self) -> None:
        """Make points of the commits of every SQLite database that is opened from now on."""
        reach = self.reach

        class Watched(sqlite3.Connection):
            def commit(self) -> None:
                if not self.in_transaction:
                    super().commit()
                    return
                reach()
                super().commit()
                reach()

            def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
                commits = sql.strip().upper() == "COMMIT"
                if commits:
                    reach()
                cursor = super().execute(sql, *arguments)
                if commits:
                    reach()
                return cursor

        connect: Any = partial(sqlite3.connect, factory=Watched)
        sqlite3.connect = sqlite3.dbapi2.connect = connect  # type: ignore[attr-defined]

    def _write(self, name: str, line: str) -> None:
        with (self.folder / name).open("a") as file:
            file.write(f"{line}\n")

    def _read(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []
