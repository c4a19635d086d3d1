"""The ground floor in real time, on each loop that there is: asyncio's, uvloop, with eager tasks, and Trio."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from heaveto.causes import Cancelled, DeadlinePassed, Shutdown
from heaveto.scopes import Scope, Slots, call_in_thread, check_stop, current_cause, deadline, finish, graced, on_stop, tasks
from heaveto.testing import no_leaks

pytestmark = pytest.mark.anyio


def eager_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    loop.set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined]
    return loop


def loops() -> dict[str, Callable[[], tuple[str, dict[str, Any]]]]:
    def uvloop() -> tuple[str, dict[str, Any]]:
        pytest.importorskip("uvloop", reason="no uvloop")
        return "asyncio", {"use_uvloop": True}

    found = {"asyncio": lambda: ("asyncio", {}), "uvloop": uvloop, "trio": lambda: ("trio", {})}
    if sys.version_info >= (3, 12):
        found["eager"] = lambda: ("asyncio", {"loop_factory": eager_loop})
    return found


@pytest.fixture(params=loops())
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return loops()[request.param]()


async def test_it_is_the_loop_that_was_asked_for(request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.params["anyio_backend"]
    if name == "trio":
        return
    loop = asyncio.get_running_loop()
    assert type(loop).__module__.startswith("uvloop") == (name == "uvloop")
    assert (loop.get_task_factory() is not None) == (name == "eager")


async def test_a_deadline_has_its_cause_in_all_tasks_below_it() -> None:
    seen: list[Any] = []

    async def wait() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            seen.append(current_cause())

    async with no_leaks():
        with pytest.raises(DeadlinePassed, match="patience"), deadline(0.02, DeadlinePassed(0.02, "patience")):
            async with tasks() as group:
                group.start_soon(wait)
                group.start_soon(wait)
    assert [str(cause) for cause in seen] == ["a deadline of 0.02 s passed (patience)"] * 2


async def test_finish_ends_in_spite_of_a_stop_before_and_during_it() -> None:
    ended: list[str] = []

    async def save(name: str) -> str:
        await anyio.sleep(0.02)
        ended.append(name)
        return name

    with Scope(quiet=True) as before:
        before.cancel(Cancelled("before"))
        assert await finish(5, save, "before") == "before"
    with Scope(quiet=True) as scope:
        async with tasks() as group:
            group.start_soon(finish, 5, save, "during")
            await anyio.sleep(0.01)
            scope.cancel(Cancelled("during"))
    assert ended == ["before", "during"]


async def test_a_native_cancellation_does_not_cut_finish(anyio_backend_name: str) -> None:
    if anyio_backend_name == "trio":
        return  # which has none
    ended: list[int] = []

    async def save() -> None:
        await anyio.sleep(0.02)
        ended.append(1)

    task = asyncio.ensure_future(finish(5, save))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [1]


async def test_a_task_that_fails_at_once_stops_its_neighbours_with_a_cause() -> None:
    seen: list[str] = []

    async def wait() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            seen.append(str(current_cause()))

    async def fail() -> None:
        raise ValueError("at once")

    with pytest.raises(ValueError, match="at once"):
        async with tasks() as group:
            group.start_soon(wait)
            await anyio.sleep(0.01)
            group.start_soon(fail)
    assert seen == ["a task beside it failed: at once"]


async def test_a_grace_is_used_and_ends() -> None:
    done: list[int] = []

    async def work() -> None:
        async with graced(0.1, Shutdown):
            await anyio.sleep(0.03)
            done.append(1)
            await anyio.sleep_forever()

    with pytest.raises(Shutdown), Scope() as scope:
        async with tasks() as group:
            group.start_soon(work)
            await anyio.sleep(0.01)
            scope.cancel(Shutdown("SIGTERM"))
    assert done == [1]


async def test_slots_are_handed_over_and_none_is_lost() -> None:
    slots, arrived, order = Slots(1), list[int](), list[int]()

    async def work(number: int) -> None:
        arrived.append(number)
        with Scope(0.005 if number % 2 else 10, quiet=True):
            async with slots.hold():
                order.append(number)
                await anyio.sleep(0.002)

    async with tasks() as group:
        for number in range(20):
            group.start_soon(work, number)
    assert order == [number for number in arrived if number in order]
    assert {*range(0, 20, 2)} <= {*order}
    assert slots.statistics() == (1, 0, 0)


async def test_a_thread_reads_its_stop_and_on_stop_calls_back() -> None:
    """Again and again, for the thread may see a deadline before the loop's timer comes; uvloop's are coarse."""
    called: list[str] = []
    pause = threading.Event()

    def work() -> None:
        while True:
            check_stop()
            pause.wait(0.0002)

    async def keep_the_loop_awake() -> None:
        while len(called) < 100:
            await anyio.sleep(0.0003)

    async with no_leaks(), tasks() as group:
        group.start_soon(keep_the_loop_awake)
        for number in range(100):
            with pytest.raises(DeadlinePassed), deadline(0.003 + number / 100_000):
                async with on_stop(lambda cause: called.append(str(cause))):
                    await call_in_thread(work)
            assert len(called) == number + 1
