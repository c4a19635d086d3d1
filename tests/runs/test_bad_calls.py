"""Calls that no tool can answer: the model is told, and the run goes on."""

from __future__ import annotations

import pytest

from heaveto.journal import MemoryStore
from heaveto.messages import ToolMessage
from heaveto.runs import Agent
from heaveto.testing.scripted_model import calls, scripted
from heaveto.tools import tool


@tool(effect="read")
def look() -> str:
    """Look."""
    return "seen"


@pytest.mark.anyio
async def test_a_call_without_a_name_is_answered_with_the_tools_that_there_are() -> None:
    model = scripted(calls(("", {}), ("look", {})), "done")
    result = await Agent(model=model, store=MemoryStore(), tools=[look]).run("Look")
    assert result.text == "done"
    answers = [(each.content, each.ending) for each in model.requests[1] if isinstance(each, ToolMessage)]
    assert answers == [('no tool named ""; the tools are look', "tool_error"), ("seen", "ok")]
