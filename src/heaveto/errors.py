"""What goes wrong: the tree of error classes.

    AgentError
      BudgetExhausted              a limit that the user set was reached
        MaxTurns(limit, setting)  CostBudget(spent, limit, setting, next_call, cut_at)  TokenBudget(the same fields)
        RunDeadline(seconds, setting), which is a stop too
      BadReply                     the model's reply cannot be used as it is
        BadToolCall  OutputTruncated  OutputFiltered  Refused  ProviderFailed  IncompleteStream  EmptyReply
        NoFinalAnswer > WrongAnswer
      Waiting                      the run waits for a person
        ApprovalNeeded(tool, call_id, identity)  OutcomeUnknown(tool, call_id, why)
      APIError(provider, status, message, retry_after, should_retry)
      TransportFailed(method, address, problem, passing)
      GaveUp(attempts, last, why)
      NoneAnswered(models, errors) none of several models that stand in for one another did
      NotEnoughTime(needed, left, what)
      ToolFatal(tool, problem)     a tool that cannot run at all: the run stops
      ToolError(text)              the model reads it and goes on
        UnknownTool(name, known, shape)  BadArguments(tool, problem, shape)  ToolCrashed(tool, type_name, text)
        Denied(tool, reason)  BadAnswer(problem, shape, tool)
      ConfigError(problem, remedy) the command, a setting or an argument is wrong: nothing was begun
      JournalError(problem)        the journal cannot be used
        RunNotFound(run_id)  RunTaken(run_id, owner)  Fenced(run_id)  JournalNewer(found, known)
        JournalDamaged(where, problem)  JournalBusy(path, holder)  JournalUnreachable(place, problem)

Three readers, three things: `str(error)` is for people, `for_model` for the model, the class and its `code` for
programs.
"""

from __future__ import annotations

import difflib
import http
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import ClassVar, TypeVar

from .causes import WORTH_RETRYING, DeadlinePassed, Described, in_seconds, to_data

__all__ = [
    "APIError",
    "AgentError",
    "ApprovalNeeded",
    "BadAnswer",
    "BadArguments",
    "BadReply",
    "BadToolCall",
    "BudgetExhausted",
    "ConfigError",
    "CostBudget",
    "Denied",
    "EmptyReply",
    "Fenced",
    "GaveUp",
    "IncompleteStream",
    "JournalBusy",
    "JournalDamaged",
    "JournalError",
    "JournalNewer",
    "JournalUnreachable",
    "MaxTurns",
    "NoFinalAnswer",
    "NoneAnswered",
    "NotEnoughTime",
    "OutcomeUnknown",
    "OutputFiltered",
    "OutputTruncated",
    "ProviderFailed",
    "Refused",
    "RunDeadline",
    "RunNotFound",
    "RunTaken",
    "TokenBudget",
    "ToolCrashed",
    "ToolError",
    "ToolFatal",
    "TransportFailed",
    "UnknownTool",
    "Waiting",
    "WrongAnswer",
    "find",
    "walk",
]

T = TypeVar("T")

RETRYABLE_STATUSES = frozenset({408, 409, 425, 429})  # and every 5xx


class AgentError(Described):
    """What went wrong with a run, a model call or a tool."""

    code = "agent_error"


class ConfigError(AgentError):
    """The command, a setting or an argument is wrong. Nothing was begun and nothing spent.

    Args:
        problem: What is wrong.
        remedy: What right looks like.
    """

    code = "config"

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(problem, remedy)
        self.problem, self.remedy = problem, remedy

    def __str__(self) -> str:
        return f"{self.problem}; {self.remedy}" if self.remedy else self.problem


# --- limits ---------------------------------------------------------------------------------------------------------


class BudgetExhausted(AgentError):
    """A limit that the user set was reached."""

    code = "budget"
    advice = "raise the limit and resume"


