"""A sample of `killed_edits.py`; `make hostile` kills at every step."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_killed_change_leaves_the_old_or_the_new_and_looking_tells_which() -> None:
    script = Path(__file__).with_name("killed_edits.py")
    ended = subprocess.run([sys.executable, str(script), "29"], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    cases = json.loads(ended.stdout)
    tools = ["edit_file", "write_file", "write_file", "move_file", "delete_file", "apply_patch", "undo"]
    assert [case["tool"] for case in cases] == tools
    for case in cases:
        assert case["wrong"] == []
        assert case["kills"] > case["done"], case
        assert case["done"] > 0 or case["tool"] in ("apply_patch", "undo"), case
