"""A bound on how many things are under way at once, fair, and shared by as many agents as one likes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from threading import Lock, get_ident
from typing import NamedTuple

import anyio

from .clock import loop_waker

__all__ = ["Slots", "SlotsStatistics"]


class SlotsStatistics(NamedTuple):
    total: int
    taken: int
    waiting: int


class Slots:
    """At most `total` holders at once, in one loop or in loops of several threads; who waits is served in order.

    Args:
        total: How many; below 1 is 1, since nothing can wait on slots that cannot exist.
        name: What a waiter was waiting for, in the notes of its stop.

    Raises:
        TypeError: That is no whole number.
    """

    def __init__(self, total: int, name: str = "slot") -> None:
        if not isinstance(total, int):
            raise TypeError(f"a number of slots is a whole one, such as 4, not {total!r}")
        self._total, self._taken, self.name = max(1, total), 0, name
        self._waiting: dict[_Turn, None] = {}  # ordered, and quick to leave
        self._lock = Lock()

    def acquire_nowait(self) -> bool:
        """Take a slot if one is free; whether it did. While somebody waits none is, since `release` hands them over."""
        with self._lock:
            if self._taken >= self._total:
                return False
            self._taken += 1
        return True

    async def acquire(self) -> None:
        """Take a slot, waiting for one if need be. Every acquire needs a release. A stop while waiting takes none."""
        # One look under the lock: between two a slot could come free in another thread.
        with self._lock:
            turn = self._taken_or_queued()
        if turn is not None:
            await self._wait(turn)

    def release(self) -> None:
        """Give a slot back; the first waiter has it at once.

        Raises:
            RuntimeError: None is taken: there was a release without an acquire.
        """
        with self._lock:
            if not self._taken:
                raise RuntimeError(f"no {self.name} is taken that could be given back; every release needs an acquire")
            turn = next(iter(self._waiting), None)
            if turn is None:
                self._taken -= 1
                return
            del self._waiting[turn]
        turn.give()

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """A block that holds a slot."""
        await self.acquire()
        try:
            yield
        finally:
            self.release()

    def statistics(self) -> SlotsStatistics:
        return SlotsStatistics(self._total, self._taken, len(self._waiting))

    def _taken_or_queued(self) -> _Turn | None:
        """Take a slot, or a place in the queue; under the lock."""
        if self._taken < self._total:
            self._taken += 1
            return None
        turn = _Turn()
        self._waiting[turn] = None
        return turn

    async def _wait(self, turn: _Turn) -> None:
        try:
            await turn.given()
        except BaseException as error:
            error.add_note(f"while waiting for a {self.name} ({self._total} taken)")
            with self._lock:
                waits = turn in self._waiting
                if waits:
                    del self._waiting[turn]
            if not waits:
                self.release()  # it was handed over in the same moment: the next waiter gets it
            raise


class _Turn:
    """A waiter's place in the queue, which any thread may give it."""

    def __init__(self) -> None:
        self._event, self._wake, self._thread = anyio.Event(), loop_waker(), get_ident()

    def give(self) -> None:
        if get_ident() == self._thread:
            self._event.set()
        else:
            self._wake(self._event.set)

    async def given(self) -> None:
        await self._event.wait()
