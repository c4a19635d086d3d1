"""Tools: functions that a model may call."""

from .protocol import Call, Check, Effect, Facts, Tool

__all__ = ["Call", "Check", "Effect", "Facts", "Tool"]
