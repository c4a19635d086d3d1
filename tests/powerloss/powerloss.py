"""`make powerloss`: what a journal holds when the power goes after any write, with any part of what was not synced.

Real runs write through the store on a disk that keeps account (`power_disk`). From that account each state is made that a
power loss may leave, and the product's store opens it with Python's own SQLite. What was acknowledged must be there, nothing
may be damaged. That the same finds something when the store syncs less is tried too. The last line is the figure.
"""

from __future__ import annotations

import argparse
import shutil
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import anyio
from power_disk import Disk, Op
from power_states import After, after_each

from heaveto.causes import Cancelled
from heaveto.errors import AgentError
from heaveto.journal import SqliteStore, Summary, statements
from heaveto.journal.schema import connect
from heaveto.journal.seals import decode_entries
from heaveto.journal.state import fold
from heaveto.runs import Agent, delete_run, verify_run
from heaveto.testing.scripted_model import calls, scripted
from heaveto.tools import tool

T = TypeVar("T")

LEAST_STATES = 5_000
EACH = 14  # states after each operation
WHOLE_EVERY = 50  # states, of which one is opened by the whole store, verified and written to
JOURNAL = "journal.db"
OFTEN = ("PRAGMA wal_autocheckpoint = 8",)  # the log moves into the file often, so that this is tried too
FULL = "PRAGMA synchronous = FULL"
IN_MEMORY = Path("/dev/shm")


class Acked(NamedTuple):
    """What a caller was told to be safe."""

    run_id: str
    what: str
    number: int


class ToldStore(SqliteStore):
    """It notes on its disk what it has told its callers."""

    def __init__(self, path: Path, disk: Disk) -> None:
        super().__init__(path, open_file=disk.open_file)
        self._disk = disk

    async def _write(self, work: Callable[[Any], T]) -> T:
        result = await super()._write(work)
        assert isinstance(work, partial)
        self._disk.mark(Acked(work.keywords["run_id"], work.func.__name__, int(str(result or 0))))
        return result


@tool(effect="write")
async def pay(what: str) -> str:
    """Pay for something."""
    return f"paid {what}"


def record(disk: Disk, path: Path, opened: int) -> Mapping[str, Sequence[bytes]]:
    """Let runs write, and return the records that there were of each.

    Args:
        opened: How often the store is opened and closed, with two runs each time.
    """
    return anyio.run(_record, disk, path, opened)


async def _record(disk: Disk, path: Path, opened: int) -> Mapping[str, Sequence[bytes]]:
    bodies: dict[str, Sequence[bytes]] = {}
    for number in range(opened):
        store = ToldStore(path, disk)
        for name in (f"run{number}", f"other{number}"):
            said = calls(("pay", {"what": "x" * 2_000 * number}), ("pay", {"what": name}))
            agent = Agent(model=scripted(said, said, "done", "more"), tools=[pay], store=store)
            async with agent.start("go", run_id=name) as run:
                await run.wait()
            async with agent.reopen(name, say="go on") as run:
                run.cancel(Cancelled("enough"))
                await run.wait()
            bodies[name] = [entry.body for entry in await store.read(name)]
        await delete_run(store, f"other{number}")
        await store.aclose()
    return bodies


@dataclass
class Losses:
    """What was tried, and what was wrong: by kind, and the first few in words."""

    states: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    words: list[str] = field(default_factory=list)

    def add(self, kind: str, words: str) -> None:
        self.kinds[kind] += 1
        if len(self.words) < 5:
            self.words.append(words)


def look_at_all(
    ops: Sequence[Op], bodies: Mapping[str, Sequence[bytes]], *, seed: int = 1, each: int = EACH, every: int = 1
) -> Losses:
    """Open each state after a power loss.

    Args:
        every: n: only every n-th state.
    """
    losses, told, seen = Losses(), Told(ops), set[int]()
    with _folder() as folder:
        for after in after_each(ops, seed=seed, each=each, every=every):
            key = hash((tuple(sorted(after.files.items())), told.count(after.op)))
            if key in seen:
                continue
            seen.add(key)
            losses.states += 1
            problem = _problem_of(folder, after, told, bodies, whole=losses.states % WHOLE_EVERY == 0)
            if problem:
                losses.add(problem[0], f"after operation {after.op}: {problem[0]}: {problem[1]}")
    return losses


class Told:
    """What had been told by each operation."""

    def __init__(self, ops: Sequence[Op]) -> None:
        self._marks = [(number, op.mark) for number, op in enumerate(ops, 1) if op.kind == "mark"]

    def count(self, op: int) -> int:
        return sum(number <= op for number, _ in self._marks)

    def by(self, op: int) -> list[Acked]:
        return [mark for number, mark in self._marks if number <= op]


