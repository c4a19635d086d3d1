"""The two ways out of a stop: `finish` and `graced`."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Generator
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from heaveto.causes import Cancelled, SaveTimeout, Shutdown, SiblingFailed, Stop, StoppedFromOutside
from heaveto.errors import NotEnoughTime
from heaveto.scopes import Scope, current_cause, deadline, finish, graced, need, pending_cause, tasks, time_left
from heaveto.testing.clocks import FakeClock
from heaveto.testing.stops import every_await

pytestmark = pytest.mark.anyio

user: ContextVar[str] = ContextVar("user")


async def save(seconds: float) -> str:
    await anyio.sleep(seconds)
    return f"saved by {user.get('nobody')}, cause {current_cause()}"


# --- finish ---------------------------------------------------------------------------------------------------------


async def test_finish_works_as_usual_when_nothing_stops() -> None:
    assert await finish(5, save, 2) == "saved by nobody, cause None"


async def test_finish_completes_within_a_stopped_scope_and_keeps_context_values(fake_clock: FakeClock) -> None:
    user.set("ada")
    saved = ""
    with pytest.raises(Cancelled), Scope() as scope:
        scope.cancel(Cancelled("stop"))
        try:
            await anyio.sleep(10)
        finally:
            saved = await finish(5, save, 2)
    assert (saved, fake_clock.now) == ("saved by ada, cause None", 2)


async def test_finish_has_a_limit_of_its_own(fake_clock: FakeClock) -> None:
    with pytest.raises(SaveTimeout) as caught:
        await finish(5, save, 100)
    assert (caught.value.seconds, fake_clock.now) == (5, 5)
    with pytest.raises(Shutdown):
        await finish(5, save, 100, cause=Shutdown("the disk is slow"))


async def test_the_limit_of_finish_does_not_hide_the_stop() -> None:
    with pytest.raises(SaveTimeout) as caught, Scope() as scope:
        scope.cancel(Cancelled("stop"))
        try:
            await anyio.sleep(10)
        finally:
            await finish(5, save, 100)
    assert isinstance(caught.value.__context__, BaseException)
    assert isinstance(scope.own_cause, Cancelled)


async def test_an_error_of_the_work_comes_out_of_finish() -> None:
    async def fail() -> None:
        raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        await finish(5, fail)


def native(fn: Callable[[FakeClock], Awaitable[None]]) -> Callable[[], None]:
    """A test of asyncio's own cancellation, under the fake clock."""

    def test() -> None:
        clock = FakeClock("asyncio")
        clock.run(fn, clock)

    test.__name__, test.__doc__ = fn.__name__, fn.__doc__
    return test


@native
async def test_a_native_cancellation_waits_for_finish_and_goes_on_unchanged(clock: FakeClock) -> None:
    log: list[Any] = []

    async def caller() -> None:
        try:
            log.append(await finish(5, save, 2))
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            assert task is not None
            log.append((clock.now, task.cancelling(), error.args, error.__cause__))
            raise

    task = asyncio.ensure_future(caller())
    await anyio.sleep(1)
    task.cancel("by another framework")
    with pytest.raises(asyncio.CancelledError):
        await task
    assert log == [(2.0, 1, ("by another framework",), None)]
    assert task.cancelled()


@native
async def test_a_second_native_cancellation_does_not_cut_finish_either(clock: FakeClock) -> None:
    saved = []

    async def work() -> None:
        await anyio.sleep(3)
        saved.append(clock.now)

    task = asyncio.ensure_future(finish(5, work))
    for _ in range(2):
        await anyio.sleep(1)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (saved, task.cancelling()) == ([3.0], 2)


@native
async def test_an_error_of_the_work_is_the_cause_of_the_native_cancellation_that_goes_on(clock: FakeClock) -> None:
    async def fail() -> None:
        await anyio.sleep(2)
        raise RuntimeError("disk full")

    task = asyncio.ensure_future(finish(5, fail))
    await anyio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    assert isinstance(caught.value.__cause__, RuntimeError)


@native
async def test_asyncios_own_timeout_gets_its_cancellation_back(clock: FakeClock) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await finish(5, save, 2)
    task = asyncio.current_task()
    assert task is not None
    assert (clock.now, task.cancelling()) == (2, 0)


def test_finish_completes_wherever_it_is_stopped() -> None:
    """At every await, by every kind of stop: begun means done."""
    begun: list[str] = []

    async def work() -> None:
        begun.append("begun")
        for _ in range(3):
            await anyio.sleep(1)
        begun.append("done")

    async def twice() -> None:
        begun.clear()
        await anyio.sleep(1)
        await finish(60, work)
        await anyio.sleep(1)

    stopped = 0
    for run in every_await(twice):
        assert begun in ([], ["begun", "done"]), run
        assert isinstance(run.error, type(run.cause)), run
        assert run.left_running == ()
        stopped += 1
    assert stopped > 35  # with eager tasks there are fewer awaits


