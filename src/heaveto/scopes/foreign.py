"""Code that was made for asyncio alone, behind one door.

AnyIO delivers a stop again at each await; asyncio's own way is one `CancelledError`, once. Code that counts on the latter
may spin on the former without end: `asyncio.Condition.wait` takes its lock again however often it is cancelled, and some
frameworks' handles answer a cancellation with an await of their own. So such code runs in a task of its own, which AnyIO's
scopes do not reach, and a stop is passed on as exactly one native cancellation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, TypeVarTuple

import anyio
import anyio.lowlevel

from ..causes import Stop, StoppedFromOutside
from .abandoned import note_abandoned, unfinished
from .callees import awaitable, check_callee
from .clock import on_trio
from .scope import current_cause, number_of

__all__ = ["abandoned_tasks", "call_foreign"]

T = TypeVar("T")
Args = TypeVarTuple("Args")

PREFIX = "heaveto:"

_abandoned: set[asyncio.Task[Any]] = set()


async def call_foreign(fn: Callable[[*Args], Awaitable[T]], *args: *Args, moment: float = 5.0) -> T:
    """Run `fn(*args)`, which knows asyncio and not AnyIO, in a task of its own; its context values are this task's.

    On a stop it is cancelled once, natively, and has `moment` seconds to end. A result within them counts, and the next
    await is stopped; an error of its clean-up comes out; and when it has not ended, it is left alone and the stop goes on,
    with a note that says so.

    Args:
        moment: Seconds between the stop and the abandonment.

    Raises:
        TypeError: `fn` is no async function.
        RuntimeError: On Trio, where nothing of asyncio can run.
        StoppedFromOutside: The code was cancelled by somebody else, or by itself.
    """
    moment = number_of(moment, "the seconds of a moment")
    check_callee(fn, "call_foreign")
    if on_trio():
        raise RuntimeError(f"{_name_of(fn)} is asyncio's, and this loop is Trio's; run the program on asyncio")
    await anyio.lowlevel.checkpoint_if_cancelled()  # begin nothing after a stop

    async def work() -> T:
        return await awaitable(fn(*args), fn, "call_foreign")

    loop = asyncio.get_running_loop()
    task = loop.create_task(work(), name=f"{PREFIX}{_name_of(fn)}")  # heaveto: allow raw-tasks no scope must reach it
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError as error:  # heaveto: allow swallowed-stop a result counts, and the next await is stopped
        task.cancel(str(current_cause() or StoppedFromOutside()))
        return await _the_end_of(task, error, moment)  # heaveto: allow await-while-stopped it is shielded
    return _result_of(task)


async def _the_end_of(task: asyncio.Task[T], stop: asyncio.CancelledError, moment: float) -> T:
    """What a task that was cancelled comes to: its result, where it counts; else the stop goes on."""
    with unfinished():
        native = await _ended(task, asyncio.get_running_loop().time() + moment)
    if not task.done():
        _abandoned.add(task)
        note_abandoned(f"task {task.get_name().removeprefix(PREFIX)}")
        task.add_done_callback(_abandoned.discard)
        stop.add_note(f"{task.get_name()} did not end within {moment:g} s of its one cancellation, and is left alone")
    elif not task.cancelled():
        failed = task.exception()
        if native is None and current_cause() is not None and not isinstance(failed, Stop):
            return task.result()  # without a cause the stop is native, and does not come again
        raise native or stop from failed
    raise native or stop


async def _ended(task: asyncio.Task[Any], until: float) -> asyncio.CancelledError | None:
    """Wait for a task, up to a time; the last native cancellation of whoever waits, which must go on."""
    native: asyncio.CancelledError | None = None
    clock = asyncio.get_running_loop().time
    while not task.done() and (left := until - clock()) > 0:
        try:
            with anyio.CancelScope(shield=True):  # heaveto: allow raw-scope only waits; `until` is the limit
                await asyncio.wait([task], timeout=left)
        except asyncio.CancelledError as error:  # heaveto: allow swallowed-stop the caller lets it go on
            native = error
    return native


def _result_of(task: asyncio.Task[T]) -> T:
    try:
        return task.result()
    except asyncio.CancelledError as error:  # nobody here is cancelled: it must not look like it
        raise StoppedFromOutside from error


def _name_of(fn: Callable[..., Any]) -> str:
    return getattr(fn, "__name__", "call")


def abandoned_tasks() -> list[asyncio.Task[Any]]:
    """The tasks that did not end in time after their cancellation, and still run."""
    return list(_abandoned)
