"""Records and their bytes: what was written is read back, and what cannot be read is refused by name."""

from __future__ import annotations

import typing
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heaveto.errors import JournalDamaged, JournalNewer
from heaveto.journal import records
from heaveto.journal.records import (
    FORMAT,
    AnswerRejected,
    CallSpent,
    DriveStarted,
    LimitNear,
    LimitsChanged,
    LimitUse,
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
    UndoFinished,
    UndoneFile,
    UndoStarted,
    decode_record,
    encode_record,
)
from heaveto.messages import AssistantMessage, Ending, Finish, Limits, Sampling, Spend, ToolCall, Usage

RECORDS: tuple[type[Any], ...] = typing.get_args(Record)

counts = st.integers(0, 2**53)
seconds = st.floats(0, 1e9)
usd = st.decimals(0, 10**6, allow_nan=False, places=6)
text = st.text()  # without surrogates, which UTF-8 cannot hold
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=5,
)
facts = st.dictionaries(text, anything, max_size=3)
limits = st.builds(
    Limits,
    turns=st.none() | counts,
    usd=st.none() | usd,
    tokens=st.none() | counts,
    seconds=st.none() | seconds,
    told_as=st.dictionaries(text, text, max_size=2),
)
limit_names = st.sampled_from(["turns", "usd", "tokens", "seconds"])
usage = st.builds(
    Usage,
    input_tokens=counts,
    output_tokens=counts,
    cached_input_tokens=counts,
    reasoning_tokens=counts,
    cost_usd=st.none() | usd,
    estimated=st.booleans(),
)
spend = st.builds(Spend, calls=counts, input_tokens=counts, cost_usd=usd, unpriced_calls=counts)
calls = st.lists(st.builds(ToolCall, text, text, text), max_size=3).map(tuple)
messages = st.builds(AssistantMessage, text, calls, text, facts)
endings = st.sampled_from(typing.get_args(Ending))
samplings = st.builds(Sampling, temperature=st.none() | st.floats(0, 2), stop=st.lists(text.filter(bool), max_size=2))

undone = st.lists(st.builds(UndoneFile, path=text, before=st.none() | text, after=st.none() | text), max_size=3).map(tuple)

STRATEGIES: dict[type[Any], st.SearchStrategy[Any]] = {
    RunStarted: st.builds(
        RunStarted,
        run_id=text,
        task=text,
        system=text,
        model=text,
        folder=text,
        tools=st.lists(text, max_size=3).map(tuple),
        limits=limits,
        on_unknown=st.sampled_from(["wait", "tell_model"]),
        settings=facts,
        sampling=samplings,
        answer=text,
    ),
    DriveStarted: st.builds(
        DriveStarted,
        epoch=counts,
        model=text,
        resumed=st.booleans(),
        sampling=st.none() | samplings,
        answer=st.none() | text,
    ),
    Said: st.builds(Said, content=text),
    LimitsChanged: st.builds(LimitsChanged, limits=limits),
    LimitNear: st.builds(
        LimitNear, limit=limit_names, percent=st.sampled_from([80, 95]), used=seconds, of=seconds, setting=text
    ),
    Replied: st.builds(
        Replied,
        turn=counts,
        message=messages,
        finish=st.sampled_from(typing.get_args(Finish)),
        native_finish=text,
        usage=usage,
        model=text,
        reply_id=text,
    ),
    AnswerRejected: st.builds(AnswerRejected, turn=counts, content=text, problem=text),
    Retried: st.builds(
        Retried, turn=counts, attempt=counts, of=counts, wait_seconds=seconds, error=facts, usage=st.none() | usage
    ),
    CallSpent: st.builds(CallSpent, turn=counts, usage=usage, error=facts),
    ToolApproved: st.builds(
        ToolApproved,
        call_id=text,
        name=text,
        verdict=st.sampled_from(["approved", "denied"]),
        identity=text,
        arguments=st.none() | text,
        why=text,
        by=text,
    ),
    ToolStarted: st.builds(
        ToolStarted, call_id=text, name=text, effect=st.sampled_from(["idempotent", "write"]), key=text, facts=facts
    ),
    ToolFinished: st.builds(
        ToolFinished,
        call_id=text,
        name=text,
        ending=endings,
        content=text,
        seconds=seconds,
        error=st.none() | facts,
        is_answer=st.booleans(),
    ),
    ToolResolved: st.builds(
        ToolResolved,
        call_id=text,
        name=text,
        verdict=st.sampled_from(["done", "again", "told"]),
        by=st.sampled_from(["not begun", "read", "idempotent", "check", "person", "model"]),
        content=text,
        ending=endings,
        evidence=text,
    ),
    RunFinished: st.builds(
        RunFinished,
        outcome=text,
        why=text,
        text=text,
        cause=st.none() | facts,
        spend=spend,
        spend_by=st.dictionaries(st.sampled_from(["replies", "retries", "cut calls"]), spend, max_size=3),
        limits=st.lists(st.builds(LimitUse, limit=limit_names, used=seconds, of=seconds, setting=text), max_size=2).map(
            tuple
        ),
        turns=counts,
        seconds=seconds,
        resumable=st.booleans(),
        unresolved=st.lists(text, max_size=3).map(tuple),
        exit_status=counts,
    ),
    UndoStarted: st.builds(UndoStarted, files=undone, by=text),
    UndoFinished: st.builds(UndoFinished, files=undone, at=seconds, by=text, problem=text),
}