class MaxTurns(BudgetExhausted):
    """The model was called as often as it may be.

    Args:
        setting: The name under which the limit was set; empty where nobody says. All limits have one.
    """

    code = "max_turns"
    advice = "resume with a higher --max-turns"

    def __init__(self, limit: int, setting: str = "") -> None:
        super().__init__(limit, setting)
        self.limit, self.setting = limit, setting
        self.advice = _raise_it(setting) or self.advice

    def __str__(self) -> str:
        return f"turn limit reached: {self.limit}{_in_brackets(self.setting)}"


class CostBudget(BudgetExhausted):
    """Dollars. All figures have six decimals in the text.

    Args:
        next_call: What the call that was refused could have cost, an estimate; None when none was.
        cut_at: The output tokens at which a reply was cut, since no more could be paid for; None when none was.
    """

    code = "cost_budget"
    advice = "resume with a higher --max-usd"

    def __init__(
        self,
        spent: Decimal,
        limit: Decimal,
        setting: str = "",
        next_call: Decimal | None = None,
        cut_at: int | None = None,
    ) -> None:
        super().__init__(spent, limit, setting, next_call, cut_at)
        self.spent, self.limit, self.setting, self.next_call, self.cut_at = spent, limit, setting, next_call, cut_at
        self.advice = _raise_it(setting) or self.advice

    def __str__(self) -> str:
        text = f"cost budget reached: spent ${self.spent:.6f} of ${self.limit:.6f}{_in_brackets(self.setting)}"
        if self.next_call is not None:
            return f"{text}, and the next call may cost ${self.next_call:.6f}"
        return text if self.cut_at is None else f"{text}, so the reply was cut at {self.cut_at:,} tokens"


class TokenBudget(BudgetExhausted):
    """Input and output tokens together. Fields as in `CostBudget`."""

    code = "token_budget"
    advice = "resume with a higher --max-tokens"

    def __init__(
        self, spent: int, limit: int, setting: str = "", next_call: int | None = None, cut_at: int | None = None
    ) -> None:
        super().__init__(spent, limit, setting, next_call, cut_at)
        self.spent, self.limit, self.setting, self.next_call, self.cut_at = spent, limit, setting, next_call, cut_at
        self.advice = _raise_it(setting) or self.advice

    def __str__(self) -> str:
        text = f"token budget reached: used {self.spent:,} of {self.limit:,}{_in_brackets(self.setting)}"
        if self.next_call is not None:
            return f"{text}, and the next call may use {self.next_call:,}"
        return text if self.cut_at is None else f"{text}, so the reply was cut at {self.cut_at:,} tokens"


class RunDeadline(DeadlinePassed, BudgetExhausted):
    """The time that a run may be driven is used up. It counts over all resumes."""

    code = "run_deadline"
    advice = "resume with a higher --max-seconds"
    what = "the run's time is used up: {}"
    default_setting = "max_seconds"

    def __init__(self, seconds: float, setting: str | None = None) -> None:
        super().__init__(seconds, setting)
        self.advice = _raise_it(setting or "") or self.advice


def _raise_it(setting: str) -> str:
    return f"resume with a higher {setting}" if setting and setting != RunDeadline.default_setting else ""


def _in_brackets(setting: str) -> str:
    return f" ({setting})" if setting else ""


# --- replies --------------------------------------------------------------------------------------------------------


class BadReply(AgentError):
    """The model's reply cannot be used as it is.

    Args:
        detail: What came, or what was missing.
    """

    code = "bad_reply"
    what: ClassVar[str] = "the model's reply cannot be used"
    passing: ClassVar[bool | None] = None

    def __init__(self, detail: str = "") -> None:
        super().__init__(detail)
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.what}: {self.detail}" if self.detail else self.what

    @property
    def retryable(self) -> bool | None:
        return self.passing


class BadToolCall(BadReply):
    """A call in the reply has no name, or no form that could be read."""

    code = "bad_tool_call"
    what = "the model asked for a tool in a way that cannot be read"


