"""The clocks: the loop's with and without Trio, holding a fake one, and the way into a loop from a thread."""

from __future__ import annotations

import subprocess
import sys
import time

import anyio
import pytest

from heaveto.scopes import Scope, outside_the_loop, wall_time
from heaveto.scopes.clock import loop_clock
from heaveto.testing.clocks import Backend, FakeClock

WITHOUT_TRIO = """
import sys
import anyio
from heaveto.scopes import call_in_thread, deadline, finish, outside_the_loop, time_left
from heaveto.testing.clocks import FakeClock

async def work():
    with deadline(5):
        await finish(1, anyio.sleep, 0)
        with outside_the_loop():
            assert await call_in_thread(time_left) == 5
    assert "trio" not in sys.modules

FakeClock("asyncio").run(work)
"""


def test_on_asyncio_nothing_needs_trio() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_TRIO], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_without_a_loop_the_error_says_what_is_missing_and_what_asyncio_said() -> None:
    with pytest.raises(anyio.NoEventLoopError, match=r"^a scope needs a running asyncio or Trio loop$") as caught:
        loop_clock()
    assert isinstance(caught.value.__cause__, RuntimeError)


@pytest.mark.anyio
async def test_a_fake_clock_takes_the_real_time_while_something_is_outside_and_jumps_again_after_it() -> None:
    began = time.monotonic()
    with outside_the_loop():
        await anyio.sleep(0.05)
    assert time.monotonic() - began > 0.04
    await anyio.sleep(1000)
    assert time.monotonic() - began < 100


@pytest.mark.anyio
async def test_the_clock_jumps_again_also_when_what_was_outside_failed() -> None:
    with pytest.raises(OSError, match="gone"), outside_the_loop():
        raise OSError("gone")
    await anyio.sleep(1000)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_where_time_is_real_being_outside_changes_nothing(backend: Backend) -> None:
    """Also while a fake clock exists elsewhere."""

    async def work() -> None:
        with outside_the_loop():
            await anyio.sleep(0)

    fake = FakeClock("asyncio")
    fake.run(anyio.sleep, 1)
    anyio.run(work, backend=backend)


@pytest.mark.anyio
async def test_a_scope_counts_by_the_loops_clock(fake_clock: FakeClock) -> None:
    fake_clock.jump(100)
    assert loop_clock()() == fake_clock.now == anyio.current_time()
    with Scope(5, quiet=True):
        await anyio.sleep(50)
    assert fake_clock.now == 105


def test_the_wall_time_is_the_systems() -> None:
    assert abs(wall_time() - time.time()) < 5
