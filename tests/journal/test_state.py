"""The state that records fold into: the same every time, for every prefix, and nothing that the table does not allow."""

from __future__ import annotations

import itertools
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heaveto.errors import JournalDamaged
from heaveto.journal.records import (
    AnswerRejected,
    CallSpent,
    DriveStarted,
    LimitsChanged,
    Record,
    Replied,
    Retried,
    RunFinished,
    RunStarted,
    Said,
    ToolApproved,
    ToolFinished,
    ToolResolved,
    ToolStarted,
    decode_record,
)
from heaveto.journal.state import CallEntry, RunState, fold
from heaveto.journal.transitions import (
    CALL_TRANSITIONS,
    DRIVE_TRANSITIONS,
    RUN_TRANSITIONS,
    SETTLED,
    CallState,
    CallStep,
    DriveState,
    DriveStep,
    RunPhase,
    RunStep,
    drive_step,
    run_step,
)
from heaveto.messages import (
    AssistantMessage,
    Ending,
    Limits,
    Message,
    Spend,
    SystemMessage,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    unanswered,
)

# The journal of a run that lived: calls at once, a retry, three stops, resumes, a call that a person resolved and one
# that its tool's check did. It was written by format 1 and is never written again: every later version must read it.
GOLDEN = Path(__file__).parent / "data" / "format-1.jsonl"

STARTED = RunStarted(run_id="r", task="go")
USAGE = Usage(input_tokens=100, output_tokens=10, cost_usd=Decimal("0.001"))


def golden() -> list[Record]:
    lines = GOLDEN.read_bytes().splitlines()
    return [decode_record(line, f"record {number}") for number, line in enumerate(lines, 1)]


def replied(turn: int, *names: str, finish: Any = "", text: str = "") -> Replied:
    calls = tuple(ToolCall(f"{name}{turn}", name, "{}") for name in names)
    message = AssistantMessage(text, calls)
    return Replied(turn=turn, message=message, finish=finish or ("tool_calls" if names else "answer"), usage=USAGE)


def finished(call_id: str, ending: Ending = "ok", content: str = "") -> ToolFinished:
    return ToolFinished(call_id=call_id, name=call_id[:-1], ending=ending, content=content or f"{call_id} {ending}")


def started(call_id: str) -> ToolStarted:
    return ToolStarted(call_id=call_id, name=call_id[:-1], effect="write", key="k")


def allowed(call_id: str) -> ToolApproved:
    identity = ToolCall(call_id, call_id[:-1], "{}").identity
    return ToolApproved(call_id=call_id, name=call_id[:-1], verdict="approved", identity=identity)


def resolved(call_id: str, verdict: Any) -> ToolResolved:
    ending: Ending = "unknown" if verdict == "told" else "ok"
    return ToolResolved(call_id=call_id, name=call_id[:-1], verdict=verdict, by="person", content=verdict, ending=ending)


# --- the table ------------------------------------------------------------------------------------------------------

STEPS: dict[CallStep, list[Record]] = {
    "word": [allowed("a1")],
    "marker": [started("a1")],
    "result": [finished("a1", ending) for ending in sorted(SETTLED)],
    "no_result": [finished("a1", ending) for ending in get_args(Ending) if ending not in SETTLED],
    "done": [resolved("a1", "done")],
    "again": [resolved("a1", "again")],
    "told": [resolved("a1", "told")],
}
WAY_TO: dict[CallState, list[Record]] = {
    "asked": [],
    "begun": [started("a1")],
    "in_doubt": [finished("a1", "stopped")],
    "settled": [finished("a1")],
}


def entry_after(*records: Record) -> Any:
    """The call `a1` of a reply whose other call stays open, so that the reply stays open too."""
    state = fold([STARTED, replied(1, "a", "b"), *records])
    return state.open_calls["a1"]


def test_the_steps_are_all_there() -> None:
    assert set(STEPS) == set(get_args(CallStep))
    assert set(WAY_TO) == set(get_args(CallState))
    assert len(STEPS["result"]) + len(STEPS["no_result"]) == len(get_args(Ending))


