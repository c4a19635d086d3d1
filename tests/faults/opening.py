"""Before a run is there: the command's own process, a journal that cannot be used, and the exit status."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from heaveto import causes, errors
from heaveto.journal import Summary, this_process
from heaveto.journal.records import RunStarted, encode_record
from heaveto.journal.sqlite import SqliteStore

__all__ = ["OPENING", "Opening", "run_opening"]


@dataclass(frozen=True)
class Opening:
    """A command that cannot begin.

    Attributes:
        prepared: Makes the state folder what it must be for that, while the command runs.
        says: A part of the sentence.
    """

    of: type[causes.Described]
    args: tuple[str, ...]
    prepared: Callable[[Path], AbstractContextManager[None]]
    status: int
    says: str


@contextmanager
def nothing(state: Path) -> Iterator[None]:
    yield


@contextmanager
def newer(state: Path) -> Iterator[None]:
    with driven(state):
        pass
    connection = sqlite3.connect(state / "journal.db")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    yield


@contextmanager
def damaged(state: Path) -> Iterator[None]:
    (state / "journal.db").write_bytes(b"this is no database, and it is longer than a page's head" * 100)
    yield


@contextmanager
def driven(state: Path) -> Iterator[None]:
    store = SqliteStore(state / "journal.db")

    async def begin() -> None:
        started = RunStarted(run_id="busy", task="fix it", model="offline", folder=str(state))
        await store.create("busy", this_process(), [encode_record(started)], Summary())

    anyio.run(begin)
    yield
    anyio.run(store.aclose)


@contextmanager
def no_folder(state: Path) -> Iterator[None]:
    state.rmdir()
    state.write_text("a file where the state folder should be")
    yield
    state.unlink()


@contextmanager
def locked(state: Path) -> Iterator[None]:
    with driven(state):
        connection = sqlite3.connect(state / "journal.db", isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            connection.close()


NOBODY = "postgresql://127.0.0.1:1/agents"
OPENING = (
    Opening(errors.ConfigError, ("run", "fix it"), nothing, 2, "no model is named"),
    Opening(errors.RunNotFound, ("resume", "nothere"), nothing, 2, "no run nothere"),
    Opening(errors.RunTaken, ("resume", "-m", "offline", "busy"), driven, 2, "is being driven by"),
    Opening(errors.JournalNewer, ("runs",), newer, 2, "the journal has format 99"),
    Opening(errors.JournalDamaged, ("runs",), damaged, 2, "it is no journal"),
    Opening(errors.JournalError, ("runs",), no_folder, 2, "its folder must be readable and writable"),
    Opening(errors.JournalBusy, ("run", "-m", "offline", "fix it"), locked, 75, "which has been writing for too long"),
    Opening(errors.JournalUnreachable, ("runs", "--store", NOBODY), nothing, 75, f"{NOBODY} does not answer"),
)


def run_opening(opening: Opening) -> str | None:
    """What is wrong with how the command says it; None when nothing is."""
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "state"
        state.mkdir()
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HEAVETO_")}
        with opening.prepared(state):
            done = subprocess.run(
                [sys.executable, "-m", "heaveto", *opening.args],
                env={**kept, "HEAVETO_STATE": str(state)}, cwd=folder, capture_output=True, text=True, timeout=60,
            )  # fmt: skip
    if (done.returncode, opening.says in done.stderr) != (opening.status, True):
        return f"{opening.of.__name__}: exit status {done.returncode}, {done.stderr.strip()!r}"
    return None
