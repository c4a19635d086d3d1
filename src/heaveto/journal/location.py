"""Where the journal is when nobody says otherwise."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .sqlite import SqliteStore

__all__ = ["default_path", "open_store"]

STATE_VARIABLE = "HEAVETO_STATE"  # a folder
FILE_NAME = "journal.db"


def default_path() -> Path:
    """The journal's file: in the folder that HEAVETO_STATE names, else in the user's state folder."""
    if folder := os.environ.get(STATE_VARIABLE):
        return Path(folder).expanduser() / FILE_NAME
    import platformdirs

    return platformdirs.user_state_path("heaveto") / FILE_NAME


def open_store(path: str | os.PathLike[str] | None = None) -> SqliteStore:
    """The SQLite store in that file, or in the default one. The file is opened, and made, when the store is first used."""
    from .sqlite import SqliteStore  # not before somebody wants it: it loads sqlite3

    return SqliteStore(default_path() if path is None else path)