@pytest.mark.parametrize(("before", "step"), list(itertools.product(get_args(CallState), get_args(CallStep))))
def test_a_call_takes_the_steps_of_the_table_and_no_other(before: CallState, step: CallStep) -> None:
    assert entry_after(*WAY_TO[before]).state == before
    for record in STEPS[step]:
        after = CALL_TRANSITIONS.get((before, step))
        if after is None:
            with pytest.raises(JournalDamaged, match=f"call a1 is {before}, where {step} cannot follow"):
                entry_after(*WAY_TO[before], record)
        else:
            assert entry_after(*WAY_TO[before], record).state == after


GIVEN = msgspec.structs.replace(finished("a1"), is_answer=True)


@pytest.mark.parametrize(("before", "step"), list(itertools.product(get_args(RunPhase), get_args(RunStep))))
def test_a_run_takes_the_steps_of_the_table_and_no_other(before: RunPhase, step: RunStep) -> None:
    way: dict[RunPhase, list[Record]] = {"calling": [], "answering": [replied(1, "a")], "answered": [replied(1)]}
    makes: dict[RunStep, Record] = {
        "spent": CallSpent(turn=2, usage=USAGE, error={}),
        "asks": replied(2, "a"),
        "answers": replied(2),
        "said": Said(content="x"),
        "all_settled": finished("a1"),
        "given": GIVEN,
        "rejected": AnswerRejected(turn=1, content="no", problem="it does not fit"),
    }
    state = fold([STARTED, *way[before]])
    assert state.phase == before
    after = RUN_TRANSITIONS.get((before, step))
    if after is None:
        with pytest.raises(JournalDamaged, match=f"the run is {before}, where {step} cannot follow|no open call a1"):
            state.apply(makes[step])
    else:
        state.apply(makes[step])
        assert state.phase == after


@pytest.mark.parametrize(("before", "step"), list(itertools.product(get_args(DriveState), get_args(DriveStep))))
def test_a_drive_takes_the_steps_of_the_table_and_no_other(before: DriveState, step: DriveStep) -> None:
    ended = RunFinished(outcome="waiting", why="")
    makes: dict[DriveStep, Record] = {
        "drive": DriveStarted(epoch=2),
        "work": started("a1"),
        "word": allowed("a1"),
        "end": ended,
    }
    state = fold([STARTED, replied(1, "a"), *([ended] if before == "ended" else [])])
    assert state.drive == before
    after = DRIVE_TRANSITIONS.get((before, step))
    if after is None:
        with pytest.raises(JournalDamaged, match=f"the drive is {before}, where {step} cannot follow"):
            state.apply(makes[step])
    else:
        state.apply(makes[step])
        assert state.drive == after


def test_what_is_settled_stays_settled() -> None:
    assert not any(before == "settled" for before, _ in CALL_TRANSITIONS)


def test_a_call_has_its_answer_when_it_is_settled() -> None:
    assert entry_after(finished("a1", "denied", "no")).answer == ToolMessage("a1", "a", "no", "denied")
    assert entry_after(finished("a1", "unknown"), resolved("a1", "again")).answer is None
    assert entry_after(finished("a1", "unknown"), resolved("a1", "told")).answer.ending == "unknown"
    assert entry_after(started("a1")).answer is None


def test_a_call_that_is_run_again_has_no_marker_until_it_has_a_new_one() -> None:
    entry = entry_after(started("a1"), finished("a1", "unknown"), resolved("a1", "again"))
    assert (entry.state, entry.started, entry.unknown_results) == ("asked", None, 1)


# --- what cannot follow ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("records", "problem"),
    [
        ([], "the first record: a run begins with run.started"),
        ([Said(content="x")], "the first record: a run begins with run.started"),
        ([STARTED, STARTED], "run r, record 2: a run cannot start twice"),
        ([STARTED, finished("a1")], "run r, record 2: no open call a1"),
        ([STARTED, replied(1, "a"), finished("b1")], "run r, record 3: no open call b1"),
        ([STARTED, replied(1, "a"), finished("a1"), finished("a1")], "run r, record 4: no open call a1"),
        ([STARTED, replied(1, "a"), replied(2)], "run r, record 3: the run is answering, where answers cannot follow"),
    ],
)
def test_what_cannot_follow_is_refused_with_its_place(records: list[Record], problem: str) -> None:
    with pytest.raises(JournalDamaged) as caught:
        fold(records)
    assert str(caught.value).startswith(problem)


