"""Code made for asyncio: one native cancellation for each stop, a moment to end, and the cause that stays."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

import anyio
import anyio.lowlevel
import pytest

from heaveto.causes import CallTimeout, Cancelled, DeadlinePassed, Stop, StoppedFromOutside
from heaveto.scopes import (
    Scope,
    abandoned_tasks,
    abandonments,
    call_foreign,
    call_in_task,
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


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock("asyncio")


@pytest.fixture
def anyio_backend(clock: FakeClock) -> object:
    return clock.backend


class Stubborn:
    """A coroutine that swallows a number of cancellations, each followed by some seconds of its own."""

    def __init__(self, swallows: int, seconds: float, result: str = "whole") -> None:
        self.swallows, self.seconds, self.result = swallows, seconds, result
        self.cancellations: list[asyncio.CancelledError] = []

    async def run(self) -> str:
        seconds = 1e6
        while True:
            try:
                await asyncio.sleep(seconds)
                return self.result
            except asyncio.CancelledError as error:
                self.cancellations.append(error)
                seconds = self.seconds
                if len(self.cancellations) > self.swallows:
                    raise


# --- what it does without a stop ------------------------------------------------------------------------------------


async def test_a_result_comes_back_and_context_values_limits_and_causes_went_there() -> None:
    async def foreign(number: int) -> tuple[int, str, float, Stop | None]:
        await asyncio.sleep(1)
        return number, name.get(), time_left(), current_cause()

    name.set("ada")
    with deadline(60):
        assert await call_foreign(foreign, 3) == (3, "ada", 59, None)


async def test_an_error_comes_out_as_itself() -> None:
    async def breaks() -> None:
        raise ValueError("bad data")

    with pytest.raises(ValueError, match="bad data"):
        await call_foreign(breaks)


async def test_what_cancels_itself_is_an_error_here_and_no_cancellation() -> None:
    async def cancels_itself() -> None:
        raise asyncio.CancelledError("my own idea")

    with pytest.raises(StoppedFromOutside) as caught:
        await call_foreign(cancels_itself)
    assert isinstance(caught.value.__cause__, asyncio.CancelledError)
    await anyio.lowlevel.checkpoint()


async def test_the_task_is_called_after_its_function() -> None:
    async def looks() -> str:
        await asyncio.sleep(0)  # an eager task has its name after its first step
        task = asyncio.current_task()
        assert task is not None
        return task.get_name()

    class Looker:
        async def __call__(self) -> str:
            return await looks()

    assert await call_foreign(looks) == "heaveto:looks"
    assert await call_foreign(Looker()) == "heaveto:call"


def test_on_trio_it_says_that_nothing_of_asyncio_can_run() -> None:
    stubborn = Stubborn(0, 0)
    with pytest.raises(RuntimeError, match=r"^run is asyncio's, and this loop is Trio's; run the program on asyncio$"):
        FakeClock("trio").run(call_foreign, stubborn.run)


# --- asyncio's own things -------------------------------------------------------------------------------------------


async def test_a_condition_whose_lock_is_taken_is_left_when_it_is_free(clock: FakeClock) -> None:
    """Bare, `Condition.wait` spins here: each of AnyIO's cancellations sends it for the lock again; time stands still."""
    condition = asyncio.Condition()

    async def wait() -> None:
        async with condition:
            await condition.wait()

    async def hold_from(at: float, seconds: float) -> None:
        await anyio.sleep(at)
        async with condition:
            await anyio.sleep(seconds)

    with pytest.raises(CallTimeout):
        async with tasks() as group:
            group.start_soon(hold_from, 1, 3)
            with deadline(2, CallTimeout(2)):
                await call_foreign(wait)
    assert clock.now == 4
    assert not condition.locked()


async def test_a_condition_that_is_told_goes_on() -> None:
    condition = asyncio.Condition()

    async def wait() -> str:
        async with condition:
            await condition.wait()
        return "told"

    async def tell() -> None:
        await anyio.sleep(1)
        async with condition:
            condition.notify_all()

    async with tasks() as group:
        group.start_soon(tell)
        assert await call_foreign(wait) == "told"


# --- stops ----------------------------------------------------------------------------------------------------------


