"""A run is stopped by another process, with a cause, through the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from heaveto.causes import Cancelled, Shutdown
from heaveto.errors import ConfigError, RunNotFound
from heaveto.journal import MemoryStore, SqliteStore
from heaveto.runs import Agent, read_records, stop_run
from heaveto.testing.clocks import FakeClock
from heaveto.testing.scripted_model import calls, scripted
from heaveto.tools import tool

pytestmark = pytest.mark.anyio


@tool(effect="read")
async def wait() -> str:
    """Wait for ever."""
    await anyio.sleep_forever()
    raise AssertionError


def agent(store: Any) -> Agent:
    return Agent(model=scripted(calls(("wait", {})), "fine"), tools=[wait], store=store)


@pytest.mark.parametrize("cause", [Cancelled("enough", "ada"), Shutdown("SIGTERM")])
async def test_a_driver_stops_within_a_second_or_so(fake_clock: FakeClock, cause: Any) -> None:
    store = MemoryStore()
    async with agent(store).start("go", run_id="run") as run:
        await anyio.sleep(10.5)
        assert await stop_run(store, "ru", cause) == "run"
        outcome = await run.wait()
    assert (type(outcome.cause), str(outcome.cause)) == (type(cause), str(cause))
    assert fake_clock.now <= 10.5 + 1 + (7 if isinstance(cause, Shutdown) else 0)
    assert (await read_records(store, "run"))[-1].cause["code"] == cause.code  # type: ignore[union-attr]
    assert (await store.runs())[0].summary.cause == cause.code


async def test_nobody_hears_what_was_asked_of_an_earlier_driver() -> None:
    store = MemoryStore()
    async with agent(store).start("go", run_id="run") as run:
        await stop_run(store, "run")
        await run.wait()
    assert await stop_run(store, "run") is None, "nobody drives it"
    async with agent(store).reopen("run") as again:
        with anyio.move_on_after(5):
            await again.wait()
        assert again.outcome is None
        again.cancel(Cancelled("enough"))
    with pytest.raises(RunNotFound):
        await stop_run(store, "nobody")


async def test_a_cause_that_nobody_would_read_is_refused() -> None:
    with pytest.raises(ConfigError, match="at most 10,000"):
        await stop_run(MemoryStore(), "run", Cancelled("x" * 20_000))


async def test_it_goes_through_a_file(tmp_path: Path) -> None:
    driving, asking = SqliteStore(tmp_path / "journal.db"), SqliteStore(tmp_path / "journal.db")
    async with agent(driving).start("go", run_id="run") as run:
        await anyio.sleep(0.5)
        assert await stop_run(asking, "run", Cancelled("enough", "ada")) == "run"
        outcome = await run.wait()
    assert outcome.why == "cancelled by ada: enough"
    for store in (driving, asking):
        await store.aclose()
