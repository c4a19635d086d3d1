"""Sync code beside the loop, in daemon threads of our own.

AnyIO's worker threads hold up the stop (the caller waits for the thread) and the exit of the process (the interpreter
joins them). Ours do neither: on a stop the thread gets a moment to notice it (`check_stop`), then it is abandoned, which
is the one exception to "nothing is left running" and therefore counted.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, Generic, NoReturn, TypeVar, TypeVarTuple

import anyio

from ..causes import Stop
from .abandoned import note_abandoned
from .callees import check_callee
from .clock import fake_clock, loop_waker
from .scope import current_cause, number_of

__all__ = ["Handoff", "abandoned_threads", "call_in_thread"]

T = TypeVar("T")
Args = TypeVarTuple("Args")

PREFIX = "heaveto:"  # of the names of our threads
DELIVERY_TURNS = 20  # of a millisecond: uvloop's timers come that late, and AnyIO starts one that came early again

_abandoned: list[threading.Thread] = []


class Handoff(Generic[T]):
    """One result on its way from a thread to the task that waits for it. Made in the loop, and given something once."""

    def __init__(self) -> None:
        self._wake = loop_waker()
        self._done = anyio.Event()
        self._value: T  # once it has arrived without an error
        self._error: BaseException | None = None
        if (fake := fake_clock()) is not None:
            fake.hold()
        self._fake = fake

    def deliver(self, value: T) -> None:
        """Hand over a result. From any thread."""
        self._value = value
        self._wake(self._arrive)

    def fail(self, error: BaseException) -> None:
        """Hand over an exception. From any thread."""
        self._error = error
        self._wake(self._arrive)

    def abandon(self) -> None:
        """Wait no longer: what comes is dropped. From the loop."""
        fake, self._fake = self._fake, None
        if fake is not None:
            fake.let_go()

    async def wait(self) -> T:
        """The result, or the exception raised. A stop leaves the thread at work."""
        await self._done.wait()
        return self.result()

    async def arrived(self) -> None:
        """Wait until there is a result or an exception."""
        await self._done.wait()

    def result(self) -> T:
        """What has arrived; an exception is raised."""
        if self._error is not None:
            raise self._error
        return self._value

    @property
    def has_arrived(self) -> bool:
        return self._done.is_set()

    @property
    def stopped(self) -> bool:
        """Whether what has arrived is a stop: the thread noticed it."""
        return isinstance(self._error, Stop)

    def _arrive(self) -> None:
        self.abandon()
        self._done.set()


async def call_in_thread(fn: Callable[[*Args], T], *args: *Args, moment: float = 0.1) -> T:
    """Run the sync `fn(*args)` in a daemon thread; its context values are this task's.

    On a stop the thread has `moment` seconds left. If it ends within them, its result counts; else it is abandoned and
    the stop goes on. `current_cause`, `check_stop` and `time_left` work in the thread.

    Args:
        moment: Seconds between the stop and the abandonment.

    Raises:
        TypeError: It is async, or no function. Nothing was begun; where only its call can tell, that is all that was done.
    """
    moment = number_of(moment, "the seconds of a moment")
    check_callee(fn, "call_in_thread")
    if inspect.iscoroutinefunction(fn):
        _refuse_async(fn)
    handoff: Handoff[T] = Handoff()
    context = copy_context()
    context.run(_leave_the_loop)

    def work() -> None:
        try:
            handoff.deliver(context.run(lambda: _called(fn, *args)))
        except BaseException as error:  # heaveto: allow swallowed-stop it is raised where the result is awaited
            handoff.fail(error)

    thread = threading.Thread(target=work, name=f"{PREFIX}{getattr(fn, '__name__', 'call')}", daemon=True)
    thread.start()
    try:
        return await handoff.wait()
    except Stop:
        await _delivered()  # the thread saw the stop before the loop delivered it, which it does here
        raise
    except anyio.get_cancelled_exc_class():  # heaveto: allow swallowed-stop a result counts, and the next await is stopped
        try:
            with anyio.move_on_after(moment, shield=True):  # heaveto: allow raw-scope its end is no cause
                await handoff.arrived()
        finally:  # also when it is cut: asyncio's native cancellation goes through the shield
            if not handoff.has_arrived:
                _abandoned.append(thread)
                note_abandoned(f"thread {thread.name.removeprefix(PREFIX)}")
                handoff.abandon()
        has_result = handoff.has_arrived and not handoff.stopped
        if has_result and current_cause() is not None:  # without a cause it is native, and does not come again
            return handoff.result()
        raise


def _called(fn: Callable[[*Args], T], *args: *Args) -> T:
    """Raises: TypeError: What came of the call is a coroutine, which nobody would await."""
    made = fn(*args)
    if inspect.iscoroutine(made):
        made.close()
        _refuse_async(fn)
    return made


def _refuse_async(fn: Callable[..., Any]) -> NoReturn:
    name = getattr(fn, "__name__", repr(fn))
    raise TypeError(f"{name} is async and runs in the loop; a thread is for sync code")


def _leave_the_loop() -> None:
    """No loop runs in the thread, so it may run one of its own; AnyIO's and Trio's own threads see the same."""
    if (sniffio := sys.modules.get("sniffio")) is not None:  # where it is installed AnyIO asks it
        sniffio.current_async_library_cvar.set(None)


async def _delivered() -> None:
    """Be stopped by the loop, if it has a stop for us."""
    for _ in range(DELIVERY_TURNS if current_cause() is not None else 0):
        await anyio.sleep(0.001)


def abandoned_threads() -> list[threading.Thread]:
    """The threads that were abandoned in this process and still run."""
    _abandoned[:] = [thread for thread in _abandoned if thread.is_alive()]
    return list(_abandoned)
