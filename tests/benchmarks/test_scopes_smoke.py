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
    assert scopes.main(["--quick", *(row.name for row in rows)]) == 0
    lines = capsys.readouterr().out.splitlines()
    for row in rows:
        assert len([line for line in lines if line.startswith(row.name)]) == 2
    goals = [row for row in rows if row.goal]
    assert len([line for line in lines if "hold" in line]) == 2 * len(goals) > 0
    sys.modules.pop("scopes")


def test_a_goal_that_is_missed_is_the_exit_status(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    scopes = importlib.import_module("scopes")

    async def slow(times: int) -> float:
        return 3e-6 * times

    async def quick(times: int) -> float:
        return 1e-6 * times

    for ours, status in ((slow, 1), (quick, 0)):
        monkeypatch.setattr(
            scopes, "ROWS", [scopes.Row("scope", 1, ours, quick, goal=2), scopes.Row("other", 1, slow, quick)]
        )
        assert scopes.main([]) == status
    out = capsys.readouterr().out
    assert "asyncio, scope: at most 2 x AnyIO's does not hold (3.00)" in out
    assert "trio, scope: at most 2 x AnyIO's holds (1.00)" in out
    sys.modules.pop("scopes")