class OutputTruncated(BadReply):
    """The reply reached the length limit; calls in it may be cut and are not run."""

    code = "output_truncated"
    what = "the reply was cut off at the length limit"
    advice = "allow more output tokens, or ask for less at once"


class OutputFiltered(BadReply):
    """The provider held the reply back."""

    code = "output_filtered"
    what = "the reply was blocked by a content filter"


class Refused(BadReply):
    """The model said no; `detail` has its words."""

    code = "refused"
    what = "the model refused"


class ProviderFailed(BadReply):
    """The provider reported an error of its own after the reply had begun."""

    code = "provider_failed"
    what = "the provider failed partway through the reply"
    advice = WORTH_RETRYING
    passing = True


class IncompleteStream(BadReply):
    """The connection closed without the reply's end; what had come is no answer."""

    code = "incomplete_stream"
    what = "the stream ended before the reply did"
    advice = WORTH_RETRYING
    passing = True


class EmptyReply(BadReply):
    """The reply ended well and has neither text nor calls."""

    code = "empty_reply"
    what = "the reply was empty"
    passing = True


class NoFinalAnswer(BadReply):
    """The model gave no answer in the form that was asked for, however often it was told to."""

    code = "no_final_answer"
    what = "the run ended without a final answer"
    advice = "resume it to let the model try again"


class WrongAnswer(NoFinalAnswer):
    """The model's answer did not fit, however often it was told what was wrong; `detail` is the last problem."""

    code = "wrong_answer"
    what = "the run ended without an answer that fits"


# --- waiting for a person -------------------------------------------------------------------------------------------


class Waiting(AgentError):
    """The run is saved and waits for a person."""

    code = "waiting"


class ApprovalNeeded(Waiting):
    """A call waits for somebody who allows it; nothing of it has begun.

    Args:
        tool: The tool's name.
        call_id: The call, as `heaveto approve RUN CALL` takes it.
        identity: Of the call with its arguments, as `heaveto approve --expect` takes it.
    """

    code = "approval_needed"
    advice = "approve or deny the call, then resume"

    def __init__(self, tool: str, call_id: str, identity: str = "") -> None:
        super().__init__(tool, call_id, identity)
        self.tool, self.call_id, self.identity = tool, call_id, identity

    def __str__(self) -> str:
        return f"{self.tool} ({self.call_id}) needs an approval"


class OutcomeUnknown(Waiting):
    """A call may have changed something, and did not say whether it did.

    Args:
        tool: The tool's name.
        call_id: The call, as `heaveto resolve RUN CALL` takes it.
        why: What cut it off.

    Attributes:
        within: The run that the call drives and that has to be seen to first; empty without one.
    """

    code = "outcome_unknown"
    within = ""
    advice = "look whether it took effect, then: heaveto resolve RUN CALL --done | --not-done"

    def __init__(self, tool: str, call_id: str, why: str = "") -> None:
        super().__init__(tool, call_id, why)
        self.tool, self.call_id, self.why = tool, call_id, why

    def __str__(self) -> str:
        text = f"{self.tool} ({self.call_id}): outcome unknown"
        return f"{text}: {self.why}" if self.why else text


# --- the other side -------------------------------------------------------------------------------------------------


class APIError(AgentError):
    """The API refused a request, or reported a failure of its own.

    Args:
        provider: Who answered, such as "openrouter".
        status: The HTTP status, or the code inside a 200.
        message: The API's own words.
        retry_after: The wait that the server asked for, in seconds; None where it asked for none.
        should_retry: What the server said about trying again (x-should-retry); None where it said nothing.
    """

    code = "api_error"

    def __init__(
        self,
        provider: str,
        status: int,
        message: str,
        retry_after: float | None = None,
        should_retry: bool | None = None,
    ) -> None:
        super().__init__(provider, status, message, retry_after, should_retry)
        self.provider, self.status, self.message = provider, status, message
        self.retry_after, self.should_retry = retry_after, should_retry

    def __str__(self) -> str:
        return f"{self.provider}: {self.status}{_reason_phrase(self.status)}: {self.message}"

    @property
    def retryable(self) -> bool:
        if self.should_retry is not None:
            return self.should_retry
        return self.status in RETRYABLE_STATUSES or 500 <= self.status < 600

    @property
    def retry_delay(self) -> float | None:
        return self.retry_after