# --- the conversation -----------------------------------------------------------------------------------------------


def test_answers_join_the_conversation_in_the_replys_order_and_all_at_once() -> None:
    state = fold([RunStarted(run_id="r", task="go", system="be kind"), replied(1, "a", "b", "c")])
    for record in (finished("c1"), finished("a1"), finished("b1", "stopped")):
        state.apply(record)
        assert len(state.transcript) == 3, "no request may go out with calls that have no answer"
    assert [each.content for each in state.conversation()[3:]] == ["a1 ok", "b1 stopped", "c1 ok"]
    state.apply(resolved("b1", "done"))
    assert list(state.transcript) == [
        SystemMessage("be kind"),
        UserMessage("go"),
        replied(1, "a", "b", "c").message,
        ToolMessage("a1", "a", "a1 ok"),
        ToolMessage("b1", "b", "done"),
        ToolMessage("c1", "c", "c1 ok"),
    ]
    assert state.open_calls == {}


def test_what_is_said_while_calls_are_open_follows_on_their_answers() -> None:
    state = fold([STARTED, replied(1, "a"), Said(content="hurry"), Said(content="please")])
    assert [type(each) for each in state.transcript] == [UserMessage, AssistantMessage]
    assert [each.content for each in state.conversation()][-2:] == ["hurry", "please"]
    state.apply(finished("a1"))
    assert [each.content for each in state.transcript] == ["go", "", "a1 ok", "hurry", "please"]
    assert state.conversation() == list(state.transcript)
    state.apply(Said(content="more"))
    assert state.transcript[-1] == UserMessage("more")


def test_something_new_makes_an_answer_the_last_but_one() -> None:
    state = fold([STARTED, replied(1, text="42")])
    assert state.answer == "42"
    state.apply(Said(content="why?"))
    assert state.answer is None


@pytest.mark.parametrize("finish", ["truncated", "filtered", "refused", "incomplete", "empty"])
def test_a_reply_that_did_not_end_well_is_no_part_of_it_but_its_spend_counts(finish: Any) -> None:
    state = fold([STARTED, replied(1, "a", finish=finish, text="half")])
    assert (len(state.transcript), state.open_calls, state.answer) == (1, {}, None)
    assert (state.turns, state.spend) == (1, Spend() + USAGE)


# --- what is counted ------------------------------------------------------------------------------------------------


def test_each_usage_is_counted_once() -> None:
    estimated = Usage(output_tokens=3, estimated=True)
    records = [
        STARTED,
        DriveStarted(epoch=1),
        Retried(turn=1, attempt=1, of=4, wait_seconds=0, error={}, usage=estimated),
        Retried(turn=1, attempt=2, of=4, wait_seconds=0, error={}),
        CallSpent(turn=1, usage=estimated, error={}),
        replied(1),
        RunFinished(outcome="failed", why="x", spend=Spend(calls=99), seconds=7.5),
    ]
    state = fold(records)
    assert state.spend == Spend() + USAGE + estimated + estimated
    assert (state.spend.calls, state.spend.output_tokens, state.spend.unpriced_calls, state.spend.estimated_calls) == (
        3,
        16,
        2,
        2,
    )
    assert state.seconds == 7.5


def test_limits_are_the_last_that_were_set() -> None:
    state = fold([RunStarted(run_id="r", task="go", limits=Limits(turns=3))])
    assert state.limits == Limits(turns=3)
    state.apply(LimitsChanged(limits=Limits(turns=9, usd=1)))
    assert state.limits == Limits(turns=9, usd=1)


def test_a_drive_is_under_way_from_its_start_to_its_end() -> None:
    state = fold([STARTED, DriveStarted(epoch=1)])
    assert (state.finished, state.epoch) == (None, 1)
    end = RunFinished(outcome="stopped", why="x", seconds=2)
    state.apply(end)
    assert state.finished == end
    state.apply(DriveStarted(epoch=4, resumed=True))
    assert (state.finished, state.epoch, state.seconds) == (None, 4, 2)


# --- keys -----------------------------------------------------------------------------------------------------------


