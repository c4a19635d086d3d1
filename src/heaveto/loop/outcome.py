"""How a run ended: the kinds of outcome, their exit statuses, and why, in plain words.

The order of `_KINDS` is the documented order for an error that several kinds fit: the first that any of its branches is.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias

from ..causes import (
    DEEPEST,
    WORTH_RETRYING,
    AttemptTimeout,
    CallTimeout,
    ConnectTimeout,
    Described,
    Interrupted,
    SaveTimeout,
    Shutdown,
    Stop,
    StreamIdle,
    text_of,
    to_data,
)
from ..errors import (
    BudgetExhausted,
    ConfigError,
    GaveUp,
    JournalBusy,
    JournalUnreachable,
    NotEnoughTime,
    OutcomeUnknown,
    Waiting,
)
from ..journal.records import WITHIN, LimitUse, RunFinished, Rung, SpentBy
from ..journal.state import RunState
from ..messages import Message, Spend, ToolCall
from ..retry import classify

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=None)
else:
    from typing import TypeVar

    T = TypeVar("T")

__all__ = [
    "EXIT_STATUS",
    "Outcome",
    "OutcomeKind",
    "Report",
    "branches",
    "conclude",
    "describe",
    "exit_status_of",
    "is_resumable",
    "kind_of",
    "why",
    "why_a_run_ended",
]

OutcomeKind: TypeAlias = Literal[
    "answered",  # the model answered
    "failed",  # trying again as it is will not help
    "limit",  # a limit that the user set was reached
    "waiting",  # it waits for a person
    "stopped",  # by a person or a program, from elsewhere
    "gave_up",  # on something that may pass
    "interrupted",  # Ctrl-C
    "shutdown",  # the process is going
]

EXIT_STATUS: dict[OutcomeKind, int] = {
    "answered": 0,
    "failed": 1,
    "limit": 3,
    "waiting": 4,
    "stopped": 5,
    "gave_up": 75,  # EX_TEMPFAIL
    "interrupted": 130,  # 128 + SIGINT
    "shutdown": 143,  # 128 + SIGTERM
}
_SIGNAL_STATUS = {"SIGHUP": 129}

TRACEBACK_LINES = 8

_KINDS: list[tuple[type[BaseException], OutcomeKind]] = [
    (Interrupted, "interrupted"),
    (Shutdown, "shutdown"),
    (BudgetExhausted, "limit"),  # RunDeadline among them, though it is a stop too
    (NotEnoughTime, "limit"),  # that limit, before it passed
    (CallTimeout, "gave_up"),  # limits on one step, which nobody set to stop the run; from a model that is not retried
    (AttemptTimeout, "gave_up"),
    (ConnectTimeout, "gave_up"),
    (StreamIdle, "gave_up"),
    (SaveTimeout, "gave_up"),
    (JournalBusy, "gave_up"),  # another process will be done with it
    (JournalUnreachable, "gave_up"),
    (Stop, "stopped"),
    (Waiting, "waiting"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A run as far as it came.

    Attributes:
        messages: The conversation; each call has its one answer, but for those in `pending`.
        spend_by: The parts of `spend`: "replies", "retries" (attempts that failed and were made again) and "cut calls" (that
            were stopped, or failed for good).
        limits: The run's limits and the shared ones, with their settings and how much of each is used.
        pending: Calls that are still to be run, or whose outcome nobody knows.
        seconds: The time driven, over all resumes.
        abandoned: What did not heed a stop and was left to itself: "thread send (call id)", "task fetch (call id)".
        rungs: How many calls in doubt each rung of the ladder has settled.
        sandbox: What commands, tests and isolated tools were kept in: "bwrap", "landlock", "none"; empty where nobody said.
    """

    run_id: str
    turns: int = 0
    spend: Spend = field(default_factory=Spend)
    spend_by: Mapping[SpentBy, Spend] = field(default_factory=dict)
    limits: tuple[LimitUse, ...] = ()
    seconds: float = 0.0
    messages: tuple[Message, ...] = ()
    pending: tuple[ToolCall, ...] = ()
    resumable: bool = False
    abandoned: tuple[str, ...] = ()
    rungs: Mapping[Rung, int] = field(default_factory=dict)
    sandbox: str = ""

    @classmethod
    def of(cls, state: RunState, *, limits: Iterable[LimitUse] = (), resumable: bool) -> Report:
        return cls(
            run_id=state.run_id,
            turns=state.turns,
            spend=state.spend,
            spend_by=dict(state.spend_by),
            limits=tuple(limits),
            seconds=state.seconds,
            messages=tuple(state.conversation()),
            pending=tuple(entry.call for entry in state.open_calls.values() if entry.state != "settled"),
            resumable=resumable,
            abandoned=tuple(state.abandoned),
            rungs=dict(state.rungs),
            sandbox=state.sandbox,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Generic[T]):
    """How a drive ended.

    Attributes:
        text: The model's answer; empty unless it answered.
        output: The answer as the agent's `output=` has it; None without one, and unless it answered.
        cause: The stop, when it was stopped.
        error: What went wrong, when something did.
    """

    kind: OutcomeKind
    text: str = ""
    output: T | None = None
    cause: Stop | None = None
    error: BaseException | None = None
    report: Report

    @property
    def exit_status(self) -> int:
        return exit_status_of(self.cause or self.error)

    @property
    def why(self) -> str:
        return why(self)


