"""The benchmark of the ground floor works, with small numbers; no time is looked at."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_each_operation_has_a_line_for_each_back_end_and_each_goal_a_verdict(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    scopes = importlib.import_module("scopes")
    rows = [row for row in scopes.ROWS if row.goal or "slot" in row.name]  # all of them take long on a busy machine
    scopes.main(["--quick", *(row.name for row in rows)])
    lines = capsys.readouterr().out.splitlines()
    for row in rows:
        assert len([line for line in lines if line.startswith(row.name)]) == 2
    goals = [row for row in rows if row.goal]
    assert len([line for line in lines if "hold" in line]) == 2 * len(goals) > 0
    sys.modules.pop("scopes")
