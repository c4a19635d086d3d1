"""A stop at every await: all points are met, in the same order each time, and a seeded bug is found."""

from __future__ import annotations

import gc
from collections import Counter
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from heaveto.causes import Cancelled, DeadlinePassed, Shutdown
from heaveto.scopes import finish, graced, tasks
from heaveto.testing.clocks import Backend
from heaveto.testing.stops import EndlessError, StoppedRun, every_await

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


@pytest.fixture
def most(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the awaits that a run may take, for time's sake."""
    monkeypatch.setattr("heaveto.testing.stops.MOST_AWAITS", 1_000)


async def goes_on() -> None:
    while True:
        await anyio.sleep(1)


async def goes_on_in_tasks() -> None:
    async with tasks() as group:
        group.start_soon(goes_on)
        await goes_on()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("endless", [goes_on, goes_on_in_tasks])
def test_a_function_that_never_ends_is_refused_before_the_first_stop(backend: Backend, endless: Any, most: None) -> None:
    runs: list[object] = []
    with pytest.raises(EndlessError) as caught:
        runs += every_await(endless, backends=[backend])
    assert str(caught.value) == (
        "without a stop, it has not ended after 1,000 awaits: every_await needs a function that ends by itself"
    )
    assert runs == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_so_is_one_that_waits_for_what_never_comes(backend: Backend) -> None:
    with pytest.raises(EndlessError, match=r"^without a stop, it waits for what never comes: every_await needs") as caught:
        list(every_await(anyio.sleep_forever, backends=[backend]))
    assert caught.value.args == ("", 0)


async def swallows_its_stop() -> None:
    try:
        await anyio.sleep(1)
    except BaseException:
        while True:
            try:
                await anyio.sleep(1)
            except BaseException:
                pass


async def swallows_it_in_tasks() -> None:
    async with tasks() as group:
        group.start_soon(swallows_its_stop)
        await swallows_its_stop()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("endless", [swallows_its_stop, swallows_it_in_tasks])
def test_one_that_swallows_its_stop_without_end_is_broken_off(backend: Backend, endless: Any, most: None) -> None:
    with pytest.raises(EndlessError, match=r"^stopped, it has not ended after 1,000 awaits: does it swallow its") as caught:
        list(every_await(endless, backends=[backend]))
    assert caught.value.point == f"{backend}:cancel:1:0:1"
    assert f"HEAVETO_STOP={backend}:cancel:1:0:1 replays it" in str(caught.value)
    assert caught.value.__context__ is None
    gc.collect()  # nothing complains of tasks that were never closed


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_pytest_ends_a_test_with_is_no_result(backend: Backend) -> None:
    """Such as pytest-timeout: it would be taken for what came of this run, and the next one begun."""

    async def fails() -> None:
        await anyio.sleep(1)
        pytest.fail("too long")

    async def fails_in_a_task() -> None:
        async with tasks() as group:
            group.start_soon(fails)
            group.start_soon(fails)

    with pytest.raises(pytest.fail.Exception, match="too long"):
        list(every_await(fails, backends=[backend]))
    with pytest.raises((pytest.fail.Exception, BaseExceptionGroup)):
        list(every_await(fails_in_a_task, backends=[backend]))


@pytest.mark.parametrize("point", ["", "trio:cancel:17:0", "curio:cancel:1:0:1", "trio:cancel:0:0:1", "trio:stop:1:0:1"])
def test_a_point_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    monkeypatch.setenv("HEAVETO_STOP", point)
    with pytest.raises(ValueError, match=rf"^HEAVETO_STOP is one point, such as trio:cancel:17:0:1, not '{point}'$"):
        list(every_await(three_steps))


def test_a_way_or_a_back_end_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^the ways to be stopped are cancel, deadline, shutdown; not 'kill'$"):
        list(every_await(three_steps, ways=["cancel", "kill"]))  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"^a fake clock's back end is asyncio or trio, not 'curio'$"):
        list(every_await(three_steps, backends=["curio"]))  # type: ignore[list-item]


def test_one_point_is_replayed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEAVETO_STOP", "trio:shutdown:2:0:1")
    runs = list(every_await(three_steps))
    assert [(run.backend, run.way, run.at, type(run.error)) for run in runs] == [("trio", "shutdown", 2, Shutdown)]
