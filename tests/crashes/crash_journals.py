"""The journals whose processes are killed: a SQLite file in the run's folder, or where `CRASH_POSTGRES` names a server, a
schema there, whose name is in the folder.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from crash_outside import Outside

from heaveto.journal import Entry, SqliteStore

if TYPE_CHECKING:
    from crash_postgres import KilledPostgres

__all__ = ["CRASH_POSTGRES", "KilledStore", "begin_journal", "copy_world", "open_journal", "stored"]

T = TypeVar("T")

CRASH_POSTGRES = "HEAVETO_CRASH_POSTGRES"  # the address of a server; by the environment, for it is for forked processes too
JOURNAL, SCHEMA = "journal.db", "schema"


class KilledSqlite(SqliteStore):
    """Its process may be killed before each write, in the middle of its transaction, and after it."""

    def __init__(self, path: Path, outside: Outside) -> None:
        super().__init__(path)
        self._outside = outside

    async def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        outside, name = self._outside, getattr(work, "func", work).__name__

        def interrupted(connection: sqlite3.Connection) -> T:
            result = work(connection)
            outside.reach(f"in the transaction of {name}")
            return result

        outside.reach(f"before {name}")
        result = await super()._write(interrupted)
        if name == "append":
            outside.note("acked", number=int(str(result)))
        outside.reach(f"after {name}")
        return result


KilledStore: TypeAlias = "KilledSqlite | KilledPostgres"


def begin_journal(folder: Path) -> None:
    """Make room for an empty journal."""
    if server := os.environ.get(CRASH_POSTGRES):
        from crash_postgres import make_schema

        _name_schema(folder, make_schema(server))


def open_journal(folder: Path, outside: Outside) -> KilledStore:
    if server := os.environ.get(CRASH_POSTGRES):
        from crash_postgres import KilledPostgres

        return KilledPostgres(server, (folder / SCHEMA).read_text(), outside)
    return KilledSqlite(folder / JOURNAL, outside)


def copy_world(folder: Path, to: Path) -> None:
    """The folder with all that was in it, and its journal, once more."""
    shutil.copytree(folder, to)
    if server := os.environ.get(CRASH_POSTGRES):
        from crash_postgres import copy_schema

        for name in to.rglob(SCHEMA):
            _name_schema(name.parent, copy_schema(server, name.read_text()))


def stored(folder: Path) -> list[Entry]:
    """The records, as another program sees them."""
    bodies: Iterable[Any]
    if server := os.environ.get(CRASH_POSTGRES):
        from crash_postgres import bodies_in

        bodies = bodies_in(server, (folder / SCHEMA).read_text())
    elif not (folder / JOURNAL).exists():
        bodies = []
    else:
        with closing(sqlite3.connect(folder / JOURNAL)) as connection:
            bodies = connection.execute("SELECT body FROM entry ORDER BY place").fetchall()
    return [Entry(seq, 0.0, body) for seq, (body,) in enumerate(bodies, 1)]


def _name_schema(folder: Path, name: str) -> None:
    (folder / SCHEMA).write_text(name)
