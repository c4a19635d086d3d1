"""A few of the troubles of `make diskfaults`: a full disk and a disk's errors, at some of a run's writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("disk_faults.py")
pytestmark = pytest.mark.slow


def test_a_run_says_what_is_wrong_with_its_disk_and_is_resumed_when_that_is_mended() -> None:
    """In a process of its own: the suite's may have threads, which a fork does not take along."""
    command = [sys.executable, str(SCRIPT), "--every", "97", "--processes", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    assert "nothing wrong" in last
    assert int(last.split()[1]) >= 5
