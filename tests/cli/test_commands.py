"""The commands as a person uses them, on the offline model."""

from __future__ import annotations

import json
import shlex
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
import pytest

from heaveto.causes import Shutdown, to_data
from heaveto.cli.stores import command_line
from heaveto.cli.texts import call_line, clip, closing_lines, cost_text, event_line, printable, result_line, seconds_text
from heaveto.cli.transcript import record_lines, waiting_lines
from heaveto.errors import ApprovalNeeded
from heaveto.journal.records import (
    AnswerRejected,
    LimitNear,
    LimitsChanged,
    Replied,
    RunFinished,
    RunStarted,
    ToolFinished,
)
from heaveto.messages import AssistantMessage, Limits, Sampling, Spend, ToolCall, Usage
from heaveto.tools.files.ripgrep import find_ripgrep


def test_a_run_in_text_mode(heaveto: Any, project: Path) -> None:
    """The answer alone on standard output; tool calls and three closing lines beside it."""
    finished = heaveto("run", "-m", "offline", "-C", str(project), "-o", str(project / "answer.txt"), "make the tests pass")
    assert finished.status == 0, finished
    assert "return a + b" in (project / "calc.py").read_text()
    assert "no language model" in finished.out or "not a language model" in finished.out
    assert (project / "answer.txt").read_text().strip() == finished.out.strip()
    lines = finished.err.strip().splitlines()
    assert "→ run_tests" in lines
    assert lines[-3].startswith("answered after ")
    assert lines[-2].startswith("  cost: $0.0000 (")
    assert lines[-1].startswith("  show: heaveto show ")


def test_a_run_as_json_lines(heaveto: Any, project: Path) -> None:
    """Numbered, in order, durable ones once each; each call has one result; the end has what programs ask for."""
    finished = heaveto("run", "-m", "offline", "-C", str(project), "--json", "make the tests pass")
    events = finished.events
    assert events[0]["type"] == "run.started"
    durable = [int(event["id"]) for event in events if event["id"].isdigit()]
    assert durable == list(range(1, len(durable) + 1))
    asked = [call["id"] for event in events if event["type"] == "reply" for call in event["message"].get("tool_calls", ())]
    answered = [event["call_id"] for event in events if event["type"] == "tool.finished"]
    assert sorted(asked) == sorted(answered)
    wanted = {"outcome", "why", "cause", "spend", "turns", "seconds", "resumable", "unresolved", "exit_status", "text"}
    assert wanted <= set(finished.end)


def test_one_json_object(heaveto: Any, project: Path) -> None:
    finished = heaveto("run", "-m", "offline", "-C", str(project), "--output-format", "json", "make the tests pass")
    assert json.loads(finished.out)["outcome"] == "answered"


def test_limits_and_resume_with_others(heaveto: Any, project: Path) -> None:
    """A limit ends with 3; the same again at once; a higher one finishes; then it has its answer."""
    first = heaveto("run", "-m", "offline", "-C", str(project), "--max-turns", "1", "--json", "make the tests pass")
    assert (first.status, first.end["cause"]["code"]) == (3, "max_turns")
    assert first.end["why"] == "turn limit reached: 1 (--max-turns): resume with a higher --max-turns"
    assert first.end["limits"] == [{"limit": "turns", "used": 1, "of": 1, "setting": "--max-turns"}]
    assert heaveto("resume", "--json").status == 3
    again = heaveto("resume", first.end["run_id"][:6], "--max-turns", "50", "--json")
    assert (again.status, again.end["outcome"]) == (0, "answered")
    told = heaveto("resume", "--json")
    assert (told.status, told.events) == (0, [again.end | {"at": told.end["at"]}]), "it tells its answer again"
    said = heaveto("resume", "--say", "are you sure?", "--json")
    assert (said.status, said.end["outcome"]) == (0, "answered")


def test_an_answered_run_that_is_resumed_tells_its_answer_again(heaveto: Any, project: Path, tmp_path: Path) -> None:
    """So a script may resume a run without knowing how it ended."""
    first = heaveto("run", "-m", "offline", "-C", str(project), "make the tests pass")
    before = heaveto("show", "--json").out
    (project / "calc.py").unlink()
    project.rename(tmp_path / "elsewhere")  # its folder is not needed for that
    again = heaveto("resume", "-o", str(tmp_path / "answer.txt"))
    assert (again.status, again.out) == (0, first.out)
    assert (tmp_path / "answer.txt").read_text() == again.out.rstrip("\n")
    assert again.err.splitlines()[1].startswith("answered after ")
    assert heaveto("show", "--json").out == before, "nothing was written down"
    refused = heaveto("resume", "-o", str(tmp_path / "none" / "answer.txt"))
    assert (refused.status, "cannot be written" in refused.err) == (2, True)


