"""What the loop asks of a tool, and what a tool is given."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from ..errors import ToolError
from ..scopes import time_left
from .results import to_text

if TYPE_CHECKING:
    from .sandbox import Sandbox

__all__ = [
    "Call",
    "Check",
    "Effect",
    "Facts",
    "Hides",
    "Progress",
    "Recovery",
    "Tool",
    "Undo",
    "hide_nothing",
    "recovery_of",
]

Effect: TypeAlias = Literal["read", "idempotent", "write"]
Facts: TypeAlias = Mapping[str, Any]  # plain JSON data
_VERDICTS = ("done", "not_done", "unknown")
Hides: TypeAlias = Callable[[str], bool]
Progress: TypeAlias = Callable[[str], None]


def _say_nothing(text: str) -> None: ...


def _no_result(call_id: str) -> None: ...


def hide_nothing(path: str) -> bool:  # noqa: ARG001
    """Where no rule says of any file that it is not to be shown."""
    return False


def _no_run(fn: Callable[[], Awaitable[object]]) -> None:  # noqa: ARG001
    raise ToolError("nothing can go on in the background here: this call belongs to no run")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The call that a tool runs for. It carries values, never cancellation.

    Attributes:
        key: The idempotency key: the same for a call that is made again after a crash or a new plan.
        folder: The working folder, absolute and without links.
        facts: What the tool's `plan` noted before the call began.
        progress: Call it with a line of text that a watching person may see.
        background: Call it with an async function that goes on after the call; it is stopped when the run ends. It must not
            raise.
        hides: Whether a file, by its path from the folder, is not to be shown: a rule of the user's says so. For tools that
            come upon files which their arguments do not name; not in a process of its own.
        keep_secret: Call it with a text that is to be hidden wherever it is said from now on: in results, errors, progress,
            the journal. What a parameter's schema marks is hidden without that.
        whole_result: The whole of an earlier result of this run that was cut, by its call's id; None where none is kept.
        sandbox: What a process that runs for this call is kept in; None for nothing.
        until: On the system's monotonic clock, when the call's limit passes; only in a process of its own, where no scope
            says it.
    """

    run_id: str = ""
    turn: int = 0
    call_id: str = ""
    tool: str = ""
    key: str = ""
    folder: Path = field(default_factory=Path.cwd)
    facts: Facts = field(default_factory=dict)
    progress: Progress = _say_nothing
    keep_secret: Callable[[str], None] = _say_nothing
    whole_result: Callable[[str], str | None] = _no_result
    background: Callable[[Callable[[], Awaitable[object]]], None] = _no_run
    hides: Hides = hide_nothing
    until: float = math.inf
    sandbox: Sandbox | None = None

    def time_left(self) -> float:
        """Seconds until the nearest limit: the call's, the run's or a wider one; `math.inf` for none. In its thread too."""
        return min(time_left(), max(0.0, self.until - time.monotonic()))

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """The logger `heaveto.tools.NAME`, for people: its records have `run_id`, `turn` and `call_id`."""
        about = {"run_id": self.run_id, "turn": self.turn, "call_id": self.call_id}
        return logging.LoggerAdapter(logging.getLogger(f"heaveto.tools.{self.tool}"), about)


@dataclass(frozen=True, slots=True)
class Check:
    """What a tool found out about a call of its own that was cut off.

    Attributes:
        verdict: "done": it took effect, `text` is its result. "not_done": it did not, and may be run. "unknown": it
            cannot tell.
        text: The result that the model reads, or what was seen instead. What is no string is made one, as a result is.

    Raises:
        ValueError: The verdict is none of these. Taken for "not_done" it would have the call run twice.
    """

    verdict: Literal["done", "not_done", "unknown"]
    text: str = ""

    def __post_init__(self) -> None:
        if self.verdict not in _VERDICTS:
            raise ValueError(f"the verdict of a Check is one of {', '.join(map(repr, _VERDICTS))}, not {self.verdict!r}")
        text: Any = self.text
        if not isinstance(text, str):
            nothing = text is None and self.verdict != "done"
            object.__setattr__(self, "text", "" if nothing else to_text(text))


Undo: TypeAlias = Callable[[Call, Mapping[str, Any]], Awaitable[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What a tool offers, besides its check, for a call of its own whose outcome is not known.

    Attributes:
        key_seconds: How long the other side knows `call.key` again, so that a second call with it changes nothing; 0: never.
        settle_seconds: How long what was sent may still be on its way: a check that finds nothing looks again so much later.
        undo: `undo(call, arguments)` takes back what the call may have done, and says what it saw. It has a key of its own,
            and may be called twice with it. None: there is no way back.
    """

    key_seconds: float = 0.0
    settle_seconds: float = 0.0
    undo: Undo | None = None


class Tool(Protocol):
    """A tool that the loop can run. `heaveto.tools.tool` makes one of a function."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON schema of the arguments, an object."""
        ...

    @property
    def effect(self) -> Effect: ...

    @property
    def alone(self) -> bool:
        """Whether no other call may run beside it."""
        ...

    @property
    def approval(self) -> bool:
        """Whether a person has to approve each call."""
        ...

    @property
    def seconds(self) -> float | None:
        """The limit of one call; None for none."""
        ...

    def parse(self, arguments: str) -> Mapping[str, Any]:
        """The arguments from the model's JSON text.

        Raises:
            BadArguments: With what is wrong and the shape of a right call.
        """
        ...

    async def plan(self, call: Call, arguments: Mapping[str, Any]) -> Facts:
        """What to note before the call begins, so that `check` can tell later whether it took effect; may be empty.

        Raises:
            ToolError: When the call cannot succeed; it is the call's result, and nothing was begun.
        """
        ...

    async def run(self, call: Call, arguments: Mapping[str, Any]) -> str:
        """Do it. Returns what the model reads.

        Raises:
            ToolError: The model reads its text.
            ToolFatal: The tool cannot run at all; the run stops.
            OutcomeUnknown: It may have changed something and cannot say.
        """
        ...

    async def check(self, call: Call, arguments: Mapping[str, Any]) -> Check | None:
        """Find out, by looking only, whether a call that was cut off took effect; None when the tool has no way to."""
        ...


_NOTHING = Recovery()


def recovery_of(tool: Tool) -> Recovery:
    """The tool's `recovery`, an attribute that it may leave out."""
    recovery: Recovery = getattr(tool, "recovery", _NOTHING)
    return recovery
