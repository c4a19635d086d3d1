"""The benchmark of the journal works, with small numbers; no time is looked at, but what a turn writes is."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest


def test_each_row_has_its_figures(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    journal = importlib.import_module("journal")
    quick = [row.name for row in journal.ROWS if "1,000" not in row.name and "Postgres" not in row.name]
    journal.main(["--quick", *quick])
    lines = capsys.readouterr().out.splitlines()
    assert [line[:30].strip() for line in lines] == [row.name for row in journal.ROWS if row.name in quick]
    early, late = (float(figure) for figure in re.findall(r"turn \d+: ([\d.]+)", lines[2]))
    assert early > 0
    assert abs(early - late) < 0.05 * early, "a turn writes what it says, and not what was said before"
    sys.modules.pop("journal")
