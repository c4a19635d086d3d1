"""What the journal costs: listing, resuming, writing a turn, and appends side by side.

    python benchmarks/journal.py [--quick] [--folder DIR] [ROW ...]     a part of `make bench`; ROW is a word of a row's name

Listing and resuming are CPU of this process, threads in; appends are the wall's, for they wait for the disk, which is that
of --folder; a turn has two. Of Postgres a server is started there, and left out where none is installed. The bytes of a
turn are those of its records, without the turn's own content: each turn here says the same.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import anyio

from heaveto.journal import MemoryStore, SqliteStore, Store, Summary, open_store
from heaveto.journal.seals import decode_entries, seal
from heaveto.journal.state import fold
from heaveto.messages import AssistantMessage, Limits, Reply
from heaveto.models import Request
from heaveto.runs import Agent
from heaveto.scopes import tasks
from heaveto.testing.scripted_model import Line, ScriptedModel, calls, scripted
from heaveto.tools import tool

if TYPE_CHECKING:
    from postgres_server import Server

__all__ = ["ROWS", "Row", "main"]

RUNS, QUICK_RUNS = 10_000, 50
TURNS, QUICK_TURNS = 300, 6
APPENDS, QUICK_APPENDS = 2_000, 20  # in all, shared by the runs
BODY = b'{"type":"tool.finished","call_id":"call_1","name":"look","ending":"ok","content":"' + b"x" * 100 + b'"}'


Kind: TypeAlias = Literal["SQLite", "Postgres", "memory"]
Measure: TypeAlias = Callable[[Path, bool], Awaitable[dict[str, float]]]
DURABLE = {"fsync": "on", "shared_buffers": "128MB", "autovacuum": "on"}


@dataclass(frozen=True)
class Row:
    """A line of the table.

    Attributes:
        measure: Takes a folder and whether it is to be quick; gives the figures.
        unit: Of all of them.
        most: What none of them should exceed; None where there is no such number.
    """

    name: str
    measure: Measure
    unit: str
    most: float | None = None


def listing(kind: Kind) -> Measure:
    """All runs of a journal that has ten thousand."""

    async def measured(folder: Path, quick: bool) -> dict[str, float]:
        store, runs = _store(kind, folder), QUICK_RUNS if quick else RUNS
        summary = Summary(
            task="make the tests pass", folder="/project", model="m", phase="answered", why="the model answered"
        )

        async def some(first: int) -> None:
            for number in range(first, runs, 100):
                await store.create(f"run{number}", "", [BODY], summary)

        async with tasks() as group:
            for first in range(100):
                group.start_soon(some, first)
        taken = [await _cpu(lambda: store.runs(runs)) for _ in range(3)]
        await store.aclose()
        return {f"{runs:,} runs": median(taken)}

    return measured


async def resuming(folder: Path, quick: bool) -> dict[str, float]:
    """A long run taken up again with something new to say, up to the model's answer and the end of the run."""
    turns = QUICK_TURNS if quick else TURNS
    store = SqliteStore(folder / "journal.db")
    await _long_run(store, turns)

    async def resume() -> None:
        await Agent(model=scripted("fine"), tools=[look], store=store).resume("run", say="and now?")

    taken = [await _cpu(resume) for _ in range(5)]
    await store.aclose()
    return {f"{turns} turns": median(taken)}


async def bytes_a_turn(folder: Path, quick: bool) -> dict[str, float]:
    """What the records of one turn take, early in a run and late."""
    turns = QUICK_TURNS if quick else TURNS
    store = MemoryStore()
    await _long_run(store, turns)
    entries = await store.read("run")
    sizes: dict[int, int] = {}
    state = None
    for entry, record in zip(entries, decode_entries("run", entries), strict=True):
        state = fold([record]) if state is None else state
        if entry.seq > 1:
            state.apply(record)
        sizes[state.turns] = sizes.get(state.turns, 0) + len(entry.body)
    return {f"turn {turn}": sizes[turn] for turn in (3, turns - 1)}


