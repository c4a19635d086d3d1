"""What a tool's call tells: the time left, also in its thread, and a logger that says for which call."""

from __future__ import annotations

import logging
import math
from typing import Any

import pytest

from heaveto.causes import DeadlinePassed
from heaveto.journal import MemoryStore
from heaveto.messages import ToolMessage
from heaveto.runs import Agent
from heaveto.scopes import deadline
from heaveto.testing import FakeClock, calls, scripted
from heaveto.tools import Call, tool


@pytest.fixture
def anyio_backend(fake_clock: FakeClock) -> tuple[str, dict[str, Any]]:
    return fake_clock.backend


@tool(effect="read", seconds=30)
def slow(call: Call) -> str:
    """Look how long there is, in a thread."""
    call.log.warning("looking")
    return f"{call.time_left():.0f}"


@pytest.mark.anyio
async def test_a_tool_knows_the_nearest_limit_and_logs_for_its_call(caplog: pytest.LogCaptureFixture) -> None:
    agent = Agent(model=scripted(calls(("slow", {})), "on", calls(("slow", {})), "on"), store=MemoryStore(), tools=[slow])
    with caplog.at_level(logging.INFO, "heaveto.tools"):
        wide = await agent.run("go", run_id="r1")
        with deadline(10, DeadlinePassed(10)):
            narrow = await agent.run("go")
    for result, left in ((wide, "30"), (narrow, "10")):
        assert [each.content for each in result.report.messages if isinstance(each, ToolMessage)] == [left]
    record: Any = caplog.records[0]
    assert (record.name, record.message, record.run_id, record.turn) == ("heaveto.tools.slow", "looking", "r1", 1)
    assert record.call_id.startswith("call_")


def test_without_a_limit_there_is_no_end() -> None:
    assert Call().time_left() == math.inf
