"""Sync code in threads: it reads the stop, gets a moment, and is abandoned after it."""

from __future__ import annotations

import asyncio
import functools
import sys
import threading
import time
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import Any

import anyio
import pytest

from heaveto.causes import CallTimeout, Cancelled, DeadlinePassed, Stop
from heaveto.scopes import (
    Handoff,
    Scope,
    abandoned_threads,
    abandonments,
    call_in_thread,
    check_stop,
    current_cause,
    deadline,
    tasks,
    time_left,
)
from heaveto.testing.clocks import FakeClock
from heaveto.testing.stops import every_await

pytestmark = pytest.mark.anyio

name: ContextVar[str] = ContextVar("name")


async def cancel_soon(scope: Scope) -> None:
    await anyio.sleep(0.01)
    scope.cancel(Cancelled("stop"))


def until_stopped() -> None:
    """Computes until it is told to stop."""
    while True:
        check_stop()
        time.sleep(0.001)


async def test_a_result_comes_back_and_context_values_went_there() -> None:
    name.set("ada")
    assert await call_in_thread(lambda a, b: (name.get(), a + b), 1, 2) == ("ada", 3)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
async def test_a_thread_may_run_a_loop_of_its_own(backend: str) -> None:
    async def add(a: int, b: int) -> int:
        await anyio.sleep(0)
        return a + b

    assert await call_in_thread(partial(anyio.run, add, 1, 2, backend=backend)) == 3


async def test_an_error_comes_back_with_the_frames_of_the_thread() -> None:
    def fail() -> None:
        raise ValueError("boom")

    with pytest.raises(ValueError, match="boom") as caught:
        await call_in_thread(fail)
    assert caught.traceback[-1].name == "fail"


async def test_a_thread_reads_the_time_left_and_has_no_cause(fake_clock: FakeClock) -> None:
    with deadline(60):
        await anyio.sleep(20)
        assert await call_in_thread(lambda: (time_left(), current_cause())) == (40, None)


@pytest.mark.parametrize("cause", [Cancelled("stop"), CallTimeout(0.05)], ids=["cancel", "deadline"])
async def test_a_thread_that_checks_ends_by_itself_and_the_scope_tells_the_cause(cause: Stop) -> None:
    async with tasks() as group:
        with pytest.raises(type(cause)) as caught, Scope(0.05, CallTimeout(0.05)) as scope:
            if isinstance(cause, Cancelled):
                group.start_soon(cancel_soon, scope)
            await call_in_thread(until_stopped, moment=5)
    assert not hasattr(caught.value, "__notes__")
    assert abandoned_threads() == []


async def test_a_thread_that_notices_the_stop_leaves_it_to_the_scope() -> None:
    """A quiet scope ends quietly: what the thread raised is not a second stop."""
    async with tasks() as group:
        with Scope(quiet=True) as scope:
            group.start_soon(cancel_soon, scope)
            await call_in_thread(until_stopped, moment=5)
    assert isinstance(scope.own_cause, Cancelled)


async def test_also_when_it_notices_the_stop_before_the_loop_does(fake_clock: FakeClock) -> None:
    noticed = threading.Event()

    def work() -> None:
        try:
            until_stopped()
        finally:
            noticed.set()

    async def compute() -> None:
        await anyio.sleep(0)
        fake_clock.jump(6)
        noticed.wait(5)
        time.sleep(0.05)  # the thread's report is on its way when the loop goes on

    async with tasks() as group:
        with Scope(5, quiet=True) as scope:
            group.start_soon(compute)
            await call_in_thread(work, moment=5)
    assert isinstance(scope.own_cause, DeadlinePassed)


async def test_a_result_within_the_moment_counts_and_the_next_await_is_stopped() -> None:
    got = []
    with pytest.raises(DeadlinePassed), deadline(0.02):
        got.append(await call_in_thread(lambda: time.sleep(0.06) or "done", moment=5))
        await anyio.sleep(0)
        got.append("fell through")
    assert got == ["done"]


async def test_a_thread_that_ignores_the_stop_is_abandoned_and_counted() -> None:
    go_on = threading.Event()
    began = time.monotonic()
    with pytest.raises(DeadlinePassed), deadline(0.02):
        await call_in_thread(go_on.wait, 5, moment=0.05)
    assert time.monotonic() - began < 1
    (thread,) = abandoned_threads()
    assert thread.daemon
    assert thread.name == "heaveto:wait"
    go_on.set()
    thread.join(1)
    assert abandoned_threads() == []


async def test_a_thread_has_a_tenth_of_a_second_by_default(fake_clock: FakeClock) -> None:
    go_on = threading.Event()
    with pytest.raises(DeadlinePassed), deadline(1):
        await call_in_thread(go_on.wait, 5)
    assert fake_clock.now == pytest.approx(1.1)
    go_on.set()


async def test_a_thread_without_a_functions_name_has_one_too() -> None:
    thread = await call_in_thread(partial(threading.current_thread))
    assert thread.name == "heaveto:call"


async def test_a_thread_that_wants_the_process_to_end_says_so_to_the_caller() -> None:
    with pytest.raises(SystemExit):
        await call_in_thread(sys.exit, 3)


