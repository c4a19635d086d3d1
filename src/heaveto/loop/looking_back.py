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
    doubtful = dict[str, str]()  # by call, where: they began, and nobody knows what came of it
    for record in records:
        match record:
            case DriveStarted() | AnswerRejected():
                place, found = _place_to_go_on(turn, doubtful), False
            case ToolResolved():
                doubtful.pop(record.call_id, None)
                place, found = _place_to_go_on(turn, doubtful), False
            case Retried():
                place = f"turn {record.turn}, at attempt {record.attempt + 1} of {record.of} of its model call"
            case CallSpent():
                place = f"turn {record.turn}, during its model call"
            case Replied():
                turn, found = record.turn, False
                place = f"turn {turn}, after its reply"
            case ToolStarted():
                doubtful[record.call_id] = f"turn {turn}, with the outcome of {record.name} ({record.call_id}) not known"
                place = place if found else f"turn {turn}, after {record.name} ({record.call_id}) had begun"
            case ToolFinished():
                if record.ending not in _CUT:
                    doubtful.pop(record.call_id, None)
                place = place if found else _place_of_call(turn, record)
                found = found or record.ending in (*_CUT, "not_run")
    return place


def _place_to_go_on(turn: int, doubtful: Mapping[str, str]) -> str:
    return next(iter(doubtful.values()), f"turn {turn + 1}, at its model call")


def _place_of_call(turn: int, record: ToolFinished) -> str:
    call = f"{record.name} ({record.call_id})"
    if record.ending == "not_run":
        return f"turn {turn}, before {call} began"
    return f"turn {turn}, while {call} ran" if record.ending in _CUT else f"turn {turn + 1}, at its model call"
