"""The journal: what happened in a run, one small record a step, written before the next step begins.

`store.py` where runs are kept; `memory.py`, `sqlite.py` and `postgres.py` such places; `owner.py` who drives a run;
`records.py` and `state.py` what is written, and what it adds up to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .location import default_path, open_store
from .memory import MemoryStore
from .owner import this_process
from .store import Entry, RunRow, Store, Summary

if TYPE_CHECKING:
    from .postgres import PostgresStore
    from .sqlite import SqliteStore

__all__ = [
    "Entry",
    "MemoryStore",
    "PostgresStore",
    "RunRow",
    "SqliteStore",
    "Store",
    "Summary",
    "default_path",
    "open_store",
    "this_process",
]


def __getattr__(name: str) -> Any:
    if name == "SqliteStore":  # it loads sqlite3, which not every program needs
        from .sqlite import SqliteStore

        return SqliteStore
    if name == "PostgresStore":  # psycopg is an extra
        from .postgres import PostgresStore

        return PostgresStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
