"""The machines of a run, as tables: of its phases, of its drives, and of each of its tool calls.

What is not in them is a bug or a damaged journal, and refused as such. `docs/states.md` is made from them.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from ..messages import Ending
from .records import (
    AnswerRejected,
    CallSpent,
    DriveStarted,
    Record,
    Replied,
    Retried,
    RunFinished,
    Said,
    ToolApproved,
    ToolFinished,
    ToolResolved,
    ToolStarted,
    UndoFinished,
    UndoStarted,
)

__all__ = [
    "CALL_TRANSITIONS",
    "DRIVE_TRANSITIONS",
    "GOOD_ENDS",
    "RUN_TRANSITIONS",
    "SETTLED",
    "CallState",
    "CallStep",
    "DriveState",
    "DriveStep",
    "RunPhase",
    "RunStep",
    "call_step",
    "drive_step",
    "run_step",
]

# How a call ended and whether that settles it. A limit that passed settles a call that only reads or may be repeated; of
# one that writes the loop says "unknown" instead.
SETTLED: frozenset[Ending] = frozenset({"ok", "tool_error", "crashed", "denied", "not_run", "timed_out"})

GOOD_ENDS = ("answer", "tool_calls")  # of a reply; any other is no part of the conversation

# --- a tool call ----------------------------------------------------------------------------------------------------

CallState: TypeAlias = Literal["asked", "begun", "in_doubt", "settled"]
CallStep: TypeAlias = Literal["word", "marker", "result", "no_result", "done", "again", "told"]

CALL_TRANSITIONS: dict[tuple[CallState, CallStep], CallState] = {
    ("asked", "word"): "asked",  # a person allowed or refused it beforehand
    ("asked", "marker"): "begun",
    ("asked", "result"): "settled",  # reads carry no marker; what was denied or not run never had one
    ("asked", "no_result"): "in_doubt",  # a read that was cut
    ("begun", "result"): "settled",
    ("begun", "no_result"): "in_doubt",
    ("begun", "done"): "settled",  # the process died: the ladder decides
    ("begun", "again"): "asked",
    ("begun", "told"): "settled",
    ("in_doubt", "done"): "settled",
    ("in_doubt", "again"): "asked",
    ("in_doubt", "told"): "settled",
}


def call_step(record: ToolApproved | ToolStarted | ToolFinished | ToolResolved) -> CallStep:
    """What a record does to its call."""
    match record:
        case ToolApproved():
            return "word"
        case ToolStarted():
            return "marker"
        case ToolFinished():
            return "result" if record.ending in SETTLED else "no_result"
        case ToolResolved():
            return record.verdict


# --- the run --------------------------------------------------------------------------------------------------------

RunPhase: TypeAlias = Literal["calling", "answering", "answered"]
RunStep: TypeAlias = Literal["spent", "asks", "all_settled", "given", "answers", "rejected", "said"]

RUN_TRANSITIONS: dict[tuple[RunPhase, RunStep], RunPhase] = {
    ("calling", "spent"): "calling",  # an attempt that failed, a call that was cut, a reply that cannot be used
    ("calling", "said"): "calling",
    ("calling", "asks"): "answering",  # a reply with tool calls
    ("calling", "answers"): "answered",
    ("answering", "all_settled"): "calling",  # and their answers join the conversation
    ("answering", "given"): "answered",  # one of the calls gave the answer, and all are settled
    ("answering", "said"): "answering",  # it follows on the answers
    ("answered", "rejected"): "calling",  # it does not fit the form that was asked for
    ("answered", "said"): "calling",
}


def run_step(record: Record) -> RunStep | None:
    """What a record does to the phase of its run; None: nothing by itself."""
    match record:
        case Said():
            return "said"
        case AnswerRejected():
            return "rejected"
        case Retried() | CallSpent():
            return "spent"
        case Replied():
            if record.finish not in GOOD_ENDS:
                return "spent"
            return "asks" if record.message.tool_calls else "answers"
        case _:
            return None


DriveState: TypeAlias = Literal["driven", "ended"]
DriveStep: TypeAlias = Literal["drive", "work", "word", "end"]

DRIVE_TRANSITIONS: dict[tuple[DriveState, DriveStep], DriveState] = {
    ("driven", "drive"): "driven",  # the one before was killed, or it is the first
    ("driven", "work"): "driven",
    ("driven", "word"): "driven",  # a person's, after a kill
    ("driven", "end"): "ended",
    ("ended", "word"): "ended",
    ("ended", "drive"): "driven",
}


def drive_step(record: Record) -> DriveStep:
    """Who a record comes from: a drive that begins, works or ends, or a person between two of them."""
    match record:
        case DriveStarted():
            return "drive"
        case RunFinished():
            return "end"
        case ToolApproved() | ToolResolved(by="person") | UndoStarted() | UndoFinished():
            return "word"
        case _:
            return "work"
