"""What becomes of a call whose outcome is not known: the first rung that can tell, and its verdict on disk first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from heaveto.causes import Cancelled
from heaveto.errors import OutcomeUnknown, ToolFatal
from heaveto.journal import MemoryStore, Summary
from heaveto.journal.records import Record, Replied, RunStarted, ToolResolved, ToolStarted, decode_record, encode_record
from heaveto.journal.state import fold
from heaveto.loop.answering import not_run
from heaveto.messages import UserMessage
from heaveto.runs import Agent, read_records, resolve_call
from heaveto.testing.clocks import FakeClock
from heaveto.testing.scripted_model import calls, scripted
from heaveto.tools import Call, Check, tool

pytestmark = pytest.mark.anyio


class Outbox:
    """Something that letters are put into, and that can be looked into afterwards."""

    def __init__(self, *, delivers: bool = True) -> None:
        self.sent: list[str] = []
        self.keys: list[str] = []
        self.delivers = delivers

    def tool(self, effect: Any = "write", *, stalls: int = 1, check: Any = None, name: str = "send") -> Any:
        """A tool whose first `stalls` calls put their letter in, or not, and never come back."""
        left = stalls

        async def send(text: str, call: Call) -> str:
            """Send a letter."""
            nonlocal left
            self.keys.append(call.key)
            if left > 0:
                left -= 1
                if self.delivers:
                    self.sent.append(text)
                raise OutcomeUnknown(call.tool, call.call_id, "the line went dead")
            self.sent.append(text)
            return f"sent {text}"

        return tool(effect=effect, check=check, name=name)(send)


SEND = calls(("send", {"text": "hello"}))


def verdicts(driven: Any) -> list[tuple[str, str, str]]:
    return [(each.by, each.verdict, each.ending) for each in driven.resolved]


# --- the rungs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("effect", ["read", "idempotent"])
async def test_what_only_reads_or_may_be_repeated_is_run_again(drive: Any, effect: str) -> None:
    box = Outbox()
    driven = await drive(SEND, "fine", tools=[box.tool(effect)])
    assert verdicts(driven) == [(effect, "again", "ok")]
    assert driven.endings == [("send", "ok")]
    assert box.sent == ["hello", "hello"]
    assert len(set(box.keys)) == 1, "the same call has the same key"


async def test_a_check_that_finds_the_effect_settles_the_call_with_its_result(drive: Any) -> None:
    box = Outbox()

    async def check(call: Call, arguments: Any) -> Check:
        return Check("done", f"sent earlier: {arguments['text']}")

    driven = await drive(SEND, "fine", tools=[box.tool(check=check)])
    assert verdicts(driven) == [("check", "done", "ok")]
    assert [answer.content for answer in driven.answers] == ["sent earlier: hello"]
    assert box.sent == ["hello"]


async def test_a_check_that_finds_nothing_has_the_call_run_again(drive: Any) -> None:
    box = Outbox(delivers=False)

    async def check(call: Call, arguments: Any) -> Check:
        return Check("not_done", "the box is empty")

    driven = await drive(SEND, "fine", tools=[box.tool(check=check)])
    assert [(each.by, each.verdict, each.evidence) for each in driven.resolved] == [("check", "again", "the box is empty")]
    assert (box.sent, driven.endings) == (["hello"], [("send", "ok")])


async def fails(call: Call, arguments: Any) -> Check:
    raise ConnectionError("no line")


async def stalls(call: Call, arguments: Any) -> Check:
    await anyio.sleep_forever()
    raise AssertionError


async def cannot_tell(call: Call, arguments: Any) -> Check:
    return Check("unknown", "the box is locked")


def cannot_tell_in_a_thread(call: Call, arguments: Any) -> Check:
    return Check("unknown", "the box is locked")


@pytest.mark.parametrize(
    ("check", "seen"),
    [
        (None, "the line went dead"),
        (cannot_tell, "the line went dead (the box is locked)"),
        (cannot_tell_in_a_thread, "the line went dead (the box is locked)"),
        (fails, "the line went dead (the check went wrong: no line)"),
        (stalls, "the line went dead (the check went wrong: the tool timed out after 60 s (seconds))"),
    ],
)
async def test_without_a_rung_that_can_tell_the_run_waits_for_a_person(
    drive: Any, fake_clock: FakeClock, check: Any, seen: str
) -> None:
    box = Outbox()
    driven = await drive(SEND, tools=[box.tool(check=check)])
    error = driven.outcome.error
    assert isinstance(error, OutcomeUnknown)
    assert (error.tool, error.call_id) == ("send", SEND.message.tool_calls[0].id)
    assert seen in error.why
    assert (driven.outcome.kind, driven.outcome.report.resumable) == ("waiting", True)
    assert driven.resolved == []
    assert driven.records[-1].unresolved == (f"send ({error.call_id})",)
    assert fake_clock.now == (60 if check is stalls else 0)
    again = await drive(resume="run", store=driven.store, tools=[box.tool(check=check)])
    assert again.outcome.kind == "waiting", "and it still waits when nobody has decided"
    assert box.sent == ["hello"]


async def test_the_model_is_told_when_the_user_chose_that(drive: Any) -> None:
    box = Outbox()
    driven = await drive(SEND, "I shall look", tools=[box.tool()], on_unknown="tell_model")
    assert verdicts(driven) == [("model", "told", "unknown")]
    (answer,) = driven.answers
    assert answer.content.startswith("outcome unknown: ")
    assert "the line went dead" in answer.content
    assert answer.content.endswith("check before doing it again")
    assert driven.model.requests[-1][-1] == answer


async def test_a_tool_that_is_gone_cannot_be_asked(drive: Any) -> None:
    box = Outbox()

    async def check(call: Call, arguments: Any) -> Check:
        return Check("unknown")

    first = await drive(SEND, tools=[box.tool(check=check)])
    driven = await drive(resume="run", store=first.store, tools=[])
    assert driven.outcome.kind == "waiting"
    assert driven.resolved == []


async def test_a_tool_that_has_become_a_reader_does_not_make_readers_of_its_old_calls(drive: Any) -> None:
    box = Outbox()
    first = await drive(SEND, tools=[box.tool("write")])
    driven = await drive(resume="run", store=first.store, tools=[box.tool("read", stalls=0)])
    assert driven.outcome.kind == "waiting"
    assert box.sent == ["hello"]


@pytest.mark.parametrize("effect", ["read", "idempotent", "write"])
async def test_a_call_that_never_knows_is_not_run_for_ever(drive: Any, effect: Any) -> None:
    box = Outbox(delivers=False)

    async def check(call: Call, arguments: Any) -> Check:
        return Check("not_done", "nothing there")

    driven = await drive(SEND, tools=[box.tool(effect, stalls=1000, check=check)])
    assert driven.outcome.kind == "waiting"
    assert "it was run 3 times" in driven.outcome.why
    assert len(box.keys) == 3


# --- a person's word ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verdict", "evidence", "ending", "text", "sent"),
    [
        ("done", "they have it", "ok", "a person looked: it took effect: they have it", 1),
        ("done", "", "ok", "a person looked: it took effect", 1),
        ("again", "they have nothing", "ok", "sent hello", 2),
        ("told", "nobody answers", "unknown", "outcome unknown: ", 1),
    ],
)
async def test_a_person_settles_it(drive: Any, verdict: Any, evidence: str, ending: str, text: str, sent: int) -> None:
    box = Outbox()
    first = await drive(SEND, tools=[box.tool()])
    call_id = SEND.message.tool_calls[0].id
    assert await resolve_call(first.store, "ru", call_id, verdict, evidence) == "run"
    driven = await drive("fine", resume="run", store=first.store, tools=[box.tool(stalls=0)])
    (answer,) = driven.answers
    assert answer.ending == ending
    assert answer.content.startswith(text)
    assert evidence in answer.content or verdict == "again"
    assert driven.outcome.text == "fine"
    assert (len(box.sent), len(driven.resolved)) == (sent, 1)


# --- when -----------------------------------------------------------------------------------------------------------


class Watched(MemoryStore):
    def __init__(self, log: list[str]) -> None:
        super().__init__()
        self.log = log

    async def append(self, run_id: str, epoch: int, bodies: Sequence[bytes], summary: Summary) -> int:
        kinds = [type(decode_record(body)).__name__ for body in bodies]
        self.log.append(f"written: {', '.join(kinds)}")
        return await super().append(run_id, epoch, bodies, summary)


async def test_a_verdict_is_on_disk_before_it_is_acted_on(drive: Any) -> None:
    log: list[str] = []

    @tool(effect="idempotent")
    async def send(call: Call) -> str:
        """Send."""
        log.append("sent")
        if log.count("sent") == 1:
            raise OutcomeUnknown("send", call.call_id)
        return "sent"

    await drive(calls(("send", {})), "fine", tools=[send], store=Watched(log))
    assert log == [
        "written: Replied, ToolStarted",
        "sent",
        "written: ToolFinished, ToolResolved",
        "written: ToolStarted",
        "sent",
        "written: ToolFinished",
        "written: Replied, RunFinished",
    ]


async def test_the_ladder_comes_before_the_calls_that_follow(drive: Any) -> None:
    log: list[str] = []

    async def check(call: Call, arguments: Any) -> Check:
        log.append("looked")
        return Check("done", "it is there")

    @tool(effect="write", check=check)
    async def write(name: str, call: Call) -> str:
        """Write."""
        log.append(name)
        if name == "a":
            raise OutcomeUnknown("write", call.call_id)
        return "written"

    driven = await drive(calls(("write", {"name": "a"}), ("write", {"name": "b"})), "fine", tools=[write])
    assert log == ["a", "looked", "b"]
    assert [answer.content for answer in driven.answers] == ["it is there", "written"]


async def test_a_person_is_asked_only_about_what_no_rung_can_tell(drive: Any) -> None:
    """Whatever the order of the calls: the one behind it has a check, which settles it."""

    async def check(call: Call, arguments: Any) -> Check:
        return Check("done", "it is there")

    @tool(effect="write", alone=False)
    async def shout(call: Call) -> str:
        """Shout."""
        raise OutcomeUnknown("shout", call.call_id)

    @tool(effect="write", alone=False, check=check)
    async def pay(call: Call) -> str:
        """Pay."""
        raise OutcomeUnknown("pay", call.call_id)

    asked = calls(("shout", {}), ("pay", {}))
    driven = await drive(asked, tools=[shout, pay])
    assert driven.outcome.kind == "waiting"
    assert [(each.name, each.by) for each in driven.resolved] == [("pay", "check")]
    assert driven.records[-1].unresolved == (f"shout ({asked.message.tool_calls[0].id})",)


async def test_a_stop_during_a_look_decides_nothing(drive: Any, fake_clock: FakeClock) -> None:
    box = Outbox()

    async def stop(run: Any) -> None:
        await anyio.sleep(5)
        run.cancel(Cancelled("lunch"))

    driven = await drive(SEND, tools=[box.tool(check=stalls)], during=stop)
    assert (driven.outcome.why, fake_clock.now) == ("cancelled: lunch", 5)
    assert driven.resolved == []
    assert [call.name for call in driven.outcome.report.pending] == ["send"]


async def test_no_look_begins_once_a_stop_is_pending(drive: Any) -> None:
    """The first call's check stops the run; the second one's is not asked."""
    looked: list[str] = []
    runs: list[Any] = []

    async def check(call: Call, arguments: Any) -> Check:
        looked.append(arguments["text"])
        runs[0].cancel(Cancelled("enough"))
        return Check("done", "it is there")

    async def keep(run: Any) -> None:
        runs.append(run)

    @tool(effect="write", alone=False, check=check)
    async def send(text: str, call: Call) -> str:
        """Send."""
        raise OutcomeUnknown("send", call.call_id)

    driven = await drive(calls(("send", {"text": "a"}), ("send", {"text": "b"})), tools=[send], during=keep)
    assert looked == ["a"]
    assert driven.outcome.why == "cancelled: enough"


# --- keys -----------------------------------------------------------------------------------------------------------


async def cut_after(store: MemoryStore, kind: type[Record]) -> MemoryStore:
    """The journal of a process that was killed right after it had written its first record of that kind."""
    records = await read_records(store, "run")
    last = next(index for index, record in enumerate(records) if isinstance(record, kind))
    killed = MemoryStore()
    await killed.create("run", "", [encode_record(record) for record in records[: last + 1]], Summary())
    return killed


async def test_the_key_is_the_same_after_a_crash_and_a_new_plan(drive: Any) -> None:
    """The model that was told that nobody knows asks for the same again, and the other side can tell that it is the same."""
    box = Outbox()
    first = await drive(SEND, "fine", tools=[box.tool(stalls=0)], on_unknown="tell_model")
    killed = await cut_after(first.store, ToolStarted)
    again = calls(("send", {"text": "hello"}))
    driven = await drive(again, "fine", resume="run", store=killed, tools=[box.tool(stalls=0)])
    assert verdicts(driven) == [("model", "told", "unknown")]
    assert driven.endings == [("send", "unknown"), ("send", "ok")]
    assert len(box.keys) == 2
    assert box.keys[0] == box.keys[1]


async def test_the_key_is_the_same_when_a_rung_has_it_run_again(drive: Any) -> None:
    box = Outbox()
    first = await drive(SEND, "fine", tools=[box.tool("idempotent", stalls=0)])
    killed = await cut_after(first.store, ToolStarted)
    driven = await drive("fine", resume="run", store=killed, tools=[box.tool("idempotent", stalls=0)])
    assert driven.outcome.kind == "answered"
    assert verdicts(driven) == [("idempotent", "again", "ok")]
    assert len(set(box.keys)) == 1


async def test_a_deliberate_repeat_has_another_key(drive: Any) -> None:
    box = Outbox()
    twice = calls(("send", {"text": "hello"}), ("send", {"text": "hello"}), ("send", {"text": "bye"}))
    spelled_otherwise = calls(("send", '{ "text":"hel\\u006co" }'))
    await drive(twice, spelled_otherwise, "fine", tools=[box.tool(stalls=0)])
    assert len(box.keys) == len(set(box.keys)) == 4


async def test_another_run_has_other_keys() -> None:
    box = Outbox()
    agent = Agent(model=scripted(SEND, "fine", SEND, "fine"), store=MemoryStore(), tools=[box.tool(stalls=0)])
    await agent.run("x")
    await agent.run("x")
    assert len(set(box.keys)) == 2


async def test_a_call_that_did_not_run_keeps_its_key_for_the_one_that_does(drive: Any) -> None:
    """Denied, cancelled before it ran, fatal: nothing was done under that key."""
    box = Outbox()

    @tool(effect="write")
    async def gone(text: str) -> str:
        """Be gone."""
        raise ToolFatal("gone", "no server")

    first = await drive(calls(("gone", {"text": "x"}), ("send", {"text": "hello"})), tools=[gone, box.tool(stalls=0)])
    assert first.endings == [("gone", "fatal"), ("send", "not_run")]
    resumed = await drive(
        SEND, "fine", resume="run", store=first.store, tools=[box.tool(stalls=0, name="gone"), box.tool(stalls=0)]
    )
    assert resumed.outcome.kind == "answered"
    fresh = await drive(SEND, "fine", tools=[box.tool(stalls=0)])
    assert fresh.outcome.kind == "answered"
    assert box.keys[1] == box.keys[2]


async def test_what_is_said_while_a_call_waits_comes_after_its_answer(drive: Any) -> None:
    box = Outbox()
    first = await drive(SEND, tools=[box.tool()])
    waits = await drive(resume="run", store=first.store, tools=[box.tool()], resume_options={"say": "be quick"})
    assert waits.outcome.kind == "waiting"
    await resolve_call(first.store, "run", SEND.message.tool_calls[0].id, "done")
    driven = await drive("fine", resume="run", store=first.store, tools=[])
    roles = [type(message).__name__ for message in driven.model.requests[0]]
    assert roles == ["UserMessage", "AssistantMessage", "ToolMessage", "UserMessage"]
    assert driven.model.requests[0][-1] == UserMessage("be quick")


@pytest.mark.parametrize(("by", "says_so"), [("idempotent", False), ("key", False), ("check", True), ("person", True)])
def test_a_stop_does_not_say_that_a_call_never_ran_which_is_to_be_run_again_and_may_have_run(by: Any, says_so: bool) -> None:
    """Only what somebody saw not to have happened may be called that; the rest is run again by the next drive."""
    asked = SEND.message.tool_calls[0]
    started = ToolStarted(call_id=asked.id, name="send", effect="write", key="k")
    replied = Replied(turn=1, message=SEND.message, finish="tool_calls")
    verdict = ToolResolved(call_id=asked.id, name="send", verdict="again", by=by)
    state = fold([RunStarted(run_id="run", task="go"), replied, started, verdict])
    assert bool(not_run(state, set(), "enough")) is says_so
    state.apply(started)
    assert bool(not_run(state, {asked.id}, "enough")) is says_so, "nor once it has its marker again"
