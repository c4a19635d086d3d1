"""The records of a run: what is written down, one small struct a step. They are its durable events too.

The rules of this file:
- A record is never changed once it is written; a newer format adds fields with defaults or types, and `FORMAT` counts up.
- A record says what happened, not what follows from it: `state.py` folds them into a state.
- The `type` in the JSON is the name that people see in `--json` and on the page.
"""

from __future__ import annotations

import json
from typing import Any, Literal, TypeAlias

import msgspec

from ..errors import JournalDamaged, JournalNewer
from ..messages import AssistantMessage, Ending, Finish, Limits, Part, Sampling, Spend, Usage

__all__ = [
    "FORMAT",
    "SEAL_CHARS",
    "WITHIN",
    "AnswerRejected",
    "CallSpent",
    "DriveStarted",
    "LimitNear",
    "LimitUse",
    "LimitsChanged",
    "Record",
    "Replied",
    "Retried",
    "RunFinished",
    "RunStarted",
    "Rung",
    "Said",
    "SpentBy",
    "ToolApproved",
    "ToolFinished",
    "ToolResolved",
    "ToolStarted",
    "UndoFinished",
    "UndoStarted",
    "UndoneFile",
    "decode_record",
    "encode_record",
    "unseal",
]

FORMAT = 2  # 2: what was undone
SEAL_CHARS = 16

Rung: TypeAlias = Literal["not begun", "read", "idempotent", "key", "check", "undo", "program", "person", "model"]


class RunStarted(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="run.started"):
    """A run began. `settings` is what the starter wants back at a resume (the command keeps its flags there); `parts` is
    the task with its images and files, empty where it has none; `forked_from` is the run and the turn that it goes on from;
    `sampling` is how the model shall write, and `answer` the name and a hash of the schema that the answer has to fit.

    All fields are written, defaults too: a later version's `format` is another one.
    """

    format: int = FORMAT
    run_id: str
    task: str
    system: str = ""
    model: str = ""
    folder: str = ""
    tools: tuple[str, ...] = ()
    limits: Limits = Limits()
    on_unknown: Literal["wait", "tell_model"] = "wait"
    settings: dict[str, Any] = {}
    parts: tuple[Part, ...] = ()
    forked_from: str = ""
    sampling: Sampling = Sampling()
    answer: str = ""


class DriveStarted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="drive.started"):
    """A process began to drive the run: the first time, or after a stop. `sampling` and `answer` as in `RunStarted`, where a
    resume has others; `sandbox` is what its commands are kept in: "bwrap", "landlock", "none", or empty where nobody said.
    `tools` and `folder` are None where they are as before; `differences` says in words what is not.
    """

    epoch: int
    model: str = ""
    resumed: bool = False
    sampling: Sampling | None = None
    answer: str | None = None
    sandbox: str = ""
    tools: tuple[str, ...] | None = None
    folder: str | None = None
    differences: tuple[str, ...] = ()


class Said(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="said"):
    """A person or the program said something to the model after the run had begun."""

    content: str
    parts: tuple[Part, ...] = ()


class LimitsChanged(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="limits.changed"):
    """A person raised or lowered the limits at a resume."""

    limits: Limits


LimitName: TypeAlias = Literal["turns", "usd", "tokens", "seconds"]
SpentBy: TypeAlias = Literal["replies", "retries", "cut calls"]


class LimitNear(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="limit.near"):
    """A limit is nearly used up. Once for each limit and percentage, however often the run is resumed.

    Attributes:
        percent: 80 or 95.
        setting: What the limit is called, such as "--max-usd".
    """

    limit: LimitName
    percent: int
    used: float
    of: float
    setting: str


class LimitUse(msgspec.Struct, frozen=True, kw_only=True):
    """A limit, and how much of it is used. Dollars are exact in `spend`; here they are a number as any other."""

    limit: LimitName
    used: float
    of: float
    setting: str


class Replied(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="reply"):
    """The model replied. A reply that did not end well is no part of the conversation, but its spend counts."""

    turn: int
    message: AssistantMessage
    finish: Finish
    native_finish: str = ""
    usage: Usage = Usage()
    model: str = ""
    reply_id: str = ""


class AnswerRejected(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="answer.rejected"):
    """What the model wrote was no answer that fits, and it was told so.

    Attributes:
        content: What the model reads.
        problem: What was wrong; empty where it wrote text and no answer.
    """

    turn: int
    content: str
    problem: str = ""


class Retried(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="retry"):
    """An attempt at a model call failed and another follows. What it streamed is void.

    Attributes:
        wait_seconds: The wait before the next attempt.
        error: As `causes.to_data` writes it.
    """

    turn: int
    attempt: int
    of: int
    wait_seconds: float
    error: dict[str, Any]
    usage: Usage | None = None


class CallSpent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="call.spent"):
    """A model call ended without a reply, and what it cost all the same."""

    turn: int
    usage: Usage
    error: dict[str, Any]


class ToolApproved(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="tool.approved"):
    """A person allowed or refused a call that waits, in another process than the one that drives the run.

    Attributes:
        identity: Of the call that was seen: the word holds for exactly these arguments.
        arguments: What it is run with instead, as JSON text; None for the model's own.
        why: The reason for a denial; the model reads it.
        by: The person.
    """

    call_id: str
    name: str
    verdict: Literal["approved", "denied"]
    identity: str
    arguments: str | None = None
    why: str = ""
    by: str = ""


