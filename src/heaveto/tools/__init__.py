"""Tools: functions that a model may call."""

from .current import current_call, running
from .decorator import FunctionTool, tool
from .files import file_tools
from .protocol import Call, Check, Effect, Facts, Tool
from .run_tests import run_tests_tool

__all__ = [
    "Call",
    "Check",
    "Effect",
    "Facts",
    "FunctionTool",
    "Tool",
    "current_call",
    "file_tools",
    "run_tests_tool",
    "running",
    "tool",
]
