"""Approvals by command: a run that waits is saved, and goes on when a person has answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def test_without_a_terminal_a_run_that_must_ask_waits_at_once(heaveto: Any, project: Path) -> None:
    """Each call that changes something is asked about; a denial is read; another mode asks no more."""
    first = heaveto("run", "-m", "offline", "-C", str(project), "--permission", "ask", "--json", "make the tests pass")
    assert (first.status, first.end["cause"]["code"], first.end["resumable"]) == (4, "approval_needed", True)
    run_id = first.end["run_id"]
    call_id = first.end["cause"]["text"].rpartition("(")[2].partition(")")[0]

    wrong = heaveto("approve", run_id, "nope")
    assert wrong.status == 2
    assert f"waiting: {call_id} (run_tests)" in wrong.err
    shown = heaveto("show", run_id).out.splitlines()[-1]
    assert shown.startswith(f"to allow run_tests: heaveto approve {run_id} {call_id} --expect ")
    seen = shown.split()[-2]
    assert heaveto("approve", run_id, call_id, "--expect", seen[::-1]).status == 2
    assert heaveto("approve", run_id, call_id, "--expect", "").status == 2, "a variable that was not set allows nothing"
    approved = heaveto("approve", run_id, call_id, "--expect", seen)
    assert (approved.status, approved.out.splitlines()) == (0, ["approved: run_tests", f"resume: heaveto resume {run_id}"])

    why = heaveto("why", run_id).out
    assert f"\n  since then: a person has answered; resume: heaveto resume {run_id}\n" in why

    second = heaveto("resume", run_id, "--json")
    assert second.status == 4
    assert next(event["ending"] for event in second.events if event["type"] == "tool.finished") == "ok"
    call_id = second.end["cause"]["text"].rpartition("(")[2].partition(")")[0]
    denied = heaveto("deny", run_id, call_id, "--why", "not this file", "--resume")
    assert "not this file" in heaveto("show", run_id).out
    assert denied.status in (0, 4), denied

    last = heaveto("resume", run_id, "--permission", "auto", "--say", "go on", "--json")
    assert last.status == 0, last


def test_a_mode_or_rule_that_cannot_be_read_is_refused(heaveto: Any, project: Path) -> None:
    assert heaveto("run", "-m", "offline", "-C", str(project), "--permission", "yolo", "x").status == 2
    wrong = heaveto("run", "-m", "offline", "-C", str(project), "--allow", "run command", "x")
    assert wrong.status == 2
    assert "is no rule" in wrong.err


def test_the_doctor_and_the_run_name_the_sandbox(heaveto: Any, project: Path) -> None:
    assert "sandbox: " in heaveto("doctor").out
    run = heaveto("run", "-m", "offline", "-C", str(project), "--sandbox", "off", "--json", "make the tests pass")
    assert run.events[0]["settings"]["sandbox_in_force"] == "none"
    assert run.end["sandbox"] == "none"
