"""What is known of work that may have to be left to itself: whether it is at what must finish, and what was left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import anyio

__all__ = ["Unfinished", "abandonments", "note_abandoned", "unfinished", "unfinished_work"]

_noted: ContextVar[list[str] | None] = ContextVar("heaveto_abandoned", default=None)
unfinished_work: ContextVar[Unfinished | None] = ContextVar("heaveto_unfinished", default=None)


class Unfinished:
    """Counts what must finish (see `finish`) in a task that may be abandoned: it is not cut in the middle of that."""

    def __init__(self) -> None:
        self.count = 0
        self._none_left = anyio.Event()

    async def none_left(self) -> None:
        while self.count:
            self._none_left = anyio.Event()
            await self._none_left.wait()

    def begin(self) -> None:
        self.count += 1

    def end(self) -> None:
        self.count -= 1
        if not self.count:
            self._none_left.set()


@contextmanager
def unfinished() -> Iterator[None]:
    """A block that must finish, and that has a time limit of its own: whoever would abandon the task waits for its end."""
    work = unfinished_work.get()
    if work is None:
        yield
        return
    work.begin()
    try:
        yield
    finally:
        work.end()


@contextmanager
def abandonments() -> Iterator[list[str]]:
    """A block that learns what its calls left behind: `with abandonments() as left: ...`, and the names are in `left`."""
    left: list[str] = []
    token = _noted.set(left)
    try:
        yield left
    finally:
        _noted.reset(token)


def note_abandoned(what: str) -> None:
    """Tell the block around this call that something was left behind."""
    if (noted := _noted.get()) is not None:
        noted.append(what)