def key_of_next_a(*endings: Ending) -> str:
    """The key of a call of `a`, after calls of it that ended so."""
    records: list[Record] = [STARTED]
    for turn, ending in enumerate(endings, 1):
        records += [replied(turn, "a"), finished(f"a{turn}", ending)]
        if ending not in SETTLED:
            records.append(resolved(f"a{turn}", "told"))
    turn = len(endings) + 1
    state = fold([*records, replied(turn, "a")])
    return state.idempotency_key(state.open_calls[f"a{turn}"].call)


@pytest.mark.parametrize("ending", get_args(Ending))
def test_a_key_is_new_after_a_call_that_ran_to_an_end_and_the_same_after_one_that_nobody_knows_of(ending: Ending) -> None:
    ran = ending in ("ok", "tool_error", "crashed", "timed_out")
    assert (key_of_next_a(ending) != key_of_next_a()) is ran
    assert key_of_next_a(ending, "ok") != key_of_next_a(ending)


def test_equal_calls_beside_each_other_have_keys_of_their_own() -> None:
    twins = Replied(
        turn=1,
        message=AssistantMessage(tool_calls=(ToolCall("x", "a", '{"n":1,"m":2}'), ToolCall("y", "a", '{ "m": 2, "n": 1 }'))),
        finish="tool_calls",
    )
    state = fold([STARTED, twins])
    keys = [state.idempotency_key(entry.call) for entry in state.asked()]
    assert keys[0] != keys[1]
    state.apply(ToolFinished(call_id="x", name="a", ending="ok", content=""))
    assert state.idempotency_key(state.open_calls["y"].call) == keys[1], "it does not change while its neighbours end"


# --- the answer -----------------------------------------------------------------------------------------------------


def test_what_does_not_fit_is_told_to_the_model_and_is_no_answer_any_more() -> None:
    state = fold([STARTED, replied(1), AnswerRejected(turn=1, content="no: x", problem="x")])
    assert (state.answer, state.rejections, state.rejected_for) == (None, 1, "x")
    assert list(state.transcript)[-1] == UserMessage("no: x")
    state.apply(DriveStarted(epoch=2))
    assert state.rejections == 0, "who resumes it wants another try"


def test_a_call_that_gives_the_answer_does_so_when_all_beside_it_are_settled() -> None:
    state = fold([STARTED, replied(1, "a", "b"), GIVEN])
    assert (state.answer, state.phase) == (None, "answering")
    state.apply(finished("b1"))
    assert (state.answer, state.phase) == (replied(1, "a").message.tool_calls[0].arguments, "answered")


def test_what_was_said_while_calls_were_open_comes_before_their_answer() -> None:
    state = fold([STARTED, replied(1, "a"), Said(content="wait"), GIVEN])
    assert (state.answer, state.phase) == (None, "calling")


# --- any journal ----------------------------------------------------------------------------------------------------


def snapshot(state: RunState) -> Any:
    fields = {name: getattr(state, name) for name in RunState.__slots__ if name != "transcript"}
    return {**fields, "transcript": list(state.transcript)}


@given(st.data())
@settings(max_examples=60)
def test_whatever_a_run_may_do_its_state_is_the_same_every_time_and_its_conversation_valid(data: st.DataObject) -> None:
    """Random walks through what may follow; each prefix is folded anew."""
    state, records = RunState.begin(STARTED), list[Record]([STARTED])
    for _ in range(data.draw(st.integers(0, 25))):
        record = data.draw(st.sampled_from(may_follow(state)))
        state.apply(record)
        records.append(record)
        assert snapshot(fold(records)) == snapshot(state)
        assert unanswered(state.transcript) == [] or state.open_calls
        assert well_formed(list(state.transcript), bool(state.open_calls))
    assert state.seq == len(records)
    assert state.spend.calls == sum(isinstance(each, (Replied, CallSpent)) for each in records)


