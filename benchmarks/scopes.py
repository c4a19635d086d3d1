"""What the ground floor costs beside AnyIO's own, on both back ends: CPU per operation, and ratios within one run.

    python benchmarks/scopes.py [--quick] [ROW ...]       a part of `make bench`; ROW is a word of a row's name

Ours and the floor take turns in one process, so that whatever else the machine does falls on both alike. Figures are
medians over the repetitions, ratios the median of each repetition's ratio. The last lines say which goals hold; the exit
status is 1 when one does not, but for `--quick`, whose figures mean nothing.

Where AnyIO has no such thing, the floor is what it has that comes nearest: `current_cause()` beside
`current_effective_deadline()`, which walks the same scopes, and a turn of a rate limit beside one of a `CapacityLimiter`.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any, TypeAlias

import anyio
import anyio.to_thread

from heaveto.causes import Cancelled
from heaveto.scopes import RateLimit, Scope, Slots, call_in_thread, current_cause, deadline, finish, tasks

__all__ = ["ROWS", "Row", "main"]

Timed: TypeAlias = Callable[[int], Awaitable[float]]  # does something so many times; the CPU seconds
REPETITIONS, QUICK = 25, 3


@dataclass(frozen=True)
class Row:
    """A line of the table: one operation, ours and the floor's.

    Attributes:
        times: How many operations are timed together.
        goal: The ratio to stay at or below; None for none.
    """

    name: str
    times: int
    ours: Timed
    floor: Timed | None = None
    goal: float | None = None


async def _timed(times: int, once: Callable[[], Any]) -> float:
    began = time.process_time()
    for _ in range(times):
        once()
    return time.process_time() - began


async def _timed_waiting(times: int, once: Callable[[], Awaitable[Any]]) -> float:
    began = time.process_time()
    for _ in range(times):
        await once()
    return time.process_time() - began


def _block(make: Callable[[], Any]) -> Timed:
    def once() -> None:
        with make():
            pass

    return partial(_timed, once=once)


def _waiting(once: Callable[..., Awaitable[Any]], *args: Any) -> Timed:
    return partial(_timed_waiting, once=partial(once, *args))


def _shared_block(make: Callable[[], Any], take: Callable[[Any], Any]) -> Timed:
    """A pass through something that is made once for all passes, in the loop."""

    async def timed(times: int) -> float:
        shared = make()

        async def once() -> None:
            async with take(shared):
                pass

        return await _timed_waiting(times, once)

    return timed


async def _causes(times: int) -> float:
    with Scope(), Scope(60), Scope(), Scope(30), Scope():
        return await _timed(times, current_cause)


async def _deadlines(times: int) -> float:
    with anyio.CancelScope(), anyio.move_on_after(60), anyio.CancelScope(), anyio.move_on_after(30), anyio.CancelScope():
        return await _timed(times, anyio.current_effective_deadline)


async def _rate_limited(times: int) -> float:
    limit = RateLimit(requests=1e9, tokens=1e12, per_seconds=1, burst=times, token_burst=1e12)
    return await _timed_waiting(times, partial(limit.wait, 1000))


async def _nothing() -> None:
    pass


async def _shielded() -> None:
    with anyio.move_on_after(5, shield=True):
        await _nothing()


async def _group() -> None:
    async with tasks() as group:
        group.start_soon(_nothing)


async def _bare_group() -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(_nothing)


async def _wait_within(make: Callable[[], Any]) -> None:
    with make(), make():
        await anyio.sleep_forever()


async def _cancelled(count: int) -> float:
    """Tasks that wait, each in two scopes of its own within one that is cancelled."""
    async with AsyncExitStack() as stack:
        scope = stack.enter_context(Scope(quiet=True))
        group = await stack.enter_async_context(tasks())
        for _ in range(count):
            group.start_soon(_wait_within, Scope)
        await anyio.wait_all_tasks_blocked()
        gc.collect()
        began = time.process_time()
        scope.cancel(Cancelled("enough"))
    return time.process_time() - began


async def _bare_cancelled(count: int) -> float:
    async with AsyncExitStack() as stack:
        scope = stack.enter_context(anyio.CancelScope())
        group = await stack.enter_async_context(anyio.create_task_group())
        for _ in range(count):
            group.start_soon(_wait_within, anyio.CancelScope)
        await anyio.wait_all_tasks_blocked()
        gc.collect()
        began = time.process_time()
        scope.cancel()
    return time.process_time() - began


_hold = _shared_block(lambda: Slots(5), lambda slots: slots.hold())
_fast_semaphore = _shared_block(lambda: anyio.Semaphore(5, fast_acquire=True), lambda semaphore: semaphore)
_limiter = _shared_block(lambda: anyio.CapacityLimiter(5), lambda limiter: limiter)
ROWS = [
    Row("scope / CancelScope", 2000, _block(Scope), _block(anyio.CancelScope), goal=2),
    Row("deadline / fail_after", 2000, _block(lambda: deadline(60)), _block(lambda: anyio.fail_after(60)), goal=2),
    Row("current_cause(), 5 deep / deadline", 2000, _causes, _deadlines),
    Row("a group of one task / AnyIO's", 500, _waiting(_group), _waiting(_bare_group)),
    Row("slot / fast Semaphore", 2000, _hold, _fast_semaphore),
    Row("slot / CapacityLimiter", 2000, _hold, _limiter),
    Row("rate limit / CapacityLimiter", 2000, _rate_limited, _limiter),
    Row("finish / a shielded block", 1000, _waiting(finish, 5, _nothing), _waiting(_shielded)),
    Row("call_in_thread / to_thread", 200, _waiting(call_in_thread, int), _waiting(anyio.to_thread.run_sync, int)),
    Row("cancel a task 3 scopes deep", 1000, _cancelled, _bare_cancelled, goal=2),
]


async def _measure(row: Row, times: int, repetitions: int) -> tuple[list[float], list[float]]:
    """Microseconds per operation, ours and the floor's, one for each repetition; each side is warmed up first."""
    ours: list[float] = []
    floor: list[float] = []
    for _ in range(repetitions + 1):
        for timed, found in ((row.ours, ours), (row.floor, floor)):
            if timed is not None:
                gc.collect()
                found.append(await timed(times) * 1e6 / times)
    return ours[1:], floor[1:]


