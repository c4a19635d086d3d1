"""The benchmark of many streams works: each side reads every character of each stream; no time is looked at."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
STREAMS = 40  # more than go through one client


@pytest.fixture(scope="module")
def modules() -> Iterator[dict[str, ModuleType]]:
    sys.path.insert(0, str(BENCHMARKS))
    yield {name: importlib.import_module(name) for name in ("speed", "streams", "stream_sides")}
    sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="module")
def url(modules: dict[str, ModuleType]) -> Iterator[str]:
    with modules["speed"].server() as address:
        yield address


@pytest.mark.parametrize("gap", ["0", "0.001"])
@pytest.mark.parametrize("side", ["httpx2 bare", "httpx2 ours", "aiohttp bare", "aiohttp ours"])
def test_each_side_reads_all_of_every_stream(modules: dict[str, ModuleType], url: str, side: str, gap: str) -> None:
    """A side itself fails when a character of an answer is missing."""
    address = f"{url}/delay=0.01,gap={gap},chunks=4/v1"
    figures = asyncio.run(modules["stream_sides"].measure(side, address, STREAMS))
    assert set(figures) == {"cpu", "wall", "kilobytes"}
    assert figures["wall"] > 0.01


def test_each_side_has_a_floor(modules: dict[str, ModuleType]) -> None:
    exchanges = modules["streams"].EXCHANGES
    assert set(modules["stream_sides"].SIDES) == {f"{name} {side}" for name in exchanges for side in ("bare", "ours")}


@pytest.mark.parametrize(("figure", "times", "held"), [("cpu", 1.4, True), ("cpu", 1.6, False), ("wall", 1.6, False)])
def test_what_is_beyond_the_floor_fails(modules: dict[str, ModuleType], figure: str, times: float, held: bool) -> None:
    streams = modules["streams"]
    floor = {"cpu": 2.0, "wall": 3.0, "kilobytes": 40.0}
    sides = [f"{shape} {exchange}" for shape in streams.SHAPES for exchange in streams.EXCHANGES]
    found = {f"{name} {side}": [floor] for name in sides for side in ("bare", "ours")}
    found[f"{sides[-1]} ours"] = [{**floor, figure: floor[figure] * times}]
    lines, told, within = streams.table(found)
    assert (len(lines), len(told), within) == (1 + 3 * len(sides), len(sides), held)
    assert f"{times:.2f} x" in told[-1]
