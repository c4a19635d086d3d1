"""A stop at every await: run something again and again, each time stopped one await later, and look at what is left.

    for run in every_await(save_and_answer):
        assert run.left_running == ()
        assert isinstance(run.error, type(run.cause)), run

A failing assertion shows the run; HEAVETO_STOP=trio:cancel:17:0:1 replays that one (back end, way, await, second cancel,
seed).

An await is a point where a task of the run hands control to the loop; those of tasks that it starts count too. The
fake clock makes a run last milliseconds. The same points come in the same order each time, but for what a thread or
a process of the run does meanwhile.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeAlias, TypeVar, TypeVarTuple, cast

import anyio

from ..causes import Cancelled, DeadlinePassed, Shutdown, Stop
from ..scopes import Scope
from ..scopes.apart import keep_for_ever
from ..scopes.callees import awaitable, check_callee
from ..scopes.clock import on_trio
from .clocks import Backend, FakeClock, start_eagerly
from .leaks import tasks_of_this_loop

__all__ = ["CAUSES", "WAYS", "EndlessError", "StoppedRun", "Way", "every_await", "stop_points"]

T = TypeVar("T")
Args = TypeVarTuple("Args")
Way: TypeAlias = Literal["cancel", "deadline", "shutdown"]

REPLAY_VARIABLE = "HEAVETO_STOP"
FAR = 1e9  # seconds: a deadline that no run reaches, but one that waits for nothing does, so that it ends
MOST_AWAITS = 10_000  # of a run that nothing stops, and again after a stop: so many runs of so many awaits take hours
WAYS: tuple[Way, ...] = ("cancel", "deadline", "shutdown")
CAUSES: dict[Way, Stop] = {
    "cancel": Cancelled("stopped by the test", "every_await"),
    "deadline": DeadlinePassed(FAR, "every_await"),
    "shutdown": Shutdown("stopped by the test"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedRun(Generic[T]):
    """What came of one run that was stopped.

    Attributes:
        way: What stopped it.
        at: The await at which it was stopped, from 1.
        again: How many awaits later a second cancel came; 0 when there was none.
        seed: Of Trio's scheduler, which shuffles tasks on purpose.
        cause: Why it was stopped.
        value: What the function returned; None when it raised.
        error: What came out of the scope that was stopped; None when the function ended in spite of it.
        left_running: Names of the asyncio tasks that the run left behind. Trio lets none be.
    """

    backend: Backend
    way: Way
    at: int
    again: int
    seed: int
    cause: Stop
    value: T | None
    error: BaseException | None
    left_running: tuple[str, ...]


class EndlessError(AssertionError):
    """A function under `every_await` did not end.

    Args:
        point: Where it was stopped, as HEAVETO_STOP takes it; empty when nothing stopped it.
        awaits: How many awaits it went on for; 0 when it waited for what never came.
    """

    def __init__(self, point: str, awaits: int) -> None:
        super().__init__(point, awaits)
        self.point, self.awaits = point, awaits

    def __str__(self) -> str:
        long = f"it has not ended after {self.awaits:,} awaits" if self.awaits else "it waits for what never comes"
        if self.point:
            return f"stopped, {long}: does it swallow its stop? {REPLAY_VARIABLE}={self.point} replays it"
        return f"without a stop, {long}: every_await needs a function that ends by itself"


class _Tally:
    points = 0


def stop_points() -> int:
    """How many runs were stopped in this process so far."""
    return _Tally.points


def every_await(
    fn: Callable[[*Args], Awaitable[T]],
    *args: *Args,
    backends: Sequence[Backend] = ("asyncio", "trio"),
    ways: Sequence[Way] = WAYS,
    again_after: Sequence[int] = (1, 3),
    seeds: Sequence[int] = (1,),
) -> Iterator[StoppedRun[T]]:
    """Run `fn(*args)` once for each await and way to stop there, until it ends without having been stopped.

    Args:
        backends: The back ends, one after the other.
        ways: By a cancel, a passed deadline, a shutdown.
        again_after: After a cancel also a second one, so many awaits later.
        seeds: For Trio's scheduler: with each, tasks take their turns in another order. asyncio has but one.

    Raises:
        BaseException: What `fn` raises when nothing stops it.
        EndlessError: `fn` does not end, stopped or not.
        TypeError: `fn` is no async function.
        ValueError: There is no such back end or way, or HEAVETO_STOP is no point.
    """
    check_callee(fn, "every_await")
    if unknown := set(ways) - set(WAYS):
        raise ValueError(f"the ways to be stopped are {', '.join(WAYS)}; not {', '.join(map(repr, sorted(unknown)))}")
    plans = [(way, 0) for way in ways] + [("cancel", again) for again in again_after if "cancel" in ways]
    for backend, seed in _in_turn(backends, seeds):
        if REPLAY_VARIABLE not in os.environ:
            _check_that_it_ends(_Stopper(backend, "deadline", 0, 0, seed), fn, *args)
        for way, again in plans:
            for at in _replayed(backend, way, again, seed):
                stopper = _Stopper(backend, way, at, again, seed)
                run = _run(stopper, fn, *args)
                if stopper.awaits < at:
                    if run.error is not None:
                        raise run.error
                    break
                if stopper.awaits >= at + again:
                    _Tally.points += 1
                    yield run


def _in_turn(backends: Sequence[Backend], seeds: Sequence[int]) -> Iterator[tuple[Backend, int]]:
    for backend in backends:
        for seed in seeds if backend == "trio" else seeds[:1]:
            yield backend, seed


def _replayed(backend: Backend, way: Way, again: int, seed: int) -> Iterable[int]:
    """The awaits to stop at: all, or the one that HEAVETO_STOP names."""
    wanted = os.environ.get(REPLAY_VARIABLE)
    if wanted is None:
        return itertools.count(1)
    if not re.fullmatch(r"(asyncio|trio):(cancel|deadline|shutdown):[1-9]\d*:\d+:\d+", wanted):
        raise ValueError(f"{REPLAY_VARIABLE} is one point, such as trio:cancel:17:0:1, not {wanted!r}")
    at = wanted.split(":")[2]
    return [int(at)] if wanted == f"{backend}:{way}:{at}:{again}:{seed}" else []


class _Stopper:
    """Counts the awaits of a run, and stops it at one of them; at 0, which is none, it only counts."""

    def __init__(self, backend: Backend, way: Way, at: int, again: int, seed: int) -> None:
        self.clock, self.way, self.at, self.again, self.seed = FakeClock(backend), way, at, again, seed
        self.awaits = 0
        self.scope = Scope(FAR, CAUSES["deadline"])
        self.inside = False
        self.endless: EndlessError | None = None

    @property
    def point(self) -> str:
        """As HEAVETO_STOP names it."""
        return f"{self.clock.backend_name}:{self.way}:{self.at}:{self.again}:{self.seed}" if self.at else ""

    def await_seen(self) -> None:
        if not self.inside:
            return
        self.awaits += 1
        if self.awaits == self.at:
            self._stop()
        elif self.again and self.awaits == self.at + self.again:
            self.scope.cancel(Cancelled("stopped by the test again", "every_await"))
        elif self.awaits == self.at + self.again + MOST_AWAITS:
            self._break_off()

    def _break_off(self) -> None:
        """End a run that goes on and on, and whose tasks may heed nothing."""
        self.endless = EndlessError(self.point, MOST_AWAITS)
        keep_for_ever([task for task, _ in tasks_of_this_loop()])  # else the interpreter closes them, and complains
        self.clock.break_off(self.endless)

    def _stop(self) -> None:
        if self.way == "deadline":
            self.scope.limit(anyio.current_time(), CAUSES["deadline"])
        else:
            self.scope.cancel(CAUSES[self.way])


def _check_that_it_ends(stopper: _Stopper, fn: Callable[[*Args], Awaitable[object]], *args: *Args) -> None:
    error = _run(stopper, fn, *args).error
    if isinstance(error, DeadlinePassed) and error.args == CAUSES["deadline"].args:
        raise EndlessError(stopper.point, 0) from error
    if error is not None:
        raise error


def _run(stopper: _Stopper, fn: Callable[[*Args], Awaitable[T]], *args: *Args) -> StoppedRun[T]:
    value: T | None = None
    error: BaseException | None = None
    left: tuple[str, ...] = ()

    async def main() -> None:
        nonlocal value, error, left
        try:
            with stopper.scope:
                stopper.inside = True
                try:
                    value = await _counted(stopper, fn, *args)
                finally:
                    stopper.inside = False
        except BaseException as raised:  # heaveto: allow swallowed-stop it is the result
            if not _is_a_result(raised):
                raise
            error = raised
        left = _left_running()

    try:
        stopper.clock.run(main)
    except BaseException:  # heaveto: allow swallowed-stop one that was broken off is raised below, bare
        if stopper.endless is None:
            raise
    if stopper.endless is not None:
        raise stopper.endless
    return StoppedRun(
        backend=stopper.clock.backend_name, way=stopper.way, at=stopper.at, again=stopper.again, seed=stopper.seed,
        cause=CAUSES[stopper.way], value=value, error=error, left_running=left,
    )  # fmt: skip


def _is_a_result(error: BaseException) -> bool:
    """Whether it comes from the run; not Ctrl-C, an exit, or what pytest ends a test with, a time limit's included."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_a_result, error.exceptions))
    return isinstance(error, (Exception, anyio.get_cancelled_exc_class()))


