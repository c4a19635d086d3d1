"""Seeds of `make simulate`, the scenarios that once failed, and that the simulation sees what is wrong."""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path

import pytest
from sim_generator import scenario_of
from sim_judge import problems_of
from sim_scenario import Asked, Life, Scenario, Turn, from_json, to_json
from sim_shrink import shrink
from simulate import run_seeds

from heaveto.loop import rungs

HERE = Path(__file__).parent
SEEDS = range(2_000 if os.environ.get("CI") else 200)  # those of `make simulate`, or the first of them


@pytest.mark.parametrize("first", SEEDS[::50])
def test_some_seeds(first: int) -> None:
    found = run_seeds(SEEDS[first : first + 50])
    assert not found.wrong
    assert min(found.happened[what] for what in ("killed", "paused", "stopped", "waiting", "again")) > 0


@pytest.mark.parametrize("path", sorted((HERE / "pinned").glob("*.json")), ids=lambda path: path.stem)
def test_what_once_failed(path: Path) -> None:
    assert problems_of(from_json(path.read_text())) == []


def test_the_reference_knows_nothing_of_the_product() -> None:
    for name in ("sim_reference", "sim_scenario"):
        imported = [
            alias.name if isinstance(node, ast.Import) else node.module or ""
            for node in ast.walk(ast.parse((HERE / f"{name}.py").read_text()))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        ]
        assert set(imported) <= {*sys.stdlib_module_names, "collections.abc", "sim_scenario"}


def test_a_scenario_is_data() -> None:
    for seed in SEEDS:
        assert from_json(to_json(scenario_of(seed))) == scenario_of(seed)


def test_a_failing_scenario_is_made_small() -> None:
    def fails(scenario: Scenario) -> bool:
        paid = [call for turn in scenario.turns for call in turn.calls if call.tool == "pay"]
        return bool(paid) and any(life.kill for life in scenario.lives)

    seed = next(seed for seed in range(1_000) if fails(scenario_of(seed)))
    small = shrink(scenario_of(seed), fails)
    assert sum(len(turn.calls) for turn in small.turns) == 1
    assert len(small.lives) == 1
    assert small.turns[-1] == Turn()


def test_a_rung_that_is_left_out_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    turn = Turn((Asked("pay", "a", act="unsure"),))
    assert problems_of(Scenario((turn, Turn()))) == []
    monkeypatch.setattr(rungs, "RUNGS", [rung for rung in rungs.RUNGS if rung is not rungs.checked])
    assert problems_of(Scenario((turn, Turn()))) == [
        "drive 1: calls were left without an answer: ['t1c0']"  # by its check it has one
    ]


def test_a_write_that_is_run_again_without_a_word_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def again(known: rungs.Known) -> rungs.Move:
        return rungs.Decision("check", "again")

    turn, life = Turn((Asked("shout", "a", after=2.0),)), Life(stop="cancel", at=1.0)
    assert problems_of(Scenario((turn, Turn()), (life,))) == []
    monkeypatch.setattr(rungs, "RUNGS", [again])
    assert "more happened than should have" in problems_of(Scenario((turn, Turn()), (life,)))[0]