def _reason_phrase(status: int) -> str:
    try:
        return f" {http.HTTPStatus(status).phrase}"
    except ValueError:  # 529 and other statuses that the standard does not know
        return ""


class TransportFailed(AgentError):
    """The network failed: no connection, or one that broke.

    Args:
        method: The HTTP method.
        address: The URL without query and credentials.
        problem: What happened, in a few words.
        passing: Whether it may pass; a certificate that is not trusted does not.
    """

    code = "transport_failed"
    advice = "check the network and the address, then try again"

    def __init__(self, method: str, address: str, problem: str, passing: bool = True) -> None:
        super().__init__(method, address, problem, passing)
        self.method, self.address, self.problem, self.passing = method, address, problem, passing

    def __str__(self) -> str:
        return f"{self.method} {self.address}: {self.problem}"

    @property
    def retryable(self) -> bool:
        return self.passing


class GaveUp(AgentError):
    """Something was retried until the policy had enough. Outer layers must not retry it again.

    Args:
        attempts: How many were made.
        last: The last attempt's error.
        why: "no attempts left", or why the next one was not begun.
    """

    code = "gave_up"

    def __init__(self, attempts: int, last: BaseException, why: str = "no attempts left") -> None:
        super().__init__(attempts, last, why)
        self.attempts, self.last, self.why = attempts, last, why

    def __str__(self) -> str:
        times = "attempt" if self.attempts == 1 else "attempts"
        return f"gave up after {self.attempts} {times}: {self.why}: {to_data(self.last)['text']}"

    @property
    def retryable(self) -> bool:
        return False


class NoneAnswered(AgentError):
    """None of several models that stand in for one another answered.

    Args:
        models: Their names, in the order in which they were asked.
        errors: What each of them said.
    """

    code = "none_answered"

    def __init__(self, models: Sequence[str], errors: Sequence[BaseException]) -> None:
        super().__init__(tuple(models), tuple(errors))
        self.models, self.errors = tuple(models), tuple(errors)

    def __str__(self) -> str:
        said = zip(self.models, self.errors, strict=False)
        return f"no model answered: {'; '.join(f'{model}: {_without(model, error)}' for model, error in said)}"

    @property
    def retryable(self) -> bool:
        return any(_asked_again(each) for each in self.errors)

    @property
    def retry_delay(self) -> float | None:
        """The shortest wait that was asked for, when each that may pass asked for one."""
        delays = [getattr(each, "retry_delay", None) for each in self.errors if _asked_again(each)]
        asked = [each for each in delays if each is not None]
        return min(asked) if asked and len(asked) == len(delays) else None


def _without(model: str, error: BaseException) -> str:
    """The error's text without the provider, which its model's name has already."""
    return str(to_data(error)["text"]).removeprefix(f"{model.partition(':')[0]}: ")


def _asked_again(error: BaseException) -> bool:
    return bool(getattr(error, "retryable", False))


class NotEnoughTime(AgentError):
    """Work was refused because it needs longer than the time left. Nothing was begun."""

    code = "not_enough_time"

    def __init__(self, needed: float, left: float, what: str = "") -> None:
        super().__init__(needed, left, what)
        self.needed, self.left, self.what = needed, left, what

    def __str__(self) -> str:
        what = f"{self.what} " if self.what else ""
        return f"not enough time: {what}needs {in_seconds(self.needed)}, {in_seconds(self.left)} left"


