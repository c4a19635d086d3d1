"""Tools: functions that a model may call.

The built-in ones are loaded when they are first used, for an agent may do without them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .answers import AnswerForm, FinalAnswer, Output, TakenAnswer, build_answer_form
from .current import current_call, running
from .decorator import FunctionTool, tool
from .protocol import Call, Check, Effect, Facts, Recovery, Tool, recovery_of
from .results import WithMedia

if TYPE_CHECKING:
    from .commands import command_tools, run_command_tool
    from .files.file_tools import file_tools
    from .project_tests.run_tests import run_tests_tool
    from .reading_on import read_result
    from .sandbox import Sandbox, find_sandbox

__all__ = [
    "AnswerForm",
    "Call",
    "Check",
    "Effect",
    "Facts",
    "FinalAnswer",
    "FunctionTool",
    "Output",
    "Recovery",
    "Sandbox",
    "TakenAnswer",
    "Tool",
    "WithMedia",
    "build_answer_form",
    "command_tools",
    "current_call",
    "file_tools",
    "find_sandbox",
    "read_result",
    "recovery_of",
    "run_command_tool",
    "run_tests_tool",
    "running",
    "tool",
]

_LAZY = {
    "Sandbox": "sandbox",
    "command_tools": "commands",
    "file_tools": "files.file_tools",
    "find_sandbox": "sandbox",
    "read_result": "reading_on",
    "run_command_tool": "commands",
    "run_tests_tool": "project_tests.run_tests",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
