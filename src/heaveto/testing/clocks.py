"""A fake clock for asyncio and Trio: a two-minute timeout takes milliseconds and fires at exactly two minutes.

When no task can run, time jumps to the next timer. While work of ours is out in a thread or a process it does not: a
timer that is due then fires only after as long as it takes in reality, and time still moves by whole jumps, so that
`clock.now` is exact. Waiting that heaveto does not know of (a server in a thread of the test's own) asks for the same:
`with heaveto.scopes.outside_the_loop(): ...`.

HEAVETO_TEST_LOOP=eager lets asyncio's loops start tasks eagerly (Python 3.12), as some programs have them do.
"""

from __future__ import annotations

import asyncio
import math
import os
import selectors
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, TypeVarTuple, get_args

import anyio

from ..scopes.callees import awaitable, check_callee
from ..scopes.clock import fake_clocks

__all__ = ["LOOP_VARIABLE", "Backend", "FakeClock", "JumpingSelector", "start_eagerly"]

LOOP_VARIABLE = "HEAVETO_TEST_LOOP"

T = TypeVar("T")
Args = TypeVarTuple("Args")
Backend: TypeAlias = Literal["asyncio", "trio"]


class Running(Protocol):
    """The clock of one run."""

    @property
    def now(self) -> float: ...

    def jump(self, seconds: float) -> None: ...

    def break_off(self, error: BaseException) -> None: ...


class FakeClock:
    """A fake clock for runs on one back end; each run begins at 0.

    Args:
        backend_name: "asyncio" or "trio".

    Either run something under it, or give its `backend` to AnyIO's pytest plugin (see `pytest_plugin.py`).

    Attributes:
        in_use: Whether somebody asked for its `backend`, to run something under it.

    Raises:
        ValueError: There is no such back end.
    """

    def __init__(self, backend_name: Backend) -> None:
        if backend_name not in get_args(Backend):
            raise ValueError(f"a fake clock's back end is asyncio or trio, not {backend_name!r}")
        self.backend_name, self.in_use = backend_name, False
        self._running: Running | None = None

    def __repr__(self) -> str:
        return f"FakeClock({self.backend_name!r})"

    @property
    def backend(self) -> tuple[str, dict[str, Any]]:
        """AnyIO's name and options for a run under this clock. Good for one run."""
        self.in_use = True
        if self.backend_name == "asyncio":
            return "asyncio", {"loop_factory": self._new_loop}
        from .trio_clock import HoldingClock

        clock = HoldingClock()
        fake_clocks[clock.mock] = self._running = clock
        return "trio", {"clock": clock.mock}

    @property
    def now(self) -> float:
        """Seconds since the run began."""
        return 0.0 if self._running is None else self._running.now

    def jump(self, seconds: float) -> None:
        """Let time pass at once, as it does for code that computes for long without an await."""
        if not 0 <= seconds < math.inf:
            raise ValueError(f"time goes on by a number of seconds, 0 or more, not {seconds}")
        if self._running is None:
            raise RuntimeError("nothing runs under this clock yet")
        self._running.jump(seconds)

    def break_off(self, error: BaseException) -> None:
        """End the run now, whatever its tasks do: `run` raises, on Trio with an error around this one."""
        if self._running is not None:
            self._running.break_off(error)

    def run(self, fn: Callable[[*Args], Awaitable[T]], *args: *Args) -> T:
        """Run `fn(*args)` in a loop of its own under this clock, which starts at 0.

        Raises:
            TypeError: `fn` is no async function.
        """
        check_callee(fn, "FakeClock.run")

        async def whole() -> T:
            return await awaitable(fn(*args), fn, "FakeClock.run")

        name, options = self.backend
        return anyio.run(whole, backend=name, backend_options=options)

    def _new_loop(self) -> asyncio.AbstractEventLoop:
        selector = JumpingSelector()
        loop = _FakeClockLoop(selector)
        start_eagerly(loop)
        fake_clocks[loop] = self._running = selector
        return loop


def start_eagerly(loop: asyncio.AbstractEventLoop, new_task: Callable[..., asyncio.Task[Any]] = asyncio.Task) -> bool:
    """Have a loop start tasks eagerly where HEAVETO_TEST_LOOP says so; whether it does.

    Args:
        new_task: Makes a task, with asyncio.Task's arguments.

    Raises:
        RuntimeError: When they shall, and this Python cannot.
    """
    if os.environ.get(LOOP_VARIABLE) != "eager":
        return False
    if sys.version_info >= (3, 12):
        loop.set_task_factory(asyncio.create_eager_task_factory(new_task))
        return True
    raise RuntimeError(f"{LOOP_VARIABLE}=eager needs Python 3.12 or newer")


class JumpingSelector(selectors.DefaultSelector):
    """asyncio's clock and its waiting in one: waits for nothing but what is outside."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._held = 0
        self._waited = 0.0  # real seconds since the last jump, while held
        self._broken: BaseException | None = None

    def jump(self, seconds: float) -> None:
        self.now += seconds

    def break_off(self, error: BaseException) -> None:
        self._broken = error

    def hold(self) -> None:
        self._held += 1

    def let_go(self) -> None:
        self._held -= 1
        if not self._held:
            self._waited = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self._broken is not None:
            raise self._broken
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if timeout is None:  # no timer: only the outside can go on
            return super().select()
        if self._held and (ready := self._wait(timeout)):
            return ready
        self.jump(timeout)
        return []

    def _wait(self, seconds: float) -> list[tuple[selectors.SelectorKey, int]]:
        began = time.monotonic()
        ready = super().select(max(0.0, seconds - self._waited))
        self._waited = self._waited + time.monotonic() - began if ready else 0.0
        return ready


class _FakeClockLoop(asyncio.SelectorEventLoop):
    def __init__(self, selector: JumpingSelector) -> None:
        self._fake = selector
        super().__init__(selector)

    @property
    def _clock_resolution(self) -> float:
        """asyncio runs what is due within this. After years a nanosecond is lost in rounding, and nothing ever would be."""
        return max(1e-9, math.ulp(self._fake.now))

    @_clock_resolution.setter
    def _clock_resolution(self, resolution: float) -> None:
        """The real clock's is of no use."""

    def time(self) -> float:
        return self._fake.now
