"""What is measured, in a process of its own: prints each side's figures, one for each repetition, as one line of JSON.

    python benchmarks/cases.py CASE URL SIDES REPETITIONS [name=value ...]

URL is a fake server's address; SIDES is "bare", "ours" or "bare,ours". With both, they take turns within the process, so
that whatever else the machine does falls on both alike. CPU is this process's, its threads in and the server out.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import resource
import sys
import tempfile
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from fake_server import allow_many_files
from job import Done, Job, Notes, Side

__all__ = ["CASES", "Setting", "measure", "peak_megabytes", "used_seconds"]

Figures: TypeAlias = dict[str, float]
Once: TypeAlias = Callable[[], Awaitable[Figures]]

LOOPS = {"bare": "bare_loop", "ours": "our_loop"}  # loaded when used, so that neither pays for the other
ABOUT = 10  # turns at each end of a long run that are taken together, since one alone is a matter of chance


@dataclass(frozen=True)
class Setting:
    """Whose figures, and the values that the command line gave."""

    side: str
    url: str
    folder: Path
    values: dict[str, str] = field(default_factory=dict)

    def number(self, name: str) -> int:
        return int(self.values[name])

    def loop(self, script: str, notes: Notes | None = None, *, runs_at_once: int = 1) -> Side:
        """The side's loop, on its way to a server that plays the script."""
        streamed = self.values.get("streamed") == "yes"
        store = str(self.folder / "journal.db") if self.values.get("store") == "sqlite" else "memory"
        job = Job(f"{self.url}/{script}/v1", notes or Notes(), streamed, store, runs_at_once)
        made: Side = importlib.import_module(LOOPS[self.side]).Loop(job)
        return made


@asynccontextmanager
async def cold(setting: Setting) -> AsyncIterator[Once]:
    """From the start of the process to the end of a first run with one tool call. One side, one repetition."""

    async def once() -> Figures:
        async with aclosing(setting.loop("turns=1")) as loop:
            _check(await loop.run(), 1)
            return {"cpu_ms": used_seconds() * 1e3, "peak_mb": peak_megabytes()}

    yield once


@asynccontextmanager
async def turns(setting: Setting) -> AsyncIterator[Once]:
    """A run of `turns` turns."""
    count, notes = setting.number("turns"), Notes()
    async with aclosing(setting.loop(f"turns={count - 1}", notes)) as loop:

        async def once() -> Figures:
            calls, requests, began = notes.calls, await _requests(setting), _begin()
            _check(await loop.run(), count - 1)
            used = used_seconds() - began
            _equal("requests", await _requests(setting) - requests, count)
            _equal("tool calls", notes.calls - calls, count - 1)
            return {"cpu_ms": used * 1e3 / count}

        await once()  # connections, caches
        yield once


@asynccontextmanager
async def chunks(setting: Setting) -> AsyncIterator[Once]:
    """One answer in `chunks` pieces of text."""
    count = setting.number("chunks")
    async with aclosing(setting.loop(f"chunks={count}")) as loop:

        async def once() -> Figures:
            began = _begin()
            _check(await loop.run(), 0, count * 5)
            return {"cpu_us": (used_seconds() - began) * 1e6 / count}

        await once()
        yield once