class ToolStarted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="tool.started"):
    """The marker: this call begins now and may change something. Written before it does.

    Attributes:
        key: The idempotency key.
        facts: What the tool's `plan` noted, for its `check`; of files that it changes, their contents (see `kept.py`).
        at: When, in seconds since 1970, for a key that the other side forgets; 0 where nobody noted it.
    """

    call_id: str
    name: str
    effect: Literal["idempotent", "write"]
    key: str
    facts: dict[str, Any] = {}
    at: float = 0.0


WITHIN = "within"


class ToolFinished(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="tool.finished"):
    """A call ended. `content` is what the model reads; `error` is for people, with the traceback's last lines of a crash.

    Attributes:
        abandoned: What did not heed the stop and was left to itself: "thread send", "task fetch".
        error: With `WITHIN` when the call could not end because a run that it drives waits for a person: that run's name.
        is_answer: Whether the call gave the run's answer.
    """

    call_id: str
    name: str
    ending: Ending
    content: str
    seconds: float = 0.0
    error: dict[str, Any] | None = None
    abandoned: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    is_answer: bool = False


class ToolResolved(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="tool.resolved"):
    """A rung of the ladder settled a call whose outcome was not known. Written before it is acted on.

    Attributes:
        verdict: "done": `content` is its result. "again": it is run again. "told": the model is told that nobody knows.
        by: The rung.
        evidence: What was seen, or what the person said.
        who: The person or the program that said so.
    """

    call_id: str
    name: str
    verdict: Literal["done", "again", "told"]
    by: Rung
    content: str = ""
    ending: Ending = "ok"
    evidence: str = ""
    who: str = ""


class RunFinished(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="run.finished"):
    """A drive ended. Exactly one for each, always its last event.

    Attributes:
        outcome: The kind of the outcome, one of `loop.OutcomeKind`.
        why: In plain words.
        cause: The stop or the error as data, with its code and its chain; None when the model answered.
        spend_by: Its parts: "replies", "retries", "cut calls" (which failed or were stopped).
        limits: The limits that the run had, its own and the shared ones, and how much of each is used.
        seconds: The time driven, over all resumes.
        unresolved: The calls that nobody knows the outcome of, as "tool (call id)".
        abandoned: What did not heed a stop and was left to itself, over all resumes, as "thread send (call id)".
        sandbox: The one in force, as `drive.started` has it.
    """

    outcome: str
    why: str
    text: str = ""
    cause: dict[str, Any] | None = None
    spend: Spend = Spend()
    spend_by: dict[SpentBy, Spend] = {}
    limits: tuple[LimitUse, ...] = ()
    turns: int = 0
    seconds: float = 0.0
    resumable: bool = False
    unresolved: tuple[str, ...] = ()
    exit_status: int = 0
    abandoned: tuple[str, ...] = ()
    sandbox: str = ""


class UndoneFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is put back.

    Attributes:
        before: The SHA-256 of what it was before the run, and is to be again; None for no file.
        after: That of what the run left; None for no file.
    """

    path: str
    before: str | None
    after: str | None


class UndoStarted(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="undo.started"):
    """The marker of an undo: from now on these files may be as they were before the run. Older versions refuse the run."""

    format: int = FORMAT
    files: tuple[UndoneFile, ...]
    by: str = ""


class UndoFinished(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="undo.finished"):
    """An undo ended: all of its files are as they were before the run, or, with a problem, none is.

    Attributes:
        at: When, in seconds since 1970.
        problem: Why nothing was put back; empty when all was.
    """

    format: int = FORMAT
    files: tuple[UndoneFile, ...]
    at: float
    by: str = ""
    problem: str = ""


Record: TypeAlias = (
    RunStarted
    | DriveStarted
    | Said
    | LimitsChanged
    | LimitNear
    | Replied
    | AnswerRejected
    | Retried
    | CallSpent
    | ToolApproved
    | ToolStarted
    | ToolFinished
    | ToolResolved
    | RunFinished
    | UndoStarted
    | UndoFinished
)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)


def encode_record(record: Record) -> bytes:
    """The record's bytes. Lone surrogates, which UTF-8 cannot hold, are written as U+FFFD."""
    try:
        return _encoder.encode(record)
    except UnicodeEncodeError:
        text = json.dumps(msgspec.to_builtins(record), ensure_ascii=False)
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def decode_record(body: bytes, where: str = "a record") -> Record:
    """The record from its bytes, with or without their seal (see `seals.py`).

    Args:
        where: Its place, for the error, such as "run 3f2a, record 12".

    Raises:
        JournalNewer: When a newer version wrote it.
        JournalDamaged: When it cannot be read.
    """
    body, _ = unseal(body)
    try:
        record = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        _refuse_newer(body)
        raise JournalDamaged(where, str(error)) from error
    if isinstance(record, RunStarted) and record.format > FORMAT:
        raise JournalNewer(record.format, FORMAT)
    return record


def unseal(body: bytes) -> tuple[bytes, bytes]:
    """A record's JSON and its seal, which is empty where there is none."""
    head, line_break, tail = body.rpartition(b"\n")
    return (head, tail) if line_break and len(tail) == SEAL_CHARS else (body, b"")


def _refuse_newer(body: bytes) -> None:
    """A newer format may have types that this version cannot decode; then its number is what to tell."""
    try:
        data = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    if isinstance(data, dict) and isinstance(found := data.get("format"), int) and found > FORMAT:
        raise JournalNewer(found, FORMAT)