def test_the_commands_that_are_told_are_about_the_same_journal(heaveto: Any, project: Path, tmp_path: Path) -> None:
    """What is pasted works: also with a journal of another name, and one with a space in it."""
    store = str(tmp_path / "my runs.db")
    stopped = heaveto(
        "run", "-m", "offline", "-C", str(project), "--max-turns", "1", "--store", store, "make the tests pass"
    )
    step = stopped.err.splitlines()[-1]
    assert step.startswith("  resume: heaveto resume ")
    again = heaveto(*shlex.split(step)[2:], "--max-turns", "50")
    assert (again.status, "answered after" in again.err) == (0, True)
    for command in (["fork", "--turn", "1"], ["why"]):
        told = heaveto(command[0], shlex.split(step)[3], *command[1:], "--store", store)
        assert f"--store '{store}'" in told.out


def test_an_address_that_may_hold_a_password_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    with click.Context(click.Command("x")) as context:
        context.meta["heaveto.store"] = "postgresql://ada:secret@db/agents"
        assert command_line("resume", "abc") == "heaveto resume abc --store PLACE"


def test_the_journal_is_shown(heaveto: Any, project: Path) -> None:
    heaveto("run", "-m", "offline", "-C", str(project), "make the tests pass")
    rows = [json.loads(line) for line in heaveto("runs", "--json").out.splitlines()]
    assert [row["summary"]["phase"] for row in rows] == ["answered"]
    assert "make the tests pass" in heaveto("runs").out
    shown = heaveto("show", rows[0]["run_id"])
    for words in ("turn 1:", "→ run_tests", "edit_file", "tests passed: 1", "answered after"):
        assert words in shown.out
    records = [json.loads(line) for line in heaveto("show", "--json").out.splitlines()]
    assert [record["type"] for record in records][:2] == ["run.started", "drive.started"]
    assert records[-1]["type"] == "run.finished"
    assert heaveto("why").out.startswith("answered after ")
    assert json.loads(heaveto("why", "--json").out)["outcome"] == "answered"


def test_an_ephemeral_run_leaves_no_journal(heaveto: Any, project: Path, tmp_path: Path) -> None:
    finished = heaveto("run", "-m", "offline", "--ephemeral", "-C", str(project), "make the tests pass")
    assert (finished.status, finished.err.splitlines()[-1]) == (0, "  nothing of it was kept (--ephemeral)")
    assert not (tmp_path / "state").exists()


def test_the_task_may_be_piped_in(heaveto: Any, project: Path) -> None:
    import subprocess
    import sys

    command = [sys.executable, "-m", "heaveto", "run", "-m", "offline", "-C", str(project), "--json", "-"]
    finished = subprocess.run(
        command, input="make the tests pass", env=heaveto.environment, capture_output=True, text=True, timeout=60
    )
    assert finished.returncode == 0
    assert json.loads(finished.stdout.splitlines()[0])["task"] == "make the tests pass"


def test_a_projects_own_text_is_read(heaveto: Any, project: Path) -> None:
    (project / "AGENTS.md").write_text("Never touch the database.")
    first = heaveto("run", "-m", "offline", "-C", str(project), "--max-turns", "0", "--json", "fix it").events[0]
    assert "Never touch the database." in first["system"]


@pytest.mark.slow
def test_the_demo_mends_its_project_and_keeps_it_when_asked(heaveto: Any) -> None:
    finished = heaveto("demo", "--keep")
    assert finished.status == 0, finished
    folder = Path(finished.err.rpartition("kept in ")[2].strip())
    try:
        assert "-    return before + discount(before, percent)" in finished.err
        assert "return before - discount(before, percent)" in (folder / "invoice.py").read_text()
    finally:
        import shutil

        shutil.rmtree(folder)


def test_the_doctor(heaveto: Any) -> None:
    finished = heaveto("doctor")
    assert finished.status == 0, finished
    assert "ok  offline model" in finished.out
    assert ("ok  search: search_files asks ripgrep, " if find_ripgrep() else "lack  search: no ripgrep") in finished.out


def test_a_call_for_which_there_are_no_tokens_is_not_made(heaveto: Any, project: Path) -> None:
    finished = heaveto("run", "-m", "offline", "-C", str(project), "--max-tokens", "9", "--json", "make the tests pass")
    assert (finished.status, finished.end["cause"]["code"], finished.end["spend"]["calls"]) == (3, "token_budget", 0)
    assert finished.end["why"].startswith("token budget reached: used 0 of 9 (--max-tokens), and the next call may use ")


