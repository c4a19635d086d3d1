"""Async code in a task of its own: it is stopped like any other, and left at its await when it does not heed that."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextvars import ContextVar
from functools import partial
from typing import Any

import anyio
import pytest

from heaveto.causes import CallTimeout, Cancelled, DeadlinePassed, SaveTimeout, StoppedFromOutside
from heaveto.scopes import (
    Scope,
    abandonments,
    call_in_task,
    current_cause,
    deadline,
    finish,
    tasks,
    time_left,
)
from heaveto.testing.clocks import FakeClock
from heaveto.testing.stops import every_await

pytestmark = pytest.mark.anyio

name: ContextVar[str] = ContextVar("name")


async def swallow() -> None:
    """Never heeds a stop."""
    while True:
        try:
            await anyio.sleep(3600)
        except BaseException:
            pass


async def hide() -> None:
    """Is never told of one."""
    with anyio.CancelScope(shield=True):
        await anyio.sleep(3600)


async def shielded_group() -> None:
    with anyio.CancelScope(shield=True):
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep, 3600)
            await anyio.sleep(3600)


async def swallow_in_scopes() -> None:
    with anyio.move_on_after(7200), anyio.CancelScope():
        await swallow()


async def test_a_result_comes_back_and_context_values_went_there() -> None:
    name.set("ada")

    async def work(a: int, b: int) -> tuple[str, int]:
        await anyio.sleep(1)
        return name.get(), a + b

    assert await call_in_task(work, 1, 2) == ("ada", 3)


async def test_an_error_comes_back_as_itself() -> None:
    async def fail() -> None:
        await anyio.sleep(1)
        raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        await call_in_task(fail)


async def test_an_exit_comes_back_too() -> None:
    async def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        await call_in_task(leave)


async def test_it_sees_the_time_left_and_the_cause(fake_clock: FakeClock) -> None:
    seen: list[Any] = []

    async def look() -> None:
        seen.append(time_left())
        try:
            await anyio.sleep_forever()
        finally:
            seen.append(current_cause())

    with pytest.raises(CallTimeout), abandonments() as left, deadline(40, CallTimeout(40)):
        await call_in_task(look)
    assert seen[0] == 40
    assert isinstance(seen[1], CallTimeout)
    assert (fake_clock.now, left) == (40, [])


@pytest.mark.parametrize("stubborn", [swallow, hide, shielded_group, swallow_in_scopes])
async def test_who_does_not_heed_a_stop_is_left(stubborn: Any, fake_clock: FakeClock) -> None:
    with pytest.raises(DeadlinePassed), abandonments() as left, deadline(40):
        await call_in_task(stubborn)
    assert left == [f"task {stubborn.__name__}"]
    assert 40 <= fake_clock.now <= 41
    for _ in range(3):
        await anyio.sleep(0)
    if fake_clock.backend[0] == "asyncio":
        assert [task for task in asyncio.all_tasks() if stubborn.__name__ in task.get_name()] == []
    await anyio.sleep(1)  # the loop is well


async def test_what_was_left_is_never_resumed(fake_clock: FakeClock) -> None:
    went_on: list[str] = []

    async def stubborn() -> None:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(10)
        went_on.append("later")

    with pytest.raises(DeadlinePassed), deadline(1):
        await call_in_task(stubborn)
    await anyio.sleep(100)
    assert went_on == []


async def test_what_was_left_with_open_tasks_on_trio_is_not_even_closed(fake_clock: FakeClock) -> None:
    """Elsewhere it is, which its `finally` notices; there Trio would find its nursery gone."""
    seen: list[str] = []

    async def stubborn() -> None:
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.sleep, 3600)
                try:
                    await anyio.sleep(3600)
                finally:
                    seen.append("closed")

    with pytest.raises(DeadlinePassed), deadline(1):
        await call_in_task(stubborn)
    await anyio.sleep(100)
    assert seen == ([] if fake_clock.backend_name == "trio" else ["closed"])


async def test_the_tasks_of_what_was_left_end(fake_clock: FakeClock) -> None:
    beats: list[float] = []

    async def beat() -> None:
        while True:
            await anyio.sleep(1)
            beats.append(fake_clock.now)

    async def stubborn() -> None:
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as group:
                group.start_soon(beat)
                await anyio.sleep(3600)

    with pytest.raises(DeadlinePassed), deadline(1.5):
        await call_in_task(stubborn)
    await anyio.sleep(100)
    assert max(beats) <= 2.5  # a second after the stop


async def test_what_was_left_closes_what_it_can() -> None:
    closed: list[str] = []

    async def stubborn() -> None:
        try:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(10)
        finally:
            closed.append("file")

    with pytest.raises(DeadlinePassed), deadline(1):
        await call_in_task(stubborn)
    await anyio.sleep(0.1)
    assert closed == ["file"]


async def test_what_must_finish_is_waited_for(fake_clock: FakeClock) -> None:
    saved: list[str] = []

    async def save() -> None:
        await anyio.sleep(8)
        saved.append("all")

    async def careful() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            await finish(10, save)

    with pytest.raises(DeadlinePassed), abandonments() as left, deadline(5):
        await call_in_task(careful)
    assert (saved, left, fake_clock.now) == (["all"], [], 13)


async def test_what_must_finish_is_waited_for_also_the_second_time_and_two_calls_down(fake_clock: FakeClock) -> None:
    saved: list[float] = []

    async def save() -> None:
        await anyio.sleep(8)
        saved.append(fake_clock.now)

    async def careful() -> None:
        await finish(10, save)
        try:
            await anyio.sleep_forever()
        finally:
            await finish(10, save)

    with pytest.raises(DeadlinePassed), abandonments() as left, deadline(9):
        await call_in_task(call_in_task, careful)
    assert (saved, left, fake_clock.now) == ([8, 17], [], 17)


async def test_what_must_finish_is_waited_for_also_when_native_cancellations_come(fake_clock: FakeClock) -> None:
    saved: list[str] = []

    async def save() -> None:
        await anyio.sleep(8)
        saved.append("all")

    async def careful() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            await finish(10, save)

    if fake_clock.backend_name == "asyncio":
        task = asyncio.ensure_future(call_in_task(careful))
        for _ in range(4):
            await anyio.sleep(1)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (saved, fake_clock.now, task.cancelling()) == (["all"], 9, 4)


async def test_a_native_cancellation_ends_the_moment(fake_clock: FakeClock) -> None:
    if fake_clock.backend_name == "asyncio":
        task = asyncio.ensure_future(call_in_task(swallow, moment=60))
        for _ in range(2):
            await anyio.sleep(1)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert fake_clock.now < 60


async def test_who_has_ended_is_not_waited_for_though_a_task_of_his_is_at_what_must_finish(fake_clock: FakeClock) -> None:
    tasks_left: list[asyncio.Future[None]] = []

    async def leaves_one() -> None:
        tasks_left.append(asyncio.ensure_future(finish(30, anyio.sleep, 20)))
        await anyio.sleep_forever()

    if fake_clock.backend_name == "asyncio":
        with pytest.raises(DeadlinePassed), deadline(5):
            await call_in_task(leaves_one)
        assert fake_clock.now == 5
        await tasks_left[0]


async def test_what_was_left_behind_is_told_to_the_block_around_it_alone() -> None:
    nameless = partial(swallow)
    with abandonments() as outer:
        with abandonments() as inner, Scope(1, quiet=True):
            await call_in_task(swallow)
        with Scope(1, quiet=True):
            await call_in_task(nameless)
    assert (outer, inner) == (["task call"], ["task swallow"])


async def test_its_task_and_the_cancellation_in_it_say_what_they_are_for_people() -> None:
    seen: list[str] = []

    async def look() -> None:
        await anyio.sleep(0)  # an eager task runs before asyncio names it
        seen.append(anyio.get_current_task().name or "")
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class() as error:
            seen.append(str(error))
            raise

    with pytest.raises(CallTimeout), deadline(40, CallTimeout(40)):
        await call_in_task(look)
    assert seen[0] == "heaveto:look"
    assert str(CallTimeout(40)) in seen[1]


async def test_a_native_cancellation_is_told_inside_and_goes_on_though_there_is_a_result(fake_clock: FakeClock) -> None:
    """It does not come again, so a result would swallow it."""
    seen: list[object] = []

    async def nearly() -> str:
        try:
            await anyio.sleep(10)
        except asyncio.CancelledError:
            seen.append(type(current_cause()))
        return "done"

    if fake_clock.backend_name == "asyncio":
        task = asyncio.ensure_future(call_in_task(nearly))
        await anyio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (seen, fake_clock.now) == ([StoppedFromOutside], 1)


async def test_a_native_cancellation_after_a_stop_goes_on_though_there_is_a_result(fake_clock: FakeClock) -> None:
    """The stop's own cancellation comes again; the native one does not."""

    async def nearly() -> str:
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            await finish(10, anyio.sleep, 8)
        return "done"

    async def stopped() -> str | None:
        with Scope(5, quiet=True):
            return await call_in_task(nearly)
        return None

    if fake_clock.backend_name == "asyncio":
        task = asyncio.ensure_future(stopped())
        await anyio.sleep(7)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (fake_clock.now, task.cancelling()) == (13, 1)