# --- graced ---------------------------------------------------------------------------------------------------------


async def graced_work(cause: Stop, seconds: float, *, at: float = 10, again: float | None = None) -> tuple[list[Any], float]:
    """Work of some length in a grace of 30 s for shutdowns, stopped at a time; what happened, and when it was over."""
    log: list[Any] = []
    started = anyio.current_time()

    async def stop(scope: Scope) -> None:
        await anyio.sleep(at)
        scope.cancel(cause)
        if again is not None:
            await anyio.sleep(again)
            scope.cancel(Shutdown("second"))

    async with tasks() as group:
        try:
            with Scope() as scope:
                group.start_soon(stop, scope)
                async with graced(30, Shutdown):
                    try:
                        await anyio.sleep(seconds)
                        log.append(f"done, {pending_cause()} pending")
                    finally:
                        log.append((anyio.current_time() - started, str(current_cause())))
                log.append("fell through")
        except Stop as error:
            log.append(str(error))
        over = anyio.current_time() - started
        group.scope.cancel(Cancelled("enough"))
    return log, over


async def test_work_that_ends_within_the_grace_is_whole() -> None:
    """The stop that was held off arrives when the block is left."""
    log, over = await graced_work(Shutdown("SIGTERM"), 25)
    assert over == 25
    assert log == ["done, shutting down: SIGTERM pending", (25, "None"), "shutting down: SIGTERM"]


async def test_work_is_cut_when_the_grace_ends_and_the_shutdown_is_its_cause() -> None:
    log, over = await graced_work(Shutdown("SIGTERM"), 100)
    assert (log, over) == ([(40, "shutting down: SIGTERM"), "shutting down: SIGTERM"], 40)


async def test_any_other_cause_stops_at_once() -> None:
    log, over = await graced_work(Cancelled("changed my mind"), 100)
    assert (log, over) == ([(10, "cancelled: changed my mind"), "cancelled: changed my mind"], 10)


async def test_a_second_stop_ends_the_grace_and_the_first_stays_the_cause() -> None:
    log, over = await graced_work(Shutdown("first"), 100, again=3)
    assert (log, over) == ([(13, "shutting down: first"), "shutting down: first"], 13)


async def test_a_second_stop_of_an_even_wider_scope_ends_it_too(fake_clock: FakeClock) -> None:
    async def signals(scope: Scope) -> None:
        for _ in range(2):
            await anyio.sleep(5)
            scope.cancel(Shutdown("SIGTERM"))

    with pytest.raises(Shutdown), Scope() as program:
        async with tasks() as group:
            group.start_soon(finish, 60, signals, program)
            with deadline(1000):
                async with graced(30, Shutdown), graced(40, Shutdown):
                    await anyio.sleep(100)
    assert fake_clock.now == 10


async def test_a_deadline_is_not_graced(fake_clock: FakeClock) -> None:
    with pytest.raises(TimeoutError), deadline(7):
        async with graced(30, Shutdown):
            await anyio.sleep(100)
    assert fake_clock.now == 7


async def test_work_under_a_raw_scope_that_is_cancelled_stops_at_once_from_outside(fake_clock: FakeClock) -> None:
    seen = []

    async def cancel(raw: anyio.CancelScope) -> None:
        await anyio.sleep(10)
        raw.cancel()

    async with tasks() as group:
        with anyio.CancelScope() as raw, Scope():
            group.start_soon(cancel, raw)
            async with graced(30, Shutdown):
                try:
                    await anyio.sleep(100)
                finally:
                    seen.append(current_cause())
    assert raw.cancelled_caught
    assert fake_clock.now == 10
    assert [type(cause) for cause in seen] == [StoppedFromOutside]


async def test_the_time_left_in_a_graced_block_is_that_of_the_deadlines_around_it() -> None:
    with deadline(100), Scope():
        async with graced(30, Shutdown):
            await anyio.sleep(40)
            assert time_left() == 60
            with Scope(50):
                assert time_left() == 50


async def test_nested_graces_count_from_the_same_stop(fake_clock: FakeClock) -> None:
    """An agent in an agent's tool: the sum of both would be longer than whoever shuts down waits."""

    async def stop(scope: Scope) -> None:
        await anyio.sleep(10)
        scope.cancel(Shutdown("SIGTERM"))

    async with tasks() as group:
        with pytest.raises(Shutdown), Scope() as scope:
            group.start_soon(stop, scope)
            async with graced(30, Shutdown):
                with Scope():
                    async with graced(35, Shutdown):
                        await anyio.sleep(100)
    assert fake_clock.now == 45


