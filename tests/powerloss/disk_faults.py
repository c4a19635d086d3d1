"""`make diskfaults`: a disk that is full, or reports errors, at each write of a run: what the run says, and its resume.

Real runs, on both back ends, each in a process of its own whose end frees the run. The last line is the figure.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from power_disk import Disk, Op, Trouble

from heaveto.errors import JournalError
from heaveto.journal import SqliteStore
from heaveto.runs import Agent, read_state, verify_run
from heaveto.testing.clocks import Backend
from heaveto.testing.scripted_model import calls, scripted
from heaveto.tools import Call, Check, tool

__all__ = ["BACKENDS", "SAYS", "Case", "Tried", "cases", "try_out"]

BACKENDS: Sequence[Backend] = ("asyncio", "trio")
JOURNAL, PAID, TOLD = "journal.db", "paid.txt", "told.json"
OFTEN = ("PRAGMA wal_autocheckpoint = 4",)
SAYS: dict[Trouble, str] = {
    "full": "the disk is full; free some space, then resume the run",
    "io": "the disk reports an error; check the disk and its quota, then resume the run",
}
RUN = "run"


@dataclass(frozen=True)
class Case:
    """A trouble at a write, by its number from 1; `lasts`: and at each after it."""

    backend: Backend
    trouble: Trouble
    at: int
    lasts: bool

    def choose(self, number: int, op: Op) -> Trouble | None:
        return self.trouble if number == self.at or (self.lasts and number > self.at) else None

    def __str__(self) -> str:
        return f"{self.backend}, {self.trouble} at write {self.at}{' and after' if self.lasts else ''}"


def cases() -> Iterator[Case]:
    """Each write of a run that goes well, and of the opening of its journal, with each trouble."""
    for backend in BACKENDS:
        with _folder() as folder:
            _in_a_process(partial(_live, folder, backend, None))
            writes = json.loads((folder / TOLD).read_text())["writes"]
        for at in range(1, writes + 1):
            for trouble in SAYS:
                yield from (Case(backend, trouble, at, lasts) for lasts in (False, True))


@dataclass(frozen=True)
class Tried:
    """What became of a run: what is wrong, if anything, and whether the trouble ended it at first."""

    problem: str = ""
    stopped: bool = False


def try_out(case: Case) -> Tried:
    """Let a run have this trouble, and resume it."""
    with _folder() as folder:
        _in_a_process(partial(_live, folder, case.backend, case))
        told = json.loads((folder / TOLD).read_text())
        if told["broke"]:
            return Tried(f"{case}: {told['broke']}")
        if told["why"] and SAYS[case.trouble] not in told["why"]:
            return Tried(f"{case}: it says: {told['why']}")
        try:
            problem = anyio.run(_resume, folder, told, backend=case.backend)
        except Exception:
            problem = traceback.format_exc()
        return Tried(f"{case}: {problem}" if problem else "", bool(told["why"]))


def _live(folder: Path, backend: Backend, case: Case | None) -> None:
    disk = Disk(case.choose if case else None, settings=OFTEN)
    told: dict[str, Any] = {"why": "", "acked": 0, "broke": ""}
    try:
        anyio.run(_whole_life, folder, disk, told, backend=backend)
    except Exception:
        told["broke"] = traceback.format_exc()
    (folder / TOLD).write_text(json.dumps({**told, "writes": disk.writes}))


async def _whole_life(folder: Path, disk: Disk, told: dict[str, Any]) -> None:
    store = SqliteStore(folder / JOURNAL, open_file=disk.open_file)
    try:
        async with _agent(folder, store, turns=0).start("go", run_id=RUN) as run:
            events = run.events()
            outcome = await run.wait()
            told["acked"] = max([int(event.id) async for event in events if event.durable], default=0)
        if outcome.kind != "answered":
            told["why"] = outcome.why
    except JournalError as error:
        told["why"] = str(error)
    await store.aclose()


def _agent(folder: Path, store: SqliteStore, *, turns: int) -> Agent:
    paid = folder / PAID

    async def check(call: Call, arguments: Any) -> Check:
        return Check("done", "paid") if paid.exists() else Check("not_done", "not paid")

    @tool(effect="write", check=check)
    async def pay(what: str) -> str:
        """Pay for something."""
        with paid.open("a") as file:
            file.write(f"{what}\n")
        return f"paid {what}"

    asks = [calls(("pay", {"what": "rent"}))] if turns == 0 else []
    return Agent(model=scripted(*asks, "done"), tools=[pay], store=store, folder=folder)


async def _resume(folder: Path, told: dict[str, Any]) -> str:
    """Take the run up in another process, on a disk that is well again."""
    store = SqliteStore(folder / JOURNAL)
    try:
        rows = await store.runs()
        for row in rows:
            await verify_run(store, row)
        if not rows:
            return "" if told["why"] and not told["acked"] else "the run is gone"
        if rows[0].entries < told["acked"]:
            return f"{told['acked']} records were told, and {rows[0].entries} are there"
        state = await read_state(store, RUN)
        if state.finished is None or state.finished.outcome != "answered":
            await _agent(folder, store, turns=state.turns).resume(RUN)
        paid = (folder / PAID).read_text().splitlines()
        return "" if paid == ["rent"] else f"it paid {len(paid)} times"
    finally:
        await store.aclose()


def _in_a_process(live: Any) -> None:
    """Its end frees the run, whatever it could not write."""
    child = os.fork()
    if not child:
        try:
            live()
        finally:
            os._exit(0)
    os.waitpid(child, 0)


@contextmanager
def _folder() -> Iterator[Path]:
    where = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="heaveto-", dir=where if where.is_dir() else None) as name:
        yield Path(name)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--every", type=int, default=1, help="n: only every n-th case")
    options.add_argument("--processes", type=int, default=2)
    chosen = options.parse_args()
    began = time.monotonic()
    work = list(cases())[:: chosen.every]
    with ProcessPoolExecutor(chosen.processes, multiprocessing.get_context("fork")) as pool:
        tried = list(pool.map(try_out, work, chunksize=4))
    wrong = [each.problem for each in tried if each.problem]
    for problem in wrong:
        print(f"wrong: {problem}")
    stopped = sum(each.stopped for each in tried)
    print(
        f"diskfaults: {len(work)} troubles in {time.monotonic() - began:.0f} s, {stopped} ended the run with a cause, "
        f"{len(wrong) if wrong else 'nothing'} wrong"
    )
    return 1 if wrong or stopped < len(work) // 4 else 0


if __name__ == "__main__":
    sys.exit(main())
