"""Why things stop: the tree of Stop classes, and their form as data.

    Described                      any exception of ours: its fields are its positional arguments, its text is derived
      Stop                         why work was stopped
        Cancelled(reason, by)      a person or a caller asked
          Interrupted(signal)      Ctrl-C
          ClientGone(reason)       whoever was listening left
          SiblingFailed(error)     a task beside this one failed
          StoppedFromOutside()     a native cancellation that gave no cause
        Shutdown(reason)           the process is going; work may get a grace period
        DeadlinePassed(seconds, setting)     also a TimeoutError
          CallTimeout  AttemptTimeout  ConnectTimeout  StreamIdle  ToolTimeout  TestsTimedOut  SaveTimeout
      AgentError                   what went wrong: see errors.py (RunDeadline, a stop and a limit, is there too)

Fields are positional so that copy, pickle and JSON work without code in each class. Texts are lower case, without a
final full stop. `TimeoutError` is an `OSError`, whose constructor turns two or three arguments into an errno and a file
name; so nothing here calls it, and `args` are set by hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, ClassVar, TypeAlias

__all__ = [
    "AttemptTimeout",
    "CallTimeout",
    "Cancelled",
    "ClientGone",
    "ConnectTimeout",
    "DeadlinePassed",
    "Described",
    "Foreign",
    "Interrupted",
    "SaveTimeout",
    "Shutdown",
    "SiblingFailed",
    "Stop",
    "StoppedFromOutside",
    "StreamIdle",
    "TestsTimedOut",
    "ToolTimeout",
    "from_data",
    "in_seconds",
    "text_of",
    "to_data",
]

Data: TypeAlias = dict[str, Any]

WORTH_RETRYING = "worth retrying"
DEEPEST = 100  # causes and groups around one another, of which data tell
LONGEST_TEXT = 20_000  # characters, of an error's text in data; whole replies end up in some

_by_code: dict[str, type[Described]] = {}


class Described(Exception):
    """An exception whose fields are its positional arguments and whose text is derived from them.

    Attributes:
        code: A stable name for programs.
        advice: What a person can do about it; empty where there is nothing to say.
        run_advice: The same for a run that it ended; said only where there is a run.
        retryable: Whether trying again as it is can help; None where the class does not know.
        report: The run as far as it came, on what `Agent.run` raises.
    """

    code: ClassVar[str] = "error"
    advice: str = ""
    run_advice: ClassVar[str] = ""
    report: Any = None

    def __init__(self, *fields: Any) -> None:
        self.args = fields

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "code" in vars(cls):
            _by_code.setdefault(cls.code, cls)

    def __str__(self) -> str:
        return ": ".join(_text(field) for field in self.args if field not in ("", None)) or self.code.replace("_", " ")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.args))})"

    @property
    def retryable(self) -> bool | None:
        return None


_by_code[Described.code] = Described


class Foreign(Described):
    """Somebody else's exception, as it was written down: its type's name and its text."""

    code = "foreign"

    def __init__(self, type_name: str, text: str) -> None:
        super().__init__(type_name, text)
        self.type_name, self.text = type_name, text

    def __str__(self) -> str:
        return f"{self.type_name}: {self.text}" if self.text else self.type_name


class Stop(Described):
    """Why work was stopped. A scope that was stopped raises a fresh copy of its cause."""

    code = "stop"


class Cancelled(Stop):
    """A person or a caller asked for the stop.

    Args:
        reason: Why, in their words.
        by: Who asked.
    """

    code = "cancelled"

    def __init__(self, reason: str = "", by: str = "") -> None:
        super().__init__(reason, by)
        self.reason, self.by = reason, by

    def __str__(self) -> str:
        who = f"cancelled by {self.by}" if self.by else "cancelled"
        return f"{who}: {self.reason}" if self.reason else who


class Interrupted(Cancelled):
    """The person at the terminal pressed Ctrl-C, or sent its signal."""

    code = "interrupted"

    def __init__(self, signal: str = "SIGINT") -> None:
        super().__init__(signal, "you")
        self.args = (signal,)
        self.signal = signal

    def __str__(self) -> str:
        return f"interrupted by you ({self.signal})"


class ClientGone(Cancelled):
    """Whoever was listening left: a closed standard output, a browser, a streaming request."""

    code = "client_gone"

    def __init__(self, what: str = "client") -> None:
        super().__init__(what, "client")
        self.args = (what,)
        self.what = what

    def __str__(self) -> str:
        return f"the {self.what} is gone"


class SiblingFailed(Cancelled):
    """A task of the same group failed, so the others were stopped."""

    code = "sibling_failed"

    def __init__(self, error: str) -> None:
        super().__init__(error, "a task beside it")
        self.args = (error,)
        self.error = error

    def __str__(self) -> str:
        return f"a task beside it failed: {self.error}"


class StoppedFromOutside(Cancelled):
    """A native cancellation arrived, from code that is not ours and gave no cause."""

    code = "stopped_from_outside"

    def __init__(self) -> None:
        super().__init__()
        self.args = ()

    def __str__(self) -> str:
        return "stopped from outside, without a cause"


class Shutdown(Stop):
    """The process is going. Work in flight may get a grace period.

    Args:
        reason: What asked for it, such as the signal's name.
    """

    code = "shutdown"
    run_advice = "resume the run when the machine is back"

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"shutting down: {self.reason}" if self.reason else "shutting down"


class DeadlinePassed(Stop, TimeoutError):
    """A time limit passed.

    Args:
        seconds: The limit.
        setting: The name under which a user sets it; empty where there is none.
    """

    code = "deadline_passed"
    what: ClassVar[str] = "a deadline of {} passed"
    default_setting: ClassVar[str] = ""

    def __init__(self, seconds: float, setting: str | None = None) -> None:
        self.seconds = seconds
        self.setting = self.default_setting if setting is None else setting
        super().__init__(seconds, self.setting)

    def __str__(self) -> str:
        text = self.what.format(in_seconds(self.seconds))
        return f"{text} ({self.setting})" if self.setting else text

    @property
    def timeout(self) -> bool:
        return True


class _WorthRetrying(DeadlinePassed):
    """A time limit on one attempt: the next one may be luckier."""

    advice = WORTH_RETRYING

    @property
    def retryable(self) -> bool | None:
        return True


class CallTimeout(_WorthRetrying):
    """A model call did not end within its limit."""

    code = "call_timeout"
    what = "the model call timed out after {}"
    default_setting = "call_seconds"


class AttemptTimeout(_WorthRetrying):
    """One attempt of something that is retried did not end within its limit."""

    code = "attempt_timeout"
    what = "the attempt timed out after {}"
    default_setting = "attempt_seconds"


class ConnectTimeout(_WorthRetrying):
    """No connection to the server came about within the limit."""

    code = "connect_timeout"
    what = "connecting timed out after {}"
    default_setting = "connect_seconds"


class StreamIdle(_WorthRetrying):
    """A stream brought nothing for too long; `setting` tells bytes from content."""

    code = "stream_idle"
    what = "the stream went quiet for {}"
    default_setting = "idle_seconds"


class ToolTimeout(DeadlinePassed):
    """A tool call did not end within its limit."""

    code = "tool_timeout"
    what = "the tool timed out after {}"
    default_setting = "seconds"


class TestsTimedOut(DeadlinePassed):
    """The test run did not end within its limit."""

    __test__ = False  # pytest: not a test class
    code = "tests_timed_out"
    what = "the tests timed out after {}"
    default_setting = "test_seconds"


class SaveTimeout(DeadlinePassed):
    """Work that had to finish (a save) did not within its own limit."""

    code = "save_timeout"
    what = "saving timed out after {}"
    advice = "the disk or the database is not answering; what was saved before is whole"
    default_setting = "save_seconds"

    @property
    def retryable(self) -> bool | None:
        return False  # nobody knows what was written: whoever goes on from here reads it first


def in_seconds(seconds: float) -> str:
    """A length of time as people read it, such as "60 s" or "0.25 s"."""
    return f"{seconds:.6g} s"


def text_of(error: BaseException) -> str:
    """`str(error)`, also where somebody's `__str__` fails: an error that cannot be told must not take another's place."""
    try:
        return str(error)
    except Exception as failed:  # boundary: somebody's __str__ must not hide the error that it belongs to
        return f"(its text cannot be read: {type(failed).__name__})"


def _text(field: Any) -> str:
    return text_of(field) if isinstance(field, BaseException) else str(field)


def to_data(error: BaseException) -> Data:
    """The exception as plain data, for the journal, the page and `--json`: code, fields, text, and what caused it.

    What lies deeper than a hundred causes or groups is left out, and said to be.
    """
    return _to_data(error, frozenset())


def _to_data(error: BaseException, above: frozenset[int]) -> Data:
    above = above | {id(error)}  # somebody's `raise error from error` must not send us round for ever
    text = _shortened(text_of(error))
    data: Data = {"code": "foreign", "text": text}
    if isinstance(error, Described):
        data |= {"code": error.code, "fields": [_field_to_data(field) for field in error.args]}
    else:
        data["fields"] = [type(error).__name__, text]
        data["text"] = f"{type(error).__name__}: {text}" if text else type(error).__name__
    if notes := getattr(error, "__notes__", None):
        data["notes"] = list(notes)
    members = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    cause = error.__cause__ if error.__cause__ is not None and id(error.__cause__) not in above else None
    if len(above) >= DEEPEST and (members or cause):
        data["notes"] = [*data.get("notes", ()), "what lies behind it is too deep to be told"]
        return data
    if members:
        data["errors"] = [_to_data(each, above) for each in members]
    if cause:
        data["cause"] = _to_data(cause, above)
    return data


def _shortened(text: str) -> str:
    left_out = len(text) - LONGEST_TEXT
    return text if left_out <= 0 else f"{text[:LONGEST_TEXT]}... ({left_out:,} more characters)"


def from_data(data: Mapping[str, Any]) -> Described:
    """The exception that `to_data` wrote down. A code that this version does not know becomes a `Foreign`."""
    error = _rebuilt(data)
    for note in data.get("notes", ()):
        error.add_note(note)
    if cause := data.get("cause"):
        error.__cause__ = from_data(cause)
    return error


def _rebuilt(data: Mapping[str, Any]) -> Described:
    if cls := _by_code.get(data["code"]):
        try:
            return cls(*(_field_from_data(field) for field in data.get("fields", ())))
        except TypeError:  # written by a version whose class had other fields
            pass
    return Foreign(data["code"], data.get("text", ""))


def _field_to_data(field: Any) -> Any:
    if isinstance(field, BaseException):
        return {"error": to_data(field)}
    if isinstance(field, Decimal):
        return {"decimal": str(field)}
    if isinstance(field, (list, tuple)):
        return [_field_to_data(each) for each in field]
    return field if field is None or isinstance(field, (str, int, float, bool)) else str(field)


def _field_from_data(field: Any) -> Any:
    match field:
        case {"error": dict() as data}:
            return from_data(data)
        case {"decimal": str() as text}:
            return Decimal(text)
        case list():
            return tuple(_field_from_data(each) for each in field)
        case _:
            return field
