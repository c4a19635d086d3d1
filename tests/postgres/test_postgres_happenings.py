"""A few of the happenings of `make postgres`, and that its judge sees what is wrong."""

from __future__ import annotations

import importlib
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

pytest.importorskip("psycopg", reason="no psycopg")

from postgres_worker import SHOP, Work, drive

from heaveto.journal.postgres import PostgresStore
from postgres import BACKENDS, Bout, cut_lines, pauses

if TYPE_CHECKING:
    from postgres_server import Server


@pytest.fixture(params=BACKENDS)
def bout(request: pytest.FixtureRequest, server: Server, tmp_path: Path) -> Bout:
    (tmp_path / SHOP).mkdir()
    return Bout(server, server.place(), tmp_path, request.param)


def test_some_cut_lines(bout: Bout) -> None:
    """Faults at some of the messages of a run."""
    cut_lines(bout, ["answer lost"], every=4)
    assert bout.wrong == []
    assert bout.counted["cuts"] >= 3


@pytest.mark.parametrize("bout", ["asyncio"], indirect=True)
def test_who_sleeps_beyond_its_lease_writes_nothing_when_it_wakes(bout: Bout) -> None:
    pauses(bout, random.Random(1))
    assert bout.wrong == []


@pytest.mark.parametrize("bout", ["asyncio"], indirect=True)
def test_what_is_wrong_is_seen(bout: Bout) -> None:
    """A thing that was bought twice, one that was not, and a run without its answer."""
    work = bout.work(["right", "twice", "never"], turns=1, pause_seconds=0.0)

    async def all_of_them() -> None:
        store = PostgresStore(bout.address)
        for run_id in work.runs:
            await drive(store, work, run_id)
        await _half(store, bout.work(["half"], turns=1, pause_seconds=0.0))
        await store.aclose()

    anyio.run(all_of_them)
    for name in (bout.folder / SHOP).iterdir():
        if name.name.startswith("twice"):
            name.with_name(f"{name.name}-again").touch()
        elif name.name.startswith("never"):
            name.unlink()
    bout.judge(["right"], turns=1)
    assert bout.wrong == []
    bout.judge(work.runs, turns=1)
    assert [problem.split(" should")[0] for problem in bout.wrong] == [
        "asyncio: what twice bought",
        "asyncio: what never bought",
    ]
    bout.wrong.clear()
    bout.judge(["half"], turns=1)
    assert [problem.split(" should")[0] for problem in bout.wrong] == [
        "asyncio: the outcome of half",
        "asyncio: the turns of half",
        "asyncio: what half bought",
    ]


def test_the_benchmark_of_the_journal_has_a_postgres_side(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    journal = importlib.import_module("journal")
    monkeypatch.setattr(journal, "server", server)
    figures = [
        anyio.run(row.measure, Path(), True)
        for row in journal.ROWS
        if row.name in ("list, Postgres", "appends, Postgres, 10 runs")
    ]
    assert [list(each) for each in figures] == [["50 runs"], ["a second", "ms each"]]
    sys.modules.pop("journal")


async def _half(store: PostgresStore, work: Work) -> Any:
    """A run that is stopped before its first turn."""
    from postgres_worker import Buyer

    from heaveto.causes import Cancelled
    from heaveto.runs import Agent

    agent = Agent(model=Buyer("half", work), store=store, folder=work.folder)
    async with agent.start("buy all of it", run_id="half") as run:
        run.cancel(Cancelled("enough"))
        return await run.wait()
