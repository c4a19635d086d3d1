"""The loop around an attempt: waits, notices, spend, limits and stops, on both back ends under a fake clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from heaveto.causes import AttemptTimeout, Cancelled, DeadlinePassed, Shutdown
from heaveto.errors import APIError, GaveUp, NotEnoughTime, TransportFailed
from heaveto.messages import Usage
from heaveto.retry import Attempt, RetryNotice, RetryPolicy, retrying
from heaveto.scopes import Scope, deadline, graced, tasks
from heaveto.testing.clocks import FakeClock

pytestmark = pytest.mark.anyio

BUSY = APIError("p", 503, "busy")
WRONG = APIError("p", 400, "wrong")
POLICY = RetryPolicy(attempts=3, base_seconds=4, cap_seconds=100)


@pytest.fixture
def anyio_backend(fake_clock: FakeClock) -> Any:
    return fake_clock.backend


class Call:
    """Attempts that end as they are told: an exception is raised, anything else returned; attempt n spends 10 n."""

    def __init__(self, *ends: object, seconds: float = 0) -> None:
        self.ends, self.seconds, self.made = list(ends), seconds, 0
        self.notices: list[RetryNotice] = []
        self.lost: list[int] = []

    async def once(self, attempt: Attempt) -> object:
        self.made += 1
        assert (attempt.number, attempt.of) == (self.made, POLICY.attempts)
        spent = Usage(output_tokens=10 * attempt.number)
        attempt.spends(lambda: spent)
        await anyio.sleep(self.seconds)
        end = self.ends.pop(0)
        if isinstance(end, BaseException):
            raise end
        return end

    async def run(self, policy: RetryPolicy = POLICY) -> object:
        lost = lambda spent: self.lost.append(spent.output_tokens)  # noqa: E731
        return await retrying(self.once, policy, on_retry=self.notices.append, on_lost=lost, random=lambda: 0.5)

    @property
    def retried(self) -> list[tuple[int, int, float, int]]:
        return [(n.attempt, n.of, n.after, n.spent.output_tokens) for n in self.notices if n.spent]


async def test_the_first_success_is_the_result(fake_clock: FakeClock) -> None:
    call = Call("reply")
    assert await call.run() == "reply"
    assert (call.made, call.notices, call.lost, fake_clock.now) == (1, [], [], 0)


async def test_each_failed_attempt_is_told_with_its_wait_and_its_spend(fake_clock: FakeClock) -> None:
    call = Call(BUSY, TransportFailed("POST", "x", "reset"), "reply")
    assert await call.run() == "reply"
    assert call.retried == [(1, 3, 2, 10), (2, 3, 4, 20)]
    assert call.notices[0].error is BUSY
    assert call.notices[0].why == "the error says that it may pass"
    assert (call.lost, fake_clock.now) == ([], 6)


async def test_a_first_error_that_is_permanent_comes_bare() -> None:
    call = Call(WRONG)
    with pytest.raises(APIError) as caught:
        await call.run()
    assert caught.value is WRONG
    assert caught.value.__cause__ is None
    assert (call.made, call.notices, call.lost) == (1, [], [10])


async def test_a_later_permanent_error_says_how_many_attempts_there_were() -> None:
    call = Call(BUSY, WRONG)
    with pytest.raises(GaveUp) as caught:
        await call.run()
    assert (caught.value.attempts, caught.value.last) == (2, WRONG)
    assert str(caught.value) == (
        "gave up after 2 attempts: the error says that trying again cannot help: p: 400 Bad Request: wrong"
    )
    assert ([n.spent.output_tokens for n in call.notices if n.spent], call.lost) == ([10], [20])


async def test_the_last_error_reports_itself_as_not_retryable() -> None:
    call = Call(BUSY, BUSY, BUSY)
    with pytest.raises(GaveUp) as caught:
        await call.run()
    assert str(caught.value) == "gave up after 3 attempts: no attempts left: p: 503 Service Unavailable: busy"
    assert caught.value.__cause__ is BUSY
    assert not caught.value.retryable
    assert call.lost == [30]
    outer = Call(caught.value)
    with pytest.raises(GaveUp):
        await outer.run()
    assert outer.made == 1


async def test_the_servers_wait_is_the_least(fake_clock: FakeClock) -> None:
    assert await Call(APIError("p", 429, "slow", 30.0), "reply").run() == "reply"
    assert fake_clock.now == 30


async def test_a_wait_beyond_the_time_left_stops_at_once(fake_clock: FakeClock) -> None:
    call = Call(APIError("p", 429, "slow", 30.0), "never")
    with pytest.raises(GaveUp) as caught, deadline(20):
        await call.run()
    assert caught.value.why == "the wait is beyond the time left (30 s of 20 s)"
    assert (fake_clock.now, call.made, call.lost) == (0, 1, [10])


async def test_an_attempt_has_a_limit_of_its_own(fake_clock: FakeClock) -> None:
    call = Call("a", "b", "c", seconds=9)
    with pytest.raises(GaveUp) as caught:
        await call.run(RetryPolicy(attempts=3, base_seconds=0, attempt_seconds=5))
    assert isinstance(caught.value.last, AttemptTimeout)
    assert (fake_clock.now, call.made) == (15, 3)
    assert [n.spent.output_tokens for n in call.notices if n.spent] + call.lost == [10, 20, 30]


@pytest.mark.parametrize("at", [1, 3], ids=["in the attempt", "in the wait"])
async def test_a_stop_is_immediate_and_its_spend_is_counted_once(fake_clock: FakeClock, at: float) -> None:
    call = Call(APIError("p", 429, "slow", 30.0), "never", seconds=2)
    with pytest.raises(Cancelled, match="enough") as caught, Scope() as scope:
        async with tasks() as group:
            group.start_soon(cancel_at, scope, at)
            await call.run()
    assert not hasattr(caught.value, "__notes__")
    assert (fake_clock.now, call.made) == (at, 1)
    assert [n.spent.output_tokens for n in call.notices if n.spent] + call.lost == [10]


async def cancel_at(scope: Scope, seconds: float) -> None:
    await anyio.sleep(seconds)
    scope.cancel(Cancelled("enough"))


async def test_a_deadline_around_is_a_stop_and_not_a_timeout_to_retry(fake_clock: FakeClock) -> None:
    call = Call("never", seconds=50)
    with pytest.raises(DeadlinePassed) as caught, deadline(20):
        await call.run()
    assert caught.value.seconds == 20
    assert (fake_clock.now, call.made, call.lost) == (20, 1, [10])


@pytest.mark.parametrize("end", [BUSY, WRONG, "reply"], ids=["passing", "permanent", "success"])
async def test_nothing_is_begun_while_a_grace_holds_a_stop_off(fake_clock: FakeClock, end: object) -> None:
    """The attempt under way may end and its result counts; after it there is neither a wait nor another attempt."""
    call = Call(end, "never", seconds=2)
    done: list[object] = []
    with pytest.raises(Shutdown), Scope() as scope:
        async with tasks() as group:
            group.start_soon(shut_down_at, scope, 1)
            async with graced(30, Shutdown):
                done.append(await call.run())
    assert done == (["reply"] if end == "reply" else [])
    assert (fake_clock.now, call.made) == (2, 1)
    assert call.lost == ([] if end == "reply" else [10])


async def shut_down_at(scope: Scope, seconds: float) -> None:
    await anyio.sleep(seconds)
    scope.cancel(Shutdown("SIGTERM"))


async def test_no_attempt_begins_after_a_stop() -> None:
    call = Call("never")
    with pytest.raises(Cancelled, match="enough"), Scope() as scope:
        scope.cancel(Cancelled("enough"))
        await call.run()
    assert call.made == 0


async def test_an_attempt_that_never_said_what_it_spent_has_nothing_to_hand_over() -> None:
    async def once(attempt: Attempt) -> str:
        if attempt.number == 1:
            raise BUSY
        raise NotEnoughTime(2, 1)

    notices: list[RetryNotice] = []
    lost: list[Usage] = []
    with pytest.raises(GaveUp):
        await retrying(once, POLICY, on_retry=notices.append, on_lost=lost.append, random=lambda: 0.0)
    assert ([notice.spent for notice in notices], lost) == ([None], [])


def test_the_jitter_is_random_by_default(fake_clock: FakeClock) -> None:
    waits: list[float] = []

    async def many() -> None:
        for _ in range(20):
            await retrying(Call(BUSY, "reply").once, POLICY, on_retry=lambda notice: waits.append(notice.after))

    run: Callable[..., Any] = fake_clock.run
    run(many)
    assert len(set(waits)) > 10
    assert all(0 <= wait <= 4 for wait in waits)
