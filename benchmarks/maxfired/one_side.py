"""One side in all its crashes: a process of its own, from which each life is forked, so that nothing is loaded twice."""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from crash_points import Outside

__all__ = ["SIDES", "Ended"]

SIDES = {
    "naive": "side_naive:live",
    "heaveto": "side_heaveto:live",
    "heaveto, key": "side_heaveto:live_with_key",
    "heaveto, check": "side_heaveto:live_with_check",
    "langgraph": "side_langgraph:live",
    "pydantic-ai": "side_pydantic_ai:live",
    "openai-agents": "side_openai_agents:live",
}
HANG_SECONDS = 60
MOST_LIVES = 2
IN_MEMORY = Path("/dev/shm")

Live = Callable[[Outside], str]


class Ended(NamedTuple):
    """What came of a run that was killed at a point, and taken up again.

    Attributes:
        point: 0: it was not killed.
        status: "answered", or what went wrong.
        asked: How often the model was asked.
        person: Whether a person was needed.
    """

    point: int
    status: str
    charges: int
    asked: int
    person: bool


def main(name: str, every: int) -> None:
    module, _, function = SIDES[name].partition(":")
    live: Live = getattr(importlib.import_module(module), function)
    gc.freeze()
    whole = _whole_run(live, 0)
    points = _points_of(live)
    ended = [whole, *(_whole_run(live, point) for point in range(1, points + 1, every))]
    print(json.dumps({"points": points, "ended": ended}))


def _whole_run(live: Live, kill_at: int) -> Ended:
    with tempfile.TemporaryDirectory(prefix="heaveto-", dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as place:
        folder = Path(place)
        status = _life(live, folder, kill_at)
        for _ in range(MOST_LIVES):  # the first takes a killed run up, the others see that what is done is done
            status = _life(live, folder, 0)
        outside = Outside(folder)
        return Ended(kill_at, status, len(outside.charges()), outside.asked(), (folder / "person").exists())


def _points_of(live: Live) -> int:
    with tempfile.TemporaryDirectory(prefix="heaveto-") as place:
        _life(live, Path(place), 0)
        return int((Path(place) / "points").read_text())


def _life(live: Live, folder: Path, kill_at: int) -> str:
    """One process, which kills itself at a point or comes to its end."""
    child = os.fork()
    if not child:
        _be(live, folder, kill_at)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
    return (folder / "status").read_text()


def _be(live: Live, folder: Path, kill_at: int) -> None:
    os.setpgid(0, 0)
    signal.alarm(HANG_SECONDS)
    sys.stdout = sys.stderr
    outside = Outside(folder, kill_at)
    outside.watch_databases()
    try:
        status = live(outside)
    except BaseException as error:  # it must not go on as a second parent
        traceback.print_exc()
        status = f"{type(error).__name__}: {error}"
    (folder / "status").write_text(status)
    (folder / "points").write_text(str(outside.points))
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
