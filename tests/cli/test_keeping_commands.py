"""Runs stopped from another process, forked, held against the code, carried elsewhere and forgotten, by the command."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

SLOW_STREAM = {"HEAVETO_OFFLINE_CHUNK_SECONDS": "0.4"}


@pytest.fixture
def run_id(heaveto: Any, project: Path) -> str:
    """A run that has its answer."""
    finished = heaveto("run", "-m", "offline", "-C", str(project), "--json", "make the tests pass")
    assert finished.status == 0, finished
    return str(finished.events[0]["run_id"])


def test_a_run_is_stopped_from_another_process_with_a_cause(heaveto: Any, project: Path) -> None:
    process = heaveto.start("run", "-m", "offline", "-C", str(project), "--json", "fix it", **SLOW_STREAM)
    events = (json.loads(line) for line in process.stdout)
    run_id = next(event["run_id"] for event in events if event["type"] == "run.started")
    assert any(event["type"] == "text" for event in events)
    stopped = heaveto("stop", run_id, "--why", "lunch is ready")
    out, err = process.communicate()
    assert stopped.status == 0, stopped
    assert stopped.out.startswith("stopped: cancelled by ")
    assert stopped.out.strip().endswith(": lunch is ready")
    assert process.returncode == 5, (out, err)
    assert "lunch is ready" in heaveto("why", run_id).out
    assert [json.loads(line)["run_id"] for line in heaveto("runs", "--cause", "cancelled", "--json").out.splitlines()] == [
        run_id
    ]
    again = heaveto("stop", run_id)
    assert (again.status, "nobody drives run" in again.err) == (2, True)


def test_a_run_is_kept_and_forgotten(heaveto: Any, run_id: str, tmp_path: Path) -> None:
    """Verified, replayed, forked, exported, deleted, imported, pruned."""
    assert heaveto("verify").out.startswith("1 run, ")
    assert heaveto("replay", run_id).out.strip().endswith("all as written")
    fork = heaveto("fork", run_id, "--turn", "1").out.split()[-1]
    assert heaveto("resume", fork).status == 0
    exported = heaveto("export", run_id)
    (tmp_path / "runs.jsonl").write_text(exported.out)
    assert heaveto("delete", run_id).out == f"deleted {run_id}\n"
    assert heaveto("show", run_id).status == 2
    assert heaveto("import", str(tmp_path / "runs.jsonl")).out == f"imported {run_id}\n"
    assert heaveto("export", run_id).out == exported.out, "with its times"
    assert heaveto("runs", "--state", "limit").out == "no such runs\n"
    assert heaveto("prune", "--older-than", "1d").out.startswith("deleted 0 runs")
    assert heaveto("prune", "--older-than", "0s").out.startswith("deleted 2 runs")
    assert heaveto("runs").out.startswith("no runs yet")


def test_the_room_of_a_deleted_run_is_given_back(heaveto: Any, run_id: str, tmp_path: Path) -> None:
    journal = tmp_path / "state" / "journal.db"
    exported = heaveto("export", run_id).out
    heaveto("delete", run_id)
    before = sum(file.stat().st_size for file in journal.parent.glob("journal.db*"))
    compacted = heaveto("compact")
    freed = before - sum(file.stat().st_size for file in journal.parent.glob("journal.db*"))
    assert freed > len(exported) // 2, "what the run had"
    assert (compacted.status, compacted.out) == (0, f"{freed:,} bytes freed\n")
    assert heaveto("compact").out == "0 bytes freed\n"


def test_a_damaged_record_is_named_and_what_precedes_it_is_shown_and_forked(
    heaveto: Any, run_id: str, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "state" / "journal.db")) as connection, connection:
        last = connection.execute("SELECT max(place) & 0xffffffff FROM entry").fetchone()[0]
        connection.execute("UPDATE entry SET body = CAST('{}' AS BLOB) WHERE place & 0xffffffff = ?", (last,))
    verified = heaveto("verify", run_id)
    assert verified.status == 1
    assert f"run {run_id}, record {last}: " in verified.out
    shown = heaveto("show", run_id)
    assert shown.status == 2
    assert "→ run_tests" in shown.out
    assert f"record {last}" in shown.err
    assert heaveto("resume", run_id).status == 2
    fork = heaveto("fork", run_id, "--turn", "2")
    assert fork.status == 0
    exported = heaveto("export")
    assert exported.status == 1
    assert {json.loads(line)["run_id"] for line in exported.out.splitlines()} == {fork.out.split()[-1]}
    assert f"heaveto: left out: run {run_id}, record {last}: " in exported.err


def test_a_file_that_is_no_text_is_no_export(heaveto: Any, tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_bytes(b"\xff\xfe\x99")
    imported = heaveto("import", str(tmp_path / "runs.jsonl"))
    assert imported.status == 2
    assert "line 1 is none of an export" in imported.err


@pytest.mark.parametrize("age", ["soon", "3", "-1d", "1.5h"])
def test_an_age_that_is_none(heaveto: Any, age: str) -> None:
    finished = heaveto("prune", f"--older-than={age}")
    assert finished.status == 2
    assert "give it as 90s, 15min, 12h, 30d or 2w" in finished.err
