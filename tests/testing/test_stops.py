"""A stop at every await: all points are met, in the same order each time, and a seeded bug is found."""

from __future__ import annotations

from collections import Counter

import anyio
import anyio.lowlevel
import pytest

from heaveto.causes import Cancelled, DeadlinePassed, Shutdown
from heaveto.scopes import finish, graced, tasks
from heaveto.testing.clocks import Backend
from heaveto.testing.stops import StoppedRun, every_await

BACKENDS: tuple[Backend, ...] = ("asyncio", "trio")


async def three_steps() -> str:
    for _ in range(3):
        await anyio.sleep(1)
    return "done"


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_await_is_met_once(backend: Backend) -> None:
    runs = list(every_await(three_steps, backends=[backend], ways=["cancel"], again_after=[]))
    cut = [run.at for run in runs if run.error is not None]
    assert cut == [1, 2, 3]


def test_by_every_way_with_its_cause() -> None:
    kinds = {type(run.error) for run in every_await(three_steps) if run.error}
    assert kinds == {Cancelled, DeadlinePassed, Shutdown}
    for run in every_await(three_steps):
        assert run.error is None or type(run.error) is type(run.cause), run


def test_awaits_of_tasks_count_too() -> None:
    async def several() -> None:
        async with tasks() as group:
            for _ in range(5):
                group.start_soon(three_steps)

    for backend in BACKENDS:
        assert len(list(every_await(several, backends=[backend], ways=["cancel"], again_after=[]))) >= 15


def test_a_second_stop_ends_a_grace_that_the_first_began() -> None:
    ended: Counter[tuple[str, int, float]] = Counter()

    async def graced_work() -> None:
        try:
            async with graced(30, Cancelled):
                await anyio.sleep(100)
                await anyio.sleep(100)
        finally:
            ended[Cancelled.__name__, 0, anyio.current_time()] += 1

    for run in every_await(graced_work, ways=["cancel"], again_after=[1]):
        assert isinstance(run.error, Cancelled), run
        assert str(run.error) == "cancelled by every_await: stopped by the test", run
    assert {time for _, _, time in ended} >= {30.0, 200.0}


def test_the_same_points_in_the_same_order_each_time() -> None:
    def trace() -> list[tuple[object, ...]]:
        log: list[tuple[object, ...]] = []

        async def step(name: str) -> None:
            for n in range(3):
                await anyio.lowlevel.checkpoint()
                log.append((name, n))

        async def several() -> None:
            async with tasks() as group:
                for name in "abc":
                    group.start_soon(step, name)

        points = [(run.backend, run.at, run.again) for run in every_await(several, ways=["cancel"])]
        return [*log, *points]

    assert trace() == trace()


def test_a_seeded_bug_is_found() -> None:
    """A call that is not answered when it is stopped."""
    answered: list[str] = []

    async def answer(*, careful: bool) -> None:
        answered.clear()
        try:
            await anyio.sleep(1)
        except anyio.get_cancelled_exc_class():
            if careful:
                answered.append("cancelled before it ran")
            raise
        await anyio.sleep(1) if not careful else None
        answered.append("result")

    def unanswered(careful: bool) -> int:
        async def call() -> None:
            await answer(careful=careful)

        return sum(len(answered) != 1 for run in every_await(call))

    assert unanswered(careful=True) == 0
    assert unanswered(careful=False) > 0


def test_work_that_must_finish_outlives_every_stop() -> None:
    saved: list[int] = []

    async def save() -> None:
        saved.append(1)
        await anyio.sleep(3)
        saved.append(2)

    async def run() -> None:
        saved.clear()
        await finish(10, save)

    for stopped in every_await(run):
        assert saved == [1, 2], stopped


def test_an_error_without_a_stop_is_raised() -> None:
    async def broken() -> None:
        await anyio.sleep(1)
        raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        list(every_await(broken))


def test_what_is_left_running_is_named() -> None:
    import asyncio

    async def leaky() -> None:
        if asyncio.get_running_loop():
            task = asyncio.ensure_future(asyncio.sleep(1000))
            task.set_name("forgotten")
            await anyio.sleep(1)
            task.cancel()

    runs: list[StoppedRun[None]] = list(every_await(leaky, backends=["asyncio"], ways=["cancel"], again_after=[]))
    assert ("forgotten",) in [run.left_running for run in runs]
