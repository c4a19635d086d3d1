"""The broken projects: each fails its tests for its bug, and passes them with its known fix."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

REPAIR = Path(__file__).parents[2] / "benchmarks" / "repair"
FIXES: dict[str, Any] = json.loads((REPAIR / "fixes.json").read_text())
AT_ONCE = 4


@pytest.fixture(scope="module")
def verdict() -> ModuleType:
    spec = importlib.util.spec_from_file_location("repair_verdict", REPAIR / "verdict.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_project_has_its_fix() -> None:
    assert sorted(FIXES) == sorted(path.name for path in (REPAIR / "projects").iterdir())
    assert len(FIXES) >= 34


def test_the_kinds_of_bugs_are_many() -> None:
    assert len({fix["kind"] for fix in FIXES.values()}) >= 25


def batches() -> list[list[str]]:
    names = sorted(FIXES)
    return [names[start : start + AT_ONCE] for start in range(0, len(names), AT_ONCE)]


@pytest.mark.slow
@pytest.mark.parametrize("names", batches(), ids=lambda names: names[0])
def test_fails_before_and_passes_after_the_fix(names: list[str], verdict: ModuleType, tmp_path: Path) -> None:
    """Both versions of a few projects at once, each in its own process."""
    running = {}
    for name in names:
        broken, mended = tmp_path / f"{name}-broken", tmp_path / f"{name}-mended"
        for folder in (broken, mended):
            shutil.copytree(REPAIR / "projects" / name, folder)
        mend(mended / FIXES[name]["file"], FIXES[name]["edits"])
        assert verdict.test_files(broken) == verdict.test_files(mended)
        running[name] = (verdict.start_tests(broken), verdict.start_tests(mended))
    for name, (before, after) in running.items():
        failed, said = verdict.read_verdict(before)
        assert not failed, f"{name} passes with its bug"
        assert "FAILED (" in said, f"{name} does not run at all: {said}"
        passed, said = verdict.read_verdict(after)
        assert passed, f"{name} fails with its fix: {said}"


def mend(path: Path, edits: list[dict[str, str]]) -> None:
    text = path.read_text()
    for edit in edits:
        assert text.count(edit["old"]) == 1
        text = text.replace(edit["old"], edit["new"])
    path.write_text(text)
