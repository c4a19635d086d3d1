"""Each call of a reply has exactly one answer, whatever happens."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from heaveto.causes import Cancelled
from heaveto.errors import ApprovalNeeded, OutcomeUnknown, ToolError, ToolFatal
from heaveto.journal import MemoryStore, Summary
from heaveto.journal.records import ToolFinished, ToolStarted, decode_record
from heaveto.loop import ToolProgress, ToolRunning
from heaveto.messages import ToolCall
from heaveto.runs import Agent, Run
from heaveto.scopes import Slots, abandoned_threads, check_stop, deadline
from heaveto.testing.clocks import FakeClock
from heaveto.testing.scripted_model import calls, scripted
from heaveto.tools import Call, current_call, tool

pytestmark = pytest.mark.anyio


class Bench:
    """Tools that write down when they ran."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.now = self.most = 0

    async def work(self, what: str, seconds: float) -> str:
        self.log.append(f"{what} begins")
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await anyio.sleep(seconds)
        finally:
            self.now -= 1
        self.log.append(f"{what} ends")
        return f"{what} is done"

    @tool(effect="read")
    async def look(self, what: str, seconds: float = 1) -> str:
        """Look at something."""
        return await self.work(what, seconds)

    @tool(effect="write")
    async def change(self, what: str, seconds: float = 1) -> str:
        """Change something."""
        return await self.work(what, seconds)

    @tool(effect="write", alone=False)
    async def add(self, what: str, seconds: float = 1) -> str:
        """Add something, which others may do at the same time."""
        return await self.work(what, seconds)

    @property
    def tools(self) -> list[Any]:
        return [self.look, self.change, self.add]


def look(what: str, seconds: float = 1) -> tuple[str, dict[str, Any]]:
    return "look", {"what": what, "seconds": seconds}


def change(what: str, seconds: float = 1) -> tuple[str, dict[str, Any]]:
    return "change", {"what": what, "seconds": seconds}


# --- order ----------------------------------------------------------------------------------------------------------


async def test_reads_run_at_once_and_answer_in_the_replys_order(drive: Any, fake_clock: FakeClock) -> None:
    bench = Bench()
    driven = await drive(calls(look("a", 3), look("b", 1), look("c", 2)), "fine", tools=bench.tools)
    assert driven.outcome.text == "fine"
    assert fake_clock.now == 3
    assert [answer.content for answer in driven.answers] == ["a is done", "b is done", "c is done"]
    assert [record.content[0] for record in driven.of(ToolFinished)] == ["b", "c", "a"], "records are in order of completion"
    assert [event.body.content[0] for event in driven.events if isinstance(event.body, ToolFinished)] == ["b", "c", "a"]
    assert driven.model.requests[1] == list(driven.messages)[:-1], "the model was sent the same"


async def test_writes_run_alone_and_in_order_between_the_reads(drive: Any, fake_clock: FakeClock) -> None:
    bench = Bench()
    asked = calls(look("a", 2), look("b", 1), change("c"), look("d", 2), change("e"), change("f"))
    driven = await drive(asked, "fine", tools=bench.tools)
    assert sorted(bench.log[:2]) == ["a begins", "b begins"]
    assert bench.log[2:4] == ["b ends", "a ends"]
    assert bench.log[4:] == ["c begins", "c ends", "d begins", "d ends", "e begins", "e ends", "f begins", "f ends"]
    assert [answer.content[0] for answer in driven.answers] == list("abcdef")
    assert fake_clock.now == 2 + 1 + 2 + 1 + 1


async def test_writes_that_may_run_beside_others_do(drive: Any, fake_clock: FakeClock) -> None:
    bench = Bench()
    add = [("add", {"what": what}) for what in "abc"]
    driven = await drive(calls(*add, look("d")), "fine", tools=bench.tools)
    assert (fake_clock.now, bench.most) == (1, 4)
    assert len(driven.started) == 3