async def test_its_own_limit_ends_what_must_finish_and_then_it_is_left(fake_clock: FakeClock) -> None:
    async def endless() -> None:
        while True:
            try:
                await finish(10, anyio.sleep_forever)
            except SaveTimeout:
                await hide()

    with pytest.raises(DeadlinePassed), abandonments() as left, deadline(5):
        await call_in_task(endless)
    assert (left, fake_clock.now) == (["task endless"], 10)


async def test_a_result_in_the_last_moment_counts(fake_clock: FakeClock) -> None:
    got: list[str] = []

    async def nearly() -> str:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(5.5)
        return "done"

    with pytest.raises(DeadlinePassed), deadline(5):
        got.append(await call_in_task(nearly))
        await anyio.sleep(1)
    assert (got, fake_clock.now) == (["done"], 5.5)


async def test_who_cancels_himself_has_an_error() -> None:
    async def cancel_myself() -> None:
        raise asyncio.CancelledError

    async def wait_for_a_cancelled_future() -> None:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    if anyio.get_cancelled_exc_class() is asyncio.CancelledError:
        for fn in (cancel_myself, wait_for_a_cancelled_future):
            with pytest.raises(RuntimeError, match=r"^it was cancelled, though nobody stopped it$") as caught:
                await call_in_task(fn)
            assert isinstance(caught.value.__cause__, asyncio.CancelledError)


