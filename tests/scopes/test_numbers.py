"""Seconds that are numbers, but not the clock's kind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import anyio
import pytest

from heaveto.causes import DeadlinePassed, SaveTimeout, Shutdown, Stop
from heaveto.errors import NotEnoughTime
from heaveto.scopes import RateLimit, Scope, call_in_task, call_in_thread, deadline, finish, graced, need
from heaveto.testing.clocks import FakeClock

pytestmark = pytest.mark.anyio


async def limited(seconds: Any) -> None:
    with deadline(seconds):
        await anyio.sleep_forever()


async def moved(seconds: Any) -> None:
    with Scope() as scope:
        scope.limit(seconds, DeadlinePassed(1.5))
        await anyio.sleep_forever()


async def finished(seconds: Any) -> None:
    await finish(seconds, anyio.sleep_forever)


async def held_off(seconds: Any) -> None:
    with Scope() as scope:
        async with graced(seconds, Shutdown):
            scope.cancel(Shutdown("SIGTERM"))
            await anyio.sleep_forever()


@pytest.mark.parametrize("seconds", [Decimal("1.5"), Fraction(3, 2)])
@pytest.mark.parametrize("stopped", [limited, moved, finished, held_off])
async def test_they_limit_what_they_are_given_to(
    seconds: Any, stopped: Callable[[Any], Awaitable[None]], fake_clock: FakeClock
) -> None:
    with pytest.raises((DeadlinePassed, SaveTimeout, Shutdown)) as caught:
        await stopped(seconds)
    assert fake_clock.now == 1.5
    assert isinstance(caught.value, Shutdown) or "1.5 s" in str(caught.value)


@pytest.mark.parametrize("seconds", [Decimal("0.01"), Fraction(1, 100)])
@pytest.mark.parametrize("call", [call_in_task, call_in_thread])
async def test_they_are_a_moment_that_a_stop_leaves(seconds: Any, call: Any) -> None:
    async def swallows() -> None:
        while True:
            try:
                await anyio.sleep(3600)
            except BaseException:
                pass

    with pytest.raises(Stop), deadline(0.01):
        if call is call_in_task:
            await call_in_task(swallows, moment=seconds)
        else:
            import threading

            await call_in_thread(threading.Event().wait, 0.2, moment=seconds)


@pytest.mark.parametrize("seconds", [Decimal(5), Fraction(5)])
async def test_they_can_be_more_than_is_left(seconds: Any) -> None:
    with deadline(2), pytest.raises(NotEnoughTime, match=r"needs 5 s"):
        need(seconds)


async def test_a_scope_that_has_not_begun_has_no_cause() -> None:
    scope = Scope(5)
    assert (scope.cause, scope.own_cause) == (None, None)


@pytest.mark.parametrize("limit", ["requests", "tokens"])
def test_a_rate_that_rounds_to_none_is_refused(limit: str) -> None:
    with pytest.raises(ValueError, match=r"^so few per 1e\+300 s are none at all for a float; take fewer per_seconds$"):
        RateLimit(**{limit: 1e-300}, per_seconds=1e300)  # type: ignore[arg-type]
