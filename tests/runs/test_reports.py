"""The run as far as it came, on whatever ends it, also when that comes from outside."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest

from heaveto.causes import Cancelled, DeadlinePassed, Shutdown, Stop
from heaveto.errors import MaxTurns
from heaveto.journal import MemoryStore
from heaveto.loop import Report
from heaveto.messages import Limits
from heaveto.runs import Agent
from heaveto.scopes import Scope, deadline, tasks
from heaveto.testing.clocks import FakeClock
from heaveto.testing.scripted_model import calls, scripted
from heaveto.testing.stops import every_await
from heaveto.tools import tool

pytestmark = pytest.mark.anyio


@tool(effect="read")
async def nap(seconds: float) -> str:
    """Sleep."""
    await anyio.sleep(seconds)
    return "rested"


def napper(*seconds: float, **options: Any) -> Agent:
    asked = [calls(("nap", {"seconds": each})) for each in seconds]
    return Agent(model=scripted(*asked, "done"), tools=[nap], store=MemoryStore(), **options)


def check(report: Any, turns: int = 2) -> None:
    assert isinstance(report, Report)
    assert (report.turns, report.spend.calls, report.resumable) == (turns, turns, True)
    assert [message.role for message in map(Shown, report.messages)].count("assistant") == turns


class Shown:
    def __init__(self, message: Any) -> None:
        self.role = message.__struct_config__.tag


async def test_a_deadline_around_a_run_brings_the_run_along() -> None:
    with pytest.raises(DeadlinePassed) as caught, deadline(15):
        await napper(10, 10).run("go")
    check(caught.value.report)


@pytest.mark.parametrize("cause", [Cancelled("enough", "ada"), Shutdown("SIGTERM")])
async def test_a_scope_around_a_run_brings_the_run_along(cause: Stop) -> None:
    async def stop(scope: Scope) -> None:
        await anyio.sleep(15)
        scope.cancel(cause)

    async with tasks() as group:
        with pytest.raises(type(cause)) as caught, Scope() as scope:
            group.start_soon(stop, scope)
            await napper(10, 1000).run("go")
    check(caught.value.report)
    assert cause.report is None, "one cause may stop many runs"


async def test_each_run_has_its_own_report_though_one_cause_stopped_them_all() -> None:
    reports: list[Any] = []
    cause = Cancelled("enough")

    async def one(scope: Scope, naps: int) -> None:
        try:
            with scope:
                await napper(*[2] * naps, 1000).run("go")
        except Cancelled as stop:
            reports.append(stop.report)

    scopes = [Scope() for _ in range(3)]
    async with tasks() as group:
        for naps, scope in enumerate(scopes):
            group.start_soon(one, scope, naps)
        await anyio.sleep(20)
        for scope in scopes:
            scope.cancel(cause)
    assert sorted(report.turns for report in reports) == [1, 2, 3]


async def test_a_resumed_run_and_a_handle_bring_it_along_too() -> None:
    store = MemoryStore()
    first = Agent(model=scripted(calls(("nap", {"seconds": 1}))), tools=[nap], store=store, limits=Limits(turns=1))
    with pytest.raises(MaxTurns) as limited:
        await first.run("go", run_id="run")
    check(limited.value.report, 1)
    agent = Agent(model=scripted(calls(("nap", {"seconds": 100}))), tools=[nap], store=store)
    with pytest.raises(DeadlinePassed) as caught, deadline(5):
        await agent.resume("run", limits=Limits(turns=9))
    check(caught.value.report)
    with pytest.raises(DeadlinePassed) as caught, deadline(5):
        async with napper(100).start("go") as run:
            await run.wait()
    check(caught.value.report, 1)


def test_a_native_cancellation_brings_the_run_along() -> None:
    async def main() -> None:
        task = asyncio.ensure_future(napper(10, 1000).run("go"))
        await asyncio.sleep(15)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        check(caught.value.report)  # type: ignore[attr-defined]
        with pytest.raises(TimeoutError) as late:
            async with asyncio.timeout(15):
                await napper(10, 1000).run("go")
        check(late.value.__cause__.report)  # type: ignore[union-attr]

    FakeClock("asyncio").run(main)


def test_at_whatever_await_a_run_is_stopped_its_report_comes_along() -> None:
    async def feature() -> None:
        await napper(1).run("go", run_id="run")

    reported = 0
    for run in every_await(feature, again_after=()):
        if run.error is not None:
            report = run.error.report  # type: ignore[attr-defined]
            assert report is not None, run
            assert report.run_id == "run"
            reported += 1
    assert reported > 20