async def test_a_stop_is_one_cancellation_that_says_why(clock: FakeClock) -> None:
    stubborn = Stubborn(swallows=0, seconds=0)
    with pytest.raises(CallTimeout) as caught, deadline(120, CallTimeout(120)):
        await call_foreign(stubborn.run)
    assert clock.now == 120
    assert [str(error) for error in stubborn.cancellations] == ["the model call timed out after 120 s (call_seconds)"]
    assert not hasattr(caught.value.__context__, "__notes__")


async def test_one_that_swallows_it_and_ends_in_time_has_its_result_and_the_next_await_is_stopped(clock: FakeClock) -> None:
    stubborn, results = Stubborn(swallows=1, seconds=4), []
    with pytest.raises(DeadlinePassed), deadline(2):
        results.append(await call_foreign(stubborn.run))
        await anyio.lowlevel.checkpoint()
        pytest.fail("the await went through")
    assert (results, clock.now, len(stubborn.cancellations)) == (["whole"], 6, 1)


async def test_one_that_goes_on_is_left_alone_after_its_moment_and_told_of(clock: FakeClock) -> None:
    stubborn = Stubborn(swallows=1, seconds=60)
    with pytest.raises(DeadlinePassed) as caught, deadline(2):
        await call_foreign(stubborn.run)
    assert (clock.now, len(stubborn.cancellations)) == (7, 1)
    assert [task.get_name() for task in abandoned_tasks()] == ["heaveto:run"]
    said = caught.value.__context__.__notes__  # type: ignore[union-attr]
    assert said == ["heaveto:run did not end within 5 s of its one cancellation, and is left alone"]
    await anyio.sleep(60)
    assert abandoned_tasks() == []


async def test_the_moment_is_as_long_as_one_likes(clock: FakeClock) -> None:
    stubborn = Stubborn(swallows=1, seconds=60)
    with pytest.raises(DeadlinePassed), deadline(2):
        await call_foreign(stubborn.run, moment=0)
    assert clock.now == 2
    (task,) = abandoned_tasks()
    task.cancel()
    await asyncio.wait([task])


async def test_the_moment_may_be_less_than_a_second(clock: FakeClock) -> None:
    stubborn, results = Stubborn(swallows=1, seconds=0.25), []
    with pytest.raises(DeadlinePassed), deadline(2):
        results.append(await call_foreign(stubborn.run, moment=0.5))
        await anyio.lowlevel.checkpoint()
    assert (results, clock.now) == (["whole"], 2.25)


async def test_whoever_looks_after_what_is_left_behind_is_told() -> None:
    stubborn = Stubborn(swallows=1, seconds=60)
    with abandonments() as left, pytest.raises(DeadlinePassed), deadline(2):
        await call_foreign(stubborn.run)
    assert left == ["task run"]
    await anyio.sleep(60)


async def test_a_task_that_may_be_left_is_not_left_before_the_moment_is_over(clock: FakeClock) -> None:
    stubborn = Stubborn(swallows=1, seconds=4)
    with deadline(2):
        assert await call_in_task(call_foreign, stubborn.run, moment=1) == "whole"
    assert clock.now == 6


async def test_an_error_of_the_clean_up_comes_out_with_the_cause_as_a_note() -> None:
    async def breaks() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full") as caught, deadline(2):
        await call_foreign(breaks)
    assert caught.value.__notes__ == ["while stopping: a deadline of 2 s passed"]


async def test_one_that_reads_the_stop_leaves_it_to_the_scope() -> None:
    async def reads() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            check_stop()

    with Scope(2, quiet=True) as scope:
        await call_foreign(reads)
    assert isinstance(scope.own_cause, DeadlinePassed)


async def test_nothing_is_begun_within_a_stopped_scope() -> None:
    begun = []

    async def begin() -> None:
        begun.append("begun")

    with pytest.raises(Cancelled), Scope() as scope:
        scope.cancel(Cancelled("stop"))
        await call_foreign(begin)
    assert begun == []


# --- native cancellations -------------------------------------------------------------------------------------------


