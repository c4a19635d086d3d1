"""Ours: an agent with its journal in SQLite. A person is asked where nobody else can tell, and looks at the bank."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import anyio
from crash_points import Outside

from heaveto.errors import RunNotFound
from heaveto.journal import SqliteStore
from heaveto.loop import Outcome
from heaveto.messages import AssistantMessage, Reply, ToolCall, ToolMessage, Usage
from heaveto.models import Request
from heaveto.runs import Agent, read_state, resolve_call
from heaveto.testing.scripted_model import scripted
from heaveto.tools import Call, Check, tool

__all__ = ["live", "live_with_check", "live_with_key"]

RUN = "run"
USAGE = Usage(input_tokens=100, output_tokens=10, cost_usd=Decimal("0.001"))


@tool
async def _any(dollars: int) -> str:
    """Have what makes schemas loaded before the processes are forked."""
    return str(dollars)


LOADED = _any.schema, asyncio.run(anyio.sleep(0))


def live(outside: Outside) -> str:
    """The bank takes no key and tells nothing."""

    @tool(effect="write")
    async def charge(dollars: int) -> str:
        """Charge the customer."""
        return outside.charge()

    return asyncio.run(_live(outside, charge))


def live_with_key(outside: Outside) -> str:
    """The bank does a thing once for each key."""

    @tool(effect="write", idempotency_key=True)
    async def charge(dollars: int, call: Call) -> str:
        """Charge the customer."""
        return "charged" if call.key in outside.charges() else outside.charge(call.key)

    return asyncio.run(_live(outside, charge))


def live_with_check(outside: Outside) -> str:
    """The bank can be asked about a charge by its reference."""

    async def check(call: Call, arguments: Mapping[str, Any]) -> Check:
        return Check("done", "charged") if call.call_id in outside.charges() else Check("not_done", "no such charge")

    @tool(effect="write", check=check)
    async def charge(dollars: int, call: Call) -> str:
        """Charge the customer."""
        return outside.charge(call.call_id)

    return asyncio.run(_live(outside, charge))


async def _live(outside: Outside, charge: Any) -> str:
    store = SqliteStore(outside.folder / "journal.db")
    agent = Agent(model=scripted(*[lambda request: _reply(outside, request)] * 4), tools=[charge], store=store)
    try:
        outcome = await _drive(agent, store)
        while outcome is not None and outcome.kind == "waiting":
            outside.save("person", "asked")
            state = await read_state(store, RUN)
            for entry in state.in_doubt():
                await resolve_call(store, RUN, entry.call.id, "done" if outside.charges() else "again", "charged", "ada")
            outcome = await _drive(agent, store)
        return "answered" if outcome is None else outcome.kind
    finally:
        await store.aclose()


async def _drive(agent: Agent, store: SqliteStore) -> Outcome | None:
    try:
        state = await read_state(store, RUN)
    except RunNotFound:
        opened: Any = agent.start("charge the customer 5 dollars", run_id=RUN)
    else:
        if state.answer is not None and state.finished is not None:
            return None
        opened = agent.reopen(RUN)
    async with opened as run:
        return await run.wait()
    raise AssertionError("it has an outcome")


def _reply(outside: Outside, request: Request) -> Reply:
    outside.note_asked()
    if any(isinstance(message, ToolMessage) for message in request.transcript):
        return Reply(message=AssistantMessage("done"), finish="answer", usage=USAGE)
    call = ToolCall("call_1", "charge", '{"dollars": 5}')
    return Reply(message=AssistantMessage("", (call,)), finish="tool_calls", usage=USAGE)
