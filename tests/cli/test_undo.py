"""`heaveto show --diff` and `heaveto undo`, on a run that mended something."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from heaveto.tools import find_sandbox

pytestmark = pytest.mark.slow

REACHES_OUT = """
try:
    open("../reached", "w").close()
except OSError:
    pass
"""


def test_a_run_is_shown_as_a_diff_and_undone_once(heaveto: Any, project: Path) -> None:
    before = (project / "calc.py").read_bytes()
    with (project / "test_calc.py").open("a") as tests:
        tests.write(REACHES_OUT)
    run = heaveto("run", "-m", "offline", "-C", str(project), "--json", "make the tests pass")
    assert run.status == 0, run
    run_id = run.events[0]["run_id"]
    assert (project / "calc.py").read_bytes() != before
    assert run.end["sandbox"] == (sandbox := find_sandbox().name)
    assert (project.parent / "reached").exists() == (sandbox == "none"), "tests run in the sandbox too"
    shown = heaveto("show", run_id, "--diff")
    assert (shown.status, shown.err) == (0, "")
    assert "--- a/calc.py\n+++ b/calc.py\n" in shown.out
    assert "-    return a - b\n+    return a + b\n" in shown.out
    undone = heaveto("undo", run_id)
    assert (undone.status, undone.out) == (0, f"undone: 1 file in {project}\n  calc.py: as it was\n")
    assert (project / "calc.py").read_bytes() == before
    why = heaveto("why", run_id).out
    assert why.startswith("answered after ")
    assert f"\n  since then: what it changed was undone; show: heaveto show {run_id}\n" in why
    assert json.loads(heaveto("why", run_id, "--json").out)["outcome"] == "answered"
    again = heaveto("undo", run_id)
    assert again.status == 0
    assert again.out.startswith(f"run {run_id} was undone already, ")
