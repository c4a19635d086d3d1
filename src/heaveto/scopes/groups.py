"""Task groups whose tasks see the scope that they are really under, and why a task beside them stopped them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVarTuple

import anyio
import anyio.abc
import anyio.lowlevel

from ..causes import SiblingFailed, text_of
from .callees import awaitable, check_callee
from .scope import Scope, _current

__all__ = ["Tasks", "tasks", "unwrapped"]

Args = TypeVarTuple("Args")


class Tasks:
    """The open group: start tasks in it. Made by `tasks()`."""

    def __init__(self, group: anyio.abc.TaskGroup, scope: Scope) -> None:
        self._group, self.scope = group, scope

    def start_soon(self, fn: Callable[[*Args], Awaitable[Any]], *args: *Args, name: str | None = None) -> None:
        """Run `fn(*args)` in a task of its own. The group ends when all its tasks have.

        Raises:
            TypeError: `fn` is no function.
        """
        check_callee(fn, "start_soon")
        self._group.start_soon(self._child, fn, args, name=name or getattr(fn, "__qualname__", None))

    async def start(self, fn: Callable[..., Awaitable[Any]], *args: Any, name: str | None = None) -> Any:
        """Run `fn(*args, task_status=...)` and wait until it calls `task_status.started(value)`; returns that value.

        Raises:
            TypeError: `fn` is no function.
        """
        check_callee(fn, "start")

        async def child(*, task_status: anyio.abc.TaskStatus[Any]) -> None:
            await self._child(lambda: fn(*args, task_status=task_status), ())

        return await self._group.start(child, name=name or getattr(fn, "__qualname__", None))

    async def _child(self, fn: Callable[..., Awaitable[Any]], args: tuple[Any, ...]) -> None:
        # The starter may be inside a narrower scope, which its ContextVar says and which does not cover this task.
        _current.set(self.scope)
        with _telling(self.scope):
            await awaitable(fn(*args), fn, "a group of tasks")


@asynccontextmanager
async def tasks() -> AsyncIterator[Tasks]:
    """Run tasks inside a block: `async with tasks() as group: group.start_soon(fn, *args)`. It ends when all have.

    A stop that comes while it waits for the last of them is raised at its end, also when none of them was cut by it.

    Raises:
        BaseException: What the block or the one task that failed raised, as itself.
        BaseExceptionGroup: When several failed.
    """
    with Scope(quiet=True) as own, unwrapped():
        async with anyio.create_task_group() as group:  # heaveto: allow raw-tasks this is where they are made
            with _telling(own):
                yield Tasks(group, own)
        await anyio.lowlevel.checkpoint_if_cancelled()  # a stop meanwhile: asyncio's group raises, Trio's does not


@contextmanager
def _telling(scope: Scope) -> Iterator[None]:
    """Let the other tasks of a group know why they are stopped, when this one or the group's own block fails."""
    try:
        yield
    except Exception as error:
        scope.note(SiblingFailed(text_of(error) or type(error).__name__))
        raise


def _the_one_in(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """What failed in a group, if it is one thing. asyncio's groups drop cancellations beside an error, Trio's list them."""
    cancelled, failed = group.split(anyio.get_cancelled_exc_class())
    inner: BaseException = failed if cancelled and failed else group  # `failed` is a copy, also when it is all
    while isinstance(inner, BaseExceptionGroup) and len(inner.exceptions) == 1:
        (only,) = inner.exceptions
        for note in getattr(inner, "__notes__", ()):
            only.add_note(note)
        inner = only
    return inner


class unwrapped:  # noqa: N801 - reads as a word in a `with`
    """Raise the one exception of a group as itself: that a group was in play is nobody's business."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if not isinstance(error, BaseExceptionGroup):
            return
        inner = _the_one_in(error)
        if inner is error:
            return
        context = inner.__context__
        try:
            raise inner
        finally:
            inner.__context__ = context  # not the group, which `raise` has just put there
            del error, inner, context  # no cycle through this frame