# --- tools ----------------------------------------------------------------------------------------------------------


class ToolFatal(AgentError):
    """A tool cannot run at all, whatever the arguments: its workspace or its server is gone. The run stops."""

    code = "tool_fatal"

    def __init__(self, tool: str, problem: str) -> None:
        super().__init__(tool, problem)
        self.tool, self.problem = tool, problem


class ToolError(AgentError):
    """A tool call went wrong in a way that the model can mend. It reads exactly `text`."""

    code = "tool_error"

    def __init__(self, text: str) -> None:
        super().__init__(text)

    @property
    def for_model(self) -> str:
        return str(self)


class UnknownTool(ToolError):
    """The model asked for a tool that does not exist.

    Args:
        name: What it asked for.
        known: The tools that there are.
        shape: What a right call of the nearest one looks like, as JSON.
    """

    code = "unknown_tool"

    def __init__(self, name: str, known: Sequence[str], shape: str = "") -> None:
        self.name, self.known, self.shape = name, tuple(sorted(known)), shape
        super().__init__(name)
        self.args = (name, self.known, shape)

    @property
    def nearest(self) -> str:
        """The tool that was probably meant; empty where none is like it."""
        return next(iter(difflib.get_close_matches(self.name, self.known, n=1, cutoff=0.6)), "")

    def __str__(self) -> str:
        called = f", with JSON like {self.shape}" if self.shape else ""
        hint = f"did you mean {self.nearest}{called}? " if self.nearest else ""
        names = f"the tools are {', '.join(self.known)}" if self.known else "there are no tools"
        return f'no tool named "{self.name}"; {hint}{names}'


class BadArguments(ToolError):
    """A call's arguments do not fit the tool.

    Args:
        tool: The tool's name.
        problem: What is wrong, in words that do not change from one validator's release to the next.
        shape: What a right call looks like, as JSON.
    """

    code = "bad_arguments"

    def __init__(self, tool: str, problem: str, shape: str = "") -> None:
        self.tool, self.problem, self.shape = tool, problem, shape
        super().__init__(problem)
        self.args = (tool, problem, shape)

    def __str__(self) -> str:
        text = f"bad arguments for {self.tool}: {self.problem}"
        return f"{text}; send JSON like {self.shape}" if self.shape else text


class BadAnswer(ToolError):
    """The model's answer does not fit the form that was asked for.

    Args:
        problem: What is wrong, in stable words; empty where it gave none, but wrote text.
        shape: What a right answer looks like, as JSON.
        tool: The tool that takes it; empty where the model writes it as text.
    """

    code = "bad_answer"

    def __init__(self, problem: str, shape: str = "", tool: str = "") -> None:
        self.problem, self.shape, self.tool = problem, shape, tool
        super().__init__(problem)
        self.args = (problem, shape, tool)

    def __str__(self) -> str:
        text = f"the answer does not fit: {self.problem}" if self.problem else "that is no final answer"
        way = f"call {self.tool} with JSON" if self.tool else "answer with nothing but JSON"
        return f"{text}; {way} like {self.shape}" if self.shape else text


class ToolCrashed(ToolError):
    """A tool raised something that is not a ToolError: a bug in the tool."""

    code = "tool_crashed"

    def __init__(self, tool: str, type_name: str, text: str) -> None:
        self.tool, self.type_name, self.text = tool, type_name, text
        super().__init__(text)
        self.args = (tool, type_name, text)

    def __str__(self) -> str:
        inner = f"{self.type_name}: {self.text}" if self.text else self.type_name
        return f"{self.tool} failed with an internal error ({inner}); try another way, or report it"


class Denied(ToolError):
    """A person or a rule refused the call."""

    code = "denied"

    def __init__(self, tool: str, reason: str = "") -> None:
        self.tool, self.reason = tool, reason
        super().__init__(reason)
        self.args = (tool, reason)

    def __str__(self) -> str:
        return f"{self.tool} was denied: {self.reason}" if self.reason else f"{self.tool} was denied"