def kind_of(error: BaseException | None) -> OutcomeKind:
    """The kind of outcome that an error makes; none is an answer."""
    if error is None:
        return "answered"
    all_branches = list(branches(error))
    for wanted, kind in _KINDS:
        if any(isinstance(each, wanted) for each in all_branches):
            return kind
    return "gave_up" if any(_may_pass(each) for each in all_branches) else "failed"


def conclude(state: RunState, error: BaseException | None, seconds: float, limits: Iterable[LimitUse] = ()) -> RunFinished:
    """The last record of a drive.

    Args:
        seconds: The time driven, over all resumes.
    """
    kind = kind_of(error)
    return RunFinished(
        outcome=kind,
        why=why_a_run_ended(error),
        text=state.answer or "" if kind == "answered" else "",
        cause=None if error is None else _cause_data(error),
        spend=state.spend,
        spend_by=dict(state.spend_by),
        limits=tuple(limits),
        turns=state.turns,
        seconds=round(seconds, 3),
        resumable=is_resumable(error),
        unresolved=tuple(f"{entry.call.name} ({entry.call.id})" for entry in state.in_doubt() if entry.may_have_changed),
        exit_status=exit_status_of(error),
        abandoned=tuple(state.abandoned),
        sandbox=state.sandbox,
    )


def _cause_data(error: BaseException) -> dict[str, Any]:
    """The error as data; one that nobody expected with its innermost frames, since only they say where."""
    data = to_data(error)
    if not isinstance(error, Described):
        data["traceback"] = traceback.format_exception(error)[-TRACEBACK_LINES:]
    if isinstance(error, OutcomeUnknown) and error.within:
        data[WITHIN] = error.within
    return data


def is_resumable(error: BaseException | None) -> bool:
    """Whether `resume` can get the run under way again; an answered run only by saying something new."""
    return error is not None and not any(isinstance(each, ConfigError) for each in branches(error))


def why(subject: Outcome[Any] | BaseException | None) -> str:
    """Why a run ended, in plain words, with advice where there is any.

    Takes an outcome, or what `Agent.run` raised; of an error that no run had, what there is to say without one. Errors that
    are not ours are called that, never dressed up.
    """
    if isinstance(subject, Outcome):
        return why_a_run_ended(subject.cause or subject.error)
    return _told(subject, of_run=getattr(subject, "report", None) is not None)


def why_a_run_ended(error: BaseException | None) -> str:
    """As `why`, of an error that is known to have ended a run."""
    return _told(error, of_run=True)


def _told(error: BaseException | None, *, of_run: bool) -> str:
    if error is None:
        return "the model answered"
    advice = _advice(error, of_run=of_run)
    return f"{describe(error)}: {advice}" if advice else describe(error)


def describe(error: BaseException) -> str:
    """An error as a path from the outside in, without repeats. Ours has its inner ones in its own text."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(dict.fromkeys(describe(each) for each in branches(error)))
    if isinstance(error, Described):
        return text_of(error)
    return f"unexpected error: {_path(error)}"


def _path(error: BaseException) -> str:
    """Somebody else's error, and what it was raised from as far as that says something new."""
    path, seen = "", set[int]()
    each: BaseException | None = error
    while each is not None and id(each) not in seen and len(seen) < DEEPEST:
        seen.add(id(each))
        said = text_of(each)
        if not path or said not in path:
            text = f"{type(each).__name__}: {said}" if said and not isinstance(each, Described) else said
            path += f"{': ' if path else ''}{text or type(each).__name__}"
        each = each.__cause__
    return path


def _advice(error: BaseException, *, of_run: bool) -> str:
    for each in branches(error):
        if isinstance(each, GaveUp):
            return _advice(each.last, of_run=of_run) or (WORTH_RETRYING if _may_pass(each) else "")
        if isinstance(each, Described) and (advice := each.advice or (each.run_advice if of_run else "")):
            return advice
        if isinstance(each, Described) and each.retryable:
            return WORTH_RETRYING
    return ""


def _may_pass(error: BaseException) -> bool:
    if isinstance(error, GaveUp):
        return classify(error.last, scope_stopped=False).retry
    return isinstance(error, Described) and bool(error.retryable)


def branches(error: BaseException | None) -> Iterator[BaseException]:
    """The error, or the members of a group of errors; not their causes, which did not end the run."""
    pending = [] if error is None else [error]
    while pending:  # no recursion: groups may lie deeper in one another than Python calls may
        each = pending.pop()
        if isinstance(each, BaseExceptionGroup):
            pending.extend(reversed(each.exceptions))
        else:
            yield each


def exit_status_of(error: BaseException | None) -> int:
    """The exit status of a program that ends with this error."""
    kind = kind_of(error)
    if kind == "shutdown" and error is not None:
        shutdown = next(each for each in branches(error) if isinstance(each, Shutdown))
        return _SIGNAL_STATUS.get(shutdown.reason, EXIT_STATUS[kind])
    return EXIT_STATUS[kind]
