"""A run's records as a person reads them. Pure, but that the commands in them repeat `--store`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..errors import ApprovalNeeded
from ..journal.records import (
    AnswerRejected,
    CallSpent,
    DriveStarted,
    LimitNear,
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
    UndoFinished,
    UndoStarted,
)
from ..journal.state import fold
from .texts import (
    approve_line,
    call_line,
    clip,
    closing_lines,
    counted,
    event_line,
    limits_text,
    printable,
    seconds_text,
    was_begun_here,
)

__all__ = ["record_lines", "waiting_lines"]

CONTENT_LINES = 12  # of a tool's result; `--json` has all of it


def record_lines(record: Record) -> Iterator[str]:
    """The lines for one record."""
    match record:
        case RunStarted():
            yield f"run {record.run_id} in {printable(record.folder)} with {record.model}"
            if (box := record.settings.get("sandbox_in_force")) is not None:
                yield f"sandbox for commands and tests: {printable(str(box))}"
            if record.sampling:
                given = ", ".join(f"{name}={value!r}" for name, value in record.sampling.given().items())
                yield f"the model's settings: {printable(given)}"
            if record.answer:
                yield f"the answer has to be {printable(record.answer.rpartition(' ')[0])}"
            yield from _indented(record.task, "task: ")
        case DriveStarted(resumed=True):
            yield f"— resumed with {record.model} (epoch {record.epoch})"
            yield from (f"  not as before: {printable(each)}" for each in record.differences)
        case DriveStarted():
            return
        case Said():
            yield from _indented(record.content, "said: ")
        case LimitsChanged():
            yield f"limits changed: {limits_text(record.limits)}"
        case LimitNear() | AnswerRejected():
            yield str(event_line(record))
        case Replied():
            yield from _reply_lines(record)
        case Retried():
            yield f"  retry after attempt {record.attempt} of {record.of}: {clip(record.error['text'])}"
        case CallSpent():
            yield f"  the call of turn {record.turn} came to nothing: {clip(record.error['text'])}"
        case ToolApproved():
            why = f": {clip(record.why)}" if record.why else ""
            changed = f", with {clip(record.arguments)}" if record.arguments is not None else ""
            yield f"  {record.name} ({record.call_id}) {record.verdict} by {record.by or 'a person'}{why}{changed}"
        case ToolStarted():
            yield f"  {record.name} ({record.call_id}) begins"
        case ToolFinished():
            yield f"  {record.name} ({record.call_id}): {record.ending}, {seconds_text(record.seconds)}"
            yield from _indented(record.content, "    ", CONTENT_LINES)
        case ToolResolved():
            evidence = f": {clip(record.evidence)}" if record.evidence else ""
            yield f"  {record.name} ({record.call_id}) resolved by {record.by}: {record.verdict}{evidence}"
        case UndoStarted():
            yield f"— undo begun{_by(record.by)}"
        case UndoFinished():
            count = counted(len(record.files), "file")
            said = f"nothing undone: {printable(record.problem)}" if record.problem else f"undone: {count}{_by(record.by)}"
            yield f"— {said}"
        case RunFinished():
            yield from closing_lines(record, "RUN")[:-1]


def _by(who: str) -> str:
    return f" by {printable(who)}" if who else ""


def waiting_lines(run_id: str, records: Sequence[Record]) -> Iterator[str]:
    """How to allow the call that a run waits for: exactly the one that is shown here, with all of its arguments."""
    last = records[-1] if records else None
    if not isinstance(last, RunFinished) or last.cause is None or last.cause.get("code") != ApprovalNeeded.code:
        return
    state = fold(records)
    ours = was_begun_here(state.started)
    for entry in state.asked():
        if f"({entry.call.id})" in last.cause["text"]:
            allow = approve_line(run_id, entry.call.id, entry.identity, ours=ours)
            yield f"it waits to run {printable(entry.call.name)} {printable(entry.call.arguments)}"
            yield f"to allow {printable(entry.call.name)}: {allow}"


def _reply_lines(record: Replied) -> Iterator[str]:
    usage = record.usage
    usd = "price unknown" if usage.cost_usd is None else f"${usage.cost_usd:.4f}"
    yield f"turn {record.turn}: {record.finish}, {usage.input_tokens:,} in, {usage.output_tokens:,} out, {usd}"
    if record.message.content:
        yield from _indented(record.message.content, "  ")
    for call in record.message.tool_calls:
        yield f"  → {call_line(call.name, call.arguments)}"


def _indented(text: str, indent: str, at_most: int = 200) -> Iterator[str]:
    lines = printable(text).splitlines()
    for line in lines[:at_most]:
        yield f"{indent}{line}"
    if len(lines) > at_most:
        yield f"{indent}… {len(lines) - at_most} more lines"
