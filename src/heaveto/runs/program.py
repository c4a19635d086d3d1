"""A program of one's own whose signals are causes."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Collection
from contextvars import ContextVar
from typing import Any, TypeVar, TypeVarTuple

import anyio

from ..causes import Stop
from ..loop.outcome import describe, exit_status_of, kind_of, why_a_run_ended
from ..scopes import Scope
from ..scopes.callees import awaitable, check_callee
from .signals import Signals

__all__ = ["main", "stopped_runs"]

_OPTIONS = {
    "asyncio": {"debug", "loop_factory", "use_uvloop"},
    "trio": {"clock", "instruments", "restrict_keyboard_interrupt_to_checkpoints", "strict_exception_groups"},
}

T = TypeVar("T")
Args = TypeVarTuple("Args")

# The names of the runs that were shut down in the program. What `main` itself is told, the error that comes out,
# has none of those that ran in tasks beside it.
stopped_runs: ContextVar[list[str] | None] = ContextVar("stopped_runs", default=None)


def main(fn: Callable[[*Args], Awaitable[T]], *args: *Args, backend: str = "asyncio", **options: Any) -> T:
    """Run `fn(*args)` as a program: signals stop it with a cause, and its runs are saved.

    SIGINT is `Interrupted`, SIGTERM and SIGHUP are `Shutdown`; runs under way get their grace period. The second signal ends
    that, the third leaves at once.

    Args:
        backend: "asyncio" or "trio".
        options: For the back end, as `anyio.run` takes them in `backend_options`.

    Raises:
        TypeError: `fn` is no async function, or the back end has no such option.
        ValueError: There is no such back end.
        SystemExit: The program was stopped by a signal: 130, 143 or 129, after a line that says why.
    """
    check_callee(fn, "main")
    _check_backend(backend, options)
    stopped: list[str] = []

    async def whole(signals: Signals) -> T:
        stopped_runs.set(stopped)
        with Scope() as scope:
            signals.hand_to(scope.cancel)
            return await awaitable(fn(*args), fn, "main")
        raise AssertionError("a scope that is not quiet raises")

    with Signals() as signals:  # to the last line, so that a second Ctrl-C does not cut it
        try:
            return anyio.run(whole, signals, backend=backend, backend_options=options)
        except Stop as stop:
            if kind_of(stop) not in ("interrupted", "shutdown"):
                raise
            told = why_a_run_ended(stop) if stopped else describe(stop)
            print(told, file=sys.stderr)  # noqa: T201 - this is the end of somebody's program
            raise SystemExit(exit_status_of(stop)) from stop


def _check_backend(backend: str, options: Collection[str]) -> None:
    """Refuse what AnyIO would pass over in silence: what a function takes by name is easily taken for an option."""
    if backend not in _OPTIONS:
        raise ValueError(f'the back end of a program is "asyncio" or "trio", not {backend!r}')
    if unknown := sorted(set(options) - _OPTIONS[backend]):
        known = ", ".join(sorted(_OPTIONS[backend]))
        raise TypeError(
            f"main has no option {unknown[0]}; {backend} has {known}; "
            "what the function takes by name goes into it: main(partial(fn, name=value))"
        )
