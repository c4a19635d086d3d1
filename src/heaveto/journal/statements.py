"""What the SQLite store does within one transaction: plain functions of a connection, which decide first and then write."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from ..errors import Fenced, JournalError, RunNotFound, RunTaken
from ..scopes import wall_time
from .owner import describe, holds
from .schema import place
from .store import Entry, RunRow, chosen, listed

__all__ = [
    "append",
    "ask_stop",
    "asked_to_stop",
    "beat",
    "create",
    "delete",
    "find",
    "read",
    "release",
    "restore",
    "runs",
    "take",
]

_COLUMNS = "run_id, created, updated, epoch, owner, entries, summary"
_AFTER_ALL = "\U0010ffff"  # sorts behind every character that an id can have


def create(connection: sqlite3.Connection, run_id: str, owner: str, bodies: Sequence[bytes], summary: bytes) -> int:
    if _find_run(connection, "number", run_id) is not None:
        raise JournalError(f"there is a run {run_id} already")
    now = wall_time()
    number = connection.execute(
        "INSERT INTO run (run_id, created, updated, epoch, owner, entries, summary) VALUES (?, ?, ?, 1, ?, ?, ?)",
        (run_id, now, now, owner, len(bodies), summary),
    ).lastrowid
    assert number is not None  # noqa: S101 - an INSERT has one
    _insert(connection, number, 1, now, bodies)
    return 1


def restore(connection: sqlite3.Connection, run_id: str, epoch: int, entries: Sequence[Entry], summary: bytes) -> None:
    if _find_run(connection, "number", run_id) is not None:
        raise JournalError(f"there is a run {run_id} already")
    number = connection.execute(
        "INSERT INTO run (run_id, created, updated, epoch, owner, entries, summary) VALUES (?, ?, ?, ?, '', ?, ?)",
        (run_id, entries[0].at, entries[-1].at, epoch, len(entries), summary),
    ).lastrowid
    assert number is not None  # noqa: S101 - an INSERT has one
    first = place(number, 1)
    connection.executemany(
        "INSERT INTO entry (place, at, body) VALUES (?, ?, ?)",
        [(key, entry.at, entry.body) for key, entry in enumerate(entries, first)],
    )


def take(connection: sqlite3.Connection, run_id: str, owner: str, lease_seconds: float) -> int:
    number, epoch, holder, updated = _get_run(connection, "number, epoch, owner, updated", run_id)
    now = wall_time()
    if holds(holder, updated, now, lease_seconds):
        raise RunTaken(run_id, describe(holder))
    connection.execute("UPDATE run SET owner = ?, epoch = ?, updated = ? WHERE number = ?", (owner, epoch + 1, now, number))
    return int(epoch) + 1


def append(connection: sqlite3.Connection, run_id: str, epoch: int, bodies: Sequence[bytes], summary: bytes) -> int:
    number, current, entries = _get_run(connection, "number, epoch, entries", run_id)
    if current != epoch:
        raise Fenced(run_id)
    now, last = wall_time(), int(entries) + len(bodies)
    _insert(connection, number, entries + 1, now, bodies)
    connection.execute("UPDATE run SET updated = ?, entries = ?, summary = ? WHERE number = ?", (now, last, summary, number))
    return last


def release(connection: sqlite3.Connection, run_id: str, epoch: int) -> None:
    connection.execute("UPDATE run SET owner = '' WHERE run_id = ? AND epoch = ?", (run_id, epoch))


def ask_stop(connection: sqlite3.Connection, run_id: str, cause: bytes) -> int:
    epoch, holder = _get_run(connection, "epoch, owner", run_id)
    if not holder:
        return 0
    connection.execute("UPDATE run SET stop = ?, stop_epoch = ? WHERE run_id = ?", (cause, epoch, run_id))
    return int(epoch)


def asked_to_stop(
    connection: sqlite3.Connection, run_id: str, epoch: int, quiet_seconds: float
) -> tuple[bytes | None, bool]:
    """The cause; and whether this driver's run has been quiet for so long that a sign of life is due."""
    row = connection.execute(
        "SELECT updated, stop, stop_epoch FROM run WHERE run_id = ? AND epoch = ?", (run_id, epoch)
    ).fetchone()
    if row is None:
        return None, False
    updated, stop, stop_epoch = row
    return (bytes(stop) if stop_epoch == epoch else None), wall_time() - updated > quiet_seconds


def beat(connection: sqlite3.Connection, run_id: str, epoch: int) -> None:
    connection.execute("UPDATE run SET updated = ? WHERE run_id = ? AND epoch = ?", (wall_time(), run_id, epoch))


def delete(connection: sqlite3.Connection, run_id: str, epoch: int) -> None:
    number, current = _get_run(connection, "number, epoch", run_id)
    if current != epoch:
        raise Fenced(run_id)
    connection.execute("DELETE FROM entry WHERE place >= ? AND place < ?", (place(number, 0), place(number + 1, 0)))
    connection.execute("DELETE FROM run WHERE number = ?", (number,))


def read(connection: sqlite3.Connection, run_id: str, after: int) -> list[Entry]:
    (number,) = _get_run(connection, "number", run_id)
    first = place(number, 0)
    rows = connection.execute(
        "SELECT place, at, body FROM entry WHERE place > ? AND place < ? ORDER BY place",
        (first + max(0, after), place(number + 1, 0)),
    )
    return [Entry(key - first, at, body) for key, at, body in rows]


def runs(connection: sqlite3.Connection, limit: int) -> list[RunRow]:
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM run ORDER BY updated DESC, number DESC LIMIT ?",  # noqa: S608 - our own constant
        (max(0, limit),),
    )
    return [listed(*row) for row in rows]


def find(connection: sqlite3.Connection, prefix: str) -> str:
    if not prefix:
        return _last_touched(connection)
    rows = connection.execute(
        "SELECT run_id FROM run WHERE run_id >= ? AND run_id < ? ORDER BY run_id LIMIT 2", (prefix, prefix + _AFTER_ALL)
    ).fetchall()
    return chosen(prefix, [run_id for (run_id,) in rows])


def _last_touched(connection: sqlite3.Connection) -> str:
    row = connection.execute("SELECT run_id FROM run ORDER BY updated DESC, number DESC LIMIT 1").fetchone()
    if row is None:
        raise RunNotFound("")
    return str(row[0])


def _find_run(connection: sqlite3.Connection, columns: str, run_id: str) -> tuple[Any, ...] | None:
    row: tuple[Any, ...] | None = connection.execute(
        f"SELECT {columns} FROM run WHERE run_id = ?",  # noqa: S608 - the columns are our own text
        (run_id,),
    ).fetchone()
    return row


def _get_run(connection: sqlite3.Connection, columns: str, run_id: str) -> tuple[Any, ...]:
    row = _find_run(connection, columns, run_id)
    if row is None:
        raise RunNotFound(run_id)
    return row


def _insert(connection: sqlite3.Connection, number: int, seq: int, at: float, bodies: Sequence[bytes]) -> None:
    first = place(number, seq)
    connection.executemany(
        "INSERT INTO entry (place, at, body) VALUES (?, ?, ?)",
        [(key, at, body) for key, body in enumerate(bodies, first)],
    )