# --- the journal ----------------------------------------------------------------------------------------------------


class JournalError(AgentError):
    """The journal cannot be used."""

    code = "journal"

    def __init__(self, problem: str) -> None:
        super().__init__(problem)


class RunNotFound(JournalError):
    """No run has this name, or begins with it."""

    code = "run_not_found"
    advice = "`heaveto runs` lists them"

    def __init__(self, run_id: str) -> None:
        super().__init__(run_id)
        self.run_id = run_id

    def __str__(self) -> str:
        return f"no run {self.run_id}" if self.run_id else "no runs yet"


class RunTaken(JournalError):
    """Another process drives the run."""

    code = "run_taken"
    advice = "wait until it ends, or stop it"

    def __init__(self, run_id: str, owner: str) -> None:
        super().__init__(run_id)
        self.args = (run_id, owner)
        self.run_id, self.owner = run_id, owner

    def __str__(self) -> str:
        return f"run {self.run_id} is being driven by {self.owner}"


class Fenced(JournalError):
    """Somebody else took the run over. What this process would have written was not written."""

    code = "fenced"

    def __init__(self, run_id: str) -> None:
        super().__init__(run_id)
        self.run_id = run_id

    def __str__(self) -> str:
        return f"run {self.run_id} was taken over by another driver"


class JournalNewer(JournalError):
    """The journal was written by a newer version than this one."""

    code = "journal_newer"
    advice = "upgrade heaveto"

    def __init__(self, found: int, known: int) -> None:
        super().__init__("")
        self.args = (found, known)
        self.found, self.known = found, known

    def __str__(self) -> str:
        return f"the journal has format {self.found}; this version reads up to {self.known}"


class JournalDamaged(JournalError):
    """A record or the file cannot be read. What precedes it is usable."""

    code = "journal_damaged"

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(problem)
        self.args = (where, problem)
        self.where, self.problem = where, problem


class JournalBusy(JournalError):
    """Another process has been writing to the journal for longer than we wait. Nothing was written.

    Args:
        path: The journal's file.
        holder: Who holds it up, such as "process 4711".
    """

    code = "journal_busy"
    advice = "resume when that one is done"

    def __init__(self, path: str, holder: str) -> None:
        super().__init__(path)
        self.args = (path, holder)
        self.path, self.holder = path, holder

    def __str__(self) -> str:
        return f"the journal {self.path} is held up by {self.holder}, which has been writing for too long"


class JournalUnreachable(JournalError):
    """The database of the journal does not answer. Whether the last records were written shows at the resume.

    Args:
        place: The database, without user and password, such as "postgresql://db.example/agents".
        problem: What its side, or the network, said.
    """

    code = "journal_unreachable"
    advice = "resume when the database answers again"

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(problem)
        self.args = (place, problem)
        self.place, self.problem = place, problem

    def __str__(self) -> str:
        return f"the journal {self.place} does not answer: {self.problem}"


# --- searching ------------------------------------------------------------------------------------------------------


def walk(error: BaseException | None) -> Iterator[BaseException]:
    """Every exception of a chain or group, from the outside in, each once: itself, its group, its cause or context."""
    seen: set[int] = set()
    pending = [error]
    while pending:
        each = pending.pop(0)
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        if isinstance(each, BaseExceptionGroup):
            pending.extend(each.exceptions)
        if isinstance(each, GaveUp):
            pending.append(each.last)
        if isinstance(each, NoneAnswered):
            pending.extend(each.errors)
        pending.append(each.__cause__ or (None if each.__suppress_context__ else each.__context__))


def find(error: BaseException | None, wanted: type[T]) -> T | None:
    """The outermost exception of a type or runtime-checkable protocol, through causes and groups; else None."""
    return next((each for each in walk(error) if isinstance(each, wanted)), None)
