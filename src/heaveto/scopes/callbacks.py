"""A callback on a stop, for what no await can be stopped in: closing a connection unblocks whoever reads from it."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NoReturn

import anyio
import anyio.abc

from ..causes import Cancelled, Stop, StoppedFromOutside
from .groups import tasks
from .scope import Scope, current_cause

__all__ = ["StopCallback", "on_stop"]


class StopCallback:
    """A callback that is attached to the stop of a block. Made by `on_stop`.

    Attributes:
        ran: Whether the callback was called.
    """

    def __init__(self, callback: Callable[[Stop], Any]) -> None:
        self._callback, self._attached, self.ran = callback, True, False

    def detach(self) -> bool:
        """See that the callback is not called any more; whether that prevented it, rather than coming too late or twice."""
        prevented, self._attached = self._attached, False
        return prevented

    def _run(self, cause: Stop) -> None:
        if self._attached:
            self._attached, self.ran = False, True
            if inspect.iscoroutine(made := self._callback(cause)):
                made.close()
                _refuse_async(self._callback)


@asynccontextmanager
async def on_stop(callback: Callable[[Stop], Any]) -> AsyncIterator[StopCallback]:
    """A block whose stop, from whichever scope, calls `callback(cause)` in the loop's thread; at once if it came before.

        async with on_stop(lambda cause: connection.close()) as closing:
            ...
            closing.detach()

    The callback must not wait. It is called before a stopped block is left; leaving an unstopped one detaches it.

    Raises:
        TypeError: The callback is none, or it is async, and nobody could await it.
        Exception: What the callback raised; with what the block raised, in an ExceptionGroup.
    """
    if not callable(callback):
        raise TypeError(f"a callback on a stop is called with its cause; {callback!r} cannot be called")
    if inspect.iscoroutinefunction(callback):
        _refuse_async(callback)
    attached = StopCallback(callback)
    if (cause := current_cause()) is not None:
        attached._run(cause)
    watching = Scope(quiet=True)
    async with tasks() as group:
        await group.start(_watch, attached, watching)
        try:
            yield attached
        except BaseException as error:
            cause = current_cause()
            if cause is not None or _is_cancellation(error):  # the watching task may come to it later than we do
                _run_beside(attached, cause or StoppedFromOutside(), error)
            raise
        finally:
            attached.detach()
            watching.cancel(Cancelled("the block was left"))


def _refuse_async(callback: Callable[[Stop], Any]) -> NoReturn:
    name = getattr(callback, "__name__", repr(callback))
    raise TypeError(f"{name} is async; a callback on a stop is not awaited, so it must not be")


def _is_cancellation(error: BaseException) -> bool:
    return isinstance(error, anyio.get_cancelled_exc_class())


def _run_beside(attached: StopCallback, cause: Stop, error: BaseException) -> None:
    """Call back while an error leaves the block: neither hides the other."""
    try:
        attached._run(cause)
    except Exception as failed:
        if _is_cancellation(error):
            raise  # alone, since the cancellation is no failure
        raise BaseExceptionGroup("a stopped block and its callback failed", [failed, error]) from failed


async def _watch(attached: StopCallback, watching: Scope, *, task_status: anyio.abc.TaskStatus[None]) -> None:
    with watching:
        task_status.started()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            attached._run(current_cause() or StoppedFromOutside())
            raise  # never swallowed, though the group would raise it again at its end
