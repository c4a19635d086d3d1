"""Trio's half of the fake clock: its own MockClock, which is told how long to wait before it jumps while work is out."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio.abc
import trio.lowlevel
import trio.testing

from ..scopes.threads import PREFIX

__all__ = ["HoldingClock", "counting_steps"]


class HoldingClock(trio.abc.Instrument):
    """Jumps to the next timer when no task can run; while held, only after as long as that takes in reality.

    MockClock's `autojump_threshold` is the real time without work after which it jumps. So while held we set it, after
    every step of a task, to what is left until the next timer. As an instrument it is installed only then.
    """

    def __init__(self) -> None:
        self.mock = trio.testing.MockClock(autojump_threshold=0)
        self._held = 0
        self._jumped_at, self._jumped_to = 0.0, 0.0  # the real time of the last jump while held, and the fake time

    @property
    def now(self) -> float:
        return self.mock.current_time()

    def jump(self, seconds: float) -> None:
        self.mock.jump(seconds)

    def break_off(self, error: BaseException) -> None:
        def fail() -> float:
            raise error

        vars(self.mock)["current_time"] = fail  # Trio asks at each turn of its loop, which ends at an error there

    def hold(self) -> None:
        self._held += 1
        if self._held == 1:
            self._jumped_at, self._jumped_to = time.monotonic(), self.now
            self.mock.autojump_threshold = math.inf
            trio.lowlevel.add_instrument(self)

    def let_go(self) -> None:
        self._held -= 1
        if not self._held:
            trio.lowlevel.remove_instrument(self)
            self.mock.autojump_threshold = 0

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if self.now != self._jumped_to:
            self._jumped_at, self._jumped_to = time.monotonic(), self.now
        due = trio.lowlevel.current_statistics().seconds_to_next_deadline
        if due <= 0:  # Trio needs no jump for it, and may have no step before the jump to the one behind it
            self.mock.autojump_threshold = math.inf
        else:
            self.mock.autojump_threshold = max(0.0, due - (time.monotonic() - self._jumped_at))


@contextmanager
def counting_steps(await_seen: Callable[[], None], seed: int) -> Iterator[None]:
    """A block in which each step of a task is reported when it ends, and Trio's scheduler repeats itself.

    Trio runs the tasks that are ready in a random order. The two names that make it repeatable are the ones that its own
    support for Hypothesis sets; a Trio without them is only less repeatable.
    """
    counter = _Counter(await_seen)
    scheduler = sys.modules["trio._core._run"]
    allowed = getattr(scheduler, "_ALLOW_DETERMINISTIC_SCHEDULING", False)
    if (random := getattr(scheduler, "_r", None)) is not None:
        random.seed(seed)
    vars(scheduler)["_ALLOW_DETERMINISTIC_SCHEDULING"] = True
    trio.lowlevel.add_instrument(counter)
    try:
        yield
    finally:
        trio.lowlevel.remove_instrument(counter)
        vars(scheduler)["_ALLOW_DETERMINISTIC_SCHEDULING"] = allowed


class _Counter(trio.abc.Instrument):
    """Counts the steps of the task that made it, of those below it, and of those that ours started; not of Trio's own."""

    def __init__(self, await_seen: Callable[[], None]) -> None:
        self._await_seen, self._top = await_seen, trio.lowlevel.current_task()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        each: trio.lowlevel.Task | None = task
        while each is not None and each is not self._top and not each.name.startswith(PREFIX):
            each = each.parent_nursery.parent_task if each.parent_nursery else None
        if each is not None:
            self._await_seen()
