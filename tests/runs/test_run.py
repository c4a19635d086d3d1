"""A run under way: how it is stopped, and that its end is told exactly once, whatever goes wrong."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest

from heaveto.causes import Cancelled, DeadlinePassed, SaveTimeout, Shutdown, StoppedFromOutside
from heaveto.errors import JournalError, MaxTurns, RunTaken
from heaveto.journal import MemoryStore
from heaveto.journal.records import RunFinished, ToolFinished, decode_record
from heaveto.loop import Outcome
from heaveto.messages import Limits, ToolMessage
from heaveto.runs import Agent, Run, read_records
from heaveto.scopes import Scope, deadline, tasks
from heaveto.testing import FakeClock, FaultyStore, calls, fault_at, scripted
from heaveto.testing.faults import Fault
from heaveto.tools import tool

pytestmark = pytest.mark.anyio


@tool(effect="read")
async def wait(seconds: float) -> str:
    """Wait."""
    await anyio.sleep(seconds)
    return f"waited {seconds:g} s"


def wait_for(*seconds: float) -> Any:
    return calls(*[("wait", {"seconds": each}) for each in seconds])


def agent_of(*lines: Any, store: Any = None, pause_seconds: float = 0, **options: Any) -> Agent:
    model = scripted(*lines, pause_seconds=pause_seconds)
    return Agent(model=model, store=store or MemoryStore(), tools=[wait], **options)


async def last_record(store: Any) -> RunFinished:
    records = await read_records(store, "run")
    assert [type(each) for each in records].count(RunFinished) == 1
    last = records[-1]
    assert isinstance(last, RunFinished)
    return last


# --- stops ----------------------------------------------------------------------------------------------------------


async def test_a_cancel_before_the_drive_has_begun_is_not_lost() -> None:
    store = MemoryStore()
    async with agent_of("never", store=store).start("go", run_id="run") as run:
        run.cancel(Cancelled("changed my mind", "ada"))
        outcome = await run.wait()
    assert (outcome.kind, outcome.why) == ("stopped", "cancelled by ada: changed my mind")
    assert (await last_record(store)).why == outcome.why
    assert outcome.report.spend.calls == 0


async def test_the_first_of_two_causes_is_kept() -> None:
    async with agent_of(wait_for(100)).start("go") as run:
        await anyio.sleep(1)
        run.cancel(Cancelled("first"))
        run.cancel(Cancelled("second"))
        outcome = await run.wait()
        run.cancel(Cancelled("third, when it has ended"))
    assert isinstance(outcome.cause, Cancelled)
    assert outcome.cause.reason == "first"
    assert run.outcome is outcome


async def test_the_first_of_two_causes_is_kept_though_the_second_comes_from_around_the_run() -> None:
    """The narrow scope's native cancellation is not caught by it then, but by the wider one."""
    store = MemoryStore()
    with pytest.raises(Cancelled, match="second"), Scope() as scope:
        async with agent_of(wait_for(100), store=store).start("go", run_id="run") as run:
            await anyio.sleep(1)
            run.cancel(Cancelled("first"))
            scope.cancel(Cancelled("second"))
            await anyio.sleep(1)
    assert (await last_record(store)).why == "cancelled: first"


async def test_two_causes_before_the_drive_has_begun() -> None:
    async with agent_of("never").start("go") as run:
        run.cancel(Shutdown("SIGTERM"))
        run.cancel(Cancelled("second"))
        outcome = await run.wait()
    assert (outcome.kind, outcome.exit_status) == ("shutdown", 143)


async def test_a_stop_comes_with_the_run_as_far_as_it_came() -> None:
    agent = agent_of(wait_for(1, 100), "never")
    async with agent.start("go", run_id="run") as run:
        await anyio.sleep(5)
        assert [call.name for call in run.report().pending] == ["wait"]
        run.cancel()
        outcome = await run.wait()
    assert outcome.cause is not None
    report = outcome.cause.report
    assert report is outcome.report is run.report()
    assert (report.run_id, report.turns, report.spend.calls, report.seconds) == ("run", 1, 1, 5)
    assert next(each.content for each in report.messages if isinstance(each, ToolMessage)) == "waited 1 s"
    assert outcome.why == "cancelled"


async def test_a_waiter_that_gives_up_does_not_stop_the_run() -> None:
    async with agent_of(wait_for(10), "fine").start("go") as run:
        with anyio.move_on_after(1):
            await run.wait()
        assert run.outcome is None
        assert (await run.wait()).text == "fine"


# --- shutdown and its grace -----------------------------------------------------------------------------------------


async def stopped_at(run: Run, at: float, *causes: Any, apart: float = 0) -> Outcome:
    await anyio.sleep(at)
    for cause in causes:
        run.cancel(cause)
        await anyio.sleep(apart)
    return await run.wait()