async def test_the_slots_bound_the_calls_of_all_agents_that_share_them(fake_clock: FakeClock) -> None:
    bench, slots = Bench(), Slots(3)
    reply = calls(*[look(str(number)) for number in range(6)])

    async with anyio.create_task_group() as group:
        for number in range(2):
            agent = Agent(model=scripted(reply, "fine"), store=MemoryStore(), tools=bench.tools, slots=slots)
            group.start_soon(lambda agent=agent, number=number: agent.run("look", run_id=str(number)))
    assert bench.most == 3
    assert fake_clock.now == 12 / 3
    assert slots.statistics() == (3, 0, 0)


# --- what may go wrong with a call ----------------------------------------------------------------------------------


async def test_calls_that_cannot_be_made_are_answered_and_disturb_nobody(drive: Any) -> None:
    bench = Bench()
    asked = calls(("lok", {}), look("a"), ("look", {"what": 7}), ("look", "{"), ("change", {}), change("b"))
    driven = await drive(asked, "fine", tools=bench.tools)
    assert driven.endings == [
        ("lok", "tool_error"),
        ("look", "ok"),
        ("look", "tool_error"),
        ("look", "tool_error"),
        ("change", "tool_error"),
        ("change", "ok"),
    ]
    texts = [answer.content for answer in driven.answers]
    assert (
        texts[0] == 'no tool named "lok"; did you mean look, with JSON like {"what": "..."}? the tools are add, change, look'
    )
    assert all(text.startswith("bad arguments for ") for text in texts[2:5])
    assert [marker.call_id for marker in driven.started] == [asked.message.tool_calls[5].id], (
        "what never began has no marker"
    )


async def test_the_model_reads_exactly_a_tool_errors_text(drive: Any) -> None:
    @tool(effect="write")
    async def book(seat: int) -> str:
        """Book a seat."""
        raise ToolError(f"seat {seat} is taken; the free ones are 3 and 4")

    driven = await drive(calls(("book", {"seat": 2})), "sorry", tools=[book])
    assert [(each.ending, each.content) for each in driven.answers] == [
        ("tool_error", "seat 2 is taken; the free ones are 3 and 4")
    ]
    assert driven.outcome.kind == "answered"


async def test_a_tool_whose_error_has_no_text_does_not_end_the_run(drive: Any) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise KeyError("message")

    @tool
    async def send() -> str:
        """Send."""
        raise Mute

    driven = await drive(calls(("send", {})), "I see", tools=[send])
    text = "send failed with an internal error (Mute: (its text cannot be read: KeyError)); try another way, or report it"
    assert [(each.ending, each.content) for each in driven.answers] == [("crashed", text)]
    assert driven.outcome.kind == "answered"


async def test_a_crash_is_told_to_the_model_and_its_traceback_to_people(drive: Any) -> None:
    @tool(effect="read")
    async def divide(by: int) -> float:
        """Divide one."""
        return 1 / by

    driven = await drive(calls(("divide", {"by": 0}), ("divide", {"by": 2})), "I see", tools=[divide])
    text = "divide failed with an internal error (ZeroDivisionError: division by zero); try another way, or report it"
    assert [(each.ending, each.content) for each in driven.answers] == [("crashed", text), ("ok", "0.5")]
    crashed = next(record for record in driven.of(ToolFinished) if record.ending == "crashed")
    assert any("return 1 / by" in line for line in crashed.error["traceback"])
    assert "Traceback" not in crashed.content


async def test_a_stop_of_the_tools_own_making_is_its_crash_and_ends_nothing(drive: Any) -> None:
    @tool(effect="read")
    async def fetch() -> str:
        """Fetch something."""
        raise Cancelled("the tool had enough")

    driven = await drive(calls(("fetch", {}), ("fetch", {})), "I see", tools=[fetch])
    assert driven.endings == [("fetch", "crashed")] * 2
    assert driven.outcome.kind == "answered"


async def test_a_limit_inside_a_tool_is_told_as_one(drive: Any, fake_clock: FakeClock) -> None:
    @tool(effect="read")
    async def fetch() -> str:
        """Fetch something."""
        with deadline(5):
            await anyio.sleep_forever()
        return ""

    driven = await drive(calls(("fetch", {})), "I see", tools=[fetch])
    assert [(each.ending, each.content) for each in driven.answers] == [("timed_out", "fetch: a deadline of 5 s passed")]
    assert fake_clock.now == 5


