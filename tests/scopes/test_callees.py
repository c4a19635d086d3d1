"""What is to be called, given in the wrong way: each door says what it takes, before anything begins."""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from heaveto.runs import main
from heaveto.scopes import call_foreign, call_in_task, call_in_thread, finish, tasks
from heaveto.testing import FakeClock, every_await


async def nap(seconds: float = 0) -> str:
    await anyio.sleep(seconds)
    return "rested"


def count() -> int:
    return 5


async def _in_group(fn: Any, how: str) -> None:
    async with tasks() as group:
        if how == "start":
            await group.start(fn)
        else:
            group.start_soon(fn)


DOORS: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "finish": lambda fn: finish(1, fn),
    "start_soon": lambda fn: _in_group(fn, "start_soon"),
    "start": lambda fn: _in_group(fn, "start"),
    "call_in_task": call_in_task,
    "call_in_thread": call_in_thread,
    "call_foreign": call_foreign,
}
FROM_OUTSIDE: dict[str, Callable[[Any], Any]] = {
    "main": main,
    "FakeClock.run": lambda fn: FakeClock("asyncio").run(fn),
    "every_await": lambda fn: [*every_await(fn)],
}


def _refusal(door: str, fn: Any, backend: str = "asyncio") -> str:
    async def go() -> None:
        await DOORS[door](fn)

    with pytest.raises(TypeError) as refused, warnings.catch_warnings():
        warnings.simplefilter("error")  # a coroutine that nobody awaited
        anyio.run(go, backend=backend) if door in DOORS else FROM_OUTSIDE[door](fn)
    return str(refused.value)


@pytest.mark.parametrize("door", [*DOORS, *FROM_OUTSIDE])
def test_a_coroutine_in_the_place_of_its_function_is_refused_with_the_way_to_write_it(door: str) -> None:
    said = _refusal(door, nap(1))
    assert said == f"{door} calls the function itself: give it nap and its arguments apart, not nap(...)"


@pytest.mark.parametrize("door", [*DOORS, *FROM_OUTSIDE])
def test_what_cannot_be_called_is_named(door: str) -> None:
    assert _refusal(door, 5) == f"{door} takes a function and its arguments; 5 cannot be called"


@pytest.mark.parametrize("door", ["finish", "start_soon", "call_in_task", "call_foreign", *FROM_OUTSIDE])
def test_a_sync_function_where_an_async_one_belongs_is_named(door: str) -> None:
    by = "a group of tasks" if door == "start_soon" else door
    assert _refusal(door, count) == f"{by} takes an async function; count is none: it returned 5; call sync code as it is"


@pytest.mark.parametrize("door", ["finish", "start_soon", "call_in_task", "call_in_thread"])
def test_it_is_the_same_on_trio(door: str) -> None:
    assert "give it nap and its arguments apart" in _refusal(door, nap(1), "trio")


@pytest.mark.parametrize(("backend", "known"), [("asyncio", "loop_factory"), ("trio", "instruments")])
def test_an_option_that_the_back_end_does_not_have_is_no_option(backend: str, known: str) -> None:
    with pytest.raises(TypeError, match=rf"main has no option seconds; {backend} has .*{known}.*partial\(fn, name=value\)"):
        main(nap, backend=backend, seconds=1)


def test_a_back_end_that_is_none_is_named() -> None:
    with pytest.raises(ValueError, match='"asyncio" or "trio", not \'curio\''):
        main(nap, backend="curio")


@pytest.mark.parametrize(("backend", "options"), [("asyncio", {"debug": True}), ("trio", {"strict_exception_groups": True})])
def test_options_that_there_are_go_through(backend: str, options: dict[str, Any]) -> None:
    assert main(nap, 0, backend=backend, **options) == "rested"
