"""The state of a run, folded from its records. Pure: the same records give the same state, in any process.

A run is a small machine, its drives are another, and so is each tool call; `transitions.py` has their tables. What is not
in them is a bug or a damaged journal, and refused as such.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..errors import BadAnswer, JournalDamaged, OutcomeUnknown
from ..messages import (
    Ending,
    Limits,
    Message,
    Spend,
    SystemMessage,
    ToolCall,
    ToolMessage,
    Transcript,
    Usage,
    UserMessage,
)
from .records import (
    WITHIN,
    AnswerRejected,
    CallSpent,
    DriveStarted,
    LimitNear,
    LimitsChanged,
    Record,
    Replied,
    Retried,
    RunFinished,
    Rung,
    RunStarted,
    Said,
    SpentBy,
    ToolApproved,
    ToolFinished,
    ToolResolved,
    ToolStarted,
    UndoFinished,
    UndoStarted,
)
from .transitions import (
    CALL_TRANSITIONS,
    DRIVE_TRANSITIONS,
    RUN_TRANSITIONS,
    CallState,
    DriveState,
    RunPhase,
    RunStep,
    call_step,
    drive_step,
    run_step,
)

__all__ = ["CallEntry", "RunState", "fold"]

RAN: frozenset[Ending] = frozenset({"ok", "tool_error", "crashed", "timed_out"})


@dataclass(slots=True)
class CallEntry:
    """One tool call: what was asked, how far it came, and its one answer.

    Attributes:
        first_at: When it first began, in seconds since 1970; 0 where nobody noted it.
        unknown_results: How often it ran and could not say whether it did something.
        may_have_run: It is to run again because that does no harm, and nobody looked whether it took effect before.
        approval: What a person said of exactly this call, beforehand.
        is_answer: Whether it gave the run's answer.
    """

    call: ToolCall
    turn: int
    state: CallState = "asked"
    started: ToolStarted | None = None
    answer: ToolMessage | None = None
    approval: ToolApproved | None = None
    why_in_doubt: str = ""
    first_at: float = 0.0
    unknown_results: int = 0
    is_answer: bool = False
    may_have_run: bool = False
    identity: str = field(init=False)

    @property
    def may_have_changed(self) -> bool:
        """Whether it had begun, now or earlier, and is more than a look: a call that only reads has no marker."""
        return self.started is not None or self.may_have_run

    def __post_init__(self) -> None:
        self.identity = self.call.identity  # once, since it parses and hashes


@dataclass(slots=True)
class RunState:
    """A run as far as it came.

    Attributes:
        transcript: The conversation for the next request: each call in it has its answer.
        phase: What it is at.
        drive: Whether a drive is under way, or was killed, or its end is written.
        open_calls: The calls of the last reply while one of them is not settled, in the reply's order.
        repeats: How many calls of each identity have run to an end.
        seconds: The time that earlier drives took.
        rungs: How many calls in doubt each rung of the ladder has settled.
        said_meanwhile: What was said while calls were open; it follows on their answers.
        spend_by: The parts of `spend`: calls that were answered, attempts that were retried, calls that were cut or failed.
        reported_tokens: The tokens of the transcript as the API last counted them, its own reply included; 0 before it did.
        reported_messages: How many messages those were.
        answer: What the model gave for its answer: its text, or the JSON of the call that gave it.
        rejections: How often since the drive began, or something was said, it was told that its answer is none.
        rejected_for: What was wrong the last time; empty where it wrote text and no answer.
        warned: The warnings of limits that there have been.
        finished: How the last drive ended; None while one is under way, or when it was killed.
        abandoned: What did not heed a stop and was left to itself, as "thread send (call id)".
        undoing: Whether an undo of its files was begun and did not end.
        sandbox: What the present drive's commands are kept in; `model`, `tools` and `folder` are the present drive's too.
        undone: The files that were put back since the last drive, which the model does not know of.
    """

    started: RunStarted
    limits: Limits
    transcript: Transcript
    spend: Spend = field(default_factory=Spend)
    spend_by: dict[SpentBy, Spend] = field(default_factory=dict)
    turns: int = 0
    seconds: float = 0.0
    reported_tokens: int = 0
    reported_messages: int = 0
    warned: list[LimitNear] = field(default_factory=list)
    seq: int = 0
    epoch: int = 0
    phase: RunPhase = "calling"
    drive: DriveState = "driven"
    open_calls: dict[str, CallEntry] = field(default_factory=dict)
    repeats: dict[str, int] = field(default_factory=dict)
    rungs: dict[Rung, int] = field(default_factory=dict)
    said_meanwhile: list[UserMessage] = field(default_factory=list)
    answer: str | None = None
    rejections: int = 0
    rejected_for: str = ""
    finished: RunFinished | None = None
    abandoned: list[str] = field(default_factory=list)
    undoing: bool = False
    undone: tuple[str, ...] = ()
    sandbox: str = ""
    model: str = ""
    tools: tuple[str, ...] = ()
    folder: str = ""

    @property
    def run_id(self) -> str:
        return self.started.run_id

    @classmethod
    def begin(cls, started: RunStarted) -> RunState:
        opening: list[Message] = [SystemMessage(started.system)] if started.system else []
        state = cls(
            started=started,
            limits=started.limits,
            transcript=Transcript([*opening, UserMessage(started.task, started.parts)]),
            model=started.model,
            tools=started.tools,
            folder=started.folder,
        )
        state.seq = 1
        return state

    def apply(self, record: Record) -> None:
        """Take the next record in.

        Raises:
            JournalDamaged: When it cannot follow on what came before.
        """
        self.seq += 1
        self._move(record)
        match record:
            case DriveStarted():
                self.epoch, self.finished, self.undone, self.rejections = record.epoch, None, (), 0
                self.sandbox, self.model = record.sandbox, record.model or self.model
                self.tools = self.tools if record.tools is None else record.tools
                self.folder = self.folder if record.folder is None else record.folder
            case Said():
                self._take_said(UserMessage(record.content, record.parts))
            case LimitsChanged():
                self.limits = record.limits
            case Replied():
                self._take_reply(record)
            case AnswerRejected():
                self._take_rejection(record)
            case Retried():
                if record.usage:
                    self._spend(record.usage, "retries")
            case CallSpent():
                self._spend(record.usage, "cut calls")
            case LimitNear():
                self.warned.append(record)
            case ToolApproved():
                self._take_approval(record)
            case ToolStarted():
                entry = self._step(record)
                entry.started, entry.first_at = record, entry.first_at or record.at
            case ToolFinished():
                self._take_result(record)
            case ToolResolved():
                self._take_verdict(record)
            case RunFinished():
                self.finished, self.seconds = record, record.seconds
            case UndoStarted():
                self.undoing = True
            case UndoFinished():
                self.undoing = False
                self.undone = () if record.problem else tuple(file.path for file in record.files)
            case RunStarted():
                raise JournalDamaged(self._here(), "a run cannot start twice")

    def conversation(self) -> list[Message]:
        """Everything that was said, with the answers of a half-answered reply. For people; requests take `transcript`."""
        answers = [entry.answer for entry in self.open_calls.values() if entry.answer]
        return [*self.transcript, *answers, *self.said_meanwhile]

    def in_doubt(self) -> list[CallEntry]:
        """The calls that had begun and whose outcome is not known."""
        return [entry for entry in self.open_calls.values() if entry.state in ("begun", "in_doubt")]

    def idempotency_key(self, call: ToolCall) -> str:
        """The key of a call: that of the run, the tool, the arguments, and how many such calls ran to an end before.

        A call that the model makes again after a new plan, since it does not know the first one's outcome, gets the first
        one's key; a deliberate repeat gets another.
        """
        entry = self.open_calls.get(call.id)
        identity = entry.identity if entry is not None and entry.call == call else call.identity
        beside = [entry.call.id for entry in self.open_calls.values() if entry.identity == identity]
        repeat = self.repeats.get(identity, 0) + (beside.index(call.id) if call.id in beside else 0)
        return hashlib.sha256(f"{self.run_id}:{identity}:{repeat}".encode()).hexdigest()[:32]

    def asked(self) -> list[CallEntry]:
        """The calls that are still to be run."""
        return [entry for entry in self.open_calls.values() if entry.state == "asked"]

    def _take_said(self, message: UserMessage) -> None:
        self.answer, self.rejections = None, 0
        if self.open_calls:  # between a call and its answer no API takes a message
            self.said_meanwhile.append(message)
        else:
            self.transcript.append(message)

    def _take_reply(self, record: Replied) -> None:
        self._spend(record.usage, "replies")
        self.turns = record.turn
        if run_step(record) == "spent":
            return
        self.transcript.append(record.message)
        if record.usage.input_tokens and not record.usage.estimated:
            self.reported_tokens = record.usage.input_tokens + record.usage.output_tokens
            self.reported_messages = len(self.transcript)
        self.open_calls = {call.id: CallEntry(call, record.turn) for call in record.message.tool_calls}
        if not self.open_calls:
            self.answer = record.message.content

    def _take_rejection(self, record: AnswerRejected) -> None:
        self.answer = None
        self.rejections, self.rejected_for = self.rejections + 1, record.problem
        self.transcript.append(UserMessage(record.content))

    def _spend(self, usage: Usage, by: SpentBy) -> None:
        self.spend = self.spend + usage
        self.spend_by[by] = self.spend_by.get(by, Spend()) + usage

    def _take_result(self, record: ToolFinished) -> None:
        entry = self._step(record)
        entry.answer = ToolMessage(record.call_id, record.name, record.content, record.ending, record.parts)
        entry.unknown_results += record.ending == "unknown" and WITHIN not in (record.error or {})
        entry.is_answer = record.is_answer
        if record.error and record.error.get("code") == BadAnswer.code:
            self.rejections, self.rejected_for = self.rejections + 1, str(record.error["fields"][0])
        self.abandoned += [f"{what} ({record.call_id})" for what in record.abandoned]
        if entry.state == "in_doubt":
            entry.why_in_doubt = _why_in_doubt(record)
        self._close_reply()

    def _take_approval(self, record: ToolApproved) -> None:
        entry = self._step(record)
        if record.identity != entry.identity:
            raise JournalDamaged(self._here(), f"the approval of {record.call_id} is for other arguments")
        entry.approval = record
        if record.arguments is not None:
            entry.call = ToolCall(entry.call.id, entry.call.name, record.arguments)
            entry.identity = entry.call.identity

    def _take_verdict(self, record: ToolResolved) -> None:
        entry = self._step(record)
        self.rungs[record.by] = self.rungs.get(record.by, 0) + 1
        entry.answer = None
        if record.verdict == "again":
            entry.started, entry.may_have_run = None, record.by in ("idempotent", "key")
        else:
            entry.answer = ToolMessage(record.call_id, record.name, record.content, record.ending)
        self._close_reply()

    def _move(self, record: Record) -> None:
        """The step of the run and of its drives."""
        step = drive_step(record)
        driven = DRIVE_TRANSITIONS.get((self.drive, step))
        if driven is None:
            raise JournalDamaged(self._here(), f"the drive is {self.drive}, where {step} cannot follow")
        self.drive = driven
        if (changes := run_step(record)) is not None:
            self._pass(changes)

    def _pass(self, step: RunStep) -> None:
        after = RUN_TRANSITIONS.get((self.phase, step))
        if after is None:
            raise JournalDamaged(self._here(), f"the run is {self.phase}, where {step} cannot follow")
        self.phase = after

    def _step(self, record: ToolApproved | ToolStarted | ToolFinished | ToolResolved) -> CallEntry:
        call_id, step = record.call_id, call_step(record)
        entry = self.open_calls.get(call_id)
        if entry is None:
            raise JournalDamaged(self._here(), f"no open call {call_id}")
        after = CALL_TRANSITIONS.get((entry.state, step))
        if after is None:
            raise JournalDamaged(self._here(), f"call {call_id} is {entry.state}, where {step} cannot follow")
        entry.state = after
        return entry

    def _close_reply(self) -> None:
        """Once all calls of the reply are settled, their answers join the conversation, in the reply's order."""
        entries = list(self.open_calls.values())
        if all(entry.state == "settled" and entry.answer for entry in entries):
            self.transcript.append(*(entry.answer for entry in entries if entry.answer), *self.said_meanwhile)
            answers = [entry.call.arguments.strip() or "{}" for entry in entries if entry.is_answer]
            self.answer = answers[0] if answers and not self.said_meanwhile else None
            self.said_meanwhile = []
            for entry in entries:
                if entry.answer and entry.answer.ending in RAN:
                    self.repeats[entry.identity] = self.repeats.get(entry.identity, 0) + 1
            self.open_calls = {}
            self._pass("all_settled" if self.answer is None else "given")

    def _here(self) -> str:
        return f"run {self.run_id}, record {self.seq}"


def _why_in_doubt(record: ToolFinished) -> str:
    """What cut the call off; of a tool that said itself that it does not know, its own words alone."""
    match record.error:
        case {"within": str(run_id), "text": str(text)}:  # as `WITHIN`
            return f"run {run_id} waits: {text}"
        case {"code": OutcomeUnknown.code, "fields": [_, _, str(why)]} if why:
            return why
        case {"text": str(text)} if text:
            return text
        case _:
            return record.content


def fold(records: Iterable[Record]) -> RunState:
    """The state that a run's records come to.

    Raises:
        JournalDamaged: When a record cannot follow on those before it.
    """
    remaining = iter(records)
    first = next(remaining, None)
    if not isinstance(first, RunStarted):
        raise JournalDamaged("the first record", "a run begins with run.started")
    state = RunState.begin(first)
    for record in remaining:
        state.apply(record)
    return state
