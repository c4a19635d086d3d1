"""OpenAI's Agents SDK with its SQLite session, and a RunState in a file where the run pauses for its approval.

What is there is looked at first: a session that ends in an answer is done, one that ends in a tool's output goes on from
there, and a saved state is taken up before anything begins anew.
"""

from __future__ import annotations

import asyncio
from typing import Any

from agents import Agent, Runner, RunState, SQLiteSession, function_tool, set_tracing_disabled
from agents.items import ModelResponse
from agents.models.interface import Model
from agents.usage import Usage
from crash_points import Outside
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

__all__ = ["live"]

STATE = "state.json"


class Scripted(Model):
    def __init__(self, outside: Outside) -> None:
        self._outside = outside

    async def get_response(self, *arguments: Any, **settings: Any) -> ModelResponse:
        self._outside.note_asked()
        if any(_type(item) == "function_call_output" for item in settings["input"]):
            text = ResponseOutputText(annotations=[], text="done", type="output_text")
            answer: Any = ResponseOutputMessage(
                id="msg_1", content=[text], role="assistant", status="completed", type="message"
            )
        else:
            answer = ResponseFunctionToolCall(
                arguments='{"dollars": 5}', call_id="call_1", name="charge", type="function_call"
            )
        return ModelResponse(output=[answer], usage=Usage(), response_id=None)

    def stream_response(self, *arguments: Any, **settings: Any) -> Any:
        raise NotImplementedError


def live(outside: Outside) -> str:
    set_tracing_disabled(True)

    @function_tool(needs_approval=True)
    async def charge(dollars: int) -> str:
        """Charge the customer."""
        return outside.charge()

    agent = Agent(name="charging", model=Scripted(outside), tools=[charge])
    session = SQLiteSession("run", outside.folder / "session.db")
    try:
        return asyncio.run(_live(outside, agent, session))
    finally:
        session.close()


async def _live(outside: Outside, agent: Any, session: SQLiteSession) -> str:
    items = await session.get_items()
    last = _type(items[-1]) if items else ""
    if last == "message" and items[-1].get("role") == "assistant":
        return "answered"
    saved = outside.folder / STATE
    given: Any = "charge the customer 5 dollars"
    if last == "function_call_output":
        given = []
    elif saved.exists():
        given = await RunState.from_string(agent, saved.read_text())
    elif items:
        given = []
    result = await Runner.run(agent, given, session=session)
    while result.interruptions:
        state = result.to_state()
        for interruption in result.interruptions:
            state.approve(interruption)
        outside.save(STATE, state.to_string())
        result = await Runner.run(agent, state, session=session)
    return "answered" if result.final_output == "done" else f"ended with {result.final_output}"


def _type(item: Any) -> str:
    return str(item.get("type", "message")) if isinstance(item, dict) else str(getattr(item, "type", ""))
