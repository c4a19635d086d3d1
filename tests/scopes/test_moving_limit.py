"""A block's time limit that moves: exact, with the cause of its last move, and kept once it has passed."""

from __future__ import annotations

import math

import anyio
import anyio.lowlevel
import pytest

from heaveto.causes import Cancelled, DeadlinePassed
from heaveto.scopes import Scope, time_left
from heaveto.testing.clocks import FakeClock

pytestmark = pytest.mark.anyio
EARLY, LATE = DeadlinePassed(1, "early"), DeadlinePassed(2, "late")


async def test_a_limit_that_moves_on_does_not_stop_and_the_last_one_does_in_time(fake_clock: FakeClock) -> None:
    began = anyio.current_time()
    with pytest.raises(DeadlinePassed) as caught, Scope() as scope:
        for _ in range(5):
            scope.limit(anyio.current_time() + 10, EARLY)
            await anyio.sleep(9)
        scope.limit(anyio.current_time() + 10, LATE)
        await anyio.sleep(math.inf)
    assert caught.value.args == LATE.args
    assert anyio.current_time() - began == 55
    if fake_clock.backend_name == "asyncio":
        assert str(caught.value.__context__).endswith("reason: its time limit passed")


async def test_a_limit_may_move_nearer(fake_clock: FakeClock) -> None:
    began = anyio.current_time()
    with Scope(quiet=True) as scope:
        scope.limit(began + 100, LATE)
        await anyio.sleep(1)
        scope.limit(began + 2, EARLY)
        assert time_left() == 1
        await anyio.sleep(math.inf)
    assert scope.own_cause is EARLY
    assert anyio.current_time() - began == 2


async def test_a_limit_takes_the_place_of_the_one_that_the_block_began_with(fake_clock: FakeClock) -> None:
    with Scope(5, EARLY) as scope:
        scope.limit(anyio.current_time() + 50, LATE)
        await anyio.sleep(20)
        scope.limit(math.inf, LATE)
        await anyio.sleep(200)
        reached = fake_clock.now
    assert reached == 220


async def test_a_limit_may_be_none_for_a_long_time_and_then_be_one_again(fake_clock: FakeClock) -> None:
    with pytest.raises(DeadlinePassed) as caught, Scope() as scope:
        scope.limit(fake_clock.now + 10, EARLY)
        scope.limit(math.inf, EARLY)
        await anyio.sleep(100)
        assert scope._moving is not None
        assert scope._moving._timer is None
        scope.limit(fake_clock.now + 10, LATE)
        await anyio.sleep(math.inf)
    assert (caught.value.args, fake_clock.now) == (LATE.args, 110)


async def test_no_move_is_left_behind_when_the_block_ends(fake_clock: FakeClock) -> None:
    with Scope() as scope:
        for seconds in (100, 50, 70):
            scope.limit(fake_clock.now + seconds, LATE)
    await anyio.sleep(200)
    assert not scope.native.cancel_called


async def test_a_limit_that_is_past_stops_at_the_next_await(fake_clock: FakeClock) -> None:
    with Scope(quiet=True) as scope:
        scope.limit(anyio.current_time(), EARLY)
        await anyio.sleep(1)
        raise AssertionError
    assert scope.own_cause is EARLY


async def test_a_limit_that_has_passed_cannot_be_moved_away(fake_clock: FakeClock) -> None:
    """As clean-up does that says that nothing is waited for any more."""
    with pytest.raises(DeadlinePassed) as caught, Scope() as scope:
        try:
            scope.limit(anyio.current_time() + 1, EARLY)
            await anyio.sleep(10)
        finally:
            scope.limit(math.inf, LATE)
    assert caught.value.args == EARLY.args


async def test_nor_one_that_has_passed_while_the_loop_could_not_run(fake_clock: FakeClock) -> None:
    with pytest.raises(DeadlinePassed) as caught, Scope() as scope:
        scope.limit(anyio.current_time() + 1, EARLY)
        fake_clock.jump(3)
        scope.limit(math.inf, LATE)
        await anyio.lowlevel.checkpoint()
        pytest.fail("the await went through")
    assert caught.value.args == EARLY.args
    assert fake_clock.now == 3


async def test_a_limit_does_not_replace_a_stop_by_the_native_scope_itself() -> None:
    with Scope() as scope:
        scope.native.cancel()
        scope.limit(anyio.current_time() - 1, LATE)
        await anyio.sleep(10)
    assert scope.own_cause is None


async def test_an_earlier_stop_is_kept(fake_clock: FakeClock) -> None:
    with pytest.raises(Cancelled, match="enough"), Scope() as scope:
        scope.limit(anyio.current_time() + 10, LATE)
        scope.cancel(Cancelled("enough"))
        scope.limit(anyio.current_time() + 1, EARLY)
        await anyio.sleep(100)


async def test_a_limit_ends_with_its_block(fake_clock: FakeClock) -> None:
    with Scope() as scope:
        scope.limit(anyio.current_time() + 10, LATE)
    await anyio.sleep(20)
    assert scope.own_cause is None
    assert not scope.native.cancel_called
