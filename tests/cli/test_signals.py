"""Real signals to real processes, at the two moments that hurt: in the model's stream, in a test with a child of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="no /proc: who is left running is looked up there"),
]

SLOW_STREAM = {"HEAVETO_OFFLINE_CHUNK_SECONDS": "0.4"}
SLEEPING_TEST = """
import subprocess, time, unittest
from calc import add

class Sleeps(unittest.TestCase):
    def test_sleeps(self):
        self.assertEqual(add(2, 3), 5)

    def test_a_child_that_detaches(self):
        if not open("go").read():
            subprocess.Popen(["sleep", "300"], start_new_session=True)
            open("sleeping", "w").close()
            time.sleep(300)
"""

DEAF_TEST = SLEEPING_TEST.replace("import subprocess,", "import signal, subprocess,").replace(
    'open("sleeping"', 'signal.signal(signal.SIGTERM, signal.SIG_IGN); open("sleeping"'
)


def start_in_stream(heaveto: Any, project: Path, *flags: str) -> subprocess.Popen[str]:
    """A run whose model is speaking: its first piece of text has come."""
    process = heaveto.start("run", "-m", "offline", "-C", str(project), "--json", *flags, "fix it", **SLOW_STREAM)
    for line in process.stdout:
        if json.loads(line)["type"] == "text":
            return process
    raise AssertionError(process.communicate())


def start_in_test(heaveto: Any, project: Path, until: Any, *flags: str, test: str = SLEEPING_TEST) -> subprocess.Popen[str]:
    """A run whose run_tests is in a test that sleeps and has a child in a session of its own."""
    (project / "test_calc.py").write_text(test)
    (project / "go").write_text("")
    process = heaveto.start("run", "-m", "offline", "-C", str(project), "--json", *flags, "fix it")
    until((project / "sleeping").exists)
    return process


def stop(heaveto: Any, process: subprocess.Popen[str], signum: int) -> tuple[Any, float]:
    """Send the signal; what the command then said, and how long it took to end."""
    began = time.monotonic()
    process.send_signal(signum)
    finished = heaveto.finish(process)
    return finished, time.monotonic() - began


def last_line(finished: Any) -> dict[str, Any]:
    lines = [json.loads(line) for line in finished.out.splitlines()]
    assert [line["type"] for line in lines].count("run.finished") == 1
    assert lines[-1]["type"] == "run.finished"
    return dict(lines[-1])


def resumed(heaveto: Any, project: Path, run_id: str) -> None:
    """The run can be taken up, and finishes the job."""
    (project / "go").write_text("go")
    finished = heaveto("resume", run_id, "--json")
    assert finished.status == 0, finished
    assert finished.end["outcome"] == "answered"
    assert "return a + b" in (project / "calc.py").read_text()


@pytest.mark.parametrize(
    ("signum", "status", "code"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "shutdown")]
)
@pytest.mark.parametrize("moment", ["stream", "test"])
def test_a_signal_stops_the_run_well(
    heaveto: Any, project: Path, until: Any, process_tree: Any, moment: str, signum: int, status: int, code: str
) -> None:
    flags = ("--grace", "1")
    process = (
        start_in_stream(heaveto, project, *flags) if moment == "stream" else start_in_test(heaveto, project, until, *flags)
    )
    tree = process_tree(process.pid)
    finished, seconds = stop(heaveto, process, signum)
    end = last_line(finished)
    assert (finished.status, end["cause"]["code"], end["exit_status"]) == (status, code, status)
    assert seconds < 1 + 3 + 2  # the grace, what the issue of a stop may take, and a machine that is busy
    until(lambda: not tree.alive(), 2)
    resumed(heaveto, project, end["run_id"])


@pytest.mark.parametrize("moment", ["stream", "test"])
def test_kill_9_leaves_no_process_and_the_run_can_be_taken_up(
    heaveto: Any, project: Path, until: Any, process_tree: Any, moment: str
) -> None:
    process = start_in_stream(heaveto, project) if moment == "stream" else start_in_test(heaveto, project, until)
    tree = process_tree(process.pid)
    assert len(tree.started) > 1
    stop(heaveto, process, signal.SIGKILL)
    until(lambda: not tree.alive(), 3)
    run_id = json.loads(heaveto("runs", "--json").out.splitlines()[0])["run_id"]
    assert "killed" in heaveto("runs").out
    resumed(heaveto, project, run_id)


def test_a_second_signal_ends_the_grace(heaveto: Any, project: Path, until: Any, process_tree: Any) -> None:
    process = start_in_test(heaveto, project, until, "--grace", "60")
    tree = process_tree(process.pid)
    process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert process.poll() is None
    finished, seconds = stop(heaveto, process, signal.SIGTERM)
    assert (finished.status, last_line(finished)["cause"]["code"]) == (143, "shutdown")
    assert seconds < 10
    until(lambda: not tree.alive(), 2)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_third_signal_leaves_at_once_while_a_process_tool_runs(
    heaveto: Any, project: Path, until: Any, process_tree: Any, signum: int
) -> None:
    """Its test is deaf to SIGTERM, so that ending it well takes longer than three signals."""
    process = start_in_test(heaveto, project, until, "--grace", "60", test=DEAF_TEST)
    tree = process_tree(process.pid)
    assert len(tree.started) > 1
    for _ in range(2):
        process.send_signal(signum)
        time.sleep(0.2)
        assert process.poll() is None
    finished, seconds = stop(heaveto, process, signum)
    assert finished.status == 128 + signum, finished
    assert '"run.finished"' not in finished.out
    assert "Traceback" not in finished.err
    assert seconds < 2
    until(lambda: not tree.alive(), 5)
    if signum == signal.SIGTERM:  # it is the same for all, and takes long
        resumed(heaveto, project, json.loads(heaveto("runs", "--json").out.splitlines()[0])["run_id"])


def test_a_hangup_is_a_shutdown_with_its_own_status(heaveto: Any, project: Path) -> None:
    process = start_in_stream(heaveto, project, "--grace", "0")
    finished, _ = stop(heaveto, process, signal.SIGHUP)
    assert (finished.status, last_line(finished)["cause"]["text"]) == (129, "shutting down: SIGHUP")


def test_a_reader_who_leaves_stops_the_run(heaveto: Any, project: Path) -> None:
    process = start_in_stream(heaveto, project)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.wait(timeout=30) == 5
    process.stderr.close()
    shown = json.loads(heaveto("why", "--json").out)
    assert shown["cause"]["code"] == "client_gone"


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_at_any_moment_leaves_by_the_book(
    heaveto: Any, project: Path, process_tree: Any, until: Any, signum: int
) -> None:
    """Also while it loads, and after the end was told: the usual status or that of the end, and no traceback."""
    for hundredths in range(2 + signum % 3 * 10, 130, 32):  # each signal at moments of its own
        process = heaveto.start(
            "run", "-m", "offline", "-C", str(project), "--json", "--max-turns", "1", "--grace", "0", "fix it"
        )
        time.sleep(hundredths / 100)
        tree = process_tree(process.pid)
        finished, _ = stop(heaveto, process, signum)
        if finished.out:
            assert finished.status == last_line(finished)["exit_status"], finished
        elif finished.status == 128 + signum:
            assert finished.err == "heaveto: stopped before anything was begun\n"
        else:  # the interpreter was coming up, and had none of our code yet
            assert "heaveto/cli/commands.py" not in finished.err, finished
        until(lambda tree=tree: not tree.alive(), 5)