async def test_in_a_grace_a_tool_finishes_and_nothing_new_begins(fake_clock: FakeClock) -> None:
    store = MemoryStore()
    agent = agent_of(wait_for(5, 3), "never", store=store)
    async with agent.start("go", run_id="run") as run:
        outcome = await stopped_at(run, 2, Shutdown("SIGTERM"))
    assert (outcome.kind, outcome.exit_status, fake_clock.now) == ("shutdown", 143, 5)
    answers = [each for each in outcome.report.messages if isinstance(each, ToolMessage)]
    assert [each.content for each in answers] == ["waited 5 s", "waited 3 s"]
    assert outcome.report.spend.calls == 1
    assert (await agent_of("fine", store=store).resume("run")).text == "fine"


async def test_in_a_grace_a_model_call_finishes_and_its_calls_do_not_begin(fake_clock: FakeClock) -> None:
    store = MemoryStore()
    agent = agent_of(wait_for(5, 3), "never", store=store, pause_seconds=1)
    async with agent.start("go", run_id="run") as run:
        outcome = await stopped_at(run, 1.5, Shutdown("SIGTERM"))
    assert (outcome.kind, fake_clock.now) == ("shutdown", 3)
    answers = [each for each in outcome.report.messages if isinstance(each, ToolMessage)]
    assert [each.ending for each in answers] == ["not_run", "not_run"]
    assert answers[0].content.startswith("cancelled before it ran: shutting down: SIGTERM")
    assert (outcome.report.turns, outcome.report.pending) == (1, ())


async def test_a_call_that_outlives_the_grace_is_cut_with_the_shutdown_as_its_cause(fake_clock: FakeClock) -> None:
    agent = agent_of(wait_for(100), grace_seconds=7)
    async with agent.start("go", run_id="run") as run:
        outcome = await stopped_at(run, 2, Shutdown("SIGHUP"))
    assert (outcome.kind, outcome.exit_status, fake_clock.now) == ("shutdown", 129, 9)
    assert outcome.report.messages[-1].content == "stopped while it ran: shutting down: SIGHUP"


async def test_a_second_stop_ends_the_grace_and_keeps_the_cause(fake_clock: FakeClock) -> None:
    agent = agent_of(wait_for(100), grace_seconds=7)
    async with agent.start("go", run_id="run") as run:
        outcome = await stopped_at(run, 2, Shutdown("SIGTERM"), Cancelled("now"), apart=1)
    assert (outcome.why, fake_clock.now) == ("shutting down: SIGTERM: resume the run when the machine is back", 4)


async def test_no_grace_for_any_other_cause(fake_clock: FakeClock) -> None:
    async with agent_of(wait_for(100)).start("go", run_id="run") as run:
        await anyio.sleep(2)
        run.cancel(Cancelled())
        await run.wait()
        assert fake_clock.now == 2


async def test_a_shutdown_around_the_run_has_its_grace_too(fake_clock: FakeClock) -> None:
    store = MemoryStore()
    with pytest.raises(Shutdown), Scope() as scope:
        async with tasks() as group:
            group.start_soon(agent_of(wait_for(5), "never", store=store).run, "go")
            await anyio.sleep(2)
            scope.cancel(Shutdown("SIGTERM"))
    assert fake_clock.now == 5


# --- stops from around ----------------------------------------------------------------------------------------------


async def test_a_deadline_around_a_run_is_recorded_and_raised(fake_clock: FakeClock) -> None:
    store = MemoryStore()
    with pytest.raises(DeadlinePassed) as caught, deadline(30, DeadlinePassed(30, "patience")):
        await agent_of(wait_for(100), store=store).run("go", run_id="run")
    assert (str(caught.value), fake_clock.now) == ("a deadline of 30 s passed (patience)", 30)
    end = await last_record(store)
    assert (end.outcome, end.why, end.resumable) == ("stopped", "a deadline of 30 s passed (patience)", True)
    assert (await agent_of("fine", store=store).resume("run")).text == "fine", "and it is nobody's any more"


async def test_a_run_that_is_left_early_is_stopped_with_a_cause() -> None:
    store = MemoryStore()
    async with agent_of(wait_for(100), store=store).start("go", run_id="run") as run:
        await anyio.sleep(1)
    assert run.outcome is not None
    assert run.outcome.why == "cancelled by the program: the block that started the run was left"
    assert (await last_record(store)).why == run.outcome.why


async def test_a_program_that_fails_beside_its_run_is_the_runs_cause() -> None:
    store = MemoryStore()
    with pytest.raises(KeyError):
        async with agent_of(wait_for(100), store=store).start("go", run_id="run"):
            await anyio.sleep(1)
            raise KeyError("a bug")
    why = (await last_record(store)).why
    assert why == "cancelled by the program: the block that started the run failed: unexpected error: KeyError: 'a bug'"


