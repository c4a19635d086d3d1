"""What comes next, what forbids it, and what is counted."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import anyio
import pytest

from heaveto.causes import Cancelled
from heaveto.errors import ConfigError, CostBudget, MaxTurns, RunDeadline, TokenBudget
from heaveto.journal import MemoryStore
from heaveto.journal.records import LimitsChanged
from heaveto.journal.state import RunState, fold
from heaveto.loop.turn import next_step
from heaveto.messages import Limits
from heaveto.runs import Agent, Run
from heaveto.testing.clocks import FakeClock
from heaveto.testing.scripted_model import calls, scripted
from heaveto.tools import tool

pytestmark = pytest.mark.anyio


@tool(effect="read")
async def wait(seconds: float = 0) -> str:
    """Wait."""
    await anyio.sleep(seconds)
    return "waited"


WAIT = calls(("wait", {}))
TOOLS = {"tools": [wait]}


# --- limits ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "error"),
    [
        (Limits(turns=0), MaxTurns(0, "Limits(turns=...)")),
        (Limits(usd=0), CostBudget(Decimal(0), Decimal(0), "Limits(usd=...)")),
        (Limits(tokens=0), TokenBudget(0, 0, "Limits(tokens=...)")),
        (Limits(seconds=0), RunDeadline(0, "Limits(seconds=...)")),
    ],
)
async def test_nothing_is_nothing(drive: Any, limits: Limits, error: Exception) -> None:
    driven = await drive("never", limits=limits)
    ended = driven.outcome.error or driven.outcome.cause
    assert (type(ended), ended.args) == (type(error), error.args)
    assert driven.model.requests == []
    assert (driven.outcome.kind, driven.outcome.exit_status, driven.outcome.report.resumable) == ("limit", 3, True)


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        (Limits(turns=2), "turn limit reached: 2 (Limits(turns=...)): resume with a higher Limits(turns=...)"),
        (
            Limits(usd="0.0015"),
            "cost budget reached: spent $0.002000 of $0.001500 (Limits(usd=...)): resume with a higher Limits(usd=...)",
        ),
        (
            Limits(tokens=300),
            (
                "token budget reached: used 220 of 300 (Limits(tokens=...)), and the next call may use ...: "
                "resume with a higher Limits(tokens=...)"
            ),
        ),
    ],
)
async def test_a_limit_ends_the_run_between_turns_and_a_higher_one_takes_it_up(
    drive: Any, limits: Limits, text: str
) -> None:
    driven = await drive(WAIT, WAIT, "never", limits=limits, **TOOLS)
    assert without_forecast(driven.outcome.why) == text
    assert len(driven.model.requests) == 2
    assert driven.endings == [("wait", "ok")] * 2, "the calls of the last reply have their answers"

    same = await drive("never", resume="run", store=driven.store, **TOOLS)
    assert (without_forecast(same.outcome.why), same.model.requests) == (text, [])

    higher = await drive("done", resume="run", store=driven.store, resume_options={"limits": Limits(turns=9)}, **TOOLS)
    assert (higher.outcome.text, higher.outcome.report.turns) == ("done", 3)
    assert [record.limits for record in higher.of(LimitsChanged)] == [Limits(turns=9)]


def without_forecast(text: str) -> str:
    """The text without the estimate in it, which goes with the length of the call's id."""
    return re.sub(r"may use \d+", "may use ...", text)


async def test_a_limit_is_no_limit_on_the_answer(drive: Any) -> None:
    driven = await drive("done", limits=Limits(turns=1, usd="0.0001"))
    assert driven.outcome.kind == "answered"


async def test_time_counts_over_all_resumes(drive: Any, fake_clock: FakeClock) -> None:
    limits = Limits(seconds=100)

    async def stop(run: Run) -> None:
        await anyio.sleep(60)
        run.cancel(Cancelled("lunch"))

    long = calls(("wait", {"seconds": 1000}))
    driven = await drive(long, limits=limits, during=stop, **TOOLS)
    assert driven.records[-1].seconds == 60
    await anyio.sleep(500)  # nobody drives it, so it does not count

    began = fake_clock.now
    driven = await drive(resume="run", store=driven.store, **TOOLS)
    assert isinstance(driven.outcome.cause, RunDeadline)
    assert (fake_clock.now - began, driven.records[-1].seconds) == (40, 100)
    assert driven.outcome.kind == "limit"

    driven = await drive(resume="run", store=driven.store, **TOOLS)
    assert (driven.outcome.kind, driven.records[-1].seconds) == ("limit", 100)

    options = {"limits": Limits(seconds=150)}
    began = fake_clock.now
    driven = await drive(resume="run", store=driven.store, resume_options=options, **TOOLS)
    assert (driven.outcome.kind, fake_clock.now - began, driven.records[-1].seconds) == ("limit", 50, 150)


async def test_a_stop_is_looked_at_before_a_budget(drive: Any) -> None:
    runs: list[Run] = []

    @tool(effect="read")
    async def stop() -> str:
        """Stop the run."""
        runs[0].cancel(Cancelled("enough"))
        return "asked to"

    async def keep(run: Run) -> None:
        runs.append(run)

    driven = await drive(calls(("stop", {})), limits=Limits(turns=1), tools=[stop], during=keep)
    assert driven.outcome.why == "cancelled: enough"


async def test_a_dollar_limit_that_nobody_could_keep_is_refused_before_anything_begins() -> None:
    model = scripted("never")
    model.reports_cost = False  # type: ignore[misc]
    with pytest.raises(ConfigError, match="nobody knows what scripted costs; give the model its price="):
        Agent(model=model, store=MemoryStore(), limits=Limits(usd=1))
    Agent(model=model, store=MemoryStore(), limits=Limits(turns=1))


# --- the next step --------------------------------------------------------------------------------------------------


async def test_the_next_step_comes_from_the_state_alone(drive: Any) -> None:
    """Whoever folds the same records would do the same: at each point of a run, twice."""
    driven = await drive(calls(("wait", {}), ("wait", {})), WAIT, "done", **TOOLS)
    state: RunState | None = None
    steps = []
    for length in range(1, len(driven.records) + 1):
        state = fold(driven.records[:length])
        step = next_step(state)
        assert next_step(state) == step
        assert next_step(fold(driven.records[:length])) == step
        steps.append(step)
    names = [type(record).__name__ for record in driven.records]
    assert list(zip(names, steps, strict=True)) == [
        ("RunStarted", "call"),
        ("DriveStarted", "call"),
        ("Replied", "answer"),
        ("ToolFinished", "answer"),
        ("ToolFinished", "call"),
        ("Replied", "answer"),
        ("ToolFinished", "call"),
        ("Replied", "done"),
        ("RunFinished", "done"),
    ]


async def test_a_long_run_goes_on_turn_by_turn(drive: Any) -> None:
    driven = await drive(*[WAIT] * 30, "done", **TOOLS)
    assert driven.outcome.report.turns == 31
    assert driven.outcome.report.spend.calls == 31
    assert [len(request) for request in driven.model.requests] == list(range(1, 63, 2))
