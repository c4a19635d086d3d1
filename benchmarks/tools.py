"""What one call of a tool costs beside calling the function: async, sync in a thread, in a process, over MCP.

    python benchmarks/tools.py [--quick] [ROW ...]       a part of `make bench`; ROW is a word of a row's name

Time is the wall's, for much of it passes in other processes; figures are medians over the repetitions, so that what else
the machine does falls on them as little as it can. The floor is calling the function.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

import anyio

from heaveto.tools import Call, Tool, tool

__all__ = ["ROWS", "Row", "main"]

Once: TypeAlias = Callable[[], Awaitable[Any]]
REPETITIONS, QUICK = 200, 3
DEAR = 20  # times what takes a process of its own
TEXT = "some text"


@dataclass(frozen=True)
class Row:
    """A line of the table: a way to call a tool.

    Attributes:
        opened: A block that has what is called.
        needs: A module without which the row is left out.
        times: How often it is called.
    """

    name: str
    opened: Callable[[], Any]
    needs: str = ""
    times: int = REPETITIONS


def count(text: str) -> int:
    """Count the characters of a text."""
    return len(text)


async def count_async(text: str) -> int:
    """Count the characters of a text."""
    return len(text)


@asynccontextmanager
async def _floor() -> AsyncIterator[Once]:
    async def once() -> Any:
        return await count_async(TEXT)

    yield once


def _once(called: Tool) -> Once:
    async def once() -> Any:
        return await called.run(Call(tool=called.name), called.parse('{"text": "some text"}'))

    return once


def _of(make: Callable[[], Tool]) -> Callable[[], Any]:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Once]:
        yield _once(make())

    return opened


@asynccontextmanager
async def _mcp_stdio() -> AsyncIterator[Once]:
    from heaveto.tools.mcp import StdioServer, open_servers

    server = StdioServer(command=sys.executable, args=(str(Path(__file__).with_name("count_server.py")),))
    async with open_servers({"bench": server}) as servers:
        yield _once(servers.tools[0])


@asynccontextmanager
async def _sdk_stdio() -> AsyncIterator[Once]:
    """The same server called with the SDK alone: what of the row above is not ours."""
    from mcp import Client, StdioServerParameters

    server = StdioServerParameters(command=sys.executable, args=[str(Path(__file__).with_name("count_server.py"))])
    async with Client(server) as client:

        async def once() -> Any:
            return await client.call_tool("count", {"text": TEXT})

        yield once


ROWS = [
    Row("the function", _floor),
    Row("async tool", _of(lambda: tool(effect="read")(count_async))),
    Row("sync tool, thread", _of(lambda: tool(effect="read")(count))),
    Row("isolated tool, process", _of(lambda: tool(effect="read", isolate=True)(count)), times=DEAR),
    Row("MCP tool, stdio", _mcp_stdio, "mcp"),
    Row("the SDK alone, stdio", _sdk_stdio, "mcp"),
]


async def measure(row: Row, repetitions: int) -> list[float]:
    """Microseconds of each call, after one that nobody looks at."""
    taken = []
    async with row.opened() as once:
        await once()
        for _ in range(repetitions):
            began = time.perf_counter()
            await once()
            taken.append((time.perf_counter() - began) * 1e6)
    return taken


def main(argv: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rows", nargs="*", metavar="ROW")
    parser.add_argument("--quick", action="store_true", help="a few repetitions, to see that it works")
    asked = parser.parse_args(argv)
    print(f"{'':26}{'median us':>12}{'quickest us':>14}")
    for row in ROWS:
        if asked.rows and not any(word in row.name for word in asked.rows):
            continue
        if row.needs and find_spec(row.needs) is None:
            print(f"{row.name:26} left out: no {row.needs}")
            continue
        taken = anyio.run(measure, row, QUICK if asked.quick else row.times)
        print(f"{row.name:26}{median(taken):12,.1f}{min(taken):14,.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