def appends(runs: int, kind: Kind) -> Measure:
    async def measured(folder: Path, quick: bool) -> dict[str, float]:
        store = _store(kind, folder)
        each = max(2, (QUICK_APPENDS if quick else APPENDS) // runs)
        bodies = seal([BODY] * each, b"")
        for number in range(runs):
            await store.create(f"run{number}", "", [BODY], Summary())
        waits: list[float] = []

        async def one(number: int) -> None:
            for body in bodies:
                began = time.perf_counter()
                await store.append(f"run{number}", 1, [body], Summary())
                waits.append(time.perf_counter() - began)

        began = time.perf_counter()
        async with tasks() as group:
            for number in range(runs):
                group.start_soon(one, number)
        seconds = time.perf_counter() - began
        await store.aclose()
        return {"a second": runs * each / seconds, "ms each": median(waits) * 1e3}

    return measured


class _Talker(ScriptedModel):
    """Asks for the same call in each turn, and answers after the last."""

    def __init__(self, turns: int) -> None:
        super().__init__([self._next] * turns, name="talker", pause_seconds=0)
        self._turns = turns

    def _next(self, request: Request) -> Line:
        turn = 1 + sum(isinstance(message, AssistantMessage) for message in request.transcript)
        reply: Reply | str = "done" if turn == self._turns else calls(("look", {"what": "x" * 40}), text="I look once more.")
        return reply


@tool(effect="idempotent")
async def look(what: str) -> str:
    """Look at something."""
    return "y" * 200


def _store(kind: Kind, folder: Path) -> Store:
    """An empty store."""
    match kind:
        case "SQLite":
            return SqliteStore(folder / "journal.db")
        case "memory":
            return MemoryStore()
        case "Postgres":
            assert server is not None
            return open_store(server.place())


server: Server | None = None  # while there is one


async def _long_run(store: Store, turns: int) -> None:
    agent = Agent(model=_Talker(turns), tools=[look], store=store, limits=Limits(turns=2 * turns))
    await agent.run("go", run_id="run")


async def _cpu(work: Callable[[], Awaitable[object]]) -> float:
    """Milliseconds of CPU."""
    began = time.process_time()
    await work()
    return (time.process_time() - began) * 1e3


ROWS = [
    Row("list, SQLite", listing("SQLite"), "ms CPU", 200),
    Row("list, Postgres", listing("Postgres"), "ms CPU", 200),
    Row("resume", resuming, "ms CPU", 100),
    Row("bytes a turn", bytes_a_turn, "bytes"),
    *(
        Row(f"appends, {kind}, {runs:,} runs", appends(runs, kind), "")
        for kind in get_args(Kind)
        for runs in (1, 10, 100, 1_000)
    ),
]


def main(argv: list[str] | None = None) -> int:
    """Print the table; exit status 1 when a figure is above its limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rows", nargs="*", metavar="ROW")
    parser.add_argument("--quick", action="store_true", help="small numbers, to see that it works")
    parser.add_argument("--folder", help="where the journals are made, for a while; by default the system's temporary one")
    asked = parser.parse_args(argv)
    chosen = [row for row in ROWS if not asked.rows or any(word in row.name for word in asked.rows)]
    with ExitStack() as stack:
        if any("Postgres" in row.name for row in chosen):
            chosen = _with_server(chosen, stack, asked.folder)
        return _measure(chosen, asked.quick, asked.folder)


def _with_server(rows: list[Row], stack: ExitStack, folder: str | None) -> list[Row]:
    """Start a server for the stack's time; the rows that can be measured."""
    global server
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "postgres"))
    try:
        from postgres_server import find_binaries, running_server
    except ImportError:  # psycopg is an extra
        left_out = "no psycopg"
    else:
        left_out = "" if find_binaries() else "no postgres"
    if left_out:
        print(f"left out: Postgres ({left_out})")
        return [row for row in rows if "Postgres" not in row.name]
    server = stack.enter_context(running_server(folder, **DURABLE))
    return rows


def _measure(rows: list[Row], quick: bool, in_folder: str | None) -> int:
    above = 0
    for row in rows:
        with tempfile.TemporaryDirectory(prefix="heaveto-", dir=in_folder) as folder:
            figures = anyio.run(row.measure, Path(folder), quick)
        texts = ", ".join(f"{name}: {value:,.1f}" for name, value in figures.items())
        limit = f" (at most {row.most:,.0f})" if row.most else ""
        print(f"{row.name:30}{texts} {row.unit}{limit}")
        above += row.most is not None and max(figures.values()) > row.most
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