async def test_a_read_over_its_limit_is_told_and_the_run_goes_on(drive: Any, fake_clock: FakeClock) -> None:
    @tool(effect="read", seconds=30)
    async def fetch() -> str:
        """Fetch something."""
        await anyio.sleep_forever()
        return ""

    driven = await drive(calls(("fetch", {})), "I see", tools=[fetch])
    assert [(each.ending, each.content) for each in driven.answers] == [
        ("timed_out", "fetch: the tool timed out after 30 s (seconds)")
    ]
    assert (driven.outcome.kind, fake_clock.now) == ("answered", 30)
    assert driven.finished("fetch").seconds == 30


async def test_a_write_over_its_limit_waits_for_a_person(drive: Any) -> None:
    bench = Bench()

    @tool(effect="write", seconds=30)
    async def send() -> str:
        """Send something."""
        await anyio.sleep_forever()
        return ""

    driven = await drive(calls(("send", {}), change("after")), tools=[*bench.tools, send])
    assert isinstance(driven.outcome.error, OutcomeUnknown)
    assert (driven.outcome.kind, driven.outcome.exit_status) == ("waiting", 4)
    assert [call.name for call in driven.outcome.report.pending] == ["send", "change"]
    assert bench.log == [], "what comes after it does not run before it is known"
    assert driven.of(ToolFinished)[0].ending == "unknown"
    assert "30 s" in driven.outcome.why


async def test_a_sync_write_over_its_limit_is_abandoned_and_waits_for_a_person(drive: Any) -> None:
    over = threading.Event()

    @tool(effect="write", seconds=0.05)
    def send() -> str:
        """Send something, and never look up."""
        over.wait(20)
        return "late"

    driven = await drive(calls(("send", {})), tools=[send])
    assert driven.outcome.kind == "waiting"
    assert [thread.name for thread in abandoned_threads()] == ["heaveto:send"]
    over.set()
    for thread in abandoned_threads():
        thread.join()


# --- fatal tools ----------------------------------------------------------------------------------------------------


def broken(name: str, problem: str, *, seconds: float = 0, effect: Any = "read") -> Any:
    async def run() -> str:
        await anyio.sleep(seconds)
        raise ToolFatal(name, problem)

    run.__name__ = name
    run.__doc__ = "Break."
    return tool(effect=effect)(run)


async def test_a_fatal_tool_stops_the_run_when_its_neighbours_have_finished(drive: Any, fake_clock: FakeClock) -> None:
    bench = Bench()
    asked = calls(look("a", 5), ("gone", {}), look("b", 2), change("c"), look("d"))
    driven = await drive(asked, tools=[*bench.tools, broken("gone", "the server left", seconds=1)])
    assert isinstance(driven.outcome.error, ToolFatal)
    assert driven.outcome.why == "gone: the server left"
    assert (driven.outcome.kind, fake_clock.now) == ("failed", 5)
    assert driven.endings == [
        ("look", "ok"),
        ("gone", "fatal"),
        ("look", "ok"),
        ("change", "not_run"),
        ("look", "not_run"),
    ]
    assert [answer.content for answer in driven.answers][1] == "not run: gone: the server left"
    assert driven.answers[3].content == "cancelled before it ran: gone: the server left"
    assert [call.name for call in driven.outcome.report.pending] == ["gone"]


async def test_two_fatal_tools_are_both_reported(drive: Any) -> None:
    tools = [broken("one", "its disk is gone"), broken("two", "its server left", seconds=1)]
    driven = await drive(calls(("one", {}), ("two", {})), tools=tools)
    assert isinstance(driven.outcome.error, ExceptionGroup)
    assert driven.outcome.why == "one: its disk is gone; two: its server left"
    assert [error.report.run_id for error in driven.outcome.error.exceptions] == ["run", "run"]
    with pytest.raises(ExceptionGroup):
        await Agent(model=scripted(calls(("one", {}), ("two", {}))), store=MemoryStore(), tools=tools).run("x")


