"""The two clocks: the loop's, for durations, and the wall's, for records. And the way back into the loop from a thread.

A fake clock jumps to the next timer when no task can run. It must not while work of ours is out in a thread or a process,
so whatever hands work out holds it until the work is back.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeAlias
from weakref import WeakKeyDictionary

import anyio

__all__ = [
    "Clock",
    "Holdable",
    "Wake",
    "fake_clock",
    "fake_clocks",
    "loop_clock",
    "loop_waker",
    "on_trio",
    "outside_the_loop",
    "wall_time",
]

Clock: TypeAlias = Callable[[], float]
Wake: TypeAlias = Callable[[Callable[[], Any]], None]


class Holdable(Protocol):
    """A fake clock as the ground floor sees it. Both are called in the loop's thread."""

    def hold(self) -> None: ...

    def let_go(self) -> None: ...


fake_clocks: WeakKeyDictionary[object, Holdable] = (
    WeakKeyDictionary()
)  # by asyncio's loop or Trio's clock; the kit adds its own


def on_trio() -> bool:
    """Whether the code that asks runs in a Trio loop."""
    trio = sys.modules.get("trio")
    return trio is not None and bool(trio.lowlevel.in_trio_run())


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


def fake_clock() -> Holdable | None:
    """The running loop's fake clock; None where time is real."""
    if not fake_clocks:
        return None
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        return fake_clocks.get(trio.lowlevel.current_clock())
    return fake_clocks.get(asyncio.get_running_loop())


@contextmanager
def outside_the_loop() -> Iterator[None]:
    """A block that waits for a process, or for a thread that is not ours: a fake clock does not jump meanwhile."""
    fake = fake_clock()
    if fake is None:
        yield
        return
    fake.hold()
    try:
        yield
    finally:
        fake.let_go()


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
