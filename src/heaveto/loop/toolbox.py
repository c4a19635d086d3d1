"""The tools of a run, and what they share: the folder, the slots, and whoever approves."""

from __future__ import annotations

import json
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from ..causes import DeadlinePassed, text_of, to_data
from ..errors import (
    ConfigError,
    Denied,
    Fenced,
    NotEnoughTime,
    OutcomeUnknown,
    RunTaken,
    ToolCrashed,
    ToolError,
    ToolFatal,
    UnknownTool,
    Waiting,
)
from ..journal.records import WITHIN, ToolFinished
from ..messages import Ending, ToolCall
from ..models import ToolSpec
from ..scopes import Slots
from ..tools import Check, Effect, Sandbox, Tool
from ..tools.protocol import Hides, hide_nothing
from ..tools.schema import example_of
from .outcome import Report
from .secrets import has_secrets

__all__ = [
    "Approve",
    "Doubt",
    "Permit",
    "Resolve",
    "Rules",
    "Toolbox",
    "by_name",
    "finished_by_error",
    "waiting_within",
    "waits_within",
]

Approve = Callable[[ToolCall], Awaitable[bool | str]]
Permit = Callable[[Tool, ToolCall], bool | str | None]


class Rules(Protocol):
    """What the user has forbidden, whoever says otherwise."""

    def forbids(self, tool: Tool, call: ToolCall) -> str | None:
        """Why a call may not run; None where no rule says so."""
        ...

    def hidden_from(self, tool: Tool, call: ToolCall) -> Hides | None:
        """Which files a call does not come upon; None for all."""
        ...


@dataclass(frozen=True, slots=True)
class Doubt:
    """A call whose outcome is not known, and why not."""

    run_id: str
    call: ToolCall
    why: str


Resolve = Callable[[Doubt], Awaitable[Check | None]]


@dataclass(frozen=True, kw_only=True)
class Toolbox:
    """What the calls of a run may use.

    Attributes:
        slots: Bounds how many calls run at once, here and wherever else these slots are used.
        approve: Asked for each call of a tool that needs an approval: True approves, False or a reason denies. None means
            that nobody is there: the run waits.
        final: The tool among `tools` that takes the answer; None where a text is one.
        permit: Asked first: True lets a call run, a text denies it, None has `approve` asked. By default calls of tools that
            need an approval are asked about.
        rules: What is forbidden also where a person has allowed it.
        resolve: Asked about a call in doubt that its tool cannot settle. None, or an answer of None: a person is.
        sandbox: What isolated tools are kept in; its name is told with the run.
    """

    tools: dict[str, Tool]
    folder: Path
    slots: Slots
    approve: Approve | None = None
    resolve: Resolve | None = None
    permit: Permit | None = None
    rules: Rules | None = None
    final: Tool | None = None
    sandbox: Sandbox | None = None

    @property
    def sandbox_name(self) -> str:
        return "" if self.sandbox is None else self.sandbox.name

    @cached_property
    def secret_schemas(self) -> Mapping[str, Mapping[str, Any]]:
        """The schemas that mark something secret, by the tool's name. The answer is for the program, so it is none."""
        tools = [tool for tool in self.tools.values() if tool is not self.final]
        return {tool.name: tool.schema for tool in tools if has_secrets(tool.schema)}

    def get(self, name: str) -> Tool:
        """The tool of that name.

        Raises:
            UnknownTool: With the names that exist, and how the nearest one is called.
        """
        tool = self.tools.get(name)
        if tool is not None:
            return tool
        unknown = UnknownTool(name, list(self.tools))
        if unknown.nearest:
            shape = json.dumps(example_of(self.tools[unknown.nearest].schema), ensure_ascii=False)
            raise UnknownTool(name, list(self.tools), shape)
        raise unknown

    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(ToolSpec(tool.name, tool.description, tool.schema) for tool in self.tools.values())

    def hides(self, call: ToolCall) -> Hides:
        """Which files the call does not come upon."""
        tool = self.tools.get(call.name)
        hides = self.rules.hidden_from(tool, call) if self.rules and tool else None
        return hides or hide_nothing

    def refuse_forbidden(self, tool: Tool, call: ToolCall) -> None:
        """Pass, or refuse a call that a person has allowed.

        Raises:
            Denied: A rule forbids it.
        """
        if self.rules and (why := self.rules.forbids(tool, call)):
            raise Denied(call.name, why)

    def may_run_beside(self, name: str) -> bool:
        """Whether calls of this tool may run at once with their neighbours. What does not exist disturbs nobody."""
        tool = self.tools.get(name)
        return tool is None or not tool.alone


def by_name(tools: Sequence[Tool]) -> dict[str, Tool]:
    """The tools under their names.

    Raises:
        ConfigError: When two have the same one.
    """
    named: dict[str, Tool] = {}
    for tool in tools:
        if named.setdefault(tool.name, tool) is not tool:
            raise ConfigError(f'two tools are named "{tool.name}"', "give one of them another name: @tool(name=...)")
    return named


def finished_by_error(call: ToolCall, effect: Effect, error: Exception, seconds: float) -> ToolFinished:
    """The result of a call that raised: what the model reads, and the kind that the program checks."""
    ending, content = _ending_of(call, effect, error)
    data = to_data(error)
    if ending in ("tool_error", "denied"):
        data.pop("cause", None)  # how we found out, in the words of a library's release
    if run_id := waits_within(error):
        data[WITHIN] = run_id
    if ending == "crashed":
        data["traceback"] = traceback.format_exception(error)[-8:]  # the innermost frames say where
    return ToolFinished(
        call_id=call.id, name=call.name, ending=ending, content=content, seconds=round(seconds, 4), error=data
    )


def waits_within(error: Exception) -> str:
    """The run that a tool drove, when the tool could not end because that one waits for a person, or because somebody else
    drives it (a process that has died, perhaps, and whose lease is not over); empty when not so.
    """
    report = error.report if isinstance(error, Waiting | RunTaken | Fenced) else None
    return report.run_id if isinstance(report, Report) else ""


def waiting_within(run_id: str, error: Exception) -> str:
    """Why the outcome of a call that drives a run is not known yet."""
    return f"run {run_id} waits: {error}" if isinstance(error, Waiting) else str(error)


def _ending_of(call: ToolCall, effect: Effect, error: Exception) -> tuple[Ending, str]:
    match error:
        case Denied():
            return "denied", error.for_model
        case ToolCrashed():
            return "crashed", error.for_model
        case ToolError():
            return "tool_error", error.for_model
        case ToolFatal():
            return "fatal", f"not run: {error}"
        case NotEnoughTime():
            return "tool_error", f"{call.name}: {error}"
        case Waiting() | RunTaken() | Fenced() if run_id := waits_within(error):
            return "unknown", f"outcome unknown: {waiting_within(run_id, error)}"
        case OutcomeUnknown():
            return "unknown", f"outcome unknown: {error.why or error}; check before doing it again"
        case DeadlinePassed() if effect == "write":
            return "unknown", f"outcome unknown: {error}, and it may have run in part; check before doing it again"
        case DeadlinePassed():
            return "timed_out", f"{call.name}: {error}"
        case _:
            return "crashed", ToolCrashed(call.name, type(error).__name__, text_of(error)).for_model