async def _counted(stopper: _Stopper, fn: Callable[[*Args], Awaitable[T]], *args: *Args) -> T:
    if on_trio():
        from .trio_clock import counting_steps

        with counting_steps(stopper.await_seen, stopper.seed):
            return await awaitable(fn(*args), fn, "every_await")
    _count_tasks(asyncio.get_running_loop(), stopper.await_seen)
    return await _Counted(_coroutine(fn, *args), stopper.await_seen)


async def _coroutine(fn: Callable[[*Args], Awaitable[T]], *args: *Args) -> T:
    return await awaitable(fn(*args), fn, "every_await")


def _count_tasks(loop: asyncio.AbstractEventLoop, await_seen: Callable[[], None]) -> None:
    def new_task(coroutine: Coroutine[Any, Any, Any], **kwargs: Any) -> asyncio.Task[Any]:
        counted = _Counted(coroutine, await_seen)
        with counted.beginning():
            return asyncio.Task(counted, **kwargs)

    if not start_eagerly(loop, new_task):
        loop.set_task_factory(lambda loop, coroutine, **kwargs: new_task(coroutine, loop=loop, **kwargs))


class _Counted(Coroutine[Any, Any, T]):
    """A coroutine that reports each of its suspensions. Its inner one's attributes (`cr_frame`, ...) are its own."""

    def __init__(self, inner: Coroutine[Any, Any, T], await_seen: Callable[[], None]) -> None:
        self._inner, self._await_seen = inner, await_seen
        self._beginning = False

    @contextmanager
    def beginning(self) -> Iterator[None]:
        """A block that makes the task. An eager one runs up to its first await in there and hands control to its maker: not
        to the loop, so nothing can stop anything at that moment.
        """
        self._beginning = True
        try:
            yield
        finally:
            self._beginning = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __await__(self) -> Generator[Any, Any, T]:
        return cast(Generator[Any, Any, T], self)  # it has all that `await` asks of one

    def __iter__(self) -> _Counted[T]:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        waits_for = self._inner.send(value)
        if not self._beginning:
            self._await_seen()
        return waits_for

    def throw(self, *error: Any) -> Any:
        waits_for = self._inner.throw(*error)
        self._await_seen()
        return waits_for

    def close(self) -> None:
        self._inner.close()


def _left_running() -> tuple[str, ...]:
    if on_trio():
        return ()
    return tuple(sorted(task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()))