async def test_the_clock_goes_on_at_once_when_a_thread_was_abandoned(fake_clock: FakeClock) -> None:
    go_on = threading.Event()
    with pytest.raises(DeadlinePassed), deadline(0.01):
        await call_in_thread(go_on.wait, 5, moment=0.01)
    began = time.monotonic()
    await anyio.sleep(3600)
    assert time.monotonic() - began < 1
    go_on.set()


async def test_the_clock_goes_on_at_once_when_a_thread_has_ended(fake_clock: FakeClock) -> None:
    began = time.monotonic()
    for fn in (lambda: 1, lambda: 1 / 0):
        with suppress(ZeroDivisionError):
            await call_in_thread(fn)
        await anyio.sleep(3600)
    assert (fake_clock.now, time.monotonic() - began < 60) == (7200, True)


async def test_a_stop_that_a_thread_raises_of_its_own_accord_is_an_ordinary_exception(fake_clock: FakeClock) -> None:
    def refuse() -> None:
        raise Cancelled("of my own accord")

    with pytest.raises(Cancelled, match="of my own accord"):
        await call_in_thread(refuse)
    assert fake_clock.now == 0


class LateLoop(asyncio.SelectorEventLoop):
    """Its timers come late, as uvloop's do by a millisecond."""

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:
        return super().call_at(when + 0.05, callback, *args, context=context)


def test_a_thread_may_notice_the_stop_well_before_a_loop_whose_timers_are_late() -> None:
    ended: list[Scope] = []

    async def main() -> None:
        with Scope(0.02, quiet=True) as scope:
            await call_in_thread(until_stopped, moment=5)
        ended.append(scope)

    anyio.run(main, backend_options={"loop_factory": LateLoop})
    assert isinstance(ended[0].own_cause, DeadlinePassed)


async def test_what_the_thread_raised_comes_out_soon_when_the_loop_has_no_stop_to_deliver(fake_clock: FakeClock) -> None:
    """Somebody's own shield stands between."""
    with deadline(5), anyio.CancelScope(shield=True):
        fake_clock.jump(5)
        with pytest.raises(DeadlinePassed):
            await call_in_thread(check_stop)
    assert fake_clock.now == pytest.approx(5.02)


def test_a_native_cancellation_is_not_lost_although_the_thread_ends_within_the_moment() -> None:
    async def main() -> None:
        go_on = threading.Event()
        task = asyncio.ensure_future(call_in_thread(go_on.wait, moment=5))
        await anyio.sleep(0.01)
        task.cancel()
        asyncio.get_running_loop().call_later(0.01, go_on.set)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelling() == 1

    anyio.run(main)


def test_a_second_native_cancellation_leaves_the_thread_counted() -> None:
    async def main() -> None:
        ends = threading.Event()
        with abandonments() as left:
            task = asyncio.ensure_future(call_in_thread(ends.wait, moment=60))
            for _ in range(2):
                await anyio.sleep(0.01)
                task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        try:
            assert left == ["thread wait"]
            assert [thread.name for thread in abandoned_threads()] == ["heaveto:wait"]
        finally:
            ends.set()

    anyio.run(main)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_what_is_delivered_after_the_loop_has_ended_is_dropped(backend: str) -> None:
    """A thread that outlives its loop does not fail."""
    handoffs: list[Handoff[int]] = []

    async def start() -> None:
        handoffs.append(Handoff())

    anyio.run(start, backend=backend)
    handoffs[0].deliver(1)


def test_stopped_at_any_await_no_thread_is_left() -> None:
    async def work() -> int:
        async with tasks() as group:
            group.start_soon(call_in_thread, time.sleep, 0.001)
            return await call_in_thread(lambda: 3)

    for run in every_await(work, again_after=[1]):
        assert run.error is None or isinstance(run.error, type(run.cause)), run
        assert run.left_running == ()
    assert abandoned_threads() == []


async def test_async_code_and_a_moment_that_is_no_time_are_refused_before_anything_begins() -> None:
    begun: list[int] = []

    async def work() -> None: ...

    with pytest.raises(TypeError, match=r"^work is async and runs in the loop; a thread is for sync code$"):
        await call_in_thread(work)
    with pytest.raises(ValueError, match=r"^the seconds of a moment must be a number, not NaN$"):
        await call_in_thread(begun.append, 1, moment=float("nan"))
    assert begun == []


async def test_async_code_without_a_name_or_known_only_by_its_call_is_refused() -> None:
    begun: list[str] = []

    async def work() -> None:
        begun.append("work")

    class Works:
        async def __call__(self) -> None:
            begun.append("called")

    for fn in (partial(work), lambda: work(), Works()):
        with pytest.raises(TypeError, match=r"is async and runs in the loop; a thread is for sync code$"):
            await call_in_thread(fn)
    assert begun == []


async def test_a_thread_that_was_left_is_told_to_the_block_around_it() -> None:
    ends = threading.Event()
    try:
        with abandonments() as left, Scope(0.01, quiet=True):
            await call_in_thread(ends.wait)
        assert left == ["thread wait"]
    finally:
        ends.set()


async def test_async_code_that_is_known_to_be_is_not_even_called() -> None:
    called: list[object] = []

    class Noted(functools.partial[object]):  # what it wraps tells that it is async
        def __call__(self, *args: object, **named: object) -> object:
            called.append(self)
            return super().__call__(*args, **named)

    async def later() -> None: ...

    with pytest.raises(TypeError, match="is async and runs in the loop"):
        await call_in_thread(Noted(later))
    assert called == []
