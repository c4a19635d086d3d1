"""What Postgres and the way to it report, in our errors. An error is asked for its class and code, never for its text."""

from __future__ import annotations

import psycopg
from psycopg import errors as pg

from ..errors import JournalBusy, JournalError, JournalUnreachable
from .lanes import Remedy
from .postgres_address import Address

__all__ = ["Mute", "explained", "remedy_for"]

_GOING = (
    "08",
    "57P01",
    "57P02",
    "57P03",
    "57P05",
    "25P03",
    "53300",
)  # codes, and their beginnings, of who is away for a while
_WAITED = (pg.LockNotAvailable, pg.QueryCanceled)  # for a lock, and for the whole statement
_REMEDIES: dict[type[psycopg.Error], str] = {
    pg.DiskFull: "the server's disk is full; free some space, then resume the run",
    pg.ReadOnlySqlTransaction: "it may only be read; name the primary server (target_session_attrs=read-write finds it)",
    pg.InsufficientPrivilege: "the role lacks a right; let it create tables in its schema, or read and write heaveto's",
    pg.UndefinedTable: "its tables are gone; restore them from a copy, or begin a new journal with another process",
}


class Mute(psycopg.OperationalError):
    """The server has not answered for so long that the connection was given up."""


def remedy_for(error: Exception) -> Remedy:
    """A connection that is gone comes again; who waits for a lock is not helped by waiting once more."""
    if isinstance(error, _WAITED):
        return "refuse"
    return "again" if _is_going(error) else "one by one"


def _is_going(error: Exception) -> bool:
    code: str | None = getattr(error, "sqlstate", None)
    if code is None:  # nobody said it but the network, or libpq
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return code.startswith(_GOING)


def explained(error: Exception, address: Address) -> Exception:
    """The error that a caller gets for one that came up with this database."""
    if isinstance(error, UnicodeEncodeError):
        problem = JournalError(f"a run's id must be text that can be written as UTF-8, not {error.object!a}")
    elif isinstance(error, psycopg.DataError) and error.sqlstate is None:
        problem = JournalError("a run's id must be text without a NUL character")
    elif isinstance(error, psycopg.Error):
        problem = _of_postgres(error, address)
    else:
        return error
    if not _tells(error, address):
        problem.__cause__ = error  # by hand, for it is raised in another thread
    return problem


def _of_postgres(error: psycopg.Error, address: Address) -> JournalError:
    if isinstance(error, pg.LockNotAvailable):
        return JournalBusy(address.place, "another connection")
    text = _text(error, address)
    if _is_going(error) or isinstance(error, pg.QueryCanceled):
        return JournalUnreachable(address.place, text)
    for kind, remedy in _REMEDIES.items():
        if isinstance(error, kind):
            return JournalError(f"the journal {address.place}: {remedy} ({text})")
    return JournalError(f"the journal {address.place}: {text}")


def _text(error: psycopg.Error, address: Address) -> str:
    """What was said, on one line, without what must not be shown."""
    text = "; ".join(line.strip() for line in str(error).splitlines() if line.strip()).rstrip(".")
    for secret in address.secrets:
        text = text.replace(secret, "***")
    return text or type(error).__name__


def _tells(error: BaseException, address: Address) -> bool:
    return any(secret in str(error) for secret in address.secrets)
