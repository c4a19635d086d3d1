"""`make maxfired` works, with ours and the naive loop at a few points, for the peers are not installed here; it can fail."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks" / "maxfired"


@pytest.fixture(scope="module")
def maxfired() -> Iterator[ModuleType]:
    sys.path.insert(0, str(FOLDER))
    yield importlib.import_module("maxfired")
    sys.path.remove(str(FOLDER))


def test_a_few_crashes_of_ours_and_of_the_naive_loop(maxfired: ModuleType) -> None:
    sides = [maxfired.measure("naive"), maxfired.measure("heaveto", every=6), maxfired.measure("heaveto, key", every=6)]
    assert maxfired.failures(sides) == []
    assert sides[1].persons > 0
    assert maxfired.table(sides)[2].startswith("| naive | 4 | 2 | 2 | 0 | 0 | 0 |")


def test_what_falls_short_is_told(maxfired: ModuleType) -> None:
    whole = maxfired.Ended(0, "answered", 1, 2, False)
    twice, never = maxfired.Ended(1, "answered", 2, 2, False), maxfired.Ended(2, "answered", 0, 2, False)
    asks = maxfired.Ended(3, "answered", 1, 2, True)
    assert len(maxfired.failures([maxfired.Side("heaveto", whole, (twice, never, asks))])) == 2
    assert maxfired.failures([maxfired.Side("langgraph", whole, (twice, never))]) == []
    assert "does not work" in maxfired.failures([maxfired.Side("langgraph", twice, (whole,))])[0]
    assert "needed a person" in maxfired.failures([maxfired.Side("heaveto, key", whole, (asks,))])[0]
    assert "nothing is measured" in maxfired.failures([maxfired.Side("naive", whole, (whole,))])[0]
