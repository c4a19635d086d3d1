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

import functools
import inspect
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .clocks import FakeClock

NOT_UNDER_IT = (
    "{} names fake_clock and would run in real time: mark it with pytest.mark.anyio, and let the fixture anyio_backend "
    "return fake_clock.backend"
)
TAKEN_OVER = (
    "{0} runs {1} in a loop of its own, in real time and not under fake_clock; pytest-asyncio leaves AnyIO's tests alone "
    'in its mode "strict", which is its default'
)


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

    if _is_async(request.node):  # pytest-asyncio's, say: its tasks can be seen in its loop only, which ends with the test
        with _held_inside(request.node):
            yield
        return
    with no_leaks():
        yield


@contextmanager
def _held_inside(item: Any) -> Iterator[None]:
    """Have an async test that a plugin runs in a loop of its own look for leaks before that ends."""
    from .leaks import no_leaks

    place, name = _function_of(item)
    test = getattr(place, name)

    @functools.wraps(test)
    async def held(*args: Any, **kwargs: Any) -> Any:
        async with no_leaks():
            return await test(*args, **kwargs)

    setattr(place, name, held)
    try:
        yield
    finally:
        setattr(place, name, test)


@pytest.fixture
async def _no_leaks_in_the_loop() -> AsyncIterator[None]:
    from .leaks import no_leaks

    async with no_leaks():
        yield


@pytest.hookimpl(trylast=True)  # when its fixtures are there
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse an async test that names `fake_clock` and would run in real time."""
    clocks = sys.modules.get(f"{__package__}.clocks")
    clock = getattr(item, "funcargs", {}).get("fake_clock")
    if clocks is None or not isinstance(clock, clocks.FakeClock) or not _is_async(item):
        return
    if not clock.in_use:
        pytest.fail(NOT_UNDER_IT.format(item.name), pytrace=False)
    if type(item).runtest is not pytest.Function.runtest:
        plugin = type(item).__module__.partition(".")[0].replace("_", "-")
        pytest.fail(TAKEN_OVER.format(plugin, item.name), pytrace=False)


def _is_async(item: Any) -> bool:
    return inspect.iscoroutinefunction(getattr(*_function_of(item)))


def _function_of(item: Any) -> tuple[Any, str]:
    """Where the test's own function is: Hypothesis has it behind its own."""
    handle = getattr(item.obj, "hypothesis", None)
    return (item, "obj") if handle is None else (handle, "inner_test")
