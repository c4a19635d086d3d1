"""`make bytes`: each stream closed, reset, stalled and split at its bytes, through the real client.

By default at some 80 bytes of each: the nasty ones, the last, and others by chance; `--all` takes every byte of each.
Most points are answered in memory, under a fake clock; a sample over real sockets. The last line is the figure. Exit status
1 when anything is wrong, when there are too few points, or when the recordings are missing where CI is set.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Sequence

import anyio
from hand_made import hand_made
from points import HOWS, Came, Point, call, cut_exchange, model_for, places, wrong_at
from replies import FOLDER, Reply, recorded
from served import PointServer

from heaveto.models import CallLimits
from heaveto.scopes import tasks
from heaveto.testing.clocks import Backend, FakeClock

LEAST_POINTS = 4_000
CALLS_AT_ONCE = 8  # over sockets
IDLE_SECONDS = 0.2  # over sockets, where time is real; no piece takes that long, also on a busy machine
FAR_IDLE_SECONDS = 30.0  # where no stall is tried


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--places", type=int, default=80, help="of each stream; a smaller one is cut at every byte")
    options.add_argument("--all", action="store_true", help="every byte of every stream, which takes half an hour")
    options.add_argument("--served", type=int, default=400, help="points over real sockets")
    options.add_argument("--seed", type=int, default=1, help="of the places, and of the points over sockets")
    chosen = options.parse_args()
    began = time.monotonic()
    recordings = recorded()
    streams = [reply for reply in (*recordings, *hand_made()) if reply.stream]
    limit = None if chosen.all else chosen.places
    points = [Point(reply, place, how) for reply in streams for place in places(reply, limit, chosen.seed) for how in HOWS]
    served = random.Random(chosen.seed).sample(points, chosen.served)
    wholes = {reply.name: whole(reply) for reply in streams}
    wrong = [*in_memory(points, wholes), *over_sockets(served, wholes)]
    for problem in wrong:
        print(f"wrong: {problem}")
    count, seconds = len(points) + len(served), time.monotonic() - began
    verdict = f"{len(wrong)} wrong" if wrong else "all right"
    few = f", fewer than {LEAST_POINTS:,}" if count < LEAST_POINTS else ""
    left_out = "" if recordings else f", no recordings at {FOLDER} (HEAVETO_WIRE_DIR): hand-made streams alone"
    print(f"bytes: {count:,} points ({len(served)} over sockets) in {seconds:.0f} s, {verdict}{few}{left_out}")
    return 1 if wrong or few or (left_out and os.environ.get("CI")) else 0


def whole(reply: Reply) -> Came:
    """What comes of a stream as it is."""
    point = Point(reply, len(reply.body), "closed")
    return FakeClock("asyncio").run(call, model_for(reply, exchange=cut_exchange(point)))


def in_memory(points: Sequence[Point], wholes: dict[str, Came]) -> list[str]:
    """What is wrong, on asyncio and for every fourth place on Trio."""
    wrong: list[str] = []

    async def try_all(mine: Sequence[Point]) -> None:
        for point in mine:
            came = await call(model_for(point.reply, exchange=cut_exchange(point)))
            if (problem := wrong_at(point, came, wholes[point.reply.name])) is not None:
                wrong.append(problem)

    shares: dict[Backend, list[Point]] = {"asyncio": [], "trio": []}
    for point in points:
        shares["trio" if point.place % 4 == 3 else "asyncio"].append(point)
    for backend, mine in shares.items():
        FakeClock(backend).run(try_all, mine)
    return wrong


def over_sockets(points: Sequence[Point], wholes: dict[str, Came]) -> list[str]:
    """What is wrong over real connections, half of them on Trio."""
    wrong: list[str] = []

    async def try_all(server: PointServer, waiting: list[int]) -> None:
        async def work() -> None:
            while waiting:
                number = waiting.pop()
                point = points[number]
                idle = IDLE_SECONDS if point.how == "stalled" else FAR_IDLE_SECONDS
                model = model_for(point.reply, server.url(number), limits=CallLimits(idle_seconds=idle))
                came = await call(model)
                await model.aclose()
                problem = wrong_at(point, came, wholes[point.reply.name], framed=server.framed(point))
                if problem is not None:
                    wrong.append(f"over a socket: {problem}")

        async with tasks() as clients:
            for _ in range(CALLS_AT_ONCE):
                clients.start_soon(work)

    with PointServer(points) as server:
        for backend, first in (("asyncio", 0), ("trio", 1)):
            anyio.run(try_all, server, list(range(first, len(points), 2)), backend=backend)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