def test_every_record_class_is_tested_here() -> None:
    assert set(STRATEGIES) == set(RECORDS)
    assert {kind.__name__ for kind in RECORDS} <= set(records.__all__)


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_a_record_is_read_as_it_was_written(kind: type[Any]) -> None:
    @settings(max_examples=30)
    @given(STRATEGIES[kind])
    def check(record: Record) -> None:
        body = encode_record(record)
        assert decode_record(body) == record
        assert b"\n" not in body  # one body is one line of an export
        assert encode_record(decode_record(body)) == body

    check()


@given(st.text(st.characters(codec=None)))
def test_lone_surrogates_are_replaced_and_never_refused(said: str) -> None:
    """They come in file names, in prompts from a terminal, and in what models write."""
    read = decode_record(encode_record(Said(content=said)))
    assert isinstance(read, Said)
    assert read.content == said.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def test_lone_surrogates_are_replaced_wherever_they_stand() -> None:
    call = ToolCall("a", "write_file", '{"path": "\udcff"}')
    record = Replied(
        turn=1, message=AssistantMessage("x\ud800", (call,)), finish="tool_calls", usage=Usage(cost_usd=Decimal("0.10"))
    )
    read = decode_record(encode_record(record))
    assert isinstance(read, Replied)
    assert (read.message.content, read.message.tool_calls[0].arguments) == ("x\ufffd", '{"path": "\ufffd"}')
    assert read.usage.cost_usd == Decimal("0.10")


def test_the_type_in_the_json_is_the_name_that_people_see() -> None:
    assert {kind.__struct_config__.tag for kind in RECORDS} == {
        "run.started",
        "drive.started",
        "said",
        "limits.changed",
        "limit.near",
        "reply",
        "answer.rejected",
        "retry",
        "call.spent",
        "tool.approved",
        "tool.started",
        "tool.finished",
        "tool.resolved",
        "run.finished",
        "undo.started",
        "undo.finished",
    }


def test_a_record_of_a_later_version_with_more_fields_is_read() -> None:
    assert decode_record(b'{"type":"said","content":"go on","tone":"kind"}') == Said(content="go on")


def test_the_format_is_written_down_though_it_is_the_default() -> None:
    """Else a later version would take it for its own."""
    assert msgspec.json.decode(encode_record(RunStarted(run_id="r", task="t")))["format"] == FORMAT


def test_a_newer_format_is_refused_by_its_number() -> None:
    newer = msgspec.json.decode(encode_record(RunStarted(run_id="r", task="t"))) | {"format": FORMAT + 1}
    with pytest.raises(JournalNewer, match=f"format {FORMAT + 1}; this version reads up to {FORMAT}"):
        decode_record(msgspec.json.encode(newer))


def test_a_newer_format_that_cannot_be_decoded_is_still_told_by_its_number() -> None:
    body = msgspec.json.encode({"type": "run.started", "format": 7, "task": {"parts": []}})
    with pytest.raises(JournalNewer) as caught:
        decode_record(body)
    assert (caught.value.found, caught.value.known) == (7, FORMAT)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"type":"said"}',
        b'{"type":"said","content":',
        b'{"type":"said","content":7}',
        b'{"type":"no.such.thing"}',
        b'{"type":"said","content":"\xff"}',
        b'{"type":"tool.finished","call_id":"a","name":"b","ending":"fine","content":""}',
        b"[]",
        b"\x00" * 20,
        b'{"type":"run.started","format":"new","run_id":"r","task":"t"}',
        b'{"type":"limits.changed","limits":{"turns":-1}}',
    ],
)
def test_a_damaged_record_is_refused_with_its_place(body: bytes) -> None:
    with pytest.raises(JournalDamaged, match=r"^run 3f2a, record 12: .") as caught:
        decode_record(body, "run 3f2a, record 12")
    assert caught.value.where == "run 3f2a, record 12"


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    try:
        decode_record(body)
    except (JournalDamaged, JournalNewer):
        pass


@given(st.builds(CallSpent, turn=counts, usage=usage, error=facts), st.data())
def test_a_record_that_was_cut_short_is_refused(record: Record, data: st.DataObject) -> None:
    body = encode_record(record)
    with pytest.raises(JournalDamaged):
        decode_record(body[: data.draw(st.integers(0, len(body) - 1))])
