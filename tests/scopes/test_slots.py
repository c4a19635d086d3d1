"""Slots: bounded, fair, and no turn is lost when waiters are stopped."""

from __future__ import annotations

import random
import threading
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heaveto.causes import Cancelled, DeadlinePassed
from heaveto.scopes import Scope, Slots, SlotsStatistics, deadline, tasks
from heaveto.testing.clocks import Backend, FakeClock
from heaveto.testing.stops import every_await

pytestmark = pytest.mark.anyio


async def test_no_more_than_the_total_hold_one_at_once(fake_clock: FakeClock) -> None:
    slots, most = Slots(3), 0

    async def hold() -> None:
        nonlocal most
        async with slots.hold():
            most = max(most, slots.statistics().taken)
            await anyio.sleep(1)

    async with tasks() as group:
        for _ in range(10):
            group.start_soon(hold)
    assert (most, fake_clock.now) == (3, 4)
    assert slots.statistics() == SlotsStatistics(total=3, taken=0, waiting=0)


@pytest.mark.parametrize("total", [0, -5])
async def test_below_one_is_one(total: int) -> None:
    slots = Slots(total)
    assert slots.statistics().total == 1
    async with slots.hold():
        assert not slots.acquire_nowait()


@pytest.mark.parametrize("total", [2.5, float("nan"), "3", None])
def test_only_whole_numbers_are_counted(total: Any) -> None:
    with pytest.raises(TypeError, match=rf"^a number of slots is a whole one, such as 4, not {total!r}$"):
        Slots(total)


async def test_one_may_take_a_slot_without_waiting() -> None:
    slots = Slots(3)
    for taken in (1, 2, 3):
        assert slots.acquire_nowait()
        assert slots.statistics() == SlotsStatistics(total=3, taken=taken, waiting=0)
    assert not slots.acquire_nowait()


async def test_what_was_not_taken_cannot_be_given_back() -> None:
    slots = Slots(1, "desk")
    with pytest.raises(RuntimeError, match=r"^no desk is taken that could be given back; every release needs an acquire$"):
        slots.release()
    assert slots.statistics() == SlotsStatistics(total=1, taken=0, waiting=0)


async def test_nobody_overtakes_who_waits() -> None:
    slots = Slots(1)
    await slots.acquire()
    async with tasks() as group:
        group.start_soon(slots.acquire)
        await anyio.sleep(1)
        assert slots.statistics().waiting == 1
        slots.release()
        assert not slots.acquire_nowait()
    slots.release()
    assert slots.acquire_nowait()


async def test_a_waiter_that_is_stopped_says_what_it_waited_for_and_takes_nothing(fake_clock: FakeClock) -> None:
    slots = Slots(2, "model call")
    async with slots.hold(), slots.hold():
        with pytest.raises(DeadlinePassed) as caught, deadline(5):
            await slots.acquire()
    assert fake_clock.now == 5
    assert caught.value.__context__.__notes__ == ["while waiting for a model call (2 taken)"]  # type: ignore[union-attr]
    assert slots.statistics() == SlotsStatistics(total=2, taken=0, waiting=0)


async def test_slots_without_a_name_are_called_that() -> None:
    slots = Slots(1)
    with pytest.raises(DeadlinePassed) as caught, deadline(5):
        async with slots.hold(), slots.hold():
            pass
    assert caught.value.__context__.__notes__ == ["while waiting for a slot (1 taken)"]  # type: ignore[union-attr]


async def test_a_turn_handed_to_a_waiter_that_is_stopped_in_the_same_moment_goes_to_the_next() -> None:
    slots, served = Slots(1), []

    async def wait(name: str, scope: Scope) -> None:
        with scope:
            await slots.acquire()
            served.append(name)

    await slots.acquire()
    first, second = Scope(quiet=True), Scope(quiet=True)
    async with tasks() as group:
        group.start_soon(wait, "first", first)
        await anyio.sleep(1)
        group.start_soon(wait, "second", second)
        await anyio.sleep(1)
        first.cancel(Cancelled("stop"))
        slots.release()
        await anyio.sleep(1)
    assert served == ["second"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(seed=st.integers(0, 2**32))
@settings(max_examples=10, deadline=None)
def test_no_turn_is_lost_and_the_order_is_kept_whoever_is_stopped_when(backend: Backend, seed: int) -> None:
    check_random_stops(backend, seed, waiters=200)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_ten_thousand_waiters_stopped_at_random(backend: Backend) -> None:
    check_random_stops(backend, seed=1, waiters=10_000)


def check_random_stops(backend: Backend, seed: int, waiters: int) -> None:
    """Waiters come one by one; half are stopped at some time, waiting or holding. In the end all slots are free."""
    choose = random.Random(seed)
    slots, clock = Slots(5), FakeClock(backend)
    served: list[tuple[float, int]] = []
    stopped: list[int] = []

    async def wait(number: int, arrives: float, patience: float, holds: float) -> None:
        await anyio.sleep(arrives)
        try:
            with deadline(patience):
                async with slots.hold():
                    served.append((clock.now, number))
                    await anyio.sleep(holds)
        except DeadlinePassed:
            stopped.append(number)

    async def main() -> None:
        async with tasks() as group:
            for number in range(waiters):
                patience = choose.choice([choose.uniform(0, 40), 1e6])
                # Spaced, so that arrival order is the number; on a grid, so that releases and stops fall together.
                group.start_soon(wait, number, 0.25 * number, round(patience * 4) / 4, choose.randrange(20) / 4)

    clock.run(main)
    assert slots.statistics() == SlotsStatistics(total=5, taken=0, waiting=0)
    numbers = [number for _, number in sorted(served)]  # tasks that go on at the same time may do so in any order
    assert numbers == sorted(numbers)
    assert set(numbers) | set(stopped) == set(range(waiters))
    assert set(stopped)


@pytest.mark.parametrize("backends", [["asyncio"], ["trio"], ["asyncio", "trio"]], ids="+".join)
def test_loops_of_several_threads_share_them(backends: list[str]) -> None:
    """Without a lost wake-up: each thread's loop would sleep for ever."""
    slots = Slots(2)
    holders: set[int] = set()
    most: list[int] = []
    turns: list[int] = []

    async def work(number: int) -> None:
        for _ in range(10):
            async with slots.hold():
                holders.add(number)
                most.append(len(holders))
                await anyio.sleep(0.001)
                turns.append(number)
                holders.remove(number)

    def in_a_loop(number: int) -> None:
        anyio.run(work, number, backend=backends[number % len(backends)])

    threads = [threading.Thread(target=in_a_loop, args=(number,), daemon=True) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(turns) == sorted(10 * [0, 1, 2, 3])
    assert max(most) <= 2
    assert slots.statistics() == SlotsStatistics(total=2, taken=0, waiting=0)


def test_stopped_at_any_await_all_slots_are_free() -> None:
    shared: list[Slots] = []

    async def work() -> None:
        shared[:] = [Slots(2)]

        async def hold(seconds: float) -> None:
            async with shared[0].hold():
                await anyio.sleep(seconds)

        async with tasks() as group:
            for n in range(5):
                group.start_soon(hold, n)

    for run in every_await(work):
        assert run.error is None or isinstance(run.error, type(run.cause)), run
        assert shared[0].statistics() == SlotsStatistics(total=2, taken=0, waiting=0), run