async def test_a_tool_that_is_fatal_while_it_plans_stops_the_run_too(drive: Any) -> None:
    """Nothing has begun then, and it is not tried again and again."""
    bench = Bench()

    async def plan(call: Call, arguments: Any) -> dict[str, Any]:
        raise ToolFatal("save", "the folder is gone")

    @tool(effect="write", alone=False, plan=plan)
    async def save() -> str:
        """Save."""
        return "saved"

    driven = await drive(calls(("add", {"what": "a"}), ("save", {}), change("c")), tools=[*bench.tools, save])
    assert driven.outcome.why == "save: the folder is gone"
    assert driven.endings == [("add", "not_run"), ("save", "fatal"), ("change", "not_run")]
    assert bench.log == []
    assert driven.started == []


async def test_a_fatal_call_is_made_again_at_the_resume(drive: Any) -> None:
    asked = calls(("gone", {}), ("look", {"what": "a"}))
    bench = Bench()
    first = await drive(asked, tools=[*bench.tools, broken("gone", "the server left")])

    @tool(effect="write", name="gone")
    async def back() -> str:
        """Be back."""
        return "here again"

    second = await drive("fine", resume="run", store=first.store, tools=[*bench.tools, back])
    assert second.outcome.text == "fine"
    assert second.endings == [("gone", "ok"), ("look", "ok")], "its neighbour had its answer already"
    assert [(each.verdict, each.by) for each in second.resolved] == [("again", "not begun")]
    assert bench.log == ["a begins", "a ends"]


# --- approvals ------------------------------------------------------------------------------------------------------


@tool(effect="write", approval=True)
async def pay(usd: int) -> str:
    """Pay."""
    return f"paid {usd}"


@pytest.mark.parametrize(
    ("verdict", "ending", "text"),
    [
        (True, "ok", "paid 5"),
        (False, "denied", "pay was denied"),
        ("not on a Sunday", "denied", "pay was denied: not on a Sunday"),
    ],
)
async def test_a_person_approves_or_denies(drive: Any, verdict: Any, ending: str, text: str) -> None:
    asked_for: list[ToolCall] = []

    async def approve(call: ToolCall) -> bool | str:
        asked_for.append(call)
        await anyio.sleep(60)
        return verdict

    asked = calls(("pay", {"usd": 5}))
    driven = await drive(asked, "fine", tools=[pay], approve=approve)
    assert [(each.ending, each.content) for each in driven.answers] == [(ending, text)]
    assert asked_for == list(asked.message.tool_calls)
    assert len(driven.started) == (verdict is True)


async def test_nobody_there_to_approve_pauses_the_run(drive: Any) -> None:
    bench = Bench()
    asked = calls(look("a"), ("pay", {"usd": 5}), change("b"))
    driven = await drive(asked, tools=[*bench.tools, pay])
    assert isinstance(driven.outcome.error, ApprovalNeeded)
    assert (driven.outcome.kind, driven.outcome.exit_status, driven.outcome.report.resumable) == ("waiting", 4, True)
    assert driven.endings == [("look", "ok")]
    assert [call.name for call in driven.outcome.report.pending] == ["pay", "change"]

    async def approve(call: ToolCall) -> bool:
        return True

    resumed = await drive("fine", resume="run", store=driven.store, tools=[*bench.tools, pay], approve=approve)
    assert resumed.endings == [("look", "ok"), ("pay", "ok"), ("change", "ok")]
    assert bench.log == ["a begins", "a ends", "b begins", "b ends"]


async def test_a_call_that_waits_beside_others_leaves_no_marker_of_theirs(drive: Any) -> None:
    """Else a call that never began would be in doubt after the pause."""
    bench = Bench()

    @tool(effect="write", approval=True, alone=False, name="pay")
    async def pay_beside(usd: int) -> str:
        """Pay."""
        return f"paid {usd}"

    asked = calls(("add", {"what": "a"}), ("pay", {"usd": 5}))
    driven = await drive(asked, tools=[*bench.tools, pay_beside])
    assert isinstance(driven.outcome.error, ApprovalNeeded)
    assert (driven.started, bench.log) == ([], [])

    async def approve(call: ToolCall) -> bool:
        return True

    resumed = await drive("fine", resume="run", store=driven.store, tools=[*bench.tools, pay_beside], approve=approve)
    assert resumed.endings == [("add", "ok"), ("pay", "ok")]
    assert resumed.resolved == []


