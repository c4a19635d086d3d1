"""A run by its name: begun, gone on with or only told, and a tool whose work is another run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest

from heaveto import why
from heaveto.causes import Cancelled, Shutdown, Stop
from heaveto.cli.texts import closing_lines
from heaveto.errors import ConfigError, MaxTurns, OutcomeUnknown, RunTaken, WrongAnswer
from heaveto.journal import Entry, MemoryStore, Store, this_process
from heaveto.messages import AssistantMessage, Image, Limits
from heaveto.runs import Agent, Result, approve_call, read_state
from heaveto.testing.clocks import FakeClock
from heaveto.testing.scripted_model import calls, scripted
from heaveto.testing.stops import every_await
from heaveto.tools import Call, Output, tool


@tool(effect="write", check=None, approval=True)
async def pay(what: str) -> str:
    """Pay."""
    return "paid"


@tool(effect="read")
async def look() -> str:
    """Look."""
    await anyio.sleep(1)
    return "seen"


def agent_of(*lines: Any, store: Any, **options: Any) -> Agent[Any]:
    return Agent(model=scripted(*lines), store=store, tools=[look, pay], **options)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.mark.anyio
async def test_it_is_begun_then_told(store: MemoryStore) -> None:
    first = await agent_of(calls(("look", {})), "42", store=store).run_once("what is it?", run_id="sum")
    before = await store.read("sum")
    again = await agent_of(store=store).run_once("what is it?", run_id="sum")
    assert (again.text, again.turns, again.spend, again.run_id) == (first.text, first.turns, first.spend, "sum")
    assert again.report.messages == first.report.messages
    assert not again.report.resumable
    assert await store.read("sum") == before, "nothing was written"


@pytest.mark.anyio
async def test_it_is_gone_on_with(store: MemoryStore) -> None:
    with pytest.raises(MaxTurns):
        await agent_of(calls(("look", {})), store=store, limits=Limits(turns=1)).run_once("go", run_id="sum")
    with pytest.raises(MaxTurns):
        await agent_of(store=store).run_once("go", run_id="sum")
    agent = agent_of("fine", store=store, limits=Limits(turns=1))
    assert (await agent.resume("sum", limits=Limits(turns=5))).turns == 2
    assert (await agent_of(store=store).run_once("go", run_id="sum")).text == "fine"


@pytest.mark.anyio
async def test_a_run_of_that_name_with_another_task_is_refused(store: MemoryStore) -> None:
    await agent_of("42", store=store).run_once("what is it?", run_id="sum")
    for task in ("what was it?", ["what is it?", Image(b"\x89PNG\r\n\x1a\n", "image/png")]):
        with pytest.raises(ConfigError, match="run sum has another task; ask for the same as before, or give another name"):
            await agent_of(store=store).run_once(task, run_id="sum")
    with pytest.raises(ConfigError, match="cannot be the name of a run"):
        await agent_of(store=store).run_once("go", run_id="../sum")
    other = await agent_of("another", store=store).run_once("go", run_id="su")  # a whole name, not the beginning of one
    assert other.text == "another"


@pytest.mark.anyio
async def test_one_that_is_driven_is_not_begun_again(store: MemoryStore) -> None:
    async with agent_of(calls(("look", {})), "42", store=store).start("go", run_id="sum") as run:
        with pytest.raises(RunTaken):
            await agent_of(store=store).run_once("go", run_id="sum")
        assert (await run.wait()).text == "42"


class Overtaken(MemoryStore):
    """Once a run was looked at, and before anything else, somebody else works on it."""

    def __init__(self, work: Callable[[Store], Awaitable[Any]]) -> None:
        super().__init__()
        self.work: Callable[[Store], Awaitable[Any]] | None = work

    async def read(self, run_id: str, after: int = 0) -> list[Entry]:
        work, self.work = self.work, None
        try:
            return await super().read(run_id, after)
        finally:
            if work is not None:
                await work(self)


@pytest.mark.anyio
@pytest.mark.parametrize("began", [False, True])
async def test_whoever_is_overtaken_by_the_answer_is_told_it(began: bool) -> None:
    async def work(store: Store) -> None:
        await agent_of("42", store=store).run_once("go", run_id="sum")

    store = Overtaken(work)
    if began:
        store.work = None
        with pytest.raises(MaxTurns):
            await agent_of(calls(("look", {})), store=store, limits=Limits(turns=1)).run("go", run_id="sum")
        store.work = lambda store: agent_of("42", store=store).resume("sum", limits=Limits(turns=2))
    assert (await agent_of(store=store).run_once("go", run_id="sum")).text == "42"


@pytest.mark.anyio
async def test_whoever_is_overtaken_by_one_that_drives_it_hears_that() -> None:
    async with AsyncExitStack() as stack:
        store = Overtaken(lambda store: stack.enter_async_context(agent_of("42", store=store).start("go", run_id="sum")))
        with pytest.raises(RunTaken):
            await agent_of(store=store).run_once("go", run_id="sum")


@pytest.mark.anyio
async def test_its_answer_has_the_form_that_is_asked_for(store: MemoryStore) -> None:
    def agent(*lines: Any, output: Any = list[int]) -> Agent[Any]:
        return Agent(model=scripted(*lines), store=store, output=output)

    await agent(calls(("final_answer", {"answer": [1, 2]}))).run_once("go", run_id="sum")
    again: Result[Any] = await agent().run_once("go", run_id="sum")
    assert (again.output, again.text) == ([1, 2], '{"answer": [1, 2]}')
    with pytest.raises(WrongAnswer, match="want"):
        await agent(output=Output(list[str])).run_once("go", run_id="sum")


# --- within a tool --------------------------------------------------------------------------------------------------


class Nested:
    """An agent whose tool has its work done by another one's run, in the same store."""

    def __init__(self, *lines: Any) -> None:
        self.store, self.inner_runs, self._lines = MemoryStore(), set[str](), lines
        self.asked = 0

    def outer(self, *, first: bool = True) -> Agent[Any]:
        @tool(effect="idempotent")
        async def research(question: str, call: Call) -> str:
            """Have it looked up."""
            self.inner_runs.add(call.key)
            return (await self._inner().run_once(question, run_id=call.key)).text

        asking = calls(("research", {"question": "why?"}))
        return Agent(model=scripted(*([asking] if first else []), "so it is"), store=self.store, tools=[research])

    def _inner(self) -> Agent[Any]:
        def next_line(request: Any) -> Any:
            self.asked += 1
            return self._lines[sum(isinstance(message, AssistantMessage) for message in request.transcript)]

        return agent_of(*[next_line] * len(self._lines), store=self.store)


