"""What cannot end in the time left is not begun, once it is known how long it takes."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from heaveto.causes import Cancelled
from heaveto.errors import NotEnoughTime, RunDeadline
from heaveto.journal import MemoryStore
from heaveto.loop.usual_time import UsualTimes
from heaveto.messages import Limits
from heaveto.runs import Agent
from heaveto.scopes import Scope, deadline
from heaveto.testing.clocks import FakeClock
from heaveto.testing.scripted_model import calls, scripted
from heaveto.tools import tool

pytestmark = pytest.mark.anyio


@tool(effect="read", seconds=60)
async def wait(seconds: float) -> str:
    """Wait."""
    await anyio.sleep(seconds)
    return "waited"


def waits(*seconds: float) -> list[Any]:
    return [calls(("wait", {"seconds": each})) for each in seconds]


async def test_the_quickest_of_at_least_two_calls_tells() -> None:
    times = UsualTimes()
    with deadline(6):
        times.took("build", 9)
        times.need("build")  # one call may have been slow for a reason of its own
        times.took("build", 7)
        times.need("test")
        with pytest.raises(NotEnoughTime, match=r"^not enough time: build needs 7 s, 6 s left$"):
            times.need("build")
        times.took("build", 6)
        times.need("build")
    with deadline(5), pytest.raises(NotEnoughTime):
        times.need("build")


async def test_what_is_stopped_hears_of_the_stop_and_not_of_the_time() -> None:
    times = UsualTimes()
    times.took("build", 7)
    times.took("build", 7)
    with Scope() as scope:
        scope.cancel(Cancelled("stop"))
        with pytest.raises(Cancelled):
            times.need("build")


async def test_a_tool_call_that_cannot_end_is_not_begun_and_the_model_may_still_answer(
    drive: Any, fake_clock: FakeClock
) -> None:
    """Though not by its limit, which is only the most that a call may take."""
    driven = await drive(*waits(5, 6, 5), "that is all", tools=[wait], limits=Limits(seconds=15))
    assert [answer.content for answer in driven.answers] == [
        "waited",
        "waited",
        "not run: not enough time: wait needs 5 s, 4 s left",
    ]
    assert driven.endings[-1] == ("wait", "not_run")
    assert (driven.outcome.text, fake_clock.now) == ("that is all", 11)


async def test_a_call_that_failed_says_nothing_of_how_long_one_takes(drive: Any, fake_clock: FakeClock) -> None:
    driven = await drive(*waits(0, 100, 100, 100), tools=[wait], limits=Limits(seconds=130))
    assert (type(driven.outcome.cause), fake_clock.now) == (RunDeadline, 130)


async def test_a_model_call_that_cannot_end_is_not_made(fake_clock: FakeClock) -> None:
    """A call of these takes 5 s for its one delta, and 5 s until its end."""
    model = scripted(*waits(0, 0, 0), pause_seconds=5)
    async with Agent(model=model, tools=[wait], store=MemoryStore(), limits=Limits(seconds=28)).start("go") as run:
        outcome = await run.wait()
    assert isinstance(outcome.error, NotEnoughTime)
    assert outcome.why == "not enough time: a model call needs 10 s, 8 s left"
    assert (outcome.kind, outcome.exit_status, outcome.report.resumable) == ("limit", 3, True)
    assert (len(model.requests), outcome.report.turns, fake_clock.now) == (2, 2, 20)
    assert outcome.report.pending == ()
