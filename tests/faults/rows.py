"""The fault matrix as data: each cause and error, the fault that makes it at each point where it can come, and the outcome.

A cell expects a code (`gave_up(api_error)`: gave up on that), an exit status, and what the history looks like: the calls of
the reply with their endings, "?" behind one that is not settled, and whether there is an answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from examples import classes, example
from scenes import LIMIT, MODEL_POINTS, Fault, Result, chunk

from heaveto import causes, errors
from heaveto.causes import Cancelled, ClientGone, Interrupted, Shutdown, SiblingFailed, Stop, StoppedFromOutside
from heaveto.messages import Limits
from heaveto.models import CallLimits
from heaveto.tools import Output

__all__ = ["HISTORIES", "POINTS", "ROWS", "Row"]

POINTS = (
    "before a turn",
    *("limiter", "connecting", "headers", "first byte", "mid-text", "mid-call", "between chunks", "retry"),
    *("approval", "tool not begun", "slot", "tool", "thread", "process", "MCP"),
    *("saving", "final answer"),
)
TOOL_POINTS = ("tool not begun", "tool", "thread", "process")
WAITS = POINTS[1:-2]  # where time passes
CUT_SHORT = tuple(point for point in WAITS if point not in ("retry", "MCP"))  # a wait beyond the time left is not begun
STREAM_POINTS = ("first byte", "mid-text", "mid-call", "between chunks")
WHOLE_EVENTS = ("first byte", "mid-call", "between chunks")  # where what the server says next is an event of its own
SAVING = ("before a turn", "saving", "final answer")

TASK = "task"
SEEN = "look ok"
NOT_RUN = "send not_run, look not_run"
CUT = "send stopped?, look not_run"
OPEN = "send open?, look open?"
HISTORIES = {
    TASK: "the task alone: nothing of the reply is part of it",
    SEEN: "the turn before, whole",
    NOT_RUN: "both calls of the reply, answered with `cancelled before it ran`",
    CUT: "the call that ran is not settled, the one behind it is answered with `cancelled before it ran`",
    OPEN: "both calls are open: resuming runs them",
    "send unknown?, look open?": "the call's outcome is unknown: a person says, then resuming goes on",
    "send fatal?, look not_run": "the call was not run, which resuming tries again; the one behind it was not run either",
    "answer": "the answer",
    "send timed_out, look ok, answer": "the model read that the call timed out, went on and answered",
    "send tool_error, look ok, answer": "the model read the tool's error, went on and answered",
    "send not_run, look ok, answer": "the model read that there is no time for the call, went on and answered",
    "sned tool_error, look ok, answer": "the model read which tools there are, went on and answered",
    "send crashed, look ok, answer": "the model read that the tool crashed, went on and answered",
    "send denied, look ok, answer": "the model read that the call was denied, went on and answered",
    "text": "what the model wrote instead of an answer in the form, and what it was told",
    "final_answer tool_error": "the answer that does not fit, and what the model was told",
}
# What a run that ends at a point leaves.
LEFT = {
    "before a turn": SEEN,
    **dict.fromkeys(("limiter", *MODEL_POINTS, "retry"), TASK),
    **dict.fromkeys(("approval", "tool not begun", "slot"), NOT_RUN),
    **dict.fromkeys(("tool", "thread", "process", "MCP"), CUT),
    "saving": NOT_RUN,
    "final answer": TASK,
}


@dataclass(frozen=True)
class Row:
    """A cause or an error: at each point the fault and what must come of it."""

    name: str
    of: type[BaseException]
    cells: Mapping[str, tuple[Fault, Result]]


Cells = dict[str, tuple[Fault, Result]]


def ends(code: str, status: int, points: tuple[str, ...], left: Mapping[str, str] | None = None, **fault: Any) -> Cells:
    """The run ends, with what it leaves at that point."""
    found = {**LEFT, **(left or {})}
    return {point: (Fault(**fault), Result(code, status, found[point])) for point in points}


def goes_on(ending: str, points: tuple[str, ...], **fault: Any) -> Cells:
    """The model reads of it, and answers in the end."""
    return {point: (Fault(**fault), Result("answered", 0, f"{ending}, look ok, answer")) for point in points}


def stops(cause: Stop, status: int) -> Cells:
    """A stop is one at every point; one that comes when the answer is there changes nothing."""
    late = {"final answer": (Fault(stop=cause), Result("answered", 0, "answer"))}
    return ends(cause.code, status, POINTS[:-1], stop=cause) | late


def given_up(code: str, points: tuple[str, ...], **fault: Any) -> Cells:
    return ends(f"gave_up({code})", 75, points, **fault)


def says(code: int, retry_after: str = "") -> dict[str, Any]:
    headers = {"content-type": "application/json", **({"retry-after": retry_after} if retry_after else {})}
    return {"points": ("headers",), "says": (code, b'{"error":{"message":"the API says no"}}', headers)}


def unsaved(error: Exception, code: str, status: int) -> Cells:
    return ends(code, status, SAVING, left={"saving": OPEN}, raised=error)


def in_doubt(points: tuple[str, ...], **fault: Any) -> Cells:
    return ends("outcome_unknown", 4, points, left=dict.fromkeys(points, "send unknown?, look open?"), **fault)


FINISH = {reason: chunk(delta={}, finish_reason=reason) for reason in ("length", "content_filter", "stop")}
REFUSAL = chunk(delta={"refusal": "I cannot help with that"}) + FINISH["stop"]
PROSE = chunk(delta={"content": "It is fine."}) + FINISH["stop"]
WRONG_CALL = {"id": "c1", "type": "function", "function": {"name": "final_answer", "arguments": '{"answer": "fine"}'}}
WRONG = chunk(delta={"tool_calls": [{"index": 0, **WRONG_CALL}]}) + FINISH["stop"]
ONE_TRY = Output(list[int], corrections=0)
MIDWAY = b'data: {"error":{"message":"the engine died","code":500}}\n\n'
MALFORMED = b'data: {"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL","content":{}}]}\n\n'
ENDLESS = chunk(delta={"content": "x" * 8_000_001})
BROKEN = errors.TransportFailed("POST", "http://localhost/v1", "the connection broke")
LOCKED = errors.JournalBusy("journal.db", "process 7")
AWAY = errors.JournalUnreachable("postgresql://db.example/agents", "connection refused")
FATAL = errors.ToolFatal("send", "the mail server is gone")
UNSURE = errors.OutcomeUnknown("send", "c", "the server said nothing")
RAISING = ("tool not begun", "tool", "thread")

_STOPS = [
    Row("Stop", Stop, stops(Stop(), 5)),
    Row("Cancelled", Cancelled, stops(Cancelled("enough", "ada"), 5)),
    Row("Interrupted", Interrupted, stops(Interrupted(), 130)),
    Row("ClientGone", ClientGone, stops(ClientGone("browser"), 5)),
    Row("SiblingFailed", SiblingFailed, stops(SiblingFailed("git: no such folder"), 5)),
    Row("StoppedFromOutside", StoppedFromOutside, ends("stopped_from_outside", 5, ("before a turn", *WAITS), native=True)),
    Row("Shutdown (SIGTERM)", Shutdown, stops(Shutdown("SIGTERM"), 143)),
    Row("Shutdown (SIGHUP)", Shutdown, stops(Shutdown("SIGHUP"), 129)),
    Row("DeadlinePassed (the program's)", causes.DeadlinePassed, ends("deadline_passed", 5, CUT_SHORT, outer=True)),
    Row("RunDeadline", errors.RunDeadline, ends("run_deadline", 3, CUT_SHORT, limits=Limits(seconds=LIMIT))),
    Row(
        "CallTimeout",
        causes.CallTimeout,
        given_up("call_timeout", MODEL_POINTS, call_limits=CallLimits(stream_seconds=LIMIT)),
    ),
    Row(
        "AttemptTimeout",
        causes.AttemptTimeout,
        given_up("attempt_timeout", ("limiter", *MODEL_POINTS), attempt_seconds=LIMIT),
    ),
    Row("ConnectTimeout", causes.ConnectTimeout, given_up("connect_timeout", ("connecting",))),
    Row("StreamIdle", causes.StreamIdle, given_up("stream_idle", ("headers", *STREAM_POINTS))),
    Row(
        "ToolTimeout (it writes)",
        causes.ToolTimeout,
        {
            **in_doubt(("tool", "thread", "process"), tool_seconds=LIMIT),
            **goes_on("send timed_out", ("tool not begun",), tool_seconds=LIMIT),
        },
    ),
    Row(
        "ToolTimeout (it reads)",
        causes.ToolTimeout,
        goes_on("send timed_out", TOOL_POINTS, tool_seconds=LIMIT, effect="read"),
    ),
    Row(
        "TestsTimedOut",
        causes.TestsTimedOut,
        goes_on("send timed_out", ("tool", "thread"), raised=causes.TestsTimedOut(300), effect="idempotent"),
    ),
    Row("SaveTimeout", causes.SaveTimeout, unsaved(causes.SaveTimeout(10), "save_timeout", 75)),
]
_TURN = ("before a turn",)
_LIMITS = [
    Row("MaxTurns", errors.MaxTurns, ends("max_turns", 3, _TURN, limits=Limits(turns=1))),
    Row("CostBudget", errors.CostBudget, ends("cost_budget", 3, _TURN, limits=Limits(usd=Decimal("0.001")))),
    Row("TokenBudget", errors.TokenBudget, ends("token_budget", 3, _TURN, limits=Limits(tokens=110))),
]
_REPLIES = [
    Row("BadReply (endless)", errors.BadReply, ends("bad_reply", 1, ("first byte", "mid-call"), says=ENDLESS)),
    Row("BadToolCall (Gemini)", errors.BadToolCall, ends("bad_tool_call", 1, ("first byte",), says=MALFORMED, google=True)),
    Row(
        "OutputTruncated",
        errors.OutputTruncated,
        ends("output_truncated", 1, ("mid-call", "between chunks"), says=FINISH["length"]),
    ),
    Row(
        "OutputFiltered",
        errors.OutputFiltered,
        ends("output_filtered", 1, WHOLE_EVENTS, says=FINISH["content_filter"]),
    ),
    Row("Refused", errors.Refused, ends("refused", 1, WHOLE_EVENTS, says=REFUSAL)),
    Row(
        "NoFinalAnswer",
        errors.NoFinalAnswer,
        ends("no_final_answer", 1, ("first byte",), {"first byte": "text"}, says=PROSE, output=ONE_TRY),
    ),
    Row(
        "WrongAnswer",
        errors.WrongAnswer,
        ends("wrong_answer", 1, ("first byte",), {"first byte": "final_answer tool_error"}, says=WRONG, output=ONE_TRY),
    ),
    Row("ProviderFailed", errors.ProviderFailed, given_up("provider_failed", STREAM_POINTS, says=MIDWAY)),
    Row("IncompleteStream", errors.IncompleteStream, given_up("incomplete_stream", STREAM_POINTS[1:], says=b"")),
    Row("EmptyReply", errors.EmptyReply, ends("empty_reply", 75, ("first byte",), says=FINISH["stop"])),
    Row("EmptyReply (no body)", errors.EmptyReply, given_up("empty_reply", ("first byte",), says=b"")),
]
_SERVERS = [
    Row("APIError (400)", errors.APIError, ends("api_error", 1, **says(400))),
    Row("APIError (401)", errors.APIError, ends("api_error", 1, **says(401))),
    Row("APIError (429)", errors.APIError, given_up("api_error", **says(429, "2"))),
    Row("APIError (503)", errors.APIError, given_up("api_error", **says(503))),
    Row(
        "TransportFailed",
        errors.TransportFailed,
        {
            **given_up("transport_failed", ("connecting", "headers"), raised=BROKEN),
            **given_up("incomplete_stream", STREAM_POINTS, raised=BROKEN),
        },
    ),
    Row("GaveUp (too long a wait)", errors.GaveUp, given_up("api_error", ("retry",), retry_after=10_800.0)),
    Row(
        "GaveUp (beyond the time left)",
        errors.GaveUp,
        given_up("api_error", ("retry",), limits=Limits(seconds=LIMIT)),
    ),
    Row("NoneAnswered", errors.NoneAnswered, given_up("none_answered", ("connecting", "headers"), raised=BROKEN, two=True)),
]
_TOOLS = [
    Row(
        "ToolFatal",
        errors.ToolFatal,
        ends("tool_fatal", 1, RAISING, left=dict.fromkeys(RAISING, "send fatal?, look not_run"), raised=FATAL),
    ),
    Row(
        "ToolError",
        errors.ToolError,
        {
            **goes_on("send tool_error", RAISING, raised=errors.ToolError("no such address")),
            **goes_on("send tool_error", ("MCP",), asked=("raw__fail", "{}")),
        },
    ),
    Row("UnknownTool", errors.UnknownTool, goes_on("sned tool_error", ("tool not begun",), asked=("sned", "{}"))),
    Row(
        "BadArguments",
        errors.BadArguments,
        {
            **goes_on("send tool_error", ("tool not begun",), asked=("send", '{"too": 1}')),
            **goes_on("send tool_error", ("MCP",), asked=("raw__echo", "{}")),
        },
    ),
    Row("BadAnswer", errors.BadAnswer, goes_on("send tool_error", RAISING, raised=errors.BadAnswer("no city", "{}"))),
    Row("ToolCrashed", errors.ToolCrashed, goes_on("send crashed", ("approval", *RAISING), raised=KeyError("subject"))),
    Row(
        "Denied",
        errors.Denied,
        {
            **goes_on("send denied", ("approval",), denied="not on a Friday"),
            **goes_on("send denied", RAISING, raised=errors.Denied("send", "not on a Friday")),
        },
    ),
    Row(
        "ApprovalNeeded",
        errors.ApprovalNeeded,
        ends("approval_needed", 4, ("approval",), left={"approval": OPEN}, nobody=True),
    ),
    Row(
        "OutcomeUnknown",
        errors.OutcomeUnknown,
        {**in_doubt(("tool", "thread"), raised=UNSURE), **in_doubt(("MCP",), asked=("raw__crash", "{}"))},
    ),
    Row(
        "NotEnoughTime",
        errors.NotEnoughTime,
        {
            **goes_on("send not_run", ("tool not begun",), raised=errors.NotEnoughTime(30, 12.5, "sending")),
            **goes_on("send tool_error", ("tool", "thread"), raised=errors.NotEnoughTime(30, 12.5, "sending")),
        },
    ),
]
_JOURNAL = [
    Row("JournalError", errors.JournalError, unsaved(errors.JournalError("the disk is full"), "journal", 1)),
    Row("Fenced", errors.Fenced, unsaved(errors.Fenced("run"), "fenced", 1)),
    Row("JournalBusy", errors.JournalBusy, unsaved(LOCKED, "journal_busy", 75)),
    Row("JournalUnreachable", errors.JournalUnreachable, unsaved(AWAY, "journal_unreachable", 75)),
    Row("JournalDamaged", errors.JournalDamaged, unsaved(errors.JournalDamaged("j.db", "it is cut"), "journal_damaged", 1)),
]
_OTHERS = [
    Row(
        "KeyError (a bug of ours)",
        KeyError,
        {
            **ends("KeyError", 1, MODEL_POINTS, raised=KeyError("choices")),
            **unsaved(KeyError("epoch"), "KeyError", 1),
        },
    ),
]


def by_a_tool(cls: type[causes.Described]) -> Cells:
    """What a tool raises although it is nothing of a tool's, such as one that asks an API: a crash of the tool's, or, where
    it is a time limit, an outcome that nobody knows.
    """
    if issubclass(cls, causes.DeadlinePassed):
        return in_doubt(("tool",), raised=example(cls))
    ending = "send tool_error" if cls is errors.NotEnoughTime else "send crashed"
    return goes_on(ending, ("tool",), raised=example(cls))


_OF_A_TOOL = (errors.ToolError, errors.ToolFatal, errors.OutcomeUnknown)
_BY_A_TOOL = [
    Row(f"{cls.__name__} (a tool raises it)", cls, by_a_tool(cls)) for cls in classes() if not issubclass(cls, _OF_A_TOOL)
]
ROWS = (*_STOPS, *_LIMITS, *_REPLIES, *_SERVERS, *_TOOLS, *_JOURNAL, *_OTHERS, *_BY_A_TOOL)
