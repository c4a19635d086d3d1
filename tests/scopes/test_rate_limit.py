"""RateLimit: no more than the limit in any stretch of time, in order, and exact on the fake clock."""

from __future__ import annotations

import gc
import math
import random
import threading
import time
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaveto.causes import Cancelled, DeadlinePassed
from heaveto.scopes import RateLimit, RateLimitStatistics, Scope, deadline, tasks
from heaveto.scopes.rate_limit import _Bucket
from heaveto.testing.clocks import FakeClock
from heaveto.testing.stops import every_await

pytestmark = pytest.mark.anyio


async def begin_times(limit: RateLimit, count: int, clock: FakeClock, tokens: float = 0) -> list[float]:
    times = []
    for _ in range(count):
        await limit.wait(tokens)
        times.append(clock.now)
    return times


async def test_requests_are_spread_over_the_time(fake_clock: FakeClock) -> None:
    assert await begin_times(RateLimit(requests=60), 4, fake_clock) == [0, 1, 2, 3]


async def test_a_burst_may_begin_at_once_and_again_after_a_quiet_time(fake_clock: FakeClock) -> None:
    limit = RateLimit(requests=60, burst=3)
    assert await begin_times(limit, 5, fake_clock) == [0, 0, 0, 1, 2]
    await anyio.sleep(100)
    assert await begin_times(limit, 4, fake_clock) == [102, 102, 102, 103]


async def test_tokens_are_counted_beside_requests(fake_clock: FakeClock) -> None:
    limit = RateLimit(requests=600, tokens=6_000, burst=10, token_burst=100)
    assert await begin_times(limit, 4, fake_clock, tokens=100) == [0, 1, 2, 3]


async def test_by_default_what_two_seconds_bring_may_be_taken_at_once_and_at_most_all(fake_clock: FakeClock) -> None:
    assert await begin_times(RateLimit(tokens=60), 3, fake_clock, tokens=1) == [0, 0, 1]
    assert RateLimit(tokens=60, per_seconds=1).statistics().tokens_left == 60


async def test_the_statistics_say_what_may_begin_at_once_and_who_waits() -> None:
    limit = RateLimit(requests=60, tokens=600, burst=2, token_burst=50)
    assert limit.statistics() == (0, 0, 2, 50)
    await limit.wait(20)
    assert limit.statistics() == (0, 0, 1, 30)
    await anyio.sleep(0.5)
    assert limit.statistics() == (0, 0, 1.5, 35)
    async with tasks() as group:
        for _ in range(3):
            group.start_soon(limit.wait)
        await anyio.lowlevel.checkpoint()
        await anyio.sleep(0.25)
        assert limit.statistics() == (2, 0, -1.25, 37.5)
    assert RateLimit().statistics() == (0, 0, math.inf, math.inf)


async def test_a_correction_moves_the_next_turn(fake_clock: FakeClock) -> None:
    limit = RateLimit(tokens=60, token_burst=10)
    await limit.wait(10)
    limit.correct(20)
    await limit.wait(0)
    assert fake_clock.now == 20
    await limit.wait(10)
    limit.correct(-10)
    await limit.wait(0)
    assert fake_clock.now == 30


async def test_waiters_are_served_in_order() -> None:
    limit, order = RateLimit(requests=60), []

    async def one(number: int) -> None:
        await limit.wait()
        order.append(number)

    async with tasks() as group:
        for number in range(50):
            group.start_soon(one, number)
            await anyio.lowlevel.checkpoint()
    assert order == sorted(order)
    assert len(order) == 50


async def test_a_stop_ends_the_wait_at_once_and_the_turn_is_used_up(fake_clock: FakeClock) -> None:
    limit = RateLimit(requests=60, name="shared limit")
    await limit.wait()
    with pytest.raises(DeadlinePassed) as caught, deadline(0.25, DeadlinePassed(0.25)):
        await limit.wait()
    assert "while waiting for the shared limit (1 s)" in caught.value.__context__.__notes__
    assert (fake_clock.now, limit.statistics().waiting, limit.statistics().given_up) == (0.25, 0, 1)
    await limit.wait()
    assert fake_clock.now == 2


async def test_a_turn_that_is_there_is_taken_without_giving_way() -> None:
    """So that nothing is used up by a stop that comes in between."""
    limit = RateLimit(requests=60, burst=2)
    with Scope() as scope:
        scope.cancel(Cancelled("stop"))
        await limit.wait()
    assert limit.statistics() == (0, 0, 1, math.inf)


async def test_a_limit_without_a_name_is_called_one(fake_clock: FakeClock) -> None:
    limit = RateLimit(requests=1)
    await limit.wait()
    with pytest.raises(DeadlinePassed) as caught, deadline(5):
        await limit.wait()
    assert "while waiting for the rate limit (60 s)" in caught.value.__context__.__notes__  # type: ignore[union-attr]


