"""Tools that do not heed a stop: the run goes on without them, and says so."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import pytest

from heaveto.causes import Cancelled
from heaveto.errors import OutcomeUnknown
from heaveto.scopes import abandoned_threads
from heaveto.testing.clocks import FakeClock
from heaveto.testing.scripted_model import calls
from heaveto.tools import tool

pytestmark = pytest.mark.anyio


def stubborn(effect: Any, seconds: float | None = None) -> Any:
    @tool(effect=effect, seconds=seconds)
    async def cling() -> str:
        """Hold on, whatever comes."""
        while True:
            try:
                await anyio.sleep(3600)
            except BaseException:
                pass

    return cling


async def test_a_tool_that_swallows_its_limit_does_not_hold_the_run(drive: Any, fake_clock: FakeClock) -> None:
    driven = await drive(calls(("cling", {})), "I see", tools=[stubborn("read", 30)])
    assert (driven.outcome.kind, driven.outcome.text) == ("answered", "I see")
    assert 30 <= fake_clock.now <= 31
    (answer,) = driven.answers
    assert answer.content == (
        "cling: the tool timed out after 30 s (seconds); it did not heed the stop and was left to itself"
    )
    assert driven.outcome.report.abandoned == (f"task cling ({answer.call_id})",)
    assert driven.records[-1].abandoned == driven.outcome.report.abandoned


async def test_a_write_that_swallows_its_limit_waits_for_a_person(drive: Any) -> None:
    driven = await drive(calls(("cling", {})), tools=[stubborn("write", 30)])
    assert isinstance(driven.outcome.error, OutcomeUnknown)
    assert [each.split(" (")[0] for each in driven.outcome.report.abandoned] == ["task cling"]


async def test_a_tool_that_swallows_a_stop_does_not_hold_the_run(drive: Any, fake_clock: FakeClock) -> None:
    async def stop(run: Any) -> None:
        await anyio.sleep(5)
        run.cancel(Cancelled("enough", "operator"))

    driven = await drive(calls(("cling", {})), tools=[stubborn("write")], during=stop)
    assert (driven.outcome.kind, str(driven.outcome.cause)) == ("stopped", "cancelled by operator: enough")
    assert 5 <= fake_clock.now <= 6
    assert driven.finished("cling").abandoned == ("task cling",)


async def test_threads_of_a_tool_that_does_not_stop_are_bounded(drive: Any) -> None:
    over = threading.Event()
    seen: list[int] = []

    @tool(effect="read", seconds=0.001, alone=True)
    def hang() -> str:
        """Never look up."""
        over.wait(60)
        return "late"

    @tool(effect="read")
    def count() -> int:
        """Another tool."""
        seen.append(len([thread for thread in abandoned_threads() if thread.name == "heaveto:hang"]))
        return seen[-1]

    driven = await drive(calls(*[("hang", {})] * 50, ("count", {})), "I see", tools=[hang, count])
    over.set()
    for thread in abandoned_threads():
        thread.join()
    assert driven.outcome.text == "I see"
    assert seen == [8]
    assert [ending for name, ending in driven.endings if name == "hang"] == ["timed_out"] * 8 + ["tool_error"] * 42
    assert driven.answers[8].content.startswith("hang is not called now: 8 of its calls did not stop")
    assert len(driven.outcome.report.abandoned) == 8
    assert "may still be at work" in driven.answers[0].content