async def test_once_a_stop_is_held_off_the_time_left_is_that_of_the_grace() -> None:
    with pytest.raises(Shutdown), deadline(100) as scope:
        async with graced(30, Shutdown), graced(20, Shutdown):
            await anyio.sleep(10)
            scope.cancel(Shutdown("SIGTERM"))
            await anyio.sleep(5)
            assert time_left() == 15
            with pytest.raises(NotEnoughTime):
                need(16)


async def test_a_grace_without_any_scope_around_it_is_just_a_block() -> None:
    async with graced(30, Shutdown) as inner:
        await anyio.sleep(100)
        assert time_left() == math.inf
    assert inner.own_cause is None


async def test_an_error_in_a_graced_block_comes_out_as_itself() -> None:
    with pytest.raises(ValueError, match="boom"):
        async with graced(30, Shutdown):
            raise ValueError("boom")


async def test_a_sibling_that_fails_stops_graced_work_at_once(fake_clock: FakeClock) -> None:
    seen = []

    async def graced_task() -> None:
        async with graced(30, Shutdown):
            try:
                await anyio.sleep(100)
            finally:
                seen.append(current_cause())

    async def fail() -> None:
        await anyio.sleep(2)
        raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        async with tasks() as group:
            group.start_soon(graced_task)
            group.start_soon(fail)
    assert (fake_clock.now, [type(cause) for cause in seen]) == (2, [SiblingFailed])


async def test_a_scope_forgets_the_graces_that_are_over_and_none_is_left_running() -> None:
    with Scope() as wide, Scope() as narrow:
        async with graced(30, Shutdown):
            await anyio.sleep(1)
            assert "graced" in [task.name for task in anyio.get_running_tasks()]
            assert len(wide._hurry) == len(narrow._hurry) == 1
        assert wide._hurry == narrow._hurry == []
        assert "graced" not in [task.name for task in anyio.get_running_tasks()]


async def test_a_grace_is_counted_from_the_first_stop_of_its_kinds() -> None:
    with Scope(quiet=True) as far, Scope(quiet=True) as near:
        async with graced(100, Cancelled), graced(30, Shutdown):
            far.cancel(Cancelled("first"))
            await anyio.sleep(5)
            near.cancel(Shutdown("then"))
            assert time_left() == 30


@pytest.mark.parametrize("arguments", [(30,), (30, ValueError), (30, Shutdown, 3)])
async def test_a_grace_of_nothing_is_refused(arguments: Any) -> None:
    with pytest.raises(ValueError, match=r"^a grace has seconds and kinds of stops, such as graced") as caught:
        async with graced(*arguments):
            pytest.fail("it began")
    assert str(caught.value).endswith(f"graced(30, Shutdown); got {arguments}")


@pytest.mark.parametrize(
    ("seconds", "error"),
    [
        (math.nan, ValueError("must be a number, not NaN")),
        ("5", TypeError("must be a number, such as 5 or 0.5, not '5'")),
        (10**400, ValueError("must be below 1e308; math.inf is no limit at all")),
        (None, TypeError("must be a number, such as 5 or 0.5, not None")),
    ],
)
async def test_no_way_out_of_a_stop_lasts_for_no_number(seconds: Any, error: Exception) -> None:
    with pytest.raises(type(error), match=f"^the seconds of finish {error}$"):
        await finish(seconds, pytest.fail, "it began")
    with pytest.raises(type(error), match=f"^the seconds of a grace {error}$"):
        async with graced(seconds, Shutdown):
            pytest.fail("it began")


async def test_finish_takes_an_async_function() -> None:
    def five() -> Any:
        return 5

    class Ready:
        def __await__(self) -> Generator[None, None, int]:
            return 6
            yield

    with pytest.raises(
        TypeError, match=r"^finish takes an async function; test\S+\.five is none: it returned 5; call sync code as it is$"
    ):
        await finish(5, five)
    assert await finish(5, Ready) == 6


async def test_nothing_is_pending_without_a_stop() -> None:
    assert pending_cause() is None
    with Scope():
        async with graced(30, Shutdown):
            assert pending_cause() is None


def test_a_graced_step_is_whole_or_not_begun_when_a_shutdown_comes_at_any_await() -> None:
    steps: list[str] = []

    async def run() -> None:
        steps.clear()
        for n in range(3):
            if pending_cause() is not None:
                break
            async with graced(30, Shutdown):
                steps.append(f"begin {n}")
                await anyio.sleep(5)
                steps.append(f"end {n}")

    for stopped in every_await(run, ways=["shutdown"]):
        assert isinstance(stopped.error, Shutdown), stopped
        assert len(steps) % 2 == 0, (stopped, steps)
