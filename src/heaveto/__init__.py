"""heaveto: AI agents that stop well.

Every stop has a cause that a person can read, every tool call has an answer, every dollar is counted, and a run that was
stopped, timed out, shut down or killed gets under way again without doing a side effect twice or losing one.

What is named here is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .causes import Cancelled, ClientGone, DeadlinePassed, Interrupted, Shutdown, Stop
    from .errors import AgentError, OutcomeUnknown, ToolError, ToolFatal, Waiting, find
    from .journal import MemoryStore, open_store
    from .loop import Budget, Event, Outcome, Report, why
    from .messages import File, Image, Limits, Sampling
    from .retry import RetryPolicy
    from .runs import Agent, Result, Run, main
    from .scopes import Scope, Slots, current_cause, deadline, finish, tasks, time_left
    from .tools import Call, Check, Output, current_call, tool

_HOMES = {
    "causes": ("Cancelled", "ClientGone", "DeadlinePassed", "Interrupted", "Shutdown", "Stop"),
    "errors": ("AgentError", "OutcomeUnknown", "ToolError", "ToolFatal", "Waiting", "find"),
    "journal": ("MemoryStore", "open_store"),
    "loop": ("Budget", "Event", "Outcome", "Report", "why"),
    "messages": ("File", "Image", "Limits", "Sampling"),
    "retry": ("RetryPolicy",),
    "runs": ("Agent", "Result", "Run", "main"),
    "scopes": ("Scope", "Slots", "current_cause", "deadline", "finish", "tasks", "time_left"),
    "tools": ("Call", "Check", "Output", "current_call", "tool"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Agent",
    "AgentError",
    "Budget",
    "Call",
    "Cancelled",
    "Check",
    "ClientGone",
    "DeadlinePassed",
    "Event",
    "File",
    "Image",
    "Interrupted",
    "Limits",
    "MemoryStore",
    "Outcome",
    "OutcomeUnknown",
    "Output",
    "Report",
    "Result",
    "RetryPolicy",
    "Run",
    "Sampling",
    "Scope",
    "Shutdown",
    "Slots",
    "Stop",
    "ToolError",
    "ToolFatal",
    "Waiting",
    "current_call",
    "current_cause",
    "deadline",
    "find",
    "finish",
    "main",
    "open_store",
    "tasks",
    "time_left",
    "tool",
    "why",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOME_OF[name]}", __name__), name)
    globals()[name] = value  # the next use does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
