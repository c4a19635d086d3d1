"""The two clocks: the loop's, for durations, and the wall's, for records. And the way back into the loop from a thread."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import anyio

__all__ = ["Clock", "Wake", "loop_clock", "loop_waker", "wall_time"]

Clock: TypeAlias = Callable[[], float]
Wake: TypeAlias = Callable[[Callable[[], Any]], None]


def loop_clock() -> Clock:
    """The running loop's clock, as a function that may be called from any thread.

    Raises:
        anyio.NoEventLoopError: When no loop runs in this thread.
    """
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        clock: Clock = trio.lowlevel.current_clock().current_time
        return clock
    try:
        return asyncio.get_running_loop().time
    except RuntimeError as error:
        raise anyio.NoEventLoopError("a scope needs a running asyncio or Trio loop") from error


def loop_waker() -> Wake:
    """A function that any thread may call to have something run in this loop soon; after the loop's end, nothing."""
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        return _waker(trio.lowlevel.current_trio_token().run_sync_soon, trio.RunFinishedError)
    return _waker(asyncio.get_running_loop().call_soon_threadsafe, RuntimeError)


def _waker(soon: Callable[[Callable[[], Any]], Any], ended: type[Exception]) -> Wake:
    def wake(fn: Callable[[], Any]) -> None:
        try:
            soon(fn)
        except ended:  # whoever waited is gone with its loop
            pass

    return wake


def wall_time() -> float:
    """Seconds since 1970, for what is written down. Never subtract two of them to get a duration."""
    return time.time()