def test_why_a_run_ended_is_the_same_on_the_terminal_and_in_json(heaveto: Any, project: Path) -> None:
    ended = heaveto("run", "-m", "offline", "-C", str(project), "--max-turns", "0", "--json", "fix it").end
    text, data = heaveto("why").out, json.loads(heaveto("why", "--json").out)
    assert data["why"] == ended["why"]
    assert f"stopped at a limit after 0 turns, {seconds_text(ended['seconds'])}: {ended['why']}" in text
    assert f"  where: {data['where']}\n" in text
    assert data["where"] == "turn 1, at its model call"
    assert "  when: " in text
    assert data["ended_at"] > 1_700_000_000
    assert [link["code"] for link in data["chain"]] == ["max_turns"]


# --- texts ----------------------------------------------------------------------------------------------------------


def test_closing_lines_tell_why_what_and_how() -> None:
    finished = RunFinished(
        outcome="waiting", why="mail (call_7): outcome unknown",
        spend=Spend(calls=1, input_tokens=12_400, output_tokens=812),
        turns=1, seconds=41.2, resumable=True, unresolved=("mail (call_7)",),
    )  # fmt: skip
    assert closing_lines(finished, "abc") == [
        "waiting for you after 1 turn, 41 s: mail (call_7): outcome unknown",
        "  cost: $0.0000 (12,400 tokens in, 812 out)",
        "  outcome unknown: mail (call_7)",
        "  look, then: heaveto resolve abc call_7 --done | --not-done, then: heaveto resume abc",
    ]


def test_who_is_to_allow_a_call_is_given_the_same_line_at_the_end_and_when_it_is_shown() -> None:
    needed = ApprovalNeeded("mail", "c1", "0123456789abcdef")
    finished = RunFinished(outcome="waiting", why="", cause=to_data(needed), resumable=True)
    allow = "heaveto approve abc c1 --expect 0123456789ab --resume"
    assert closing_lines(finished, "abc")[-1] == f"  answer: {allow} | heaveto deny abc c1 --why TEXT --resume"
    older = {"code": needed.code, "fields": ["mail", "c1"], "text": str(needed)}
    finished = RunFinished(outcome="waiting", why="", cause=older, resumable=True)
    assert closing_lines(finished, "abc")[-1].startswith("  answer: heaveto approve abc c1 --resume | ")


def test_a_run_of_which_nothing_was_kept_is_not_to_be_resumed() -> None:
    stop = Shutdown("SIGTERM")
    why = f"{stop}: {stop.run_advice}"
    finished = RunFinished(outcome="shutdown", why=why, cause=to_data(stop), resumable=True)
    assert closing_lines(finished, "abc")[0].endswith(f": {why}")
    assert closing_lines(finished, "abc", kept=False)[0].endswith(": shutting down: SIGTERM")
    assert closing_lines(finished, "abc", kept=False)[-1] == "  nothing of it was kept (--ephemeral)"


def test_what_was_paid_for_nothing_is_told_with_the_cost() -> None:
    lost = Spend(calls=2, cost_usd=Decimal("0.0125"))
    finished = RunFinished(
        outcome="limit", why="cost budget reached", turns=3, spend=Spend(calls=5, cost_usd=Decimal("0.5")),
        spend_by={"replies": Spend(calls=3), "retries": lost, "cut calls": Spend(calls=1, cost_usd=Decimal("0.1"))},
    )  # fmt: skip
    assert closing_lines(finished, "abc")[1] == (
        "  cost: $0.5000 (0 tokens in, 0 out), of that $0.012500 for 2 attempts that were made again "
        "and $0.100000 for 1 call that was cut"
    )


def test_a_limit_that_is_nearly_used_up_is_told_in_a_line() -> None:
    near = LimitNear(limit="usd", percent=80, used=0.4, of=0.5, setting="--max-usd")
    assert event_line(near) == "  80 % of a limit used: $0.400000 of $0.500000 (--max-usd)"
    near = LimitNear(limit="tokens", percent=95, used=9500, of=10_000, setting="Limits(tokens=...)")
    assert event_line(near) == "  95 % of a limit used: 9,500 of 10,000 tokens (Limits(tokens=...))"


def test_a_runs_story_has_its_limits() -> None:
    changed = LimitsChanged(limits=Limits(turns=50, usd=2, seconds=600, told_as={"usd": "--max-usd"}))
    assert [*record_lines(changed)] == ["limits changed: 50 turns, $2.000000, 600 s"]
    assert [*record_lines(LimitsChanged(limits=Limits(turns=None)))] == ["limits changed: none"]
    near = LimitNear(limit="turns", percent=95, used=48, of=50, setting="--max-turns")
    assert [*record_lines(near)] == ["  95 % of a limit used: 48 of 50 turns (--max-turns)"]


