"""Async code that may not heed a stop, in a task of its own that can be left.

A coroutine cannot be killed, but it can be left at its await: it is never resumed, so what comes after that await never
happens. To this end the task drives the coroutine by hand, and lives where nobody waits for it: on asyncio beside all
groups, on Trio in the system nursery. What it was waiting for is ended where that lets itself be ended.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextvars import copy_context
from typing import Any, Generic, TypeVar, TypeVarTuple, cast

import anyio

from ..causes import Stop, StoppedFromOutside
from .abandoned import Unfinished, note_abandoned, unfinished, unfinished_work
from .callees import awaitable, check_callee
from .clock import on_trio
from .scope import Scope, current_cause, number_of

__all__ = ["call_in_task", "keep_for_ever"]

T = TypeVar("T")
Args = TypeVarTuple("Args")

MOMENT_SECONDS = 1.0
MOST_SWALLOWED = 1000  # cancellations: who has swallowed so many will not heed the next


async def call_in_task(fn: Callable[[*Args], Awaitable[T]], *args: *Args, moment: float = MOMENT_SECONDS) -> T:
    """Run the async `fn(*args)` in a task of its own, which is left to itself when it does not heed a stop.

    On a stop it has `moment` seconds left, and as long as what it does under `finish` takes. If it ends within them, its
    result counts; else its coroutine is never resumed, and the stop goes on. It sees this task's context values and scopes.

    Args:
        moment: Seconds between the stop and the abandonment.

    Raises:
        TypeError: `fn` is no async function.
        RuntimeError: When it was cancelled, though nobody stopped it.
    """
    moment = number_of(moment, "the seconds of a moment")
    check_callee(fn, "call_in_task")
    apart: _Apart[T] = _Apart(fn, args)
    try:
        await apart.ended.wait()
    except anyio.get_cancelled_exc_class():  # heaveto: allow swallowed-stop a result counts, and the next await is stopped
        try:
            with unfinished(), anyio.CancelScope(shield=True):  # heaveto: allow raw-scope `stop` has its limits
                await apart.stop(current_cause() or StoppedFromOutside(), moment)
        finally:
            apart.abandon()  # nothing, if it has ended
        if current_cause() is not None and apart.has_result:  # without a cause it is native, and does not come again
            return apart.result()
        raise
    return apart.result()


class _Left(BaseException):
    """Raised where a coroutine was left at its await."""


class _Apart(Generic[T]):
    """A coroutine in a task of its own, from its start to its end or its abandonment."""

    def __init__(self, fn: Callable[..., Awaitable[T]], args: tuple[Any, ...]) -> None:
        self.ended = anyio.Event()
        self._name = str(getattr(fn, "__name__", "call"))
        self._scope, self._work = Scope(), Unfinished()
        self._value: T  # once it has ended without an error
        self._error: BaseException | None = None
        self._stopped = False
        self._driver: _Driver[T] = _Driver(_coroutine(fn, args))
        self._task = _start(self._run, f"heaveto:{self._name}")

    async def stop(self, cause: Stop, moment: float) -> None:
        """Stop it, and wait as long as it may take. Whoever calls this shields it.

        A native cancellation, which goes through shields, ends the moment, but not the wait for what must finish.
        """
        self._driver.stopping = True
        self._scope.cancel(cause)
        native: BaseException | None = None
        try:
            with anyio.move_on_after(moment):  # heaveto: allow raw-scope its end is no cause
                await self.ended.wait()
        except anyio.get_cancelled_exc_class() as error:  # heaveto: allow swallowed-stop it goes on below
            native = error
        while not self.ended.is_set() and self._work.count:
            try:
                await self._work.none_left()
            except anyio.get_cancelled_exc_class() as error:  # heaveto: allow swallowed-stop it goes on below
                native = error
        if native is not None:
            raise native

    def abandon(self) -> None:
        """Resume it never again, if it has not ended."""
        if not self.ended.is_set():
            self._driver.left = True
            _interrupt(self._task)
        if self._driver.left:
            note_abandoned(f"task {self._name}")

    @property
    def has_result(self) -> bool:
        """Of one that has ended or was abandoned: whether it ended by itself, with a result or an error."""
        return not (self._stopped or self._driver.left)

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._value

    async def _run(self) -> None:
        unfinished_work.set(self._work)
        try:
            await self._to_its_end()
        except RuntimeError as error:  # of the loop: scopes inside were never left, as is right for what was left itself
            self._error = error
        finally:
            self.ended.set()

    async def _to_its_end(self) -> None:
        with self._scope:
            try:
                self._value = await self._driver
            except anyio.get_cancelled_exc_class() as error:  # heaveto: allow swallowed-stop nobody waits for this task
                self._stopped = self._scope.cause is not None
                self._error = RuntimeError("it was cancelled, though nobody stopped it")
                self._error.__cause__ = error
            except BaseException as error:  # heaveto: allow swallowed-stop it is raised where the result is awaited
                self._error = error


class _Driver(Generic[T]):
    """Runs a coroutine step by step, as long as it is not `left`."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine, self._swallowed = coroutine, 0
        self.stopping = self.left = False

    def __await__(self) -> Generator[Any, Any, T]:
        step: Callable[..., Any] = self._coroutine.send
        argument: Any = None
        while True:
            try:
                waits_for = step(argument)
            except StopIteration as end:
                return cast(T, end.value)
            try:
                argument = yield waits_for
                step = self._coroutine.send
            except BaseException as error:  # heaveto: allow swallowed-stop it is handed in
                argument, step = error, self._coroutine.throw
            if self.stopping:
                self._count(argument)
            if self.left:
                self._leave()

    def _count(self, argument: Any) -> None:
        """Leave one that goes on and on: it would keep the loop busy, since each await is cancelled at once."""
        error = getattr(argument, "error", argument)  # Trio sends an outcome, asyncio throws
        self._swallowed += isinstance(error, anyio.get_cancelled_exc_class())
        self.left = self.left or self._swallowed > MOST_SWALLOWED

    def _leave(self) -> None:
        """End the coroutine as Python ends one that nobody awaits any more; one that does not heed that either is kept."""
        awaited = list(_awaited_by(self._coroutine))
        try:
            if on_trio() and _forget_nurseries():  # to close what waits for a nursery would confuse Trio
                keep_for_ever(awaited)
            else:
                self._coroutine.close()
        except RuntimeError:
            keep_for_ever(awaited)
        except BaseException:  # noqa: S110  # heaveto: allow swallowed-stop its bugs while it is let go are nobody's
            pass
        raise _Left


