"""What SQLite and the file system report, in our errors: what is wrong with which file, and what to do about it."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from ..errors import JournalBusy, JournalDamaged, JournalError

__all__ = ["explained", "is_busy"]

_REMEDIES = {
    sqlite3.SQLITE_FULL: "the disk is full; free some space, then resume the run",
    sqlite3.SQLITE_READONLY: "it may only be read; make the file and its folder writable",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; the file and its folder must be readable and writable",
    sqlite3.SQLITE_PERM: "it cannot be opened; the file and its folder must be readable and writable",
    sqlite3.SQLITE_IOERR: "the disk reports an error; check the disk and its quota, then resume the run",
}
_DAMAGE = {
    sqlite3.SQLITE_CORRUPT: "the file is cut or overwritten; restore it from a copy, or move it away to begin a new journal",
    sqlite3.SQLITE_NOTADB: "it is no journal; move it away, or name another file",
}
_LOCKS = Path("/proc/locks")
LEAST_BYTES = 65_536  # a disk with less room for us is full


def explained(error: Exception, path: Path) -> Exception:
    """The error that a caller gets for one that came up with this file; its cause is the original."""
    if isinstance(error, sqlite3.Error):
        problem = _of_sqlite(error, path)
    elif isinstance(error, UnicodeDecodeError):  # Python's, of what SQLite says of damaged text
        problem = JournalDamaged(str(path), _DAMAGE[sqlite3.SQLITE_CORRUPT])
    elif isinstance(error, UnicodeEncodeError):
        problem = JournalError(f"a run's id must be text that can be written as UTF-8, not {error.object!a}")
    elif isinstance(error, OSError):
        problem = JournalError(f"the journal {path}: {error.strerror or error}; its folder must be readable and writable")
    else:
        return error
    problem.__cause__ = error  # by hand, for it is raised in another thread
    return problem


def is_busy(error: Exception) -> bool:
    """Whether somebody else's writing was in the way for the whole time that we are ready to wait."""
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _of_sqlite(error: sqlite3.Error, path: Path) -> JournalError:
    code = _code(error)
    if code == sqlite3.SQLITE_ERROR and str(error).startswith("no such"):  # our statements fit our tables
        code = sqlite3.SQLITE_CORRUPT
    if code in _DAMAGE:
        return JournalDamaged(str(path), _DAMAGE[code])
    if is_busy(error):
        return JournalBusy(str(path), _holder(path))
    if code == sqlite3.SQLITE_IOERR and _is_full(path):  # it grows its shared memory by another way than its files
        code = sqlite3.SQLITE_FULL
    if code in _REMEDIES:
        return JournalError(f"the journal {path}: {_REMEDIES[code]} ({error})")
    return JournalError(f"the journal {path}: {error}")


def _is_full(path: Path) -> bool:
    try:
        disk = os.statvfs(path.parent)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < LEAST_BYTES


def _code(error: Exception) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF  # the higher bits say in which call


def _holder(path: Path) -> str:
    """Who has locked the journal's files, by the kernel's list. Opening them to ask would drop this process's own locks."""
    try:
        files = {os.stat(f"{path}{suffix}").st_ino for suffix in ("", "-wal", "-shm") if os.path.exists(f"{path}{suffix}")}
        lines = [line.split() for line in _LOCKS.read_text().splitlines()]
    except OSError:
        return "another process"
    writers = {int(pid) for _, _, _, kind, pid, place, *_ in lines if kind == "WRITE" and int(place.split(":")[-1]) in files}
    known = sorted(pid for pid in writers if pid > 0)  # 0: in a container that we cannot see into
    return " and ".join(f"process {pid}" for pid in known) or "another process"