def test_a_runs_story_begins_with_what_was_asked_of_the_model() -> None:
    started = RunStarted(run_id="r", task="go", sampling=Sampling(temperature=0, stop="x"), answer="Weather 0123456789ab")
    assert [*record_lines(started)][1:] == [
        "the model's settings: temperature=0, stop=('x',)",
        "the answer has to be Weather",
        "task: go",
    ]
    assert [*record_lines(RunStarted(run_id="r", task="go"))][1:] == ["task: go"]


def test_who_is_to_allow_a_call_sees_all_of_it() -> None:
    """A line that is cut would show the harmless beginning of a command alone."""
    arguments = json.dumps({"command": f"make{' ' * 300}; rm -r .\x1b[1A", "cwd": "a\nb"})
    call = ToolCall("c1", "run_command", arguments)
    needed = ApprovalNeeded("run_command", "c1")
    records = [
        RunStarted(run_id="r", task="go", settings={"sandbox_in_force": "none"}),
        Replied(turn=1, message=AssistantMessage("", (call,)), finish="tool_calls", usage=Usage()),
        RunFinished(outcome="waiting", why=str(needed), cause={"code": needed.code, "text": str(needed)}),
    ]
    assert [*waiting_lines("r", records)] == [
        f"it waits to run run_command {arguments}",
        f"to allow run_command: heaveto approve r c1 --expect {call.identity[:12]} --resume",
    ]


def test_an_answer_that_was_not_taken_is_told_in_a_line() -> None:
    rejected = AnswerRejected(turn=1, content="the answer does not fit: no city; ...", problem="no city")
    assert event_line(rejected) == "  the answer was not taken: no city"
    assert [*record_lines(AnswerRejected(turn=1, content="no"))] == [
        "  the answer was not taken: the model wrote text instead"
    ]


def test_what_is_unknown_is_called_so() -> None:
    assert cost_text(Spend(unpriced_calls=2)).startswith("unknown price for 2 calls (")
    assert "estimated" in cost_text(Spend(estimated_calls=1))


def test_nothing_that_a_model_says_steers_the_terminal() -> None:
    assert printable("a\x1b[2Jb\r\u202ec\ud800") == "a\ufffd[2Jb\ufffd\ufffdc\ufffd"
    assert clip("a\n" * 300).endswith("…")
    assert call_line("edit_file", '{"path": "a.py", "old": "x\\ny"}') == "edit_file a.py x …"
    assert call_line("edit_file", "not json") == "edit_file not json"
    assert [seconds_text(each) for each in (0.04, 41.2, 150)] == ["0.0 s", "41 s", "2 min 30 s"]


def test_a_list_of_files_is_counted_and_named_when_it_is_short() -> None:
    def line(content: str, name: str = "list_files", ending: Any = "ok") -> str:
        return result_line(ToolFinished(call_id="c", name=name, ending=ending, content=content))

    many = [f"file_{n}.py" for n in range(12)]
    assert line("a.py") == "✓ 1 file: a.py"
    assert line("a.py\nb.py\nc.py") == "✓ 3 files: a.py, b.py, c.py"
    assert line("\n".join(many)) == "✓ 12 files"
    assert line("\n".join([*many, "... 30 more; list a folder of it"])) == "✓ 42 files"
    assert line('no files below "src"') == '✓ no files below "src"'
    assert line("calc.py, lines 1-2 of 2\n1\ta\n2\tb", "read_file") == "✓ calc.py, lines 1-2 of 2"
    assert line('there is no "src"', ending="tool_error") == '✗ there is no "src"'


def test_what_is_attached_is_kept_and_the_offline_model_says_that_it_cannot_see_it(heaveto: Any, project: Path) -> None:
    (project / "x.png").write_bytes(b"\x89PNG\r\n\x1a\n...")
    flags = ("-m", "offline", "-C", str(project), "--attach", str(project / "x.png"))
    events = heaveto("run", *flags, "--json", "make the tests pass").events
    assert events[0]["parts"][1] == {"type": "image", "media_type": "image/png", "bytes": 11, "name": "x.png"}
    (first, *_) = [event["message"]["content"] for event in events if event["type"] == "reply"]
    assert "I cannot see what is attached." in first
    wrong = heaveto("run", *flags, "--attach", "missing.png", "make the tests pass")
    assert (wrong.status, wrong.out) == (2, "")
    assert '"missing.png" cannot be read: No such file or directory; give a file that is there' in wrong.err