def test_a_stop_at_every_await_of_a_tool_whose_work_is_a_run() -> None:
    """Its run is saved with the same cause, and is gone on with when the outer one is: no reply is paid for twice but the
    one that was cut.
    """
    nested = Nested(calls(("look", {})), "because")

    async def whole() -> str:
        nested.__init__(calls(("look", {})), "because")  # type: ignore[misc]
        return (await nested.outer().run("go", run_id="outer")).text

    for stopped in every_await(whole):
        assert isinstance(stopped.error, Stop), stopped
        if stopped.error.report is None or not stopped.error.report.pending:
            continue
        FakeClock(stopped.backend).run(_resumed, nested)


async def _resumed(nested: Nested) -> None:
    before = nested.asked
    result = await nested.outer(first=False).resume("outer")
    assert result.text == "so it is"
    (inner,) = nested.inner_runs
    state = await read_state(nested.store, inner)
    assert state.answer == "because"
    assert state.spend.calls - state.spend.unpriced_calls == 2
    assert nested.asked - before <= 2


@pytest.mark.anyio
async def test_the_outer_run_waits_while_a_person_has_to_decide_within() -> None:
    nested = Nested(calls(("pay", {"what": "rent"})), "it is paid")
    with pytest.raises(OutcomeUnknown, match=r"pay \(call_\d+\) needs an approval") as waits:
        await nested.outer().run("go", run_id="outer")
    (inner,) = nested.inner_runs
    assert why(waits.value).endswith(f"needs an approval: see to run {inner} first, then resume this one")
    ended = (await read_state(nested.store, "outer")).finished
    assert ended is not None
    assert closing_lines(ended, "outer", ours=False)[-1] == (
        f"  first: heaveto why {inner}, then resume this run in the program that began it"
    )
    (entry,) = (await read_state(nested.store, inner)).asked()
    await approve_call(nested.store, inner, entry.call.id, "approved", who="ada")
    result = await nested.outer(first=False).resume("outer")
    assert result.text == "so it is"
    assert (await read_state(nested.store, inner)).answer == "it is paid"


@pytest.mark.anyio
async def test_the_outer_run_waits_while_somebody_else_drives_the_inner_one() -> None:
    """A process that has died, say, and whose lease on the inner run is over a little later than that on the outer one."""
    nested = Nested(calls(("look", {})), "because")
    async with nested.outer().start("go", run_id="outer") as run:
        await anyio.sleep(0.5)
        run.cancel(Cancelled("a first time"))
        await run.wait()
    (inner,) = nested.inner_runs
    await nested.store.take(inner, this_process())
    for _ in range(4):
        with pytest.raises(OutcomeUnknown, match=f"research .*: outcome unknown: run {inner} is being driven by process"):
            await nested.outer(first=False).resume("outer")
    await nested.store.release(inner, 2)
    await _resumed(nested)


@pytest.mark.anyio
async def test_a_stop_of_the_outer_run_is_the_inner_one_s_cause() -> None:
    nested = Nested(calls(("look", {})), "because")
    async with nested.outer().start("go", run_id="outer") as run:
        await anyio.sleep(0.5)
        run.cancel(Cancelled("lunch", "ada"))
        assert (await run.wait()).kind == "stopped"
    (inner,) = nested.inner_runs
    finished = (await read_state(nested.store, inner)).finished
    assert finished is not None
    assert "lunch" in finished.why


@pytest.mark.anyio
async def test_an_inner_run_that_ends_within_the_outer_one_s_grace_is_gone_on_with() -> None:
    """It begins no model call during the grace, so it ends with the shutdown. That is no error of the tool's."""
    nested = Nested(calls(("look", {})), "because")
    async with nested.outer().start("go", run_id="outer") as run:
        await anyio.sleep(0.5)
        run.cancel(Shutdown("SIGTERM"))
        outcome = await run.wait()
    assert (outcome.kind, [call.name for call in outcome.report.pending]) == ("shutdown", ["research"])
    await _resumed(nested)
    assert nested.asked == 2, "what the inner run had is not asked for again"


@pytest.mark.anyio
async def test_a_stop_that_a_tool_makes_up_during_a_grace_is_its_own() -> None:
    @tool(effect="idempotent")
    async def moody() -> str:
        """Give up."""
        await anyio.sleep(1)
        raise Shutdown("a strike")

    agent: Agent[Any] = Agent(model=scripted(calls(("moody", {}))), tools=[moody], store=MemoryStore())
    async with agent.start("go") as run:
        await anyio.sleep(0.5)
        run.cancel(Shutdown("SIGTERM"))
        outcome = await run.wait()
    assert (outcome.kind, outcome.report.pending) == ("shutdown", ())
    assert "Shutdown: shutting down: a strike" in outcome.report.messages[2].content  # type: ignore[operator]