async def test_a_bug_in_whoever_approves_is_no_approval(drive: Any) -> None:
    async def approve(call: ToolCall) -> bool:
        raise RuntimeError("no form for that")

    driven = await drive(calls(("pay", {"usd": 5})), "I see", tools=[pay], approve=approve)
    assert driven.endings == [("pay", "crashed")]
    assert driven.started == []


# --- stops ----------------------------------------------------------------------------------------------------------


async def test_a_stop_tells_the_calls_that_had_begun_from_those_that_had_not(drive: Any, fake_clock: FakeClock) -> None:
    bench = Bench()

    async def stop(run: Run) -> None:
        await anyio.sleep(2)
        run.cancel(Cancelled("lunch", "ada"))

    asked = calls(look("a", 1), look("b", 9), change("c"), look("d"))
    driven = await drive(asked, tools=bench.tools, during=stop)
    assert driven.outcome.why == "cancelled by ada: lunch"
    assert [(each.ending, each.content) for each in driven.answers] == [
        ("ok", "a is done"),
        ("stopped", "stopped while it ran: cancelled by ada: lunch"),
        ("not_run", "cancelled before it ran: cancelled by ada: lunch"),
        ("not_run", "cancelled before it ran: cancelled by ada: lunch"),
    ]
    assert [call.id for call in driven.outcome.report.pending] == [asked.message.tool_calls[1].id]
    assert fake_clock.now == 2


async def test_the_model_is_told_to_look_after_a_write_that_was_cut(drive: Any) -> None:
    async def stop(run: Run) -> None:
        await anyio.sleep(2)
        run.cancel(Cancelled("lunch", "ada"))

    driven = await drive(calls(change("c", 9)), tools=Bench().tools, during=stop)
    text = driven.finished("change").content
    assert text.startswith("stopped while it ran: cancelled by ada: lunch; it may have run in part or in full")


async def test_a_call_that_only_waited_for_a_slot_never_ran(drive: Any) -> None:
    bench = Bench()

    async def stop(run: Run) -> None:
        await anyio.sleep(2)
        run.cancel(Cancelled("lunch"))

    add = [("add", {"what": what, "seconds": 9}) for what in "ab"]
    driven = await drive(calls(*add), tools=bench.tools, during=stop, slots=Slots(1))
    assert sorted(driven.endings) == [("add", "not_run"), ("add", "stopped")]
    assert len(bench.log) == 1
    assert len(driven.started) == 2, "both had their marker, in one write"


async def test_a_tool_that_sees_the_stop_first_was_stopped_and_did_not_crash(drive: Any) -> None:
    """Work that is shielded, or sync code, looks for itself before an await tells it."""
    cancel: list[Any] = []

    @tool(effect="write")
    async def count() -> str:
        """Count."""
        cancel[0]()
        with anyio.CancelScope(shield=True):
            await anyio.sleep(1)
        check_stop()
        return "counted"

    async def keep(run: Run) -> None:
        cancel.append(lambda: run.cancel(Cancelled("enough")))

    driven = await drive(calls(("count", {}), ("count", {})), tools=[count], during=keep)
    assert driven.outcome.why == "cancelled: enough"
    assert driven.endings == [("count", "stopped"), ("count", "not_run")]
    assert isinstance(driven.outcome.cause, Cancelled)


async def test_a_call_without_an_end_is_in_doubt_and_not_lost_when_a_tool_leaves_the_program(fake_clock: FakeClock) -> None:
    """SystemExit is nobody's to swallow, but the run is concluded first. See test_run.py for the run's side."""

    class Leave(BaseException):
        pass

    @tool(effect="read")
    async def leave() -> str:
        """Leave."""
        raise Leave("that is all")

    store = MemoryStore()
    with pytest.raises(Leave):
        await Agent(model=scripted(calls(("leave", {}))), store=store, tools=[leave]).run("x", run_id="run")
    records = [decode_record(entry.body) for entry in await store.read("run")]
    finished = next(record for record in records if isinstance(record, ToolFinished))
    assert finished.ending == "stopped"
    assert "Leave: that is all" in finished.content
    assert records[-1].outcome == "failed"  # type: ignore[union-attr]


