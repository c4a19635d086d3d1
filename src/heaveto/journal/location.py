"""Where the journal is when nobody says otherwise, and which store a place is for."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ConfigError

if TYPE_CHECKING:
    from .postgres import PostgresStore
    from .sqlite import SqliteStore

__all__ = ["default_path", "open_store"]

STORE_VARIABLE = "HEAVETO_STORE"  # a file, or the address of a database
STATE_VARIABLE = "HEAVETO_STATE"  # a folder
FILE_NAME = "journal.db"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*)://")
_POSTGRES = ("postgresql", "postgres")


def default_path() -> Path:
    """The journal's file: in the folder that HEAVETO_STATE names, else in the user's state folder."""
    if folder := os.environ.get(STATE_VARIABLE):
        return Path(folder).expanduser() / FILE_NAME
    import platformdirs

    return platformdirs.user_state_path("heaveto") / FILE_NAME


def open_store(place: str | os.PathLike[str] | None = None) -> SqliteStore | PostgresStore:
    """The store in a SQLite file or, for `postgresql://user@host/database`, in a Postgres database.

    Nothing is opened, or made, before the store is first used.

    Args:
        place: By default what HEAVETO_STORE names, else a file in the state folder.

    Raises:
        ConfigError: There is no such kind of store, the address cannot be read, or psycopg is not installed.
    """
    place = place or os.environ.get(STORE_VARIABLE) or default_path()
    scheme = _SCHEME.match(place) if isinstance(place, str) else None
    if scheme is None:
        from .sqlite import SqliteStore  # not before somebody wants it: it loads sqlite3

        return SqliteStore(Path(place).expanduser())
    if scheme[1] not in _POSTGRES:
        raise ConfigError(f"there is no store for {scheme[1]}://", "give a file, or postgresql://user@host/database")
    return _open_postgres(str(place))


def _open_postgres(address: str) -> PostgresStore:
    try:
        from .postgres import PostgresStore
    except ImportError as error:
        raise ConfigError("psycopg is not installed", 'pip install "heaveto[postgres]"') from error
    return PostgresStore(address)
