"""The fake clocks: exact, instant, and held while work is out."""

from __future__ import annotations

import asyncio
import math
import socket
import threading
import time
from collections.abc import Callable

import anyio
import pytest

from heaveto.scopes import Handoff, call_in_thread, deadline, outside_the_loop, tasks
from heaveto.testing.clocks import FakeClock


def in_real_seconds(fn: Callable[[], object]) -> float:
    began = time.monotonic()
    fn()
    return time.monotonic() - began


def test_a_day_passes_at_once_and_exactly(fake_clock: FakeClock) -> None:
    async def day() -> float:
        for _ in range(24):
            await anyio.sleep(3600)
        return anyio.current_time()

    assert in_real_seconds(lambda: fake_clock.run(day)) < 2
    assert fake_clock.now == 86_400


@pytest.mark.parametrize("seconds", [2.0**23, 1e8, 2.0**30, 1e9, 123_456_789.5, 1e9 + 0.1])
def test_years_pass_exactly(fake_clock: FakeClock, seconds: float) -> None:
    async def wait() -> None:
        with pytest.raises(TimeoutError), deadline(seconds):
            await anyio.sleep_forever()
        await anyio.sleep(1)

    fake_clock.run(wait)
    assert fake_clock.now == pytest.approx(seconds + 1, abs=3 * math.ulp(seconds), rel=0)


def test_each_run_begins_at_zero(fake_clock: FakeClock) -> None:
    assert fake_clock.now == 0
    for _ in range(2):
        fake_clock.run(anyio.sleep, 5)
        assert fake_clock.now == 5


def test_timers_fire_in_the_order_of_their_times(fake_clock: FakeClock) -> None:
    order: list[tuple[float, float]] = []

    async def wait(seconds: float) -> None:
        await anyio.sleep(seconds)
        order.append((seconds, fake_clock.now))

    async def main() -> None:
        async with tasks() as group:
            for seconds in (3.5, 0.1, 200_000.0, 1.0):  # one is longer than the loop's longest wait
                group.start_soon(wait, seconds)

    fake_clock.run(main)
    assert order == [(each, each) for each in (0.1, 1.0, 3.5, 200_000.0)]


def test_time_passes_for_code_that_computes(fake_clock: FakeClock) -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError), deadline(5):
            fake_clock.jump(6)
            await anyio.sleep(1)
        assert fake_clock.now == 6

    with pytest.raises(RuntimeError, match="nothing runs"):
        fake_clock.jump(1)
    for back in (-1, math.nan, math.inf):
        with pytest.raises(ValueError, match=rf"^time goes on by a number of seconds, 0 or more, not {back}$"):
            fake_clock.jump(back)
    fake_clock.run(main)


def test_data_that_is_there_comes_before_a_jump(fake_clock: FakeClock) -> None:
    async def main() -> None:
        left, right = socket.socketpair()
        left.setblocking(False)
        right.setblocking(False)
        with left, right, deadline(60):
            right.send(b"here")
            await anyio.wait_readable(left)
        assert fake_clock.now == 0

    fake_clock.run(main)


def test_a_thread_of_ours_takes_no_fake_time(fake_clock: FakeClock) -> None:
    async def main() -> None:
        with deadline(0.5):
            await call_in_thread(time.sleep, 0.03)
        assert fake_clock.now == 0
        await anyio.sleep(3600)

    assert in_real_seconds(lambda: fake_clock.run(main)) < 2


def test_a_timer_due_while_a_thread_is_out_takes_as_long_as_in_reality(fake_clock: FakeClock) -> None:
    """And time still moves by whole jumps: with no rounding of real seconds in it."""

    async def main() -> None:
        with pytest.raises(TimeoutError), deadline(0.1):
            await call_in_thread(time.sleep, 0.5, moment=0.05)
        assert fake_clock.now == pytest.approx(0.15, abs=1e-12)

    assert 0.15 <= in_real_seconds(lambda: fake_clock.run(main)) < 0.5


def test_other_work_under_way_does_not_restart_the_wait_for_a_timer(fake_clock: FakeClock) -> None:
    """Wake-ups from outside, each shorter than the timer, must not put it off for ever."""

    async def main() -> None:
        done = threading.Event()
        handoffs = [Handoff[None]() for _ in range(40)]

        def wake_often() -> None:
            for handoff in handoffs:
                time.sleep(0.01)
                handoff.deliver(None)
            done.set()

        threading.Thread(target=wake_often, daemon=True).start()
        with pytest.raises(TimeoutError), deadline(0.1):
            for handoff in handoffs:
                await handoff.wait()
        assert not done.is_set()
        await call_in_thread(done.wait)

    fake_clock.run(main)


def test_waiting_for_what_is_outside_holds_the_clock(fake_clock: FakeClock) -> None:
    async def main() -> None:
        left, right = socket.socketpair()
        left.setblocking(False)
        with left, right:
            sender = threading.Timer(0.03, right.send, [b"late"])
            sender.start()
            with deadline(60), outside_the_loop():
                await anyio.wait_readable(left)
            assert fake_clock.now == 0
            sender.join()
        with pytest.raises(TimeoutError), deadline(60):
            await anyio.sleep_forever()
        assert fake_clock.now == 60

    fake_clock.run(main)


def test_real_clocks_hold_nothing() -> None:
    async def main() -> None:
        with outside_the_loop():
            await anyio.sleep(0)
        assert await call_in_thread(lambda: 3) == 3

    for backend in ("asyncio", "trio"):
        anyio.run(main, backend=backend)


class TestWithAnyiosPlugin:
    """The fixture pattern of the plugin's documentation."""

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def anyio_backend(self, fake_clock: FakeClock) -> object:
        return fake_clock.backend

    @pytest.fixture
    async def hour(self) -> float:
        await anyio.sleep(3600)
        return anyio.current_time()

    async def test_async_tests_and_fixtures_run_under_the_clock(self, hour: float, fake_clock: FakeClock) -> None:
        await anyio.sleep(60)
        assert (hour, fake_clock.now) == (3600, 3660)

    async def test_on_the_back_end_that_the_name_says(self, fake_clock: FakeClock) -> None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            assert fake_clock.backend_name == "trio"
        else:
            assert fake_clock.backend_name == "asyncio"
