"""The benchmark of tools works, with small numbers; no time is looked at."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest


def test_each_way_to_call_has_a_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    tools = importlib.import_module("tools")
    quick = [row.name for row in tools.ROWS if "process" not in row.name and "stdio" not in row.name]  # those start programs
    assert tools.main(["--quick", *quick]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line[:26].strip() for line in lines] == quick
    assert all(float(figure.replace(",", "")) > 0 for line in lines for figure in line[26:].split())
    sys.modules.pop("tools")
