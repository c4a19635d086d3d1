"""The only two ways out of a stop: work that must finish, and a grace period.

`finish` is a function, not a block: asyncio's native `Task.cancel` goes through every shield, so on asyncio the work runs
in a task of its own, which that cancellation does not reach, and the cancellation goes on when the work is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar, TypeVarTuple

import anyio
import anyio.lowlevel

from ..causes import SaveTimeout, Stop, StoppedFromOutside
from .abandoned import unfinished
from .callees import awaitable, check_callee
from .clock import on_trio
from .groups import unwrapped
from .scope import Grace, Scope, _current, grace_end, number_of

__all__ = ["finish", "graced"]

T = TypeVar("T")
Args = TypeVarTuple("Args")


async def finish(seconds: float, fn: Callable[[*Args], Awaitable[T]], *args: *Args, cause: Stop | None = None) -> T:
    """Run `fn(*args)` to its end although the code around it is being stopped. Context values are kept.

    Args:
        seconds: The work's own limit; nothing else ends it.
        cause: What is raised when that passes; `SaveTimeout` by default.

    Raises:
        SaveTimeout: (or `cause`) when the work took longer.
        TypeError: `seconds` is no number, or `fn` no function, and nothing was begun; or `fn` is not async, which only its
            call can tell.
        ValueError: `seconds` is NaN.
    """
    seconds = number_of(seconds, "the seconds of finish")
    check_callee(fn, "finish")

    async def work() -> T:
        with Scope(seconds, cause or SaveTimeout(seconds), shield=True):
            return await awaitable(fn(*args), fn, "finish")
        raise AssertionError("a scope that is not quiet raises")

    with unfinished():
        if on_trio():
            return await work()
        own = asyncio.ensure_future(work())  # heaveto: allow raw-tasks native cancellations do not reach it
        return await _despite_native_cancellation(own)


async def _despite_native_cancellation(task: asyncio.Future[T]) -> T:
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            with anyio.CancelScope(shield=True):  # heaveto: allow raw-scope only waits; `work` has the limit
                await asyncio.wait([task])
        except asyncio.CancelledError as error:  # heaveto: allow swallowed-stop it goes on when the work is done
            cancelled = error
    if cancelled is None:
        return task.result()
    if (failed := task.exception()) is not None:
        raise cancelled from failed
    raise cancelled


@asynccontextmanager
async def graced(seconds: float, *kinds: type[Stop]) -> AsyncIterator[Scope]:
    """A block that is stopped `seconds` late when the cause is one of `kinds`, and at once for any other.

    A second stop of a wider scope ends the grace, and nested ones count from the same stop. The code inside reads a stop
    that is held off with `pending_cause`, and begins nothing new after it. What the block raises when it is cut is the
    wider scope's cause.

    Raises:
        ValueError: It was not said which stops are held off, or for how long.
        TypeError: `seconds` is no number.
    """
    seconds = number_of(seconds, "the seconds of a grace")
    if not kinds or not all(isinstance(kind, type) and issubclass(kind, Stop) for kind in kinds):
        raise ValueError(f"a grace has seconds and kinds of stops, such as graced(30, Shutdown); got {(seconds, *kinds)}")
    outer, settled = _current.get(), anyio.Event()
    wider = list(outer.visible(through_grace=True)) if outer else []
    inner = Scope(shield=True, quiet=True)  # the wider scope raises the cause, not this one
    inner._grace = Grace(seconds, kinds)

    async def watch() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            why = (outer and outer.cause) or StoppedFromOutside()
            grace = min(seconds, grace_end(inner) - inner._clock()) if isinstance(why, kinds) else 0  # no sum of nested ones
            with anyio.move_on_after(grace, shield=True):  # heaveto: allow raw-scope its end is no cause
                await settled.wait()
            inner.cancel(why)  # no effect when the work is over

    for scope in wider:
        scope._hurry.append(settled)
    try:
        with unwrapped():
            async with anyio.create_task_group() as group:  # heaveto: allow raw-tasks the watcher is under no scope of ours
                group.start_soon(watch, name="graced")
                with inner:
                    try:
                        yield inner
                    finally:
                        settled.set()
                group.cancel_scope.cancel()
    finally:
        for scope in wider:
            scope._hurry.remove(settled)
    if inner.native.cancelled_caught:
        await anyio.lowlevel.checkpoint()  # asyncio's task group would fall through here, Trio's raises