def may_follow(state: RunState) -> list[Record]:
    turn = state.turns + 1
    of_the_run: list[Record] = [
        Said(content="x"),
        CallSpent(turn=1, usage=USAGE, error={}),
        DriveStarted(epoch=state.epoch + 1),
        RunFinished(outcome="stopped", why=""),
        replied(turn),
        replied(turn, "a"),
        replied(turn, "a", "b", "c"),
        replied(turn, "a", finish="truncated"),
        AnswerRejected(turn=state.turns, content="no"),
    ]
    of_calls = [
        _for(entry, record)
        for entry in state.open_calls.values()
        for step, made in STEPS.items()
        if (entry.state, step) in CALL_TRANSITIONS
        for record in (*made, *([GIVEN] if step == "result" else []))
    ]
    return [record for record in (*of_the_run, *of_calls) if fits(state, record)]


def fits(state: RunState, record: Record) -> bool:
    step = run_step(record)
    return (state.drive, drive_step(record)) in DRIVE_TRANSITIONS and (
        step is None or (state.phase, step) in RUN_TRANSITIONS
    )


def _for(entry: CallEntry, record: Any) -> Record:
    changes = {"call_id": entry.call.id, "name": entry.call.name}
    if isinstance(record, ToolApproved):
        changes["identity"] = entry.identity
    moved: Record = msgspec.structs.replace(record, **changes)
    return moved


def well_formed(messages: list[Message], open_reply: bool) -> bool:
    """Each reply's calls are answered right after it and in its order; but for the last one while it is open."""
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if not waiting or waiting.pop(0) != message.call_id:
                return False
        elif waiting:
            return False
        elif isinstance(message, AssistantMessage):
            waiting = [call.id for call in message.tool_calls]
    return bool(waiting) == open_reply


# --- a journal of long ago ------------------------------------------------------------------------------------------


def test_the_golden_journal_comes_to_the_same_state_as_ever() -> None:
    state = fold(golden())
    assert (state.run_id, state.seq, state.epoch, state.turns, state.seconds) == ("run", 32, 6, 4, 5.55)
    assert state.started.folder == "/project"
    assert state.limits == Limits(turns=20, usd="0.50", seconds=600)
    assert state.spend == Spend(calls=4, input_tokens=400, output_tokens=40, cost_usd=Decimal("0.004"))
    assert (state.answer, state.open_calls, state.said_meanwhile) == ("all is done", {}, [])
    assert state.finished is not None
    assert (state.finished.outcome, state.finished.exit_status) == ("answered", 0)
    assert sum(state.repeats.values()) == 10
    assert [(type(each).__name__[0], each.content) for each in state.transcript] == [
        ("S", "You take care of the house."),
        ("U", "go"),
        ("A", "turn 0"),
        ("T", "look: seen"),
        ("T", "look: seen"),
        ("T", "there is no such thing"),
        ("T", "look: seen"),
        ("A", "turn 1"),
        ("T", "pay: paid rent"),
        ("T", "look: seen"),
        ("T", "a person looked: it took effect"),
        ("A", "turn 2"),
        ("T", "put: put x"),
        ("T", 'no tool named "nonsense"; the tools are fail, look, pay, put, shout'),
        ("T", "pay: it is on the list"),
        ("A", "all is done"),
    ]
    assert well_formed(list(state.transcript), open_reply=False)


def test_every_prefix_of_the_golden_journal_is_a_run_that_can_go_on() -> None:
    records = golden()
    doubts = {}
    for length in range(1, len(records) + 1):
        state = fold(records[:length])
        assert snapshot(fold(records[:length])) == snapshot(state)
        assert well_formed(list(state.transcript), bool(state.open_calls))
        doubts[length] = " ".join(entry.call.id for entry in state.in_doubt())
    assert {length: ids for length, ids in doubts.items() if ids} == {
        10: "call_5",
        **dict.fromkeys(range(13, 18), "call_7"),
        21: "call_8",
        **dict.fromkeys(range(24, 30), "call_10"),
    }


def test_a_key_of_the_golden_journal_would_be_made_again() -> None:
    """A later version that made other keys would do an effect twice in a run that it takes up."""
    records = golden()
    markers = [index for index, record in enumerate(records) if isinstance(record, ToolStarted)]
    assert len(markers) == 4
    for index in markers:
        marker = records[index]
        assert isinstance(marker, ToolStarted)
        state = fold(records[:index])
        assert state.idempotency_key(state.open_calls[marker.call_id].call) == marker.key