def test_a_native_cancellation_is_recorded_and_goes_on() -> None:
    store = MemoryStore()

    async def main() -> None:
        task = asyncio.ensure_future(agent_of(wait_for(100), store=store).run("go", run_id="run"))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == {asyncio.current_task()}
        end = await last_record(store)
        assert (end.outcome, end.why) == ("stopped", str(StoppedFromOutside()))
        assert [each.ending for each in await read_records(store, "run") if isinstance(each, ToolFinished)] == ["stopped"]

    FakeClock("asyncio").run(main)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("beside", [0, 1])
def test_a_tool_that_leaves_the_program_does_and_its_run_is_concluded_first(backend: Any, beside: int) -> None:
    """With a neighbour the tool is in a task of its own, and asyncio leaves its loop with a SystemExit of a task at once."""

    @tool(effect="read")
    async def leave() -> str:
        """Leave the program."""
        await anyio.sleep(1)
        raise SystemExit(3)

    store = MemoryStore()
    asked = calls(("leave", {}), *[("wait", {"seconds": 5})] * beside)
    with pytest.raises(SystemExit) as caught:
        FakeClock(backend).run(Agent(model=scripted(asked), store=store, tools=[leave, wait]).run, "go")
    assert caught.value.code == 3
    (run,) = store._runs.values()
    end = decode_record(run.entries[-1].body)
    assert isinstance(end, RunFinished)
    assert end.outcome in ("failed", "stopped")
    assert run.owner == ""


# --- a journal that fails -------------------------------------------------------------------------------------------


def failing_at(number: int, fault: Fault) -> FaultyStore:
    """A store whose append of that number, and each after it, goes wrong."""
    return FaultyStore(MemoryStore(), fault_at(number, fault, lasting=True))


APPENDS = 5  # of the run below: its two turns with two tools, and its end


async def drive_on(store: Any) -> tuple[Outcome, list[Any]]:
    async with agent_of(wait_for(1, 2), wait_for(1), "fine", store=store).start("go", run_id="run") as run:
        events = run.events()
        outcome = await run.wait()
    return outcome, [event async for event in events]


def check_the_end_is_told_once(outcome: Outcome, events: list[Any]) -> None:
    ends = [event for event in events if isinstance(event.body, RunFinished)]
    assert ends == events[-1:]
    assert (ends[0].body.outcome, ends[0].body.why) == (outcome.kind, outcome.why)
    ids = [tuple(map(int, event.id.split("."))) for event in events]
    assert ids == sorted(set(ids)), "ids go up, and none is used twice"


async def test_how_many_appends_there_are() -> None:
    store = FaultyStore(MemoryStore())
    outcome, events = await drive_on(store)
    assert (outcome.kind, store.appends) == ("answered", APPENDS)
    check_the_end_is_told_once(outcome, events)


@pytest.mark.parametrize("at", range(1, APPENDS + 1))
@pytest.mark.parametrize("fault", ["before", "after"])
async def test_a_store_that_fails_ends_the_run_and_that_is_told_all_the_same(at: int, fault: Fault) -> None:
    store = failing_at(at, fault)
    outcome, events = await drive_on(store)
    assert isinstance(outcome.error, JournalError)
    assert (outcome.kind, outcome.exit_status) == ("failed", 1)
    assert outcome.report.run_id == "run"
    check_the_end_is_told_once(outcome, events)
    assert events[-1].durable is False
    durable = [event for event in events if event.durable]
    assert len(durable) <= len(await store.read("run")), "what was told as durable is on disk"
    assert store.appends == at, "nothing is written after what could not be written"


@pytest.mark.parametrize("at", range(1, APPENDS + 1))
@pytest.mark.parametrize("fault", ["before", "after"])
async def test_a_run_whose_store_failed_can_be_taken_up_in_the_same_process(at: int, fault: Fault) -> None:
    store = failing_at(at, fault)
    await drive_on(store)
    store.choose = None
    async with agent_of("fine", "fine", store=store).reopen("run", say="go on") as run:
        outcome = await run.wait()
    assert outcome.text == "fine"


@pytest.mark.parametrize("at", range(1, APPENDS + 1))
async def test_a_slow_store_is_waited_for_also_by_a_stop(at: int) -> None:
    store = failing_at(at, "slow")
    async with agent_of(wait_for(1, 2), wait_for(1), "fine", store=store).start("go", run_id="run") as run:
        events = run.events()
        await anyio.sleep(3.5)
        run.cancel(Cancelled("lunch"))
        outcome = await run.wait()
    assert outcome.kind in ("stopped", "answered")
    seen = [event async for event in events]
    check_the_end_is_told_once(outcome, seen)
    records = await read_records(store, "run")
    assert [event.body for event in seen if event.durable] == records, "the watchers saw what is on disk, all of it"


