"""Approvals by command: a run that waits is saved, and goes on when a person has answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from heaveto.errors import ApprovalNeeded
from heaveto.runs import Agent
from heaveto.testing.scripted_model import calls, scripted
from heaveto.tools import tool


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
    assert f"answer: {shown.partition(': ')[2]} | heaveto deny {run_id} {call_id} " in heaveto("why", run_id).out
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


def test_a_rule_has_a_person_asked_whatever_the_mode_and_a_denial_wins_over_the_answer(heaveto: Any, project: Path) -> None:
    """The rule is kept with the run; a denial may come with the resume."""
    first = heaveto("run", "-m", "offline", "-C", str(project), "--permission", "auto", "--ask", "run_tests", "--json", "go")
    assert (first.status, first.end["cause"]["code"]) == (4, "approval_needed")
    run_id, call_id = first.end["run_id"], first.end["cause"]["text"].rpartition("(")[2].partition(")")[0]
    assert heaveto("resume", run_id, "--json").status == 4, "nobody has answered"
    assert heaveto("approve", run_id, call_id).status == 0
    again = heaveto("resume", run_id, "--deny", "run_tests", "--json")
    denied = next(event for event in again.events if event["type"] == "tool.finished")
    assert (denied["ending"], denied["content"]) == ("denied", "run_tests was denied: a rule of the user's forbids it")


def test_other_arguments_have_to_fit_the_tool(heaveto: Any, project: Path) -> None:
    """As the command knows it; an answer that is refused changes nothing, and the next one counts."""
    first = heaveto("run", "-m", "offline", "-C", str(project), "--permission", "ask", "--json", "make the tests pass")
    run_id, call_id = first.end["run_id"], first.end["cause"]["text"].rpartition("(")[2].partition(")")[0]
    before = heaveto("export", run_id).out
    for arguments, problem in (
        ('{"only": 7}', "the arguments do not fit run_tests: only: got 7 (integer), want a string"),
        ('{"path": "x"}', 'the arguments do not fit run_tests: unknown field "path"'),
    ):
        wrong = heaveto("approve", run_id, call_id, "--arguments", arguments)
        assert wrong.status == 2
        assert problem in wrong.err
    assert heaveto("export", run_id).out == before
    right = heaveto("approve", run_id, call_id, "--arguments", '{"only": ""}')
    assert (right.status, right.err) == (0, "")


def test_other_arguments_of_a_programs_tool_are_checked_later(heaveto: Any, tmp_path: Path) -> None:
    """The command knows a run of its own by what it kept with it; a program's tool may only have the same name."""
    asked = calls(("run_tests", {"suite": 1}))
    store = tmp_path / "runs.db"

    @tool(effect="write", approval=True)
    def run_tests(suite: int) -> str:
        """Run a suite."""
        return "fine"

    async def start() -> None:
        with pytest.raises(ApprovalNeeded):
            await Agent(model=scripted(asked), tools=[run_tests], store=store).run("go", run_id="r")

    anyio.run(start)
    call_id = asked.message.tool_calls[0].id
    said = heaveto("approve", "r", call_id, "--arguments", '{"suite": 2}', "--store", str(store))
    assert said.status == 0, said
    assert said.err == "run_tests is no tool of this command's: the arguments are checked when the run goes on\n"


def test_a_program_s_run_is_answered_here_and_goes_on_there(heaveto: Any, tmp_path: Path) -> None:
    """The command has not its tools: the call that was allowed would be told that there is none of that name."""
    store = tmp_path / "runs.db"
    asked = calls(("pay", {"usd": 3}))

    @tool(effect="write", approval=True)
    def pay(usd: int) -> str:
        """Pay."""
        return "paid"

    async def drive(run: str, line: Any) -> Any:
        agent = Agent(model=scripted(line), tools=[pay], store=store)
        return await (agent.run("go", run_id="r") if run == "run" else agent.resume("r"))

    with pytest.raises(ApprovalNeeded) as waits:
        anyio.run(drive, "run", asked)
    place = ("--store", str(store))
    call = ("r", waits.value.call_id, *place)
    assert "--resume" not in heaveto("show", "r", *place).out + heaveto("why", "r", *place).out
    for refused in (heaveto("approve", *call, "--resume"), heaveto("deny", *call, "--resume")):
        assert refused.status == 2
        assert "was begun by a program, whose tools this command does not have; nothing was" in refused.err
        assert 'leave --resume out, and resume the run there: agent.resume("r")' in refused.err
    approved = heaveto("approve", *call, "--expect", waits.value.identity[:12])
    assert (approved.status, approved.out.splitlines()[-1]) == (
        0,
        'resume: agent.resume("r"), in the program that began it',
    )
    assert 'a person has answered; resume: agent.resume("r"), in the program' in heaveto("why", "r", *place).out
    resumed = heaveto("resume", "r", *place)
    assert resumed.status == 2
    assert 'run r was begun by a program, with its model "scripted"; resume it there' in resumed.err
    assert heaveto("fork", "r", "--turn", "0", *place).out.endswith(", in the program that began it\n")
    assert anyio.run(drive, "resume", "done").report.messages[2].content == "paid"


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