# --- the journal beside it ------------------------------------------------------------------------------------------


class Watched(MemoryStore):
    """A store that notes each append in the bench's log."""

    def __init__(self, log: list[str]) -> None:
        super().__init__()
        self.log = log

    async def append(self, run_id: str, epoch: int, bodies: Sequence[bytes], summary: Summary) -> int:
        kinds = [type(decode_record(body)).__name__ for body in bodies]
        self.log.append(f"written: {', '.join(kinds)}")
        return await super().append(run_id, epoch, bodies, summary)


async def test_a_turn_with_one_call_is_two_writes_and_the_marker_is_there_before_the_effect(drive: Any) -> None:
    bench = Bench()
    await drive(calls(change("a")), "fine", tools=bench.tools, store=Watched(bench.log))
    assert bench.log == [
        "written: Replied, ToolStarted",
        "a begins",
        "a ends",
        "written: ToolFinished",
        "written: Replied, RunFinished",
    ]


async def test_each_marker_is_on_disk_before_its_effect(drive: Any) -> None:
    bench = Bench()
    await drive(calls(look("a"), change("b"), change("c")), "fine", tools=bench.tools, store=Watched(bench.log))
    assert bench.log == [
        "written: Replied",
        "a begins",
        "a ends",
        "written: ToolFinished, ToolStarted",
        "b begins",
        "b ends",
        "written: ToolFinished, ToolStarted",
        "c begins",
        "c ends",
        "written: ToolFinished",
        "written: Replied, RunFinished",
    ]


async def test_the_marker_has_the_key_and_what_the_tool_planned(drive: Any) -> None:
    given: list[Call] = []

    async def plan(call: Call, arguments: Any) -> dict[str, Any]:
        assert current_call() is not None
        return {"before": arguments["usd"] - 1}

    @tool(effect="write", plan=plan)
    async def give(usd: int, call: Call) -> str:
        """Give."""
        given.append(call)
        assert current_call() == call
        return "given"

    asked = calls(("give", {"usd": 5}))
    driven = await drive(asked, "fine", tools=[give])
    (marker,) = driven.started
    assert isinstance(marker, ToolStarted)
    assert (marker.facts, marker.effect) == ({"before": 4}, "write")
    assert (given[0].key, given[0].facts) == (marker.key, {"before": 4})
    assert (given[0].run_id, given[0].turn, given[0].call_id) == ("run", 1, asked.message.tool_calls[0].id)
    assert current_call() is None


async def test_progress_from_a_thread_reaches_the_watchers_while_the_call_is_open(drive: Any) -> None:
    late: list[Any] = []

    @tool(effect="read")
    def count(call: Call) -> str:
        """Count."""
        assert current_call() == call
        for number in range(3):
            call.progress(f"{number + 1} of 3")
        late.append(call.progress)
        return "counted"

    def say(request: Any) -> str:
        late[0]("too late")
        return "fine"

    driven = await drive(calls(("count", {})), say, tools=[count])
    bodies = [event.body for event in driven.events]
    assert [body.text for body in bodies if isinstance(body, ToolProgress)] == ["1 of 3", "2 of 3", "3 of 3"]
    running = next(body for body in bodies if isinstance(body, ToolRunning))
    assert (running.name, running.arguments) == ("count", "{}")
    assert driven.outcome.kind == "answered"


async def test_a_look_that_was_cut_is_no_unknown_outcome(drive: Any) -> None:
    """It is run again, and nobody has to look after it; a change that was cut is one."""

    async def stop_soon(run: Run) -> None:
        await anyio.sleep(0.5)
        run.cancel(Cancelled("enough"))

    bench = Bench()
    looked = await drive(calls(look("a")), during=stop_soon, tools=bench.tools)
    changed = await drive(calls(change("a")), during=stop_soon, tools=bench.tools)
    assert looked.records[-1].unresolved == ()
    assert [each.partition(" ")[0] for each in changed.records[-1].unresolved] == ["change"]