@pytest.mark.slow
async def test_ten_thousand_waiters_stopped_at_random_leave_the_rest_on_time(fake_clock: FakeClock) -> None:
    limit, arrived, served = RateLimit(requests=60_000, per_seconds=60), [], []
    dice = random.Random(7)

    async def one(number: int, scope: Scope) -> None:
        with scope:
            arrived.append(number)
            await limit.wait()
            served.append((number, fake_clock.now))

    async with tasks() as group:
        for number in range(10_000):
            scope = Scope(quiet=True)
            group.start_soon(one, number, scope)
            if dice.random() < 0.3:
                await anyio.lowlevel.checkpoint()
                scope.cancel(Cancelled("at random"))
    in_time = {number for number, _ in served}
    assert [number for number, _ in served] == [number for number in arrived if number in in_time]
    assert limit.statistics().waiting == 0
    assert limit.statistics().given_up + len(served) == len(arrived)
    assert 1_000 < limit.statistics().given_up < 5_000
    assert max(now for _, now in served) <= 10.001


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), "60"])
@pytest.mark.parametrize("setting", ["requests", "tokens", "per_seconds", "burst", "token_burst"])
def test_a_limit_that_is_none_is_refused(setting: str, value: Any) -> None:
    none = "; use None for no limit" if setting in ("requests", "tokens") else ""
    with pytest.raises(ValueError, match=rf"^{setting} must be a finite number above 0, not {value!r}{none}$"):
        RateLimit(**{setting: value})


@pytest.mark.parametrize("tokens", [math.nan, math.inf, -1, "1"])
async def test_what_is_no_number_of_tokens_is_refused_and_nothing_is_taken(tokens: Any) -> None:
    limit = RateLimit(requests=60, tokens=100)
    before = limit.statistics()
    with pytest.raises(ValueError, match=rf"^tokens must be 0 or more, not {tokens!r}$"):
        await limit.wait(tokens)
    for none in (math.nan, -math.inf, "1"):
        with pytest.raises(ValueError, match=rf"^tokens must be a number, not {none!r}$"):
            limit.correct(none)  # type: ignore[arg-type]
    assert limit.statistics() == before


async def test_no_limit_never_waits(fake_clock: FakeClock) -> None:
    assert await begin_times(RateLimit(), 100, fake_clock, tokens=1e9) == [0] * 100


def test_one_limit_serves_one_loop_after_another(fake_clock: FakeClock) -> None:
    """A loop's clock may begin before the other's end: no time has passed then, and none is owed."""
    limit = RateLimit(requests=60)

    async def late() -> None:
        await anyio.sleep(100)
        await limit.wait()

    fake_clock.run(late)
    assert fake_clock.run(begin_times, limit, 2, fake_clock) == [1, 2]


@pytest.mark.parametrize("backends", [["asyncio"], ["trio"], ["trio", "asyncio"]], ids="+".join)
def test_loops_of_several_threads_hold_the_limit_together(backends: list[str]) -> None:
    """Each of Trio's clocks begins somewhere else. Real time: how long it takes at least is no matter of speed."""
    limit = RateLimit(requests=100, per_seconds=1)

    async def work() -> None:
        for _ in range(5):
            await limit.wait()

    threads = [threading.Thread(target=partial(anyio.run, work, backend=backends[n % len(backends)])) for n in range(4)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() - began >= 0.19 - 0.001
    assert anyio.run(statistics_of, limit)[:2] == (0, 0)


@pytest.mark.parametrize("backends", [["asyncio"], ["trio"], ["trio", "asyncio"]], ids="+".join)
def test_loops_one_after_the_other_hold_the_limit_together(backends: list[str]) -> None:
    limit, began = RateLimit(requests=100, per_seconds=1), time.monotonic()
    for number in range(6):
        anyio.run(limit.wait, backend=backends[number % len(backends)])
    assert time.monotonic() - began >= 0.05 - 0.001


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_time_between_two_loops_has_passed(backend: str) -> None:
    limit = RateLimit(requests=10, per_seconds=1)
    anyio.run(limit.wait, backend=backend)
    time.sleep(0.1)
    assert anyio.run(statistics_of, limit, backend=backend).requests_left == 1


async def statistics_of(limit: RateLimit) -> RateLimitStatistics:
    return limit.statistics()


def test_a_loop_that_is_gone_is_not_kept() -> None:
    limit = RateLimit(requests=100, burst=10)
    for backend in ("trio", "asyncio", "trio"):
        anyio.run(limit.wait, backend=backend)
    gc.collect()
    assert not list(limit._time._ahead)


def test_a_stop_at_every_await_leaves_nobody_waiting() -> None:
    limits: list[RateLimit] = []

    async def two() -> None:
        limits.append(RateLimit(requests=60))
        await limits[-1].wait()
        await limits[-1].wait(3)

    for run in every_await(two):
        assert run.left_running == ()
        assert limits[-1]._waiting == 0


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 10)), min_size=1, max_size=40))
def test_no_stretch_of_time_takes_more_than_burst_and_rate(steps: list[tuple[float, float]]) -> None:
    """For any arrivals: what has come in by the granted time covers what was taken, up to rounding."""
    bucket, now, taken, first = _Bucket(2.0, 5.0), 0.0, 0.0, None
    for pause, amount in steps:
        now += pause
        first = now if first is None else first
        taken += amount
        granted = now + bucket.take(amount, now)
        assert taken <= 5.0 + 2.0 * (granted - first) + 1e-6
