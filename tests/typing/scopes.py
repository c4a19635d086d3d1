"""Read by type checkers, never run: what the ground floor's functions return, and which calls are wrong."""

from __future__ import annotations

from typing import assert_type

from heaveto.causes import CallTimeout, Stop
from heaveto.errors import APIError, find
from heaveto.scopes import (
    Scope,
    Slots,
    call_foreign,
    call_in_thread,
    current_cause,
    deadline,
    finish,
    graced,
    tasks,
    time_left,
)


async def save(path: str, size: int) -> float:
    return size / len(path)


async def use(error: BaseException, slots: Slots) -> None:
    assert_type(current_cause(), Stop | None)
    assert_type(time_left(), float)
    assert_type(find(error, APIError), APIError | None)
    assert_type(await finish(5, save, "a", 3), float)
    assert_type(await call_in_thread(len, "abc"), int)
    assert_type(await call_foreign(save, "a", 3), float)
    with deadline(120, CallTimeout(120)) as scope:
        assert_type(scope, Scope)
        assert_type(scope.cause, Stop | None)
    async with tasks() as group, graced(30, CallTimeout) as inner, slots.hold():
        group.start_soon(save, "a", 3)
        assert_type(inner, Scope)

    await finish(5, save, 3, "a")  # type: ignore[arg-type]
    group.start_soon(save, "a")  # type: ignore[arg-type]
    deadline(5, ValueError("not a cause"))  # type: ignore[arg-type]
    scope.cancel("a text is no cause")  # type: ignore[arg-type]
