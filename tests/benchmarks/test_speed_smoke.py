"""The benchmark of speed works: each case counts what it should, with very small numbers, and no time is looked at."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

SMALL = [
    ("cold", ["bare", "ours"], {}),
    ("turns", ["bare", "ours"], {"turns": "3"}),
    ("turns", ["bare", "ours"], {"turns": "3", "streamed": "yes"}),
    ("turns", ["ours"], {"turns": "3", "streamed": "yes", "store": "sqlite"}),
    ("chunks", ["bare", "ours"], {"chunks": "50", "streamed": "yes"}),
    ("growing", ["bare", "ours"], {"turns": "12"}),
    ("growing", ["ours"], {"turns": "12", "store": "sqlite"}),
    ("many", ["bare", "ours"], {"runs": "5", "turns": "2"}),
    ("cancel", ["bare", "ours"], {"runs": "5"}),
    ("blocks", ["bare", "ours"], {"times": "10"}),
    ("causes", ["ours"], {"times": "10"}),
]


@pytest.fixture(scope="module")
def modules() -> Iterator[dict[str, ModuleType]]:
    """The benchmark's modules, which are no package: `make bench` runs them as programs."""
    sys.path.insert(0, str(BENCHMARKS))
    yield {name: importlib.import_module(name) for name in ("speed", "cases", "fake_server")}
    sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="module")
def url(modules: dict[str, ModuleType]) -> Iterator[str]:
    with modules["speed"].server() as address:
        yield address


@pytest.mark.parametrize(("case", "sides", "values"), SMALL)
def test_a_case_gives_the_figures_of_each_side(
    modules: dict[str, ModuleType], url: str, tmp_path: Path, case: str, sides: list[str], values: dict[str, str]
) -> None:
    """A case itself fails when a tool call, a request or a piece of text is missing."""
    cases = modules["cases"]
    settings = [cases.Setting(side, url, tmp_path, values) for side in sides]
    figures = asyncio.run(cases.measure(case, settings, 1))
    assert {side: len(found) for side, found in figures.items()} == dict.fromkeys(sides, 1)
    wanted = {row.figure for row in modules["speed"].ROWS if row.case == case}
    assert all(wanted <= each.keys() for found in figures.values() for each in found)
    if values.get("store") == "sqlite" and case == "growing":
        assert all(each["journal_mb"] > 0 for each in figures["ours"])


def test_every_case_has_a_row_and_is_tried_here(modules: dict[str, ModuleType]) -> None:
    rows, cases = modules["speed"].ROWS, modules["cases"].CASES
    assert {row.case for row in rows} - set(modules["speed"].PROGRAMS) == set(cases) == {case for case, _, _ in SMALL}


def test_the_table_has_a_line_for_each_row_that_was_asked_for(
    modules: dict[str, ModuleType], capsys: pytest.CaptureFixture[str]
) -> None:
    modules["speed"].main(["--quick", "import: heaveto", "cause"])
    _, *lines = capsys.readouterr().out.splitlines()
    names = [row.name for row in modules["speed"].ROWS if row.name.startswith("import: heaveto")]
    assert [line[:32].strip() for line in lines] == [*names, "current_cause()"]


def test_the_last_line_has_the_three_ratios_that_are_recorded(modules: dict[str, ModuleType]) -> None:
    ratios = {"turn": 1.5, "turn, streamed": 1.25, "chunk of text": 0.9, "cold run": 2.0}
    assert modules["speed"].summary(ratios) == "ours/floor: 1.50 x a turn, 1.25 x streamed, 0.90 x a chunk"
    assert modules["speed"].summary({}) == ""


def test_the_script_calls_the_tools_in_turn_and_then_answers(modules: dict[str, ModuleType]) -> None:
    script = modules["fake_server"].Script.parse("turns=2,chunks=3")
    bodies = [json.loads(script.reply(turn, streamed=False).partition(b"\r\n\r\n")[2]) for turn in range(4)]
    messages = [body["choices"][0]["message"] for body in bodies]
    names = [message["tool_calls"][0]["function"]["name"] for message in messages[:2]]
    assert names == ["read_note", "write_note"]
    assert [message["content"] for message in messages[2:]] == [" w000 w001 w002"] * 2