def _line(row: Row, ours: list[float], floor: list[float]) -> tuple[str, float | None]:
    start = f"{row.name:<35} {median(ours):>8,.3g}"
    if not floor:
        return start, None
    ratio = median(one / other for one, other in zip(ours, floor, strict=True))
    goal = "" if row.goal is None else f"{row.goal:g}"
    return f"{start} {median(floor):>8,.3g} {ratio:>7.2f} {goal:>6}".rstrip(), ratio


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="What the ground floor costs beside AnyIO's own.")
    parser.add_argument("rows", nargs="*", metavar="ROW", help="a word of a row's name; all rows by default")
    parser.add_argument("--quick", action="store_true", help="small numbers, to see that it works")
    options = parser.parse_args(arguments)
    rows = [row for row in ROWS if not options.rows or any(word in row.name for word in options.rows)]
    ends, missed = [], 0
    gc.freeze()  # what was there before is nobody's garbage, and would be looked through at each repetition
    for backend in ("asyncio", "trio"):
        print(f"{backend + ', us each':<35} {'ours':>8} {'floor':>8} {'ratio':>7} {'goal':>6}")
        for row in rows:
            times, repetitions = (row.times // 20, QUICK) if options.quick else (row.times, REPETITIONS)
            line, ratio = _line(row, *anyio.run(_measure, row, times, repetitions, backend=backend))
            print(line, flush=True)
            if ratio is not None and row.goal is not None:
                kept = "holds" if ratio <= row.goal else "does not hold"
                missed += ratio > row.goal
                ends.append(f"{backend}, {row.name}: at most {row.goal:g} x AnyIO's {kept} ({ratio:.2f})")
    gc.unfreeze()
    print("\n".join(ends))
    return 1 if missed and not options.quick else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