def _problem_of(
    folder: Path, after: After, told: Told, bodies: Mapping[str, Sequence[bytes]], *, whole: bool
) -> tuple[str, str] | None:
    shutil.rmtree(folder)
    folder.mkdir()
    for name, content in after.files.items():
        (folder / name).write_bytes(content)
    path = folder / JOURNAL
    try:
        found = anyio.run(_through_the_store, path) if whole else _through_the_statements(path)
    except (AgentError, sqlite3.Error) as error:
        return "damaged", str(error)
    for run_id, there in found.items():
        if list(bodies[run_id][: len(there)]) != there:
            return "changed", f"{run_id} has other records"
    return next(_lost(found, told.by(after.op)), None)


def _lost(found: Mapping[str, Sequence[bytes]], told: Sequence[Acked]) -> Iterator[tuple[str, str]]:
    deleted = {each.run_id for each in told if each.what == "delete"}
    begun_to_delete = {each.run_id for each in told if each.what == "take"}
    for each in told:
        if each.run_id in deleted or (each.run_id not in found and each.run_id in begun_to_delete):
            continue
        there = len(found.get(each.run_id, ()))
        wanted = {"append": each.number, "create": 1}.get(each.what, 0)
        if there < wanted:
            yield "lost", f"{each.run_id} had {wanted} records safe, and has {there}"
    for run_id in deleted & set(found):
        yield "lost", f"{run_id} was deleted, and is there"


def _through_the_statements(path: Path) -> dict[str, list[bytes]]:
    """The journal by the store's own functions, in this thread."""
    found = {}
    with closing(connect(path, 1.0)) as connection:
        for row in statements.runs(connection, 100):
            entries = statements.read(connection, row.run_id, 0)
            fold(decode_entries(row.run_id, entries))
            if row.entries != len(entries):
                raise sqlite3.DatabaseError(f"{row.run_id} has {len(entries)} records, and its row says {row.entries}")
            found[row.run_id] = [entry.body for entry in entries]
        if (said := connection.execute("PRAGMA integrity_check").fetchone()[0]) != "ok":
            raise sqlite3.DatabaseError(said)
    return found


async def _through_the_store(path: Path) -> dict[str, list[bytes]]:
    """The journal as a program opens it: verified, and written to."""
    store, found = SqliteStore(path, lease_seconds=-1), {}
    for row in await store.runs(100):
        await verify_run(store, row)
        found[row.run_id] = [entry.body for entry in await store.read(row.run_id)]
    await store.create("new", "", [b"{}"], Summary())
    written = [entry.body for entry in await store.read("new")]
    await store.aclose()
    if written != [b"{}"]:
        raise sqlite3.DatabaseError(f"a record was written, and {written} was read")
    return found


@contextmanager
def _folder() -> Iterator[Path]:
    where = IN_MEMORY if IN_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="heaveto-", dir=where) as name:
        folder = Path(name) / "journal"
        folder.mkdir()
        yield folder


def try_out(synchronous: str, *, seed: int = 1, each: int = EACH, every: int = 1, opened: int = 1) -> Losses:
    """What a power loss makes of a journal that is synced so: "FULL" as the store does it, "NORMAL", "OFF"."""
    disk = Disk(instead={FULL: f"PRAGMA synchronous = {synchronous}"}, settings=OFTEN)
    with _folder() as folder:
        bodies = record(disk, folder / JOURNAL, opened)
    return look_at_all(disk.ops, bodies, seed=seed, each=each, every=every)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--each", type=int, default=EACH, help="states after each operation")
    chosen = options.parse_args()
    began = time.monotonic()
    losses = try_out("FULL", seed=chosen.seed, each=chosen.each, opened=3)
    for words in losses.words:
        print(f"wrong: {words}")
    laxer = {setting: try_out(setting, each=5, every=7) for setting in ("NORMAL", "OFF")}
    for setting, found in laxer.items():
        print(f"with synchronous = {setting}: {found.states} states, {dict(found.kinds)}")
    blind = laxer["NORMAL"].kinds["lost"] == 0 or laxer["OFF"].kinds["damaged"] == 0
    wrong, lost = sum(losses.kinds.values()), losses.kinds["lost"]
    notes = [f"fewer than {LEAST_STATES:,}"] * (losses.states < LEAST_STATES) + ["less syncing is not noticed"] * blind
    print(
        f"powerloss: {losses.states:,} states, {lost} with something acknowledged lost, {wrong - lost} damaged, "
        f"in {time.monotonic() - began:.0f} s{''.join(f', {note}' for note in notes)}"
    )
    return 1 if wrong or notes else 0


if __name__ == "__main__":
    sys.exit(main())
