"""The loop's tests run under the fake clock, on both back ends; `drive` runs an agent on a script to its end."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from heaveto.journal import MemoryStore, Store
from heaveto.journal.records import Record, ToolFinished, ToolResolved, ToolStarted
from heaveto.loop import Event, Outcome
from heaveto.messages import Message, ToolMessage
from heaveto.runs import Agent, Run, read_records
from heaveto.testing.clocks import FakeClock
from heaveto.testing.scripted_model import Line, ScriptedModel, scripted

sys.path.insert(0, str(Path(__file__).parent))  # for `counted_model`, which two modules use


@pytest.fixture
def anyio_backend(fake_clock: FakeClock) -> tuple[str, dict[str, Any]]:
    return fake_clock.backend


@dataclass(kw_only=True)
class Driven:
    """A drive that has ended."""

    outcome: Outcome
    model: ScriptedModel
    store: Store
    records: list[Record]
    events: list[Event] = field(default_factory=list)

    @property
    def messages(self) -> Sequence[Message]:
        return self.outcome.report.messages

    @property
    def answers(self) -> list[ToolMessage]:
        """What the model reads about its calls, in the order of the conversation."""
        return [message for message in self.messages if isinstance(message, ToolMessage)]

    @property
    def endings(self) -> list[tuple[str, str]]:
        return [(answer.name, answer.ending) for answer in self.answers]

    def finished(self, name: str) -> ToolFinished:
        """The record of the one call of that tool."""
        (record,) = [each for each in self.records if isinstance(each, ToolFinished) and each.name == name]
        return record

    def of(self, kind: type[Any]) -> list[Any]:
        return [record for record in self.records if isinstance(record, kind)]

    @property
    def started(self) -> list[ToolStarted]:
        return self.of(ToolStarted)

    @property
    def resolved(self) -> list[ToolResolved]:
        return self.of(ToolResolved)


async def _drive(
    *lines: Line,
    during: Callable[[Run], Awaitable[object]] | None = None,
    resume: str | None = None,
    store: Store | None = None,
    resume_options: dict[str, Any] | None = None,
    **options: Any,
) -> Driven:
    """Run an agent on a script to its end; `during` is given the run meanwhile. `resume` takes up that run instead."""
    store = store or MemoryStore()
    model = scripted(*lines)
    agent = Agent(model=model, store=store, **options)
    run_id = resume or "run"
    opened = agent.reopen(run_id, **(resume_options or {})) if resume else agent.start("do it", run_id=run_id)
    async with opened as run:
        events = run.events()
        if during is not None:
            await during(run)
        outcome = await run.wait()
    seen = [event async for event in events]
    return Driven(outcome=outcome, model=model, store=store, records=await read_records(store, run_id), events=seen)


@pytest.fixture
def drive() -> Callable[..., Awaitable[Driven]]:
    return _drive
