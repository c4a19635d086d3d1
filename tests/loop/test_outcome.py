"""How a run ended, in each of the ways there are: kind, exit status, words, and whether it can be resumed."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, get_args

import pytest

from heaveto import causes, errors
from heaveto.causes import (
    AttemptTimeout,
    CallTimeout,
    Cancelled,
    ClientGone,
    ConnectTimeout,
    DeadlinePassed,
    Described,
    Foreign,
    Interrupted,
    SaveTimeout,
    Shutdown,
    SiblingFailed,
    Stop,
    StoppedFromOutside,
    StreamIdle,
    TestsTimedOut,
    ToolTimeout,
)
from heaveto.errors import (
    AgentError,
    APIError,
    ApprovalNeeded,
    BadAnswer,
    BadArguments,
    BadReply,
    BadToolCall,
    BudgetExhausted,
    ConfigError,
    CostBudget,
    Denied,
    EmptyReply,
    Fenced,
    GaveUp,
    IncompleteStream,
    JournalBusy,
    JournalDamaged,
    JournalError,
    JournalNewer,
    JournalUnreachable,
    MaxTurns,
    NoFinalAnswer,
    NoneAnswered,
    NotEnoughTime,
    OutcomeUnknown,
    OutputFiltered,
    OutputTruncated,
    ProviderFailed,
    Refused,
    RunDeadline,
    RunNotFound,
    RunTaken,
    TokenBudget,
    ToolCrashed,
    ToolError,
    ToolFatal,
    TransportFailed,
    UnknownTool,
    Waiting,
    WrongAnswer,
)
from heaveto.journal.records import RunStarted, decode_record, encode_record
from heaveto.journal.state import RunState
from heaveto.loop import EXIT_STATUS, Outcome, OutcomeKind, Report, why
from heaveto.loop.outcome import conclude, describe, exit_status_of, is_resumable, kind_of, why_a_run_ended

LOOK = "look whether it took effect, then: heaveto resolve RUN CALL --done | --not-done"
LATER = "worth retrying"

# An example of each class, the kind that it makes, and why() in plain words.
WAYS: list[tuple[BaseException, OutcomeKind, str]] = [
    # stops
    (Stop(), "stopped", "stop"),
    (Cancelled("lunch", "ada"), "stopped", "cancelled by ada: lunch"),
    (Cancelled(), "stopped", "cancelled"),
    (Interrupted(), "interrupted", "interrupted by you (SIGINT)"),
    (ClientGone("browser"), "stopped", "the browser is gone"),
    (SiblingFailed("no disk"), "stopped", "a task beside it failed: no disk"),
    (StoppedFromOutside(), "stopped", "stopped from outside, without a cause"),
    (Shutdown("SIGTERM"), "shutdown", "shutting down: SIGTERM: resume the run when the machine is back"),
    (DeadlinePassed(60), "stopped", "a deadline of 60 s passed"),
    (CallTimeout(120), "gave_up", "the model call timed out after 120 s (call_seconds): worth retrying"),
    (AttemptTimeout(9), "gave_up", "the attempt timed out after 9 s (attempt_seconds): worth retrying"),
    (ConnectTimeout(5), "gave_up", "connecting timed out after 5 s (connect_seconds): worth retrying"),
    (StreamIdle(60), "gave_up", "the stream went quiet for 60 s (idle_seconds): worth retrying"),
    (ToolTimeout(30), "stopped", "the tool timed out after 30 s (seconds)"),
    (TestsTimedOut(90), "stopped", "the tests timed out after 90 s (test_seconds)"),
    (
        SaveTimeout(10),
        "gave_up",
        f"saving timed out after 10 s (save_seconds): {SaveTimeout.advice}",
    ),
    (
        RunDeadline(600),
        "limit",
        "the run's time is used up: 600 s (max_seconds): resume with a higher --max-seconds",
    ),
    # limits
    (BudgetExhausted("enough"), "limit", "enough: raise the limit and resume"),
    (MaxTurns(20), "limit", "turn limit reached: 20: resume with a higher --max-turns"),
    (
        CostBudget(Decimal("0.012345"), Decimal("0.01")),
        "limit",
        "cost budget reached: spent $0.012345 of $0.010000: resume with a higher --max-usd",
    ),
    (TokenBudget(1200, 1000), "limit", "token budget reached: used 1,200 of 1,000: resume with a higher --max-tokens"),
    # replies
    (BadReply("what?"), "failed", "the model's reply cannot be used: what?"),
    (BadToolCall(), "failed", "the model asked for a tool in a way that cannot be read"),
    (
        OutputTruncated(),
        "failed",
        "the reply was cut off at the length limit: allow more output tokens, or ask for less at once",
    ),
    (OutputFiltered("safety"), "failed", "the reply was blocked by a content filter: safety"),
    (Refused("no"), "failed", "the model refused: no"),
    (ProviderFailed(), "gave_up", "the provider failed partway through the reply: worth retrying"),
    (IncompleteStream(), "gave_up", "the stream ended before the reply did: worth retrying"),
    (EmptyReply(), "gave_up", f"the reply was empty: {LATER}"),
    (NoFinalAnswer(), "failed", "the run ended without a final answer: resume it to let the model try again"),
    (
        WrongAnswer('missing field "city" (wrong once)'),
        "failed",
        'the run ended without an answer that fits: missing field "city" (wrong once): resume it to let the model try again',
    ),
    # a person
    (Waiting("for you"), "waiting", "for you"),
    (ApprovalNeeded("pay", "c1"), "waiting", "pay (c1) needs an approval: approve or deny the call, then resume"),
    (OutcomeUnknown("pay", "c1", "cut off"), "waiting", f"pay (c1): outcome unknown: cut off: {LOOK}"),
    # the other side
    (APIError("openrouter", 401, "no such key"), "failed", "openrouter: 401 Unauthorized: no such key"),
    (APIError("openrouter", 529, "busy"), "gave_up", f"openrouter: 529: busy: {LATER}"),
    (
        TransportFailed("POST", "https://x/y", "connection reset"),
        "gave_up",
        "POST https://x/y: connection reset: check the network and the address, then try again",
    ),
    (
        GaveUp(4, APIError("openrouter", 503, "busy")),
        "gave_up",
        f"gave up after 4 attempts: no attempts left: openrouter: 503 Service Unavailable: busy: {LATER}",
    ),
    (
        GaveUp(1, CallTimeout(120), "the wait is beyond the time left"),
        "gave_up",
        f"gave up after 1 attempt: the wait is beyond the time left: {CallTimeout(120)}: worth retrying",
    ),
    (
        GaveUp(2, APIError("openrouter", 400, "too long"), "the error says that trying again cannot help"),
        "failed",
        "gave up after 2 attempts: the error says that trying again cannot help: openrouter: 400 Bad Request: too long",
    ),
    (
        GaveUp(3, ConnectionResetError("reset by peer")),
        "gave_up",
        f"gave up after 3 attempts: no attempts left: ConnectionResetError: reset by peer: {LATER}",
    ),
    (
        GaveUp(2, KeyError("choices"), "nothing says that trying again can help"),
        "failed",
        "gave up after 2 attempts: nothing says that trying again can help: KeyError: 'choices'",
    ),
    (
        NoneAnswered(["a:x", "b:y"], [APIError("a", 503, "busy"), APIError("b", 401, "no such key")]),
        "gave_up",
        f"no model answered: a:x: 503 Service Unavailable: busy; b:y: 401 Unauthorized: no such key: {LATER}",
    ),
    (NotEnoughTime(30, 12.5, "a model call"), "limit", "not enough time: a model call needs 30 s, 12.5 s left"),
    # tools
    (ToolFatal("git", "no such folder"), "failed", "git: no such folder"),
    (ToolError("no such file"), "failed", "no such file"),
    (BadAnswer("", "{}"), "failed", "that is no final answer; answer with nothing but JSON like {}"),
    (UnknownTool("lok", ["look"]), "failed", 'no tool named "lok"; did you mean look? the tools are look'),
    (BadArguments("look", "bad JSON"), "failed", "bad arguments for look: bad JSON"),
    (
        ToolCrashed("look", "KeyError", "'a'"),
        "failed",
        "look failed with an internal error (KeyError: 'a'); try another way, or report it",
    ),
    (Denied("pay", "no"), "failed", "pay was denied: no"),
    # before anything began
    (ConfigError("no model", "name one"), "failed", "no model; name one"),
    # the journal
    (JournalError("the disk is full"), "failed", "the disk is full"),
    (RunNotFound("3f"), "failed", "no run 3f: `heaveto runs` lists them"),
    (
        RunTaken("3f", "process 7"),
        "failed",
        "run 3f is being driven by process 7: wait until it ends, or stop it",
    ),
    (Fenced("3f"), "failed", "run 3f was taken over by another driver"),
    (JournalNewer(2, 1), "failed", "the journal has format 2; this version reads up to 1: upgrade heaveto"),
    (JournalDamaged("record 3", "cut"), "failed", "record 3: cut"),
    (
        JournalBusy("j.db", "process 7"),
        "gave_up",
        "the journal j.db is held up by process 7, which has been writing for too long: resume when that one is done",
    ),
    (
        JournalUnreachable("postgresql://db.example/a", "connection refused"),
        "gave_up",
        "the journal postgresql://db.example/a does not answer: connection refused: resume when the database answers again",
    ),
    (AgentError("something"), "failed", "something"),
    # somebody else's
    (Foreign("KeyError", "'a'"), "failed", "KeyError: 'a'"),
    (ValueError("bad literal"), "failed", "unexpected error: ValueError: bad literal"),
    (KeyError(), "failed", "unexpected error: KeyError"),
    (MemoryError(), "failed", "unexpected error: MemoryError"),
    (SystemExit(3), "failed", "unexpected error: SystemExit: 3"),
    (TimeoutError("timed out"), "failed", "unexpected error: TimeoutError: timed out"),
]
NEVER_RESUMED = (ConfigError,)


def classes(of: type[Described]) -> Iterator[type[Described]]:
    yield of
    for each in of.__subclasses__():
        yield from classes(each)


def test_every_stop_and_error_has_its_place_here() -> None:
    there = {each for each in (*classes(Stop), *classes(AgentError)) if not each.__name__.startswith("_")}
    ours = {each for each in there if each.__module__ in (causes.__name__, errors.__name__)}
    assert ours - {type(error) for error, *_ in WAYS} == set()


@pytest.mark.parametrize(("error", "kind", "words"), WAYS, ids=lambda value: repr(value)[:40])
def test_how_it_ended(error: BaseException, kind: OutcomeKind, words: str) -> None:
    assert kind_of(error) == kind
    assert exit_status_of(error) == EXIT_STATUS[kind]
    assert why_a_run_ended(error) == words
    assert is_resumable(error) is not isinstance(error, NEVER_RESUMED)
    outcome = Outcome(kind=kind, error=error, report=Report(run_id="r"))
    assert (outcome.why, outcome.exit_status) == (words, EXIT_STATUS[kind])
    assert words == words.strip().rstrip(".")
    assert not describe(error).startswith(("failed to", "error:"))


@pytest.mark.parametrize(("error", "kind", "words"), WAYS, ids=lambda value: repr(value)[:40])
def test_the_end_is_written_down_and_read_back_with_its_cause(error: BaseException, kind: OutcomeKind, words: str) -> None:
    state = RunState.begin(RunStarted(run_id="r", task="t"))
    record = conclude(state, error, 2.5)
    read = decode_record(encode_record(record))
    assert read == record
    assert (record.outcome, record.why, record.exit_status, record.seconds) == (kind, words, EXIT_STATUS[kind], 2.5)
    assert record.cause is not None
    again = causes.from_data(record.cause)
    if isinstance(error, Described):
        assert type(again) is type(error)
        assert str(again) == str(error)
    else:
        assert str(again).startswith(type(error).__name__)


def test_an_answer_is_an_end_like_the_others() -> None:
    state = RunState.begin(RunStarted(run_id="r", task="t"))
    state.answer = "42"
    record = conclude(state, None, 1)
    assert (record.outcome, record.text, record.why, record.cause) == ("answered", "42", "the model answered", None)
    assert (record.exit_status, record.resumable) == (0, False)
    assert (kind_of(None), why(None)) == ("answered", "the model answered")


def test_each_kind_has_its_exit_status() -> None:
    assert set(EXIT_STATUS) == set(get_args(OutcomeKind))
    assert len(set(EXIT_STATUS.values())) == len(EXIT_STATUS)
    assert 2 not in EXIT_STATUS.values(), "2 is for what is wrong before the first request"


def test_a_hangup_has_its_own_exit_status() -> None:
    assert exit_status_of(Shutdown("SIGHUP")) == 129
    assert exit_status_of(Shutdown("SIGTERM")) == 143
    assert exit_status_of(Shutdown("deploy")) == 143


@pytest.mark.parametrize(
    ("members", "kind"),
    [
        ([ValueError("x"), Interrupted()], "interrupted"),
        ([Shutdown(), Interrupted()], "interrupted"),
        ([MaxTurns(1), Shutdown()], "shutdown"),
        ([Cancelled(), MaxTurns(1)], "limit"),
        ([OutcomeUnknown("a", "b"), Cancelled()], "stopped"),
        ([ToolFatal("a", "x"), OutcomeUnknown("a", "b")], "waiting"),
        ([ToolFatal("a", "x"), GaveUp(2, APIError("p", 503, "busy"))], "gave_up"),
        ([ToolFatal("a", "x"), ToolFatal("b", "y")], "failed"),
        ([ExceptionGroup("inner", [Shutdown("SIGHUP")]), ValueError("x")], "shutdown"),
    ],
)
def test_of_several_the_first_of_the_documented_order_decides(members: list[Any], kind: OutcomeKind) -> None:
    for order in (members, members[::-1]):
        assert kind_of(ExceptionGroup("several", order)) == kind


def test_only_of_a_run_it_is_said_that_it_can_be_resumed() -> None:
    stop = Shutdown("SIGTERM")
    assert why(stop) == "shutting down: SIGTERM"
    assert why(GaveUp(1, stop)).startswith("gave up")
    assert "resume" not in why(GaveUp(1, stop))
    stop.report = Report(run_id="r")
    assert why(stop) == why_a_run_ended(Shutdown("SIGTERM"))


def test_several_are_all_told_and_none_twice() -> None:
    group = ExceptionGroup(
        "several", [ToolFatal("a", "gone"), ExceptionGroup("more", [ToolFatal("a", "gone"), KeyError("x")])]
    )
    assert why(group) == "a: gone; unexpected error: KeyError: 'x'"
    assert exit_status_of(ExceptionGroup("several", [ExceptionGroup("more", [Shutdown("SIGHUP")])])) == 129


def test_a_cause_that_did_not_end_the_run_does_not_decide() -> None:
    """A tool that is gone because something was cancelled is a tool that is gone."""
    error = ToolFatal("a", "gone")
    error.__cause__ = Cancelled("elsewhere")
    assert kind_of(error) == "failed"
    state = RunState.begin(RunStarted(run_id="r", task="t"))
    record = conclude(state, error, 0)
    assert record.cause is not None
    assert record.cause["cause"]["code"] == "cancelled", "but it is written down"


def test_an_unexpected_error_says_where_it_was() -> None:
    def ours() -> None:
        raise IndexError("list index out of range")

    state = RunState.begin(RunStarted(run_id="r", task="t"))
    try:
        ours()
    except IndexError as error:
        record = conclude(state, error, 0)
    assert record.cause is not None
    assert any("in ours" in line for line in record.cause["traceback"])


class Untold(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no connection")


@pytest.mark.parametrize(
    "error", [Untold(), errors.GaveUp(3, Untold()), errors.NoneAnswered(["a"], [Untold()]), ExceptionGroup("g", [Untold()])]
)
def test_an_error_whose_text_fails_ends_the_run_as_itself(error: Exception) -> None:
    record = conclude(RunState.begin(RunStarted(run_id="r", task="t")), error, 0)
    assert "Untold: (its text cannot be read: RuntimeError)" in record.why
    assert record.cause is not None