async def test_a_store_that_never_answers_at_the_end_is_given_up(fake_clock: FakeClock) -> None:
    store = failing_at(APPENDS, "hangs")
    outcome, events = await drive_on(store)
    assert isinstance(outcome.cause, SaveTimeout)
    assert (outcome.kind, fake_clock.now) == ("gave_up", 3 + 15)
    check_the_end_is_told_once(outcome, events)
    assert events[-1].durable is False


async def test_a_stop_that_could_not_be_saved_is_not_forgotten() -> None:
    store = failing_at(2, "before")
    async with agent_of(wait_for(100), store=store).start("go", run_id="run") as run:
        await anyio.sleep(1)
        run.cancel(Cancelled("lunch", "ada"))
        outcome = await run.wait()
    assert isinstance(outcome.error, JournalError)
    assert outcome.error.__notes__ == ["while saving how the run ended: cancelled by ada: lunch"]


async def test_the_time_of_earlier_drives_is_kept_when_the_end_cannot_be_saved() -> None:
    store = FaultyStore(MemoryStore())
    async with agent_of(wait_for(100), store=store).start("go", run_id="run") as run:
        await anyio.sleep(40)
        run.cancel()
        await run.wait()
    store.choose = fault_at(
        store.appends + 3, "before", lasting=True
    )  # after the drive's start and the verdict on the call that was cut
    async with agent_of(store=store).reopen("run") as run:
        events = run.events()
        await anyio.sleep(3)
        run.cancel()
        await run.wait()
    last = [event async for event in events][-1].body
    assert isinstance(last, RunFinished)
    assert last.seconds == 43


async def test_a_store_that_cannot_let_go_of_a_run_does_not_spoil_its_answer() -> None:
    class Clingy(MemoryStore):
        async def release(self, run_id: str, epoch: int) -> None:
            await anyio.sleep_forever()

    result = await agent_of("fine", store=Clingy()).run("go")
    assert result.text == "fine"


class Unheard(MemoryStore):
    """Does what it is asked for, and its word of that is lost."""

    def __init__(self, lost: str) -> None:
        super().__init__()
        self._lost: str | None = lost

    async def create(self, *args: Any) -> int:
        epoch = await super().create(*args)
        return self._answer("create", epoch)

    async def take(self, *args: Any) -> int:
        return self._answer("take", await super().take(*args))

    async def release(self, *args: Any) -> None:
        if self._lost != "release":  # a full disk: it did nothing
            await super().release(*args)
        self._answer("release", 0)

    def _answer(self, name: str, epoch: int) -> int:
        if self._lost == name:
            self._lost = None
            raise JournalError("the disk is full")
        return epoch


@pytest.mark.parametrize("lost", ["create", "take", "release"])
async def test_what_a_store_failed_to_say_keeps_no_run_from_this_process(lost: str) -> None:
    """It counts as driven by a process that is alive, and the process knows that it does not drive it."""
    store = Unheard(lost)
    agent = agent_of(wait_for(0), "fine", store=store, limits=Limits(turns=1))
    with pytest.raises((MaxTurns, JournalError)):
        await agent.run("go", run_id="run")
    again = agent_of("fine", store=store)
    if lost == "take":
        with pytest.raises(JournalError, match="the disk is full"):
            await again.resume("run", limits=Limits(turns=9))
    assert (await again.resume("run", limits=Limits(turns=9))).text == "fine"
    assert (await store.runs())[0].owner == ""


async def test_a_run_that_this_process_drives_is_taken_by_nobody_meanwhile() -> None:
    store = MemoryStore()
    async with agent_of(wait_for(5), "fine", store=store).start("go", run_id="run") as run:
        await anyio.sleep(1)
        with pytest.raises(RunTaken):
            await agent_of(store=store).resume("run")
        assert (await run.wait()).text == "fine"


async def test_a_bug_of_ours_ends_the_run_like_any_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from heaveto.loop.turn import Loop

    async def broken(self: Loop) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(Loop, "run", broken)
    store = MemoryStore()
    outcome, events = await drive_on(store)
    assert (outcome.kind, outcome.why) == ("failed", "unexpected error: ZeroDivisionError: a bug")
    check_the_end_is_told_once(outcome, events)
    assert (await last_record(store)).cause is not None


async def test_a_bug_while_the_end_is_written_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from heaveto.loop.answering import Answering

    def broken(self: Answering, why: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(Answering, "answer_not_run", broken)
    async with agent_of(wait_for(100)).start("go", run_id="run") as run:
        events = run.events()
        await anyio.sleep(1)
        run.cancel()
        outcome = await run.wait()
    assert outcome.why == "unexpected error: ZeroDivisionError: a bug"
    check_the_end_is_told_once(outcome, [event async for event in events])
