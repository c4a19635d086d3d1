"""What is to be called later or elsewhere, looked at before anything begins: a function, and its arguments apart."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, TypeVar

__all__ = ["awaitable", "check_callee"]

T = TypeVar("T")


def check_callee(fn: Callable[..., Any], by: str) -> None:
    """Pass, or refuse what cannot be called.

    Args:
        by: Who would call it, as it is written.

    Raises:
        TypeError: It is none, such as the coroutine that an async function has made already.
    """
    if not callable(fn):
        _refuse(fn, by)


def _refuse(fn: object, by: str) -> NoReturn:
    if inspect.iscoroutine(fn):
        fn.close()  # else Python says of it, too, that nobody awaited it
        name = fn.__name__
        raise TypeError(f"{by} calls the function itself: give it {name} and its arguments apart, not {name}(...)")
    raise TypeError(f"{by} takes a function and its arguments; {fn!r} cannot be called")


def awaitable(made: Awaitable[T], fn: Callable[..., Any], by: str) -> Awaitable[T]:
    """What the call of an async function gave.

    Raises:
        TypeError: There is nothing to wait for, so the function is not async.
    """
    given: object = made  # whatever its type says
    if not inspect.isawaitable(given):
        name = getattr(fn, "__qualname__", repr(fn))
        raise TypeError(f"{by} takes an async function; {name} is none: it returned {given!r}; call sync code as it is")
    return made
