"""The pytest plugin: loaded by pytest wherever heaveto is installed, so it imports nothing of heaveto until it is used.

@pytest.fixture
def anyio_backend(fake_clock):      # every async test of this module runs under the fake clock, on both back ends
    return fake_clock.backend

@pytest.mark.anyio
async def test_a_call_times_out(fake_clock):
    with pytest.raises(CallTimeout), deadline(120, CallTimeout(120)):
        await anyio.sleep_forever()
    assert fake_clock.now == 120
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .clocks import FakeClock


@pytest.fixture(params=["asyncio", "trio"])
def fake_clock(request: pytest.FixtureRequest) -> FakeClock:
    """A fake clock, once for asyncio and once for Trio. Sync tests call `fake_clock.run(async_fn, *args)`."""
    from .clocks import FakeClock

    if request.param == "trio":
        pytest.importorskip("trio", reason="no trio")
    return FakeClock(request.param)


@pytest.fixture
def no_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """The test must leave no task, thread, child process or open file behind. Name it last, to have it begin last."""
    if "anyio_backend" in request.fixturenames:
        request.getfixturevalue("_no_leaks_in_the_loop")
        yield
        return
    from .leaks import no_leaks

    with no_leaks():
        yield


@pytest.fixture
async def _no_leaks_in_the_loop() -> AsyncIterator[None]:
    from .leaks import no_leaks

    async with no_leaks():
        yield
