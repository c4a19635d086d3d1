"""A disk that keeps account of what SQLite does to it, and goes wrong where a test wants it to.

The store runs on it with its own statements, through APSW, whose files can be of one's own. APSW brings a SQLite of its own.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import apsw

__all__ = ["Disk", "Op", "OpKind", "Trouble"]

OpKind: TypeAlias = Literal["write", "sync", "truncate", "delete", "mark"]
Trouble: TypeAlias = Literal["full", "io"]

_ERRORS: dict[Trouble, type[apsw.Error]] = {"full": apsw.FullError, "io": apsw.IOError}
_names = (f"heaveto-{number}" for number in itertools.count())


class Op(NamedTuple):
    """One thing that was done to a file.

    Attributes:
        file: Its name; that of the draft of a journal is the journal's own.
        at: The offset of a write, the size after a truncate.
        mark: What a test noted: not done to a file at all.
    """

    kind: OpKind
    file: str = ""
    at: int = 0
    data: bytes = b""
    mark: Any = None


Choose: TypeAlias = Callable[[int, Op], "Trouble | None"]


class Disk:
    """Opens connections whose every write is noted; `open_file` is what the store takes.

    Args:
        choose: Given each write, sync and truncate, with its number from 1, says what goes wrong with it.
        instead: Statements that are replaced by others.
        settings: Executed on each new connection.
    """

    def __init__(
        self, choose: Choose | None = None, *, instead: Mapping[str, str] | None = None, settings: Iterable[str] = ()
    ) -> None:
        self.ops: list[Op] = []
        self.choose, self._instead, self._settings = choose, instead or {}, settings
        self._vfs = _Vfs(next(_names), self)
        self.writes = 0

    def open_file(self, address: str, busy_seconds: float) -> sqlite3.Connection:
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
        with _as_sqlite3():
            connection = apsw.Connection(address, vfs=self._vfs.name, flags=flags)
            connection.set_busy_timeout(int(busy_seconds * 1000))
            for setting in self._settings:
                connection.execute(setting)
        return cast(sqlite3.Connection, _Connection(connection, self._instead))

    def mark(self, mark: Any) -> None:
        """Note that something was told to somebody."""
        self.ops.append(Op("mark", mark=mark))

    def take(self, op: Op) -> None:
        self.writes += 1
        trouble = self.choose(self.writes, op) if self.choose is not None else None
        if trouble is not None:
            raise _ERRORS[trouble]
        self.ops.append(op)


class _Vfs(apsw.VFS):
    def __init__(self, name: str, disk: Disk) -> None:
        self.name, self._disk = name, disk
        super().__init__(name, "")

    def xOpen(self, name: Any, flags: Any) -> apsw.VFSFile:  # noqa: N802 - SQLite's name
        return _File(name, flags, self._disk)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        self._disk.ops.append(Op("delete", _file_of(filename)))

    def excepthook(self, *_: Any) -> None:
        """Where SQLite does not hand an error on, it is none."""


class _File(apsw.VFSFile):
    def __init__(self, name: Any, flags: Any, disk: Disk) -> None:
        self._file = _file_of(name.filename() if isinstance(name, apsw.URIFilename) else name or "")
        self._disk = disk
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._disk.take(Op("write", self._file, offset, bytes(data)))
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.take(Op("sync", self._file))
        super().xSync(flags)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._disk.take(Op("truncate", self._file, newsize))
        super().xTruncate(newsize)

    def excepthook(self, *_: Any) -> None:
        """As above."""


def _file_of(path: str) -> str:
    name = Path(path).name
    if not name.startswith("."):
        return name
    parts = name[1:].rsplit(".", 1)  # of the draft: the journal's name, then a few digits and what SQLite adds
    kind = parts[1].partition("-")[2]
    return f"draft-{kind}" if kind else parts[0]


# --- APSW's connection with the names of sqlite3's ------------------------------------------------------------------


@contextmanager
def _as_sqlite3() -> Iterator[None]:
    """APSW's errors are raised as those that the store knows."""
    try:
        yield
    except apsw.Error as error:
        code = getattr(error, "extendedresult", 0) or getattr(error, "result", 0) or apsw.SQLITE_ERROR
        if isinstance(error, apsw.FullError):
            code = apsw.SQLITE_FULL
        elif isinstance(error, apsw.IOError) and code & 0xFF != apsw.SQLITE_IOERR:
            code = apsw.SQLITE_IOERR
        raised = sqlite3.OperationalError(str(error) or type(error).__name__)
        raised.sqlite_errorcode = code
        raise raised from error


class _Cursor:
    def __init__(self, cursor: apsw.Cursor, connection: apsw.Connection) -> None:
        self._cursor, self._connection = cursor, connection

    @property
    def lastrowid(self) -> int:
        return self._connection.last_insert_rowid()

    def fetchone(self) -> Any:
        with _as_sqlite3():
            return self._cursor.fetchone()

    def fetchall(self) -> list[Any]:
        with _as_sqlite3():
            return self._cursor.fetchall()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.fetchall())


class _Connection:
    """What the store uses of a connection."""

    def __init__(self, connection: apsw.Connection, instead: Mapping[str, str]) -> None:
        self._connection, self._instead = connection, instead

    def execute(self, statement: str, values: Any = ()) -> _Cursor:
        with _as_sqlite3():
            cursor = self._connection.execute(self._instead.get(statement, statement), values or None)
        return _Cursor(cursor, self._connection)

    def executemany(self, statement: str, rows: Any) -> _Cursor:
        with _as_sqlite3():
            return _Cursor(self._connection.executemany(statement, rows), self._connection)

    def executescript(self, script: str) -> None:
        self.execute(script).fetchall()  # a statement of it may have a row to tell

    def rollback(self) -> None:
        if self._connection.in_transaction:
            self.execute("ROLLBACK")

    def close(self) -> None:
        """As sqlite3's: that the log could not be moved into the file is no error, the next to open it moves it."""
        with suppress(apsw.Error):
            self._connection.close(True)
