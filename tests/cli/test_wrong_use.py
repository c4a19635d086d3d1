"""Wrong use: a clear sentence, exit status 2, and nothing was begun or spent."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from heaveto import models
from heaveto.cli.commands import IN_A_COMMAND

DROPPED = "-dac_override,-dac_read_search"
AS_ANYBODY = ["setpriv", f"--bounding-set={DROPPED}", f"--inh-caps={DROPPED}"] if os.getuid() == 0 else []


class Wrong(NamedTuple):
    args: tuple[str, ...]
    says: str
    environment: tuple[tuple[str, str], ...] = ()


CASES = {
    "no model": Wrong(("run", "fix it"), "no model is named; give --model"),
    "no key": Wrong(("run", "-m", "openrouter:x", "fix it"), "no key for openrouter; set OPENROUTER_API_KEY "),
    "unknown provider": Wrong(("run", "-m", "nobody:x", "fix it"), 'no provider named "nobody"; the providers are'),
    "no provider": Wrong(("run", "-m", "gpt", "fix it"), 'name it as "provider:model"'),
    "a typing error": Wrong(("run", "-m", "ofline", "fix it"), "or offline, which needs no key"),
    "no test program": Wrong(
        ("run", "-m", "offline", "--test-command", "nosuch -q", "fix it"),
        'there is no program "nosuch" to run the tests with',
    ),
    "no interpreter": Wrong(
        ("run", "-m", "offline", "--test-python", "bin/nosuch", "fix it"), "give one that exists with --test-python"
    ),
    "unclosed quote": Wrong(
        ("run", "-m", "offline", "--test-command", "make 'x", "fix it"), "the test command cannot be split"
    ),
    "keeping nothing of what is kept": Wrong(("resume", "--ephemeral"), "No such option"),
    "no folder": Wrong(("run", "-m", "offline", "-C", "not/here", "fix it"), 'the folder "not/here" does not exist'),
    "a file as folder": Wrong(("run", "-m", "offline", "-C", "README", "fix it"), 'the folder "README" is not a folder'),
    "an unset folder": Wrong(("run", "-m", "offline", "-C", "", "fix it"), 'it is empty; name a folder'),
    "an unset store": Wrong(("runs", "--store", ""), "it is empty; name a file"),
    "empty task": Wrong(("run", "-m", "offline", "  "), "the task is empty; say what is to be done, such as"),
    "unknown flag": Wrong(("run", "-m", "offline", "--max-trns", "3", "fix it"), "No such option"),
    "bad dollars": Wrong(("run", "-m", "offline", "--max-usd", "much", "x"), 'usd must be dollars like 0.50, not "much"'),
    "negative turns": Wrong(("run", "-m", "offline", "--max-turns", "-1", "fix it"), "-1 is not in the range"),
    "dollars without a price": Wrong(
        ("run", "-m", "ollama:llama", "--max-usd", "1", "fix it"),
        "a dollar limit needs a price, and nobody knows what ollama:llama costs; limit turns or tokens instead (--max-turns",
    ),
    "no run": Wrong(("resume", "nothere"), "no run nothere"),
    "no runs at all": Wrong(("why",), "no run"),
    "unknown command": Wrong(("zzz",), "No such command"),
    "nearly a command": Wrong(("rum",), 'There is no command "rum"; did you mean "run"?'),
    "bad base url": Wrong(
        ("run", "-m", "openai:gpt", "fix it"), "would send the key unencrypted; use https ",
        (("OPENAI_API_KEY", "sk-test"), ("OPENAI_BASE_URL", "http://192.0.2.1/v1")),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_wrong_use_is_told_and_nothing_is_begun(heaveto: Any, tmp_path: Path, name: str) -> None:
    wrong = CASES[name]
    (tmp_path / "README").write_text("a file")
    finished = heaveto(*wrong.args, cwd=tmp_path, **dict(wrong.environment))
    assert finished.status == 2, finished
    assert wrong.says in finished.err.replace("\n", " ")
    assert "Traceback" not in finished.err
    assert finished.out == ""
    assert heaveto("runs").out.startswith("no runs yet")


def test_a_folder_that_was_deleted_under_the_commands_feet(heaveto: Any, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    command = f"cd {gone} && rmdir {gone} && exec {sys.executable} -m heaveto run -m offline fix"
    done = subprocess.run(["sh", "-c", command], env=heaveto.environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stderr
    assert "the current folder was deleted; change to one that exists, or give one with -C" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_resumed_runs_flags_do_not_promise_what_only_a_new_one_does(heaveto: Any) -> None:
    text = heaveto("resume", "--help").out
    assert "by default" not in text.split("Options:")[1]
    assert "--ephemeral" not in text


def test_a_journal_that_another_process_holds_is_something_that_passes(heaveto: Any, project: Path, tmp_path: Path) -> None:
    assert heaveto("run", "-m", "offline", "-C", str(project), "--max-turns", "0", "fix it").status == 3
    with sqlite3.connect(tmp_path / "state" / "journal.db", isolation_level=None) as connection:
        connection.execute("BEGIN IMMEDIATE")
        held = heaveto("run", "-m", "offline", "-C", str(project), "fix it")
        connection.execute("ROLLBACK")
    connection.close()
    assert held.status == 75, held
    assert "which has been writing for too long" in held.err
    assert "resume when that one is done" in held.err


def test_a_terminal_that_gives_no_task_is_told_so(heaveto: Any, tmp_path: Path) -> None:
    primary, secondary = os.openpty()
    try:
        command = [sys.executable, "-m", "heaveto", "run", "-m", "offline"]
        finished = subprocess.run(
            command, stdin=secondary, env=heaveto.environment, cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
    finally:
        os.close(primary)
        os.close(secondary)
    assert finished.returncode == 2
    assert "no task: give it in quotes" in finished.stderr


@pytest.mark.skipif(bool(AS_ANYBODY) and shutil.which("setpriv") is None, reason="no setpriv, and root reads everything")
def test_a_folder_that_cannot_be_read(heaveto: Any, tmp_path: Path) -> None:
    """Root, who reads everything, gives that up first."""
    (tmp_path / "closed").mkdir(mode=0)
    command = [
        *AS_ANYBODY,
        sys.executable,
        "-m",
        "heaveto",
        "run",
        "-m",
        "offline",
        "-C",
        str(tmp_path / "closed"),
        "fix it",
    ]
    finished = subprocess.run(command, env=heaveto.environment, capture_output=True, text=True, timeout=60, check=False)
    assert (finished.returncode, "is not readable" in finished.stderr) == (2, True), finished


def test_a_journal_from_the_future_is_refused_by_name_and_left_as_it_is(heaveto: Any, project: Path, tmp_path: Path) -> None:
    assert heaveto("run", "-m", "offline", "-C", str(project), "--max-turns", "0", "fix it").status == 3
    path = tmp_path / "state" / "journal.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = path.read_bytes()
    for args in (("run", "-m", "offline", "-C", str(project), "fix it"), ("resume",), ("runs",), ("why",)):
        finished = heaveto(*args)
        assert finished.status == 2, finished
        assert "the journal has format 99; this version reads up to" in finished.err
        assert "upgrade heaveto" in finished.err
    assert path.read_bytes() == before


def test_a_file_that_is_no_journal_is_named_and_left_as_it_is(heaveto: Any, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    path = tmp_path / "state" / "journal.db"
    path.write_text("this is somebody's diary\n" * 100)
    finished = heaveto("runs")
    assert finished.status == 2
    assert str(path) in finished.err
    assert path.read_text() == "this is somebody's diary\n" * 100


def test_a_state_folder_that_cannot_be_made(heaveto: Any, project: Path, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("in the way")
    finished = heaveto("run", "-m", "offline", "-C", str(project), "fix it")
    assert finished.status == 2
    assert str(tmp_path / "state") in finished.err
    assert "Traceback" not in finished.err


@pytest.mark.parametrize("file", ["not/there/answer.txt", "."])
def test_an_answers_file_that_cannot_be_is_refused_before_anything_is_spent(heaveto: Any, project: Path, file: str) -> None:
    finished = heaveto("run", "-m", "offline", "-C", str(project), "-o", file, "fix it")
    assert (finished.status, f'"{file}" cannot be written' in finished.err) == (2, True)
    assert heaveto("runs").out.startswith("no runs yet")


@pytest.mark.parametrize("flag", ["--max-seconds", "--grace", "--test-seconds"])
@pytest.mark.parametrize("value", ["nan", "inf"])
def test_seconds_are_numbers(heaveto: Any, project: Path, flag: str, value: str) -> None:
    finished = heaveto("run", "-m", "offline", "-C", str(project), flag, value, "fix it")
    assert (finished.status, "is not a number of seconds" in finished.err) == (2, True)


def test_the_environments_model_does_not_replace_the_one_that_a_run_had(heaveto: Any, project: Path) -> None:
    """A resumed run's text goes to nobody whom the person did not name for it."""
    assert heaveto("run", "-m", "offline", "-C", str(project), "--max-turns", "1", "fix it").status == 3
    resumed = heaveto("resume", "--max-turns", "9", "--json", HEAVETO_MODEL="openai:other", OPENAI_API_KEY="sk-test")
    assert resumed.status == 0, resumed
    assert resumed.events[0]["model"] == "offline:repair"


def test_closed_standard_streams_do_not_end_the_work(heaveto: Any, project: Path) -> None:
    command = f"{sys.executable} -m heaveto run -m offline -C {project} fix >&- 2>&-"
    assert subprocess.run(["sh", "-c", command], env=heaveto.environment, timeout=60).returncode == 0
    assert "return a + b" in (project / "calc.py").read_text()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_beside_the_answer_does_not_end_the_work(heaveto: Any, project: Path) -> None:
    command = f"{sys.executable} -m heaveto run -m offline -C {project} fix 2>/dev/full"
    assert subprocess.run(["sh", "-c", command], env=heaveto.environment, timeout=60).returncode == 0


def test_the_words_for_programs_that_a_command_says_otherwise_are_there_today() -> None:
    sources = "".join(path.read_text() for path in Path(models.__file__).parents[1].rglob("*.py") if "cli" not in path.parts)
    assert [words for words in IN_A_COMMAND if words not in sources] == []