async def test_who_leaves_a_scope_open_has_the_loops_error() -> None:
    async def careless() -> None:
        anyio.CancelScope().__enter__()

    with pytest.raises(RuntimeError, match="cancel scope"):
        await call_in_task(careless)
    await anyio.sleep(1)  # the loop is well


async def test_tasks_beside_it_go_on() -> None:
    done: list[str] = []

    async def beside() -> None:
        await anyio.sleep(100)
        done.append("beside")

    async with tasks() as group:
        group.start_soon(beside)
        with Scope(quiet=True) as scope:
            async with tasks() as inner:
                inner.start_soon(call_in_task, swallow)
                await anyio.sleep(1)
                scope.cancel(Cancelled("enough"))
    assert done == ["beside"]


async def test_a_moment_that_is_no_time_is_refused_before_anything_begins() -> None:
    begun: list[int] = []

    async def work() -> None:
        begun.append(1)

    with pytest.raises(ValueError, match=r"^the seconds of a moment must be a number, not NaN$"):
        await call_in_task(work, moment=float("nan"))
    assert begun == []


PROGRAM = """
import anyio, sys
from heaveto.scopes import call_in_task, deadline
from heaveto.causes import DeadlinePassed

async def swallow():
    while True:
        try:
            with anyio.CancelScope(shield=len(sys.argv) > 2):
                await anyio.sleep(3600)
        except BaseException:
            pass

async def main():
    try:
        with deadline(0.05):
            await call_in_task(swallow, moment=0.05)
    except DeadlinePassed:
        print("went on")

anyio.run(main, backend=sys.argv[1])
"""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("more", [[], ["shielded"]])
def test_the_process_can_leave_and_says_nothing(backend: str, more: list[str]) -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM, backend, *more], capture_output=True, text=True, timeout=30)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "went on\n", "")


def test_stopped_at_every_await() -> None:
    async def work() -> str:
        async def two_steps() -> str:
            await anyio.sleep(1)
            await finish(5, anyio.sleep, 1)
            return "done"

        return await call_in_task(two_steps)

    seen = 0
    for run in every_await(work):
        seen += 1
        assert run.left_running == ()
        assert run.error is not None or run.value == "done", run
        if run.error is not None:
            assert type(run.error) is type(run.cause), run
    assert seen > 20
