"""The tool call that is running, for logging and tracing below, which take no parameter for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from .protocol import Call

__all__ = ["current_call", "running"]

_current: ContextVar[Call | None] = ContextVar("heaveto_call", default=None)


def current_call() -> Call | None:
    """The tool call that the code that asks runs for; None outside of one. Works in a tool's threads and tasks too."""
    return _current.get()


@contextmanager
def running(call: Call) -> Iterator[None]:
    """A block that runs for this call."""
    token = _current.set(call)
    try:
        yield
    finally:
        _current.reset(token)
