"""The benchmark beside the SDKs works, with ours alone, since the SDKs are not installed here; no time is looked at."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def modules() -> Iterator[dict[str, ModuleType]]:
    sys.path.insert(0, str(BENCHMARKS))
    yield {name: importlib.import_module(name) for name in ("speed", "sdk", "sdk_sides")}
    sys.path.remove(str(BENCHMARKS))


@pytest.mark.parametrize("name", ["chat", "messages", "chat fast", "messages fast"])
def test_our_sides_give_every_figure_of_the_table(
    modules: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A side itself fails when a character of an answer is missing."""
    monkeypatch.setattr(modules["sdk_sides"], "CHUNKS", 200)
    monkeypatch.setattr(modules["sdk_sides"], "MESSAGES", 40)
    with modules["speed"].server() as url:
        figures = asyncio.run(modules["sdk_sides"]._figures(modules["sdk_sides"].SIDES[name](), url, 50))
    assert set(figures) == {goal.figure for goal in modules["sdk"].GOALS}


def test_a_goal_that_is_missed_is_counted_as_missed(modules: dict[str, ModuleType]) -> None:
    sdk = modules["sdk"]
    figures = {goal.figure: 1.0 for goal in sdk.GOALS}
    found = {side: [figures] for side in ("chat", "chat fast", "messages", "messages fast")}
    found["openai"], found["anthropic"] = [dict.fromkeys(figures, 60.0)], [dict.fromkeys(figures, 15.0)]
    lines, reached, held = sdk.table(found)
    assert (len(lines), reached, held) == (1 + 2 * len(sdk.GOALS), 5, 8)
