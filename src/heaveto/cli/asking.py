"""Asking the person at the terminal whether a call may run."""

from __future__ import annotations

import sys

from ..loop.toolbox import Approve
from ..messages import ToolCall
from ..scopes import call_in_thread
from .output import is_terminal
from .texts import printable

__all__ = ["asker"]

YES, NO = ("y", "yes"), ("", "n", "no")


def asker() -> Approve | None:
    """What asks at the terminal; None where there is none: then the run waits, and is saved."""
    return _ask if is_terminal(0) and is_terminal(2) else None


async def _ask(call: ToolCall) -> bool | str:
    """A stop does not wait for the answer."""
    question = f"\n{printable(call.name)} {printable(call.arguments)}\nallow this? [y/N, or why not] "
    answer = (await call_in_thread(_read_line, question)).strip()
    if answer.lower() in YES:
        return True
    return False if answer.lower() in NO else answer


def _read_line(question: str) -> str:
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline()
