"""The suite's last line counts what was left out; where CI is set, a missing part is a failure."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).with_name("conftest.py").read_text()
SUITE = """
import pytest
pytestmark = []
def test_runs(): pass
def test_needs_a_part(): pytest.skip("no postgres")
@pytest.mark.skipif(True, reason="Linux only")
def test_elsewhere(): pass
"""
MODULE = 'import pytest\npytest.importorskip("no_such_module", reason="no such module")\n'


def run_suite(folder: Path, *, ci: bool, **files: str) -> tuple[int, str]:
    for name, text in {"conftest": CONFTEST, **files}.items():
        (folder / f"{name}.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    environment = {name: value for name, value in os.environ.items() if name != "CI"} | ({"CI": "1"} if ci else {})
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # starting is most of the time
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_the_last_line_counts_by_reason(tmp_path: Path) -> None:
    status, output = run_suite(tmp_path, ci=False, test_some=SUITE, test_other=MODULE)
    *_, closing, last = output.splitlines()
    assert status == 0
    assert closing.startswith("1 passed, 3 skipped")
    assert last == "left out: 3 (Linux only: 1, no postgres: 1, no such module: 1)"


def test_the_last_line_of_a_whole_run(tmp_path: Path) -> None:
    status, output = run_suite(tmp_path, ci=True, test_some="def test_runs(): pass")
    assert (status, output.splitlines()[-1]) == (0, "left out: nothing")


@pytest.mark.parametrize("text", [SUITE, MODULE], ids=["test", "module"])
def test_a_missing_part_fails_where_ci_is_set(tmp_path: Path, text: str) -> None:
    status, output = run_suite(tmp_path, ci=True, test_some=text)
    assert status != 0
    assert "left out where it must run: no " in output
