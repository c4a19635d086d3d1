"""A bound on how many things are under way at once, fair, and shared by as many agents as one likes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import anyio

__all__ = ["Slots", "SlotsStatistics"]


class SlotsStatistics(NamedTuple):
    total: int
    taken: int
    waiting: int


class Slots:
    """At most `total` holders at once; who waits is served in order.

    Args:
        total: How many; below 1 is 1, since nothing can wait on slots that cannot exist.
        name: What a waiter was waiting for, in the notes of its stop.
    """

    def __init__(self, total: int, name: str = "slot") -> None:
        self._total, self._taken, self.name = max(1, total), 0, name
        self._waiting: dict[anyio.Event, None] = {}  # ordered, and quick to leave

    def acquire_nowait(self) -> bool:
        """Take a slot if one is free; whether it did. While somebody waits none is, since `release` hands them over."""
        if self._taken >= self._total:
            return False
        self._taken += 1
        return True

    async def acquire(self) -> None:
        """Take a slot, waiting for one if need be. Every acquire needs a release. A stop while waiting takes none."""
        if self.acquire_nowait():
            return
        turn = anyio.Event()
        self._waiting[turn] = None
        try:
            await turn.wait()
        except BaseException as error:
            error.add_note(f"while waiting for a {self.name} ({self._total} taken)")
            if turn.is_set():
                self.release()  # it was handed over in the same moment: the next waiter gets it
            else:
                del self._waiting[turn]
            raise

    def release(self) -> None:
        """Give a slot back; the first waiter has it at once.

        Raises:
            RuntimeError: None is taken: there was a release without an acquire.
        """
        if not self._taken:
            raise RuntimeError(f"no {self.name} is taken that could be given back; every release needs an acquire")
        if self._waiting:
            turn = next(iter(self._waiting))
            del self._waiting[turn]
            turn.set()
        else:
            self._taken -= 1

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
