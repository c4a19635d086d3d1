"""Tools: functions that a model may call."""

from .decorator import FunctionTool, tool
from .files import file_tools
from .protocol import Call, Check, Effect, Facts, Tool

__all__ = ["Call", "Check", "Effect", "Facts", "FunctionTool", "Tool", "file_tools", "tool"]
