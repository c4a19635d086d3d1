"""Taking a run over, and a stop that comes meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest

from heaveto.causes import Cancelled
from heaveto.errors import OutcomeUnknown
from heaveto.journal import MemoryStore
from heaveto.runs import Agent, resolve_call
from heaveto.scopes import Scope, finish, tasks
from heaveto.testing.scripted_model import calls, scripted
from heaveto.tools import Call, tool

pytestmark = pytest.mark.anyio


class SlowStore(MemoryStore):
    """Takes its time to hand a run over, whoever is stopped meanwhile, as a store must."""

    taken = 0

    async def take(self, run_id: str, owner: str) -> int:
        async def slowly() -> int:
            await anyio.sleep(2)
            self.taken += 1
            return await super(SlowStore, self).take(run_id, owner)

        return await finish(10, slowly)


@tool(effect="write")
async def shout(call: Call) -> str:
    """Shout."""
    raise OutcomeUnknown("shout", call.call_id)


async def waiting_run(store: Any) -> str:
    """The id of a call that run "run" waits for a person to decide about."""
    asked = calls(("shout", {}))
    async with Agent(model=scripted(asked), tools=[shout], store=store).start("go", run_id="run") as run:
        assert (await run.wait()).kind == "waiting"
    return asked.message.tool_calls[0].id


async def owner(store: Any) -> str:
    return (await store.runs())[0].owner


@pytest.mark.parametrize("how", ["resume", "resolve"])
async def test_a_stop_while_a_run_is_taken_leaves_it_to_others(how: str) -> None:
    """A native cancellation too, which comes back only when the store has done it."""
    store = SlowStore()
    call_id = await waiting_run(store)

    async def work() -> None:
        if how == "resume":
            await Agent(model=scripted("fine"), tools=[shout], store=store).resume("run")
        else:
            await resolve_call(store, "run", call_id, "done")

    if asyncio_is_running():
        task = asyncio.ensure_future(work())
        await anyio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        with Scope(quiet=True) as scope:
            async with tasks() as group:
                group.start_soon(work)
                await anyio.sleep(1)
                scope.cancel(Cancelled("enough"))
    assert (store.taken, await owner(store)) == (1, "")


def asyncio_is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
