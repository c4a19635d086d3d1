"""Temporary files of a driver that was killed with signal 9 in the middle of a change: gone with the resume or the undo."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from heaveto.errors import OutcomeUnknown
from heaveto.journal import open_store
from heaveto.runs import Agent, undo_run
from heaveto.testing.scripted_model import scripted
from heaveto.tools import file_tools
from heaveto.tools.files.replacing import TEMP_PREFIX

pytestmark = pytest.mark.anyio

SCRIPT = Path(__file__).with_name("killed_change.py")
PATCH = "*** Begin Patch\n*** Update File: a.txt\n-one\n+1\n*** Add File: sub/new.txt\n+new\n*** End Patch"
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("write_file", {"path": "sub/a.txt", "content": "new\n"}),
    ("edit_file", {"path": "a.txt", "old": "one", "new": "1"}),
    ("delete_file", {"path": "a.txt"}),
    ("apply_patch", {"patch": PATCH}),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (folder := tmp_path / "work" / "sub").mkdir(parents=True)
    (folder.parent / "a.txt").write_text("one\ntwo\n")
    return folder.parent


@pytest.fixture
def others(folder: Path) -> list[Path]:
    """Files of drivers that may be at work: of another run, of one whose name begins the same, of none."""
    names = [f"{TEMP_PREFIX}{os.getpid()}-{'0' * 15}{n}{end}" for n, end in enumerate((".other.tmp", ".run2.tmp", ".tmp"))]
    paths = [folder / where / name for where in ("", "sub") for name in names]
    for path in paths:
        path.touch()
    return paths


def killed(store: Path, folder: Path, *act: str) -> None:
    command = [sys.executable, str(SCRIPT), str(store), str(folder), *act]
    ended = subprocess.run(command, timeout=60, check=False, capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended


def left_in(folder: Path) -> set[Path]:
    return {path for path in folder.rglob(f"{TEMP_PREFIX}*") if path.is_file()}


def agent(store: Path, folder: Path) -> Agent:
    return Agent(model=scripted("done"), tools=file_tools(), store=store, folder=folder)


@pytest.mark.parametrize(("tool", "arguments"), CALLS, ids=[name for name, _ in CALLS])
async def test_a_resume_removes_what_its_killed_driver_left(
    tmp_path: Path, folder: Path, others: list[Path], tool: str, arguments: dict[str, Any]
) -> None:
    store = tmp_path / "runs.db"
    killed(store, folder, "run", tool, json.dumps(arguments))
    assert len(left_in(folder)) > len(others), "it was killed too early or too late"
    await agent(store, folder).resume("run")
    assert left_in(folder) == set(others)


@pytest.mark.parametrize(("tool", "arguments"), CALLS, ids=[name for name, _ in CALLS])
async def test_an_undo_removes_them_too(
    tmp_path: Path, folder: Path, others: list[Path], tool: str, arguments: dict[str, Any]
) -> None:
    """Also what an undo left that was killed itself."""
    store = tmp_path / "runs.db"
    killed(store, folder, "run", tool, json.dumps(arguments))
    await agent(store, folder).resume("run")
    killed(store, folder, "undo")
    assert len(left_in(folder)) > len(others), "it was killed too early or too late"
    journal = open_store(store)
    await undo_run(journal, "run")
    await journal.aclose()
    assert left_in(folder) == set(others)
    assert (folder / "a.txt").read_text() == "one\ntwo\n"


async def test_a_folder_that_is_gone_keeps_nobody_from_going_on(tmp_path: Path, folder: Path) -> None:
    store = tmp_path / "runs.db"
    killed(store, folder, "run", "write_file", '{"path": "sub/a.txt", "content": ""}')
    folder.rename(tmp_path / "moved")
    with pytest.raises(OutcomeUnknown, match="the process ended while it ran"):
        await Agent(model=scripted("done"), tools=[], store=store, folder=folder).resume("run")
