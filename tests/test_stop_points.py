"""Public operations stopped at every await: by a cancel, a deadline, a shutdown, and a second cancel soon after.

Runs and resumes have a file of their own (`runs/test_stops.py`), stores another (`journal/test_sqlite.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import pytest

from heaveto.causes import Cancelled, Shutdown
from heaveto.errors import APIError
from heaveto.journal import MemoryStore
from heaveto.messages import Transcript, Usage, UserMessage
from heaveto.models import HTTPRequest, Request, compatible
from heaveto.retry import Attempt, RetryPolicy, retrying
from heaveto.runs import Agent
from heaveto.scopes import RateLimit, Slots, call_in_thread, finish, graced, on_stop, tasks
from heaveto.testing.clocks import FakeClock
from heaveto.testing.scripted_model import calls, scripted
from heaveto.testing.stops import StoppedRun, every_await
from heaveto.tools import Call, file_tools, tool

pytestmark = pytest.mark.slow


def check(run: StoppedRun[Any]) -> None:
    """What holds of every operation: nothing is left running, and what comes out is the stop, as itself."""
    assert run.left_running == (), run
    if run.error is not None:
        assert (type(run.error), str(run.error)) == (type(run.cause), str(run.cause)), run


def test_work_that_must_finish_does(second_stops: tuple[int, ...], seeds: tuple[int, ...]) -> None:
    """Begun means finished, in whatever scopes, groups and graces it is."""
    begun: list[str] = []
    finished: list[str] = []

    async def save(what: str) -> None:
        begun.append(what)
        for _ in range(3):
            await anyio.sleep(1)
        finished.append(what)

    async def worker(what: str) -> None:
        try:
            await anyio.sleep(5)
        finally:
            await finish(10, save, what)

    async def work() -> None:
        begun.clear()
        finished.clear()
        async with graced(2, Shutdown):
            await finish(10, save, "first")
            async with tasks() as group:
                group.start_soon(worker, "one")
                group.start_soon(worker, "two")
        await finish(10, save, "last")

    for run in every_await(work, again_after=second_stops, seeds=seeds):
        check(run)
        assert sorted(begun) == sorted(finished), run


def test_slots_and_limits_shared_by_workers(second_stops: tuple[int, ...], seeds: tuple[int, ...]) -> None:
    """All slots are free afterwards, and nobody waits."""
    shared: list[tuple[Slots, RateLimit]] = []

    async def worker(slots: Slots, limit: RateLimit) -> None:
        for _ in range(2):
            await limit.wait(3)
            async with slots.hold():
                await anyio.sleep(0.3)

    async def work() -> None:
        slots, limit = Slots(2), RateLimit(requests=600, tokens=600, burst=2)
        shared.append((slots, limit))
        async with tasks() as group, on_stop(lambda cause: None):
            for _ in range(4):
                group.start_soon(worker, slots, limit)

    for run in every_await(work, again_after=second_stops, seeds=seeds):
        check(run)
        slots, limit = shared[-1]
        assert (slots.statistics().taken, slots.statistics().waiting, limit._waiting) == (0, 0, 0), run


def test_retries_hand_each_attempts_spend_over_once(second_stops: tuple[int, ...], seeds: tuple[int, ...]) -> None:
    told: list[int] = []
    began: list[int] = []

    async def attempt(attempt: Attempt) -> str:
        began.append(attempt.number)
        attempt.spends(lambda: Usage(input_tokens=attempt.number))
        await anyio.sleep(1)
        if attempt.number < 4:
            raise APIError("p", 503, "busy")
        told.append(attempt.number)
        return "done"

    async def work() -> str:
        told.clear()
        began.clear()
        return await retrying(
            attempt,
            RetryPolicy(attempts=5, base_seconds=1),
            on_retry=lambda notice: told.append(notice.spent.input_tokens if notice.spent else 0),
            on_lost=lambda usage: told.append(usage.input_tokens),
            random=lambda: 0.5,
        )

    for run in every_await(work, again_after=second_stops, seeds=seeds):
        check(run)
        assert told == began, run


CHUNKS = [
    *({"choices": [{"index": 0, "delta": {"content": f"word {n} "}, "finish_reason": None}]} for n in range(8)),
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 16, "total_tokens": 23}},
]


UNSENT = Usage(cost_usd=Decimal(0))


class SlowAnswer:
    """A stream in memory, a chunk a second; it counts whether it was closed or read to its end."""

    status = 200
    headers = {"content-type": "text/event-stream"}  # noqa: RUF012

    def __init__(self) -> None:
        self._pieces = [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in CHUNKS] + [b"data: [DONE]\n\n", b""]
        self.open = self.sent = False

    async def send(self, request: HTTPRequest, connected: Callable[[], None]) -> SlowAnswer:
        await anyio.sleep(1)
        connected()
        self.sent = True
        await anyio.sleep(1)
        self.open = True
        return self

    async def read(self) -> bytes:
        await anyio.sleep(1)
        piece = self._pieces.pop(0)
        self.open = bool(piece)
        return piece

    async def aclose(self) -> None:
        await anyio.sleep(0.1)
        self.open = False


def test_a_models_stream_is_closed_and_its_spend_known(second_stops: tuple[int, ...], seeds: tuple[int, ...]) -> None:
    seen: list[Any] = []

    async def work() -> str:
        answer = SlowAnswer()
        model = compatible("m", base_url="http://127.0.0.1/v1", exchange=answer, price=(1, 1))
        seen[:] = [answer, None]
        async with model.stream(Request(transcript=Transcript([UserMessage("hi")]))) as stream:
            try:
                async for _ in stream:
                    pass
            finally:
                seen[1] = stream.spent
        return stream.reply.message.content

    for run in every_await(work, again_after=second_stops, seeds=seeds):
        check(run)
        answer, spent = seen
        assert not answer.open, run
        if spent is not None:
            known = Usage(input_tokens=7, output_tokens=16, cost_usd=Decimal("0.000023")) if answer.sent else UNSENT
            assert spent.estimated or spent == known, run
            assert spent.cost_usd is not None


def test_a_watched_run_that_is_left_early(second_stops: tuple[int, ...]) -> None:
    """Whoever leaves, and whoever stops: the run has one end, in the journal, and its watcher saw it or was stopped."""
    stores: list[MemoryStore] = []

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        await anyio.sleep(1)
        return "seen"

    async def work() -> None:
        stores.append(MemoryStore())
        agent = Agent(model=scripted(calls(("look", {}), ("look", {})), "done"), tools=[look], store=stores[-1])
        async with agent.start("go") as run:
            async for event in run.events():
                if event.type == "tool.finished":
                    run.cancel(Cancelled("enough"))
            await run.wait()

    async def ends() -> list[str]:
        rows = await stores[-1].runs()
        return [row.summary.phase for row in rows if not row.owner]

    for run in every_await(work, again_after=second_stops):
        check(run)
        phases = FakeClock(run.backend).run(ends)
        assert phases in ([], ["stopped"], ["shutdown"]), run
        assert len(stores[-1]._runs) == len(phases), run


def test_threads_and_file_tools(tmp_path: Path, second_stops: tuple[int, ...]) -> None:
    """A file is as it was or as it was to be, whenever the stop comes."""
    named = {each.name: each for each in file_tools()}
    call = Call(folder=tmp_path.resolve())
    before, after = "one\ntwo\nthree\n", "one\n2\nthree\n"
    path = tmp_path / "a.txt"

    async def work() -> str:
        path.write_text(before)
        arguments = named["edit_file"].parse('{"path": "a.txt", "old": "two", "new": "2"}')
        await named["read_file"].run(call, named["read_file"].parse('{"path": "a.txt"}'))
        await named["edit_file"].plan(call, arguments)
        await named["edit_file"].run(call, arguments)
        return await call_in_thread(path.read_text)

    for run in every_await(work, again_after=second_stops[:2]):
        check(run)
        assert path.read_text() in (before, after), run
        assert [each.name for each in tmp_path.iterdir()] == ["a.txt"], run
