"""A deadline that moves at each read of a stream, at next to no cost.

Trio moves a deadline in a microsecond. AnyIO on asyncio cancels a timer and makes another, which is a third of what a chunk
costs in all; so there one timer sleeps, looks whether the deadline has moved on, and sleeps for what is left.
"""

from __future__ import annotations

import asyncio
import math

import anyio

from .clock import on_trio

__all__ = ["MovingLimit"]


class MovingLimit:
    """The moving deadline of one native scope, which is open."""

    _until: float

    def __init__(self, native: anyio.CancelScope) -> None:
        self._native = native
        native.deadline = math.inf  # the timer below takes over
        self._loop = None if on_trio() else asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def move(self, until: float) -> None:
        """Set the deadline, by the loop's clock; infinite for none."""
        self._until = until
        if self._loop is None:
            self._native.deadline = until
        elif self._timer is None:
            self._look(self._loop)
        elif until < self._timer.when():
            self._timer.cancel()
            self._look(self._loop)

    def close(self) -> None:
        """Free the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        if loop.time() >= self._until:
            self._native.cancel("its time limit passed")
        elif self._until != math.inf:
            self._timer = loop.call_at(self._until, self._look, loop)
