"""A process that drives runs on Postgres, each of which buys things: `python postgres_worker.py '{"address": ...}'`.

It says in a line of JSON each time when a model is asked, and how each run ended. What is bought is a file in a folder,
whose name has the key: a shop that sells once for each key.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import anyio

from heaveto.causes import to_data
from heaveto.errors import AgentError, RunNotFound
from heaveto.journal import Summary
from heaveto.journal.postgres import PostgresStore
from heaveto.messages import AssistantMessage, Reply, ToolCall
from heaveto.models import Request
from heaveto.runs import Agent, read_state
from heaveto.scopes import finish, tasks
from heaveto.testing.scripted_model import USAGE, Line, ScriptedModel, ScriptedStream
from heaveto.tools import Call, tool

__all__ = ["GATE", "SHOP", "Buyer", "FromAHost", "Work", "buy", "drive", "main"]

SHOP, GATE = "shop", "gate"
CLOSE_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a process is to do.

    Attributes:
        gate: The turn whose model call waits until there is a file `gate`, so that nothing ends too early; 0 for none.
        host: As which machine it drives, for others that cannot look at its processes; empty for this one.
        pause_seconds: Before each piece of a reply, of which there are two or three.
    """

    address: str
    folder: str
    runs: list[str]
    backend: str = "asyncio"
    turns: int = 6
    gate: int = 0
    host: str = ""
    pause_seconds: float = 0.02
    lease_seconds: float = 60.0
    save_seconds: float = 10.0

    def as_argument(self) -> str:
        return json.dumps(asdict(self))


class FromAHost(PostgresStore):
    """The store of a process of a machine that nobody here can look into."""

    def __init__(self, work: Work) -> None:
        super().__init__(work.address, lease_seconds=work.lease_seconds, save_seconds=work.save_seconds)
        self._host = work.host

    async def create(self, run_id: str, owner: str, bodies: Any, summary: Summary) -> int:
        return await super().create(run_id, self._from_here(owner), bodies, summary)

    async def take(self, run_id: str, owner: str) -> int:
        return await super().take(run_id, self._from_here(owner))

    def _from_here(self, owner: str) -> str:
        return f"{self._host}/{owner.partition('/')[2]}" if self._host else owner


class Buyer(ScriptedModel):
    """Buys one thing in each turn, and looks at nothing but the conversation, so it goes on in another process."""

    def __init__(self, run_id: str, work: Work) -> None:
        super().__init__([self._next] * (work.turns + 1), name="buyer", pause_seconds=work.pause_seconds)
        self._run_id, self._work = run_id, work

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[ScriptedStream]:
        turn = _turn_of(request)
        say(run=self._run_id, turn=turn)
        while turn == self._work.gate and not (Path(self._work.folder) / GATE).exists():
            await anyio.sleep(0.02)
        async with super().stream(request) as stream:
            yield stream

    def _next(self, request: Request) -> Line:
        turn = _turn_of(request)
        if turn > self._work.turns:
            return "all is bought"
        call = ToolCall(f"call-{turn}", "buy", json.dumps({"what": f"thing {turn}"}))
        return Reply(message=AssistantMessage("", (call,)), finish="tool_calls", usage=USAGE)


def _turn_of(request: Request) -> int:
    return 1 + sum(isinstance(message, AssistantMessage) for message in request.transcript)


@tool(effect="write", idempotency_key=True)
async def buy(what: str, call: Call) -> str:
    """Buy something."""
    (call.folder / SHOP / f"{call.run_id} {what} {call.key}").touch()
    return f"bought {what}"


async def drive(store: PostgresStore, work: Work, run_id: str) -> dict[str, Any]:
    """Begin the run, or go on with it, to its end; how that was."""
    agent = Agent(model=Buyer(run_id, work), tools=[buy], store=store, folder=work.folder)
    try:
        try:
            await read_state(store, run_id)
        except RunNotFound:
            opened = agent.start("buy all of it", run_id=run_id)
        else:
            opened = agent.reopen(run_id)
        async with opened as run:
            outcome = await run.wait()
    except AgentError as error:  # it could not be begun, or taken up
        return {"run": run_id, "kind": "not begun", "code": error.code, "text": str(error)}
    ended = outcome.cause or outcome.error
    told = to_data(ended) if ended is not None else {"code": "", "text": ""}
    return {"run": run_id, "kind": outcome.kind, "code": told["code"], "text": told["text"]}


async def _whole(work: Work) -> None:
    store = FromAHost(work)

    async def one(run_id: str) -> None:
        say(**await drive(store, work, run_id))

    async with tasks() as group:
        for run_id in work.runs:
            group.start_soon(one, run_id)
    await finish(CLOSE_SECONDS, store.aclose)


def say(**what: Any) -> None:
    if __name__ == "__main__":
        sys.stdout.write(f"{json.dumps(what)}\n")
        sys.stdout.flush()


def main() -> None:
    work = Work(**json.loads(sys.argv[1]))
    Path(work.folder, SHOP).mkdir(parents=True, exist_ok=True)
    anyio.run(_whole, work, backend=work.backend)


if __name__ == "__main__":
    main()
