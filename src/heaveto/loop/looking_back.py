"""What a run's journal tells of its end beyond the sentence: the chain of causes, where it struck, whose limit. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..journal.records import (
    AnswerRejected,
    CallSpent,
    DriveStarted,
    Record,
    Replied,
    Retried,
    ToolFinished,
    ToolResolved,
    ToolStarted,
)

__all__ = ["Link", "cause_chain", "limit_owner", "place_of_end"]

# Whose time limit passed, by the cause's code.
_OWNERS = {
    "run_deadline": "the run",
    "call_timeout": "the model call",
    "connect_timeout": "the model call",
    "stream_idle": "the model call",
    "attempt_timeout": "one attempt at the model call",
    "tool_timeout": "the tool call",
    "tests_timed_out": "the test run",
    "save_timeout": "the journal",
    "deadline_passed": "the program around the run",
}
_CUT = ("stopped", "unknown", "fatal")  # endings of a call in which the end of a run may have struck


class Link(NamedTuple):
    """One exception of the chain, as it was written down."""

    code: str
    text: str
    notes: tuple[str, ...]


def cause_chain(cause: Mapping[str, Any] | None) -> list[Link]:
    """What ended the run and what was behind it, from the outside in, each once: members, last attempts, causes."""
    return list(dict.fromkeys(_links(cause))) if cause else []


def _links(cause: Mapping[str, Any]) -> Iterator[Link]:
    yield Link(cause["code"], cause["text"], tuple(cause.get("notes", ())))
    for each in (*_errors_in(cause.get("fields", ())), *cause.get("errors", ())):
        yield from _links(each)
    if inner := cause.get("cause"):
        yield from _links(inner)


def _errors_in(fields: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    for field in fields:
        match field:
            case {"error": dict() as error}:
                yield error
            case list():
                yield from _errors_in(field)


def limit_owner(chain: Sequence[Link]) -> str:
    """Whose time limit passed; empty where none did."""
    return next((_OWNERS[link.code] for link in chain if link.code in _OWNERS), "")


def place_of_end(records: Iterable[Record]) -> str:
    """Where in the run its last drive ended, such as "turn 2, while send_mail (call_7) ran"."""
    turn, place, found = 0, "", False
    for record in records:
        match record:
            case DriveStarted() | ToolResolved() | AnswerRejected():
                place, found = f"turn {turn + 1}, at its model call", False
            case Retried():
                place = f"turn {record.turn}, at attempt {record.attempt + 1} of {record.of} of its model call"
            case CallSpent():
                place = f"turn {record.turn}, during its model call"
            case Replied():
                turn, found = record.turn, False
                place = f"turn {turn}, after its reply"
            case ToolStarted() if not found:
                place = f"turn {turn}, after {record.name} ({record.call_id}) had begun"
            case ToolFinished() if not found:
                found = record.ending in _CUT or record.ending == "not_run"
                place = _place_of_call(turn, record)
    return place


def _place_of_call(turn: int, record: ToolFinished) -> str:
    call = f"{record.name} ({record.call_id})"
    if record.ending == "not_run":
        return f"turn {turn}, before {call} began"
    return f"turn {turn}, while {call} ran" if record.ending in _CUT else f"turn {turn + 1}, at its model call"