@asynccontextmanager
async def growing(setting: Setting) -> AsyncIterator[Once]:
    """One long run with results of 2 KB: its first turns, its last ones, and what it leaves on the disk."""
    count = setting.number("turns")
    few = min(ABOUT, count // 3)
    at: list[float] = []
    notes = Notes(2048, on_call=lambda: at.append(used_seconds()))

    async def once() -> Figures:
        async with aclosing(setting.loop(f"turns={count}", notes)) as loop:
            at.clear()
            _check(await loop.run(), count)
        journal = sum(path.stat().st_size for path in setting.folder.iterdir())
        first, last = (at[2 + few] - at[2]) / few, (at[-1] - at[-1 - few]) / few
        return {"first_ms": first * 1e3, "last_ms": last * 1e3, "growth": last / first, "journal_mb": journal / 1e6}

    yield once


@asynccontextmanager
async def many(setting: Setting) -> AsyncIterator[Once]:
    """`runs` runs at once, each turn of which waits 0.1 s for the server."""
    count, each = setting.number("runs"), setting.number("turns")
    async with aclosing(setting.loop(f"turns={each - 1},delay=0.1", runs_at_once=count)) as loop:
        await loop.run()

        async def once() -> Figures:
            memory, began = peak_megabytes(), _begin()
            for done in await loop.run_many(count):
                _check(done, each - 1)
            used = used_seconds() - began
            return {"cpu_s": used, "kilobytes": (peak_megabytes() - memory) * 1e3 / count}

        yield once


@asynccontextmanager
async def cancel(setting: Setting) -> AsyncIterator[Once]:
    """`runs` runs that wait for the model, stopped all at once."""
    count = setting.number("runs")
    async with aclosing(setting.loop("turns=1,delay=60", runs_at_once=count)) as loop:

        async def once() -> Figures:
            runs = loop.start(count)
            while (await _stats(setting))["waiting"] < count:
                await asyncio.sleep(0.05)
            began = _begin()
            runs.cancel()
            ends = await runs.ended()
            used = used_seconds() - began
            _equal("runs that ended", len(ends), count)
            return {"cpu_us": used * 1e6 / count}

        yield once


@asynccontextmanager
async def blocks(setting: Setting) -> AsyncIterator[Once]:
    """A block with a deadline; the floor's is AnyIO's own. Ours can also tell why it was stopped."""
    count, block = setting.number("times"), _block_of(setting.side)

    async def once() -> Figures:
        began = _begin()
        for _ in range(count):
            with block():
                pass
        return {"cpu_us": (used_seconds() - began) * 1e6 / count}

    yield once


def _block_of(side: str) -> Callable[[], AbstractContextManager[object]]:
    if side == "ours":
        from heaveto import deadline

        return lambda: deadline(60)
    import anyio

    return lambda: anyio.CancelScope(deadline=anyio.current_time() + 60)


@asynccontextmanager
async def causes(setting: Setting) -> AsyncIterator[Once]:
    """Asking why one is stopped, within three scopes, while one is not. Only ours can."""
    from heaveto import Scope, current_cause

    count = setting.number("times")

    async def once() -> Figures:
        with Scope(), Scope(60), Scope():
            began = _begin()
            for _ in range(count):
                current_cause()
            return {"cpu_us": (used_seconds() - began) * 1e6 / count}

    yield once


CASES: dict[str, Callable[[Setting], AbstractAsyncContextManager[Once]]] = {
    each.__name__: each for each in (cold, turns, chunks, growing, many, cancel, blocks, causes)
}


def used_seconds() -> float:
    """The CPU time of this process so far, its threads in."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def peak_megabytes() -> float:
    """The most memory that this process has had. Linux's `ru_maxrss` begins with that of the parent, so /proc is asked."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # macOS counts bytes
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024 / 1e6


def _begin() -> float:
    gc.collect()
    return used_seconds()


def _check(done: Done, tool_calls: int, characters: int = 1) -> None:
    _equal("tool calls", done.tool_calls, tool_calls)
    if done.characters < characters:
        raise SystemExit(f"an answer of {done.characters} characters, where {characters} or more were sent")


def _equal(what: str, got: int, wanted: int) -> None:
    if got != wanted:
        raise SystemExit(f"{got} {what}, where there should be {wanted}")


async def _requests(setting: Setting) -> int:
    return (await _stats(setting))["requests"]


async def _stats(setting: Setting) -> dict[str, int]:
    def ask() -> dict[str, int]:
        with urllib.request.urlopen(f"{setting.url}/stats") as answer:
            stats: dict[str, int] = json.loads(answer.read())
            return stats

    return await asyncio.to_thread(ask)


async def measure(case: str, settings: list[Setting], repetitions: int) -> dict[str, list[Figures]]:
    """Each side's figures, the sides in turn."""
    figures: dict[str, list[Figures]] = {setting.side: [] for setting in settings}
    async with AsyncExitStack() as stack:
        sides = {setting.side: await stack.enter_async_context(CASES[case](setting)) for setting in settings}
        for _ in range(repetitions):
            for side, once in sides.items():
                figures[side].append(await once())
    return figures


def _main(case: str, url: str, sides: str, repetitions: str, *values: str) -> None:
    allow_many_files()
    named = dict(each.split("=", 1) for each in values)
    with tempfile.TemporaryDirectory(prefix="heaveto-bench-") as folder:
        settings = [Setting(side, url, Path(folder), named) for side in sides.split(",")]
        print(json.dumps(asyncio.run(measure(case, settings, int(repetitions)))))


if __name__ == "__main__":
    _main(*sys.argv[1:])
