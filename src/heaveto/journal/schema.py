"""The journal's file: its tables, its format, and how it is made and opened.

- A file is made whole under another name and then linked into place, so nobody ever sees half a journal, two processes
  may begin at once, and a file that is empty has lost something.
- A file that is not ours, or newer than we are, is found out before anything of it is changed; an older one is migrated.
- An entry's key is its run's number and its seq in one integer: one tree to write to, and a run's entries lie together.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

from ..errors import JournalDamaged, JournalNewer
from .problems import explained

__all__ = ["APPLICATION_ID", "FORMAT", "Opener", "compact", "connect", "open_file", "place"]

APPLICATION_ID = 0x6876746F  # "hvto"
FORMAT = 2
_SEQ_BITS = 32  # of an entry's key; above them is the number of its run

Opener: TypeAlias = Callable[[str, float], sqlite3.Connection]

_TABLES = f"""
PRAGMA journal_mode = WAL;
BEGIN;
CREATE TABLE run (
    number  INTEGER PRIMARY KEY,
    run_id  TEXT NOT NULL UNIQUE,
    created REAL NOT NULL,     -- seconds since 1970
    updated REAL NOT NULL,
    epoch   INTEGER NOT NULL,
    owner   TEXT NOT NULL,     -- empty: nobody drives it
    entries INTEGER NOT NULL,
    summary BLOB NOT NULL,     -- JSON
    stop    BLOB,              -- the cause that somebody asks it to stop with, JSON
    stop_epoch INTEGER         -- of the driver that is asked
);
CREATE INDEX run_by_update ON run (updated);
CREATE TABLE entry (
    place   INTEGER PRIMARY KEY,  -- run.number << {_SEQ_BITS} | seq
    at      REAL NOT NULL,
    body    BLOB NOT NULL
);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT};
COMMIT;
"""

# What makes a file of a format into one of the next.
_MIGRATIONS = {
    1: ("ALTER TABLE run ADD COLUMN stop BLOB", "ALTER TABLE run ADD COLUMN stop_epoch INTEGER"),
}

_SETTINGS = (
    "PRAGMA synchronous = FULL",  # NORMAL loses acknowledged records at a power loss
    "PRAGMA fullfsync = ON",  # macOS: plain fsync leaves them in the drive's cache
    "PRAGMA checkpoint_fullfsync = ON",
)


def place(number: int, seq: int) -> int:
    """The key of a run's entry."""
    return number << _SEQ_BITS | seq


def open_file(address: str, busy_seconds: float) -> sqlite3.Connection:
    """A connection to a file. Its transactions are begun by hand, and any thread may use it.

    Args:
        address: As a URI.
    """
    return sqlite3.connect(address, uri=True, timeout=busy_seconds, isolation_level=None, check_same_thread=False)


def connect(path: Path, busy_seconds: float, open_file: Opener = open_file) -> sqlite3.Connection:
    """Open the journal, and make it where there is none.

    Args:
        busy_seconds: How long to wait while another process writes.
        open_file: Makes the connections.

    Raises:
        JournalDamaged: When the file is no journal. It is left as it is.
        JournalNewer: When a newer version made it. It is left as it is.
        OSError, sqlite3.Error: When the file or its folder cannot be used.
    """
    _make_sure(path, open_file)
    connection = open_file(_address(path), busy_seconds)
    try:
        _check_format(connection, path)
        _check_size(connection, path)
        for setting in _SETTINGS:
            connection.execute(setting)
        _migrate(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def compact(path: Path, busy_seconds: float) -> int:
    """Write the file anew without what was deleted, and its log into it; returns the bytes that this freed.

    Raises:
        JournalError: When the file cannot be used or written.
    """
    files = [path, path.with_name(f"{path.name}-wal")]
    before = sum(file.stat().st_size for file in files if file.exists())
    try:
        with closing(connect(path, busy_seconds)) as connection:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except (OSError, UnicodeError, sqlite3.Error) as error:
        raise explained(error, path) from error
    return before - sum(file.stat().st_size for file in files if file.exists())


def _address(path: Path) -> str:
    return f"{path.absolute().as_uri()}?mode=rw"  # never makes an empty file


def _make_sure(path: Path, open_file: Opener) -> None:
    try:
        there = path.stat()
    except FileNotFoundError:
        _make(path, open_file)
        return
    if not stat.S_ISREG(there.st_mode):
        what = "a folder; name a file in it" if stat.S_ISDIR(there.st_mode) else "no ordinary file; name another one"
        raise JournalDamaged(str(path), f"it is {what}")
    if there.st_size == 0:
        raise JournalDamaged(str(path), "the file is empty; restore it from a copy, or remove it to begin a new journal")


def _check_format(connection: sqlite3.Connection, path: Path) -> None:
    application, version = _number(connection, "application_id"), _number(connection, "user_version")
    if application != APPLICATION_ID or version < 1:
        raise JournalDamaged(str(path), "it is another program's database; name another file")
    if version > FORMAT:
        error = JournalNewer(version, FORMAT)
        error.add_note(f"in {path}")
        raise error


def _migrate(connection: sqlite3.Connection) -> None:
    """Bring an older file up to this format, all or nothing; of several processes one does it."""
    if _number(connection, "user_version") == FORMAT:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for version in range(_number(connection, "user_version"), FORMAT):
            for statement in _MIGRATIONS[version]:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _check_size(connection: sqlite3.Connection, path: Path) -> None:
    """SQLite takes a page that is cut for one that ends in zeros. Where there is a log, it has what the file lacks."""
    log = path.with_name(f"{path.name}-wal")
    if (not log.exists() or log.stat().st_size == 0) and path.stat().st_size % _number(connection, "page_size"):
        raise JournalDamaged(str(path), "the file is cut; restore it from a copy, or move it away to begin a new journal")


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])


def _make(path: Path, open_file: Opener) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _refuse_leftovers(path)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))  # SQLite gives its other files the same mode
    try:
        with closing(open_file(_address(draft), 0.0)) as connection:
            connection.executescript(_TABLES)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # closing does it too, but says nothing of a full disk
        try:
            os.link(draft, path)
        except FileExistsError:
            return  # another process was first
        for folder in (path.parent, path.parent.parent):
            _sync(folder)
    finally:
        for left in ("", "-wal", "-shm"):  # the latter two where the disk was full
            draft.with_name(f"{draft.name}{left}").unlink(missing_ok=True)


def _refuse_leftovers(path: Path) -> None:
    """SQLite would play the log of a file that was removed into the new one."""
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and not path.exists():
        raise JournalDamaged(
            str(path), f"the file is gone and its log is there; put it back, or remove {log.name} to begin a new journal"
        )


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