async def natively(stubborn: Stubborn, *times: float) -> tuple[asyncio.Task[str], list[str]]:
    """A task of plain asyncio that waits for foreign code, and is cancelled some seconds after each other."""
    log: list[str] = []

    async def plain() -> str:
        try:
            return await call_foreign(stubborn.run)
        except asyncio.CancelledError as error:
            log.append(str(error))
            raise

    task = asyncio.get_running_loop().create_task(plain())
    for number, seconds in enumerate(times):
        await asyncio.sleep(seconds)
        task.cancel(f"cancel {number}")
    await asyncio.wait([task])
    return task, log


async def test_a_native_cancellation_is_passed_on_and_goes_on_when_the_code_has_ended(clock: FakeClock) -> None:
    stubborn = Stubborn(swallows=0, seconds=0)
    task, log = await natively(stubborn, 1)
    assert (task.cancelled(), log, clock.now) == (True, ["cancel 0"], 1)
    assert [str(error) for error in stubborn.cancellations] == [str(StoppedFromOutside())]


async def test_it_is_not_lost_although_the_code_swallows_it(clock: FakeClock) -> None:
    task, _ = await natively(Stubborn(swallows=1, seconds=3), 1)
    assert (task.cancelled(), clock.now) == (True, 4)


async def test_a_second_one_is_not_passed_on_and_does_not_cut_the_moment(clock: FakeClock) -> None:
    stubborn = Stubborn(swallows=2, seconds=3)
    task, log = await natively(stubborn, 1, 1)
    assert (task.cancelled(), log, clock.now, len(stubborn.cancellations)) == (True, ["cancel 1"], 4, 1)


async def test_one_that_comes_after_a_stop_goes_on_although_there_is_a_result(clock: FakeClock) -> None:
    stubborn = Stubborn(swallows=1, seconds=3)

    async def plain() -> str:
        with Scope(1):
            return await call_foreign(stubborn.run)
        raise AssertionError("a scope that is not quiet raises")

    task = asyncio.get_running_loop().create_task(plain())
    await asyncio.sleep(2)
    task.cancel("natively")
    with pytest.raises(asyncio.CancelledError, match="natively"):
        await task
    assert clock.now == 4


async def test_an_error_of_the_clean_up_is_the_cause_of_the_native_cancellation_that_goes_on() -> None:
    async def breaks() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            raise RuntimeError("disk full")

    task = asyncio.get_running_loop().create_task(call_foreign(breaks))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    assert isinstance(caught.value.__cause__, RuntimeError)


async def test_a_native_one_after_a_stop_goes_on_when_the_code_is_left_alone_or_ends_by_it(clock: FakeClock) -> None:
    async def plain(stubborn: Stubborn, moment: float) -> None:
        with Scope(1, quiet=True):
            await call_foreign(stubborn.run, moment=moment)

    async def ends_by_it() -> None:
        with Scope(1, quiet=True):
            await call_foreign(cleans_up_for, 3)

    async def cleans_up_for(seconds: float) -> None:
        try:
            await asyncio.sleep(1e6)
        finally:
            await asyncio.sleep(seconds)

    for work in (plain(Stubborn(1, 60), 3), ends_by_it()):
        task = asyncio.get_running_loop().create_task(work)
        await asyncio.sleep(2)
        task.cancel("natively")
        with pytest.raises(asyncio.CancelledError, match="natively"):
            await task
    await asyncio.sleep(60)


def test_stopped_at_any_await_its_code_has_ended() -> None:
    log: list[str] = []

    async def cleans_up() -> None:
        log.append("begin")
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            await asyncio.sleep(1)
            raise
        finally:
            log.append("end")

    async def work() -> None:
        log.clear()
        await call_foreign(cleans_up)
        await call_foreign(cleans_up)

    for run in every_await(work, backends=["asyncio"]):
        assert run.error is None or isinstance(run.error, type(run.cause)), run
        assert run.left_running == ()
        assert log.count("begin") == log.count("end"), (run, log)


async def test_a_moment_that_is_no_time_is_refused_before_anything_begins() -> None:
    begun: list[int] = []

    async def work() -> None:
        begun.append(1)

    with pytest.raises(ValueError, match=r"^the seconds of a moment must be a number, not NaN$"):
        await call_foreign(work, moment=float("nan"))
    assert begun == []