async def _coroutine(fn: Callable[..., Awaitable[T]], args: tuple[Any, ...]) -> T:
    return await awaitable(fn(*args), fn, "call_in_task")


def _start(run: Callable[[], Coroutine[Any, Any, None]], name: str) -> Any:
    """A task that nobody waits for. It raises nothing."""
    if on_trio():
        import trio

        context = copy_context()
        return trio.lowlevel.spawn_system_task(run, name=name, context=context)  # heaveto: allow raw-tasks as below
    return asyncio.create_task(run(), name=name)  # heaveto: allow raw-tasks it may have to be left, so it is in no group


def _interrupt(task: Any) -> None:
    """Wake a task from what it waits for, also behind a shield. What lets nobody interrupt it (a thread) wakes it later."""
    if not on_trio():
        task.cancel()
    elif task._abort_func is not None:  # Trio has no public way through somebody else's shield
        task._attempt_abort(_raise_left)


def _raise_left() -> None:
    raise _Left  # Trio takes no error, but what raises one


def _forget_nurseries() -> bool:
    """End the tasks that the coroutine had started, if it had; a task that ends with open nurseries is a bug to Trio."""
    import trio

    nurseries = trio.lowlevel.current_task()._child_nurseries  # `child_nurseries` is a copy
    for nursery in nurseries:
        nursery.cancel_scope.cancel()
    had_some = bool(nurseries)
    nurseries.clear()
    return had_some


def _awaited_by(coroutine: object) -> Iterator[object]:
    """A coroutine, what it awaits, what that awaits, and so on."""
    each: object = coroutine
    while each is not None:
        yield each
        each = getattr(each, "cr_await", None)


def keep_for_ever(coroutines: list[object]) -> None:
    """Else the interpreter closes them again when they or it go, and complains."""
    for each in coroutines:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))
