"""The same job as `bare_loop.py` with heaveto, as its users write it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from job import PROMPT, SYSTEM, Done, Job, Notes

from heaveto import Agent, Cancelled, Limits, MemoryStore, Result, Run, open_store, tool
from heaveto.loop import Outcome
from heaveto.models import compatible
from heaveto.tools import Tool

__all__ = ["Loop"]

LIMITS = Limits(turns=10_000)
RUNS_PER_AGENT = 250  # one agent has no more model calls than that under way


def tools_for(notes: Notes) -> list[Tool]:
    @tool(effect="read")
    async def read_note(name: str) -> str:
        """Read a note."""
        return notes.read(name)

    @tool(effect="write")
    async def write_note(name: str, text: str) -> str:
        """Write a note."""
        return notes.write(name, text)

    return [read_note, write_note]


class Loop:
    """Does the job."""

    def __init__(self, job: Job) -> None:
        self._model = compatible("fake", base_url=job.url, key="none", stream=job.streamed)
        self._store = MemoryStore() if job.store == "memory" else open_store(Path(job.store))
        tools = tools_for(job.notes)
        count = -(-job.runs_at_once // RUNS_PER_AGENT)
        settings = {"model": self._model, "tools": tools, "system": SYSTEM, "limits": LIMITS, "store": self._store}
        self._agents = [Agent(**settings) for _ in range(count)]

    async def run(self, number: int = 0) -> Done:
        return _done(await self._agent(number).run(PROMPT))

    async def run_many(self, count: int) -> list[Done]:
        return await asyncio.gather(*(self.run(number) for number in range(count)))

    def start(self, count: int) -> OurRuns:
        return OurRuns([self._agent(number) for number in range(count)])

    async def aclose(self) -> None:
        await self._model.aclose()
        await self._store.aclose()

    def _agent(self, number: int) -> Agent:
        return self._agents[number % len(self._agents)]


class OurRuns:
    """Runs under way, by their handles."""

    def __init__(self, agents: list[Agent]) -> None:
        self._runs: list[Run] = []
        self._holders = [asyncio.create_task(self._hold(agent)) for agent in agents]

    def cancel(self) -> None:
        for run in self._runs:
            run.cancel(Cancelled("enough was measured"))

    async def ended(self) -> Sequence[object]:
        return await asyncio.gather(*self._holders, return_exceptions=True)

    async def _hold(self, agent: Agent) -> Outcome:
        async with agent.start(PROMPT) as run:
            self._runs.append(run)
            return await run.wait()


def _done(result: Result) -> Done:
    return Done(result.turns - 1, len(result.text))  # each turn has a call, but for the last
