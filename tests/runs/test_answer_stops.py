"""The correction of a wrong answer stopped at every await and killed behind every record; and resumed, each time, to the
same answer."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any

import pytest
from pydantic import BaseModel

from heaveto.journal import MemoryStore, Summary
from heaveto.journal.records import AnswerRejected, RunFinished, decode_record
from heaveto.journal.state import fold
from heaveto.messages import ToolMessage
from heaveto.models import Request
from heaveto.runs import Agent, read_records, replay
from heaveto.testing import calls, scripted
from heaveto.testing.clocks import Backend, FakeClock
from heaveto.testing.stops import WAYS, Way, every_await
from heaveto.tools import Call, Output, tool

pytestmark = pytest.mark.slow


class Bill(BaseModel):
    total: int


RIGHT = {"total": 12}
WRONG = calls(("final_answer", {"total": "many"}), ("look", {}))


class Life:
    """One run after the other: told in words, then a wrong answer, then the right one beside an effect."""

    def __init__(self, native: bool) -> None:
        self._native = native
        self.effects: list[str] = []
        self.store = MemoryStore()

    def _next(self, request: Request) -> Any:
        """What the model says, by the conversation alone; so it says the same after a resume."""
        told = sum("like {" in getattr(message, "content", "") for message in request.transcript)
        paid = any(isinstance(message, ToolMessage) and message.content == "paid" for message in request.transcript)
        asked = [] if paid else [("pay", {})]
        if self._native:
            lines: list[Any] = ["It is a lot.", '{"total": "many"}', calls(*asked) if asked else json.dumps(RIGHT)]
        else:
            lines = ["It is a lot.", WRONG, calls(*asked, ("final_answer", RIGHT), ("look", {}))]
        return lines[min(told, 2)]

    @cached_property
    def tools(self) -> list[Any]:
        """Made once, since that costs more than a run."""

        @tool(effect="idempotent")
        async def pay(call: Call) -> str:
            """Pay."""
            self.effects.append(call.key)
            return "paid"

        @tool(effect="read")
        async def look() -> str:
            """Look."""
            return "seen"

        return [pay, look]

    def agent(self) -> Agent[Bill]:
        output = Output(Bill, native=self._native, corrections=2)
        return Agent(model=scripted(*[self._next] * 20), store=self.store, tools=self.tools, output=output)

    async def run(self) -> Bill:
        self.effects.clear()
        self.store = MemoryStore()
        return (await self.agent().run("go", run_id="run")).output

    async def resume(self) -> Bill:
        return (await self.agent().resume("run")).output

    async def records(self) -> list[Any]:
        return await read_records(self.store, "run") if await self.store.runs() else []


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_correction_stopped_at_any_await(
    backend: Backend, native: bool, second_stops: tuple[int, ...], request: pytest.FixtureRequest
) -> None:
    life = Life(native)
    points = 0
    few = request.config.getoption("--stop-points") is None
    ways: tuple[Way, ...] = ("cancel",) if few else WAYS
    second_stops = () if few else second_stops
    for stopped in every_await(life.run, backends=[backend], ways=ways, again_after=second_stops):
        points += 1
        assert stopped.left_running == (), stopped
        if stopped.error is None:
            assert stopped.value == Bill(total=12)
            continue
        assert str(stopped.error) == str(stopped.cause), stopped
        records = FakeClock(backend).run(life.records)
        if records and fold(records).finished.outcome != "answered":  # type: ignore[union-attr]
            assert FakeClock(backend).run(life.resume) == Bill(total=12), stopped
        if records:
            check(FakeClock(backend).run(life.records), life)
    assert points >= (15 if few else 40)


def check(records: list[Any], life: Life) -> None:
    """Each call has its one answer, what was not taken was told once, and the journal is what the code makes."""
    assert replay(records) == []
    state = fold(records)
    assert state.open_calls == {}
    assert json.loads(state.answer or "") == RIGHT
    assert sum(isinstance(record, AnswerRejected) for record in records) == (2 if life._native else 1)
    waiting: list[str] = []
    for message in state.transcript:
        if isinstance(message, ToolMessage):
            assert message.call_id == waiting.pop(0)
        else:
            assert waiting == []
            waiting = [call.id for call in getattr(message, "tool_calls", ())]
    assert len(set(life.effects)) == 1, "one payment, however often it was begun"


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_correction_killed_behind_any_record(backend: Backend, native: bool) -> None:
    life = Life(native)
    FakeClock(backend).run(life.run)
    bodies = [entry.body for entry in life.store._runs["run"].entries]
    assert sum(isinstance(decode_record(body), RunFinished) for body in bodies) == 1
    for length in range(2, len(bodies)):
        life.store = MemoryStore()
        FakeClock(backend).run(life.store.create, "run", "", bodies[:length], Summary())
        assert FakeClock(backend).run(life.resume) == Bill(total=12), length
        check(FakeClock(backend).run(life.records), life)
