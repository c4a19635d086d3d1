"""A thousand streams at once in one process: CPU, wall time and memory beside a bare client on the same HTTP library.

    python benchmarks/streams.py [--quick]        `make streams`

A local server in a process of its own answers each request after 100 ms, with all chunks together or each alone. The floor
(`stream_sides.py`) sends, reads, splits and decodes by hand. The sides take turns, each time in a new process; a ratio is
the median over the repetitions. The last line has the ratios; where one is beyond `MOST`, the exit status is 1.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import TypeAlias

from speed import server

__all__ = ["EXCHANGES", "MOST", "SHAPES", "main", "table"]

HERE = Path(__file__).parent
MOST = 1.5  # times the floor, of CPU and of wall time
EXCHANGES = ("httpx2", "aiohttp")
SHAPES = {"all chunks together": "delay=0.1,chunks=20", "each chunk alone": "delay=0.1,gap=0.01,chunks=20"}
Figures: TypeAlias = dict[str, list[dict[str, float]]]  # by shape, exchange and side


def table(found: Figures) -> tuple[list[str], list[str], bool]:
    """The lines, the ratios in words, and whether all of them are within bounds."""
    lines = [f"{'':<30} {'':>8} {'ours':>8} {'floor':>8} {'times':>6} {'most':>5}"]
    told, held = [], True
    for shape in SHAPES:
        for exchange in EXCHANGES:
            ours, bare = found[f"{shape} {exchange} ours"], found[f"{shape} {exchange} bare"]
            times = {figure: _times(ours, bare, figure) for figure in ("cpu", "wall")}
            for figure, ratio in times.items():
                values = f"{_middle(ours, figure):>8.2f} {_middle(bare, figure):>8.2f} {ratio:>6.2f} {MOST:>5}"
                lines.append(f"{exchange + ', ' + shape:<30} {figure + ' s':>8} {values}")
            values = f"{_middle(ours, 'kilobytes'):>8.0f} {_middle(bare, 'kilobytes'):>8.0f}"
            lines.append(f"{exchange + ', ' + shape:<30} {'KB each':>8} {values}")
            told.append(f"{exchange}, {shape}: {times['cpu']:.2f} x CPU, {times['wall']:.2f} x wall")
            held = held and max(times.values()) <= MOST
    return lines, told, held


def _times(ours: list[dict[str, float]], bare: list[dict[str, float]], figure: str) -> float:
    return median(our[figure] / its[figure] for our, its in zip(ours, bare, strict=True))


def _middle(each: list[dict[str, float]], figure: str) -> float:
    return median(one[figure] for one in each)


def _measure(url: str, streams: int, repetitions: int) -> Figures:
    found: Figures = {}
    for shape, script in SHAPES.items():
        for exchange in EXCHANGES * repetitions:
            for side in ("bare", "ours"):
                figures = _side(f"{exchange} {side}", f"{url}/{script}/v1", streams)
                found.setdefault(f"{shape} {exchange} {side}", []).append(figures)
    return found


def _side(*arguments: object) -> dict[str, float]:
    command = [sys.executable, str(HERE / "stream_sides.py"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="A thousand streams at once beside a bare client on the same library.")
    parser.add_argument("--quick", action="store_true", help="fewer streams, once, to see that it works")
    options = parser.parse_args(arguments)
    streams, repetitions = (50, 1) if options.quick else (1000, 5)
    with server() as url:
        found = _measure(url, streams, repetitions)
    lines, told, held = table(found)
    print(*lines, sep="\n")
    print(f"{streams:,} streams at once: {'; '.join(told)}")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
