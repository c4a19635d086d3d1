"""Processes: real ones, in small numbers, on both back ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heaveto.causes import Cancelled, TestsTimedOut, ToolTimeout
from heaveto.errors import ToolError
from heaveto.scopes import Scope, deadline, tasks
from heaveto.testing.stops import every_await
from heaveto.tools.processes import child_environment, run_process
from heaveto.tools.processes.launched import LAUNCHER
from heaveto.tools.processes.output import BoundedOutput

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="no subreaper")]

# Seven processes: the shell, a plain background one, one in a session of its own, a double fork, three that ignore TERM.
TREE = """
echo $$ >> pids
sleep 60 & echo $! >> pids
setsid sh -c 'echo $$ >> pids; exec sleep 60' &
(setsid sh -c 'echo $$ >> pids; exec sleep 60' & )
for n in 1 2 3; do (trap "" TERM HUP; nohup setsid sh -c 'echo $$ >> pids; sleep 60; :' >/dev/null 2>&1 & ) ; done
while [ $(wc -l < pids) -lt 7 ]; do sleep 0.01; done
echo ready
wait
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def pids_in(folder: Path) -> list[int]:
    file = folder / "pids"
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def living(folder: Path) -> list[int]:
    return [pid for pid in pids_in(folder) if alive(pid)]


async def until(condition: Callable[[], bool], seconds: float = 5) -> None:
    with anyio.fail_after(seconds):
        while not condition():
            await anyio.sleep(0.01)


def children() -> set[int]:
    """Our own child processes, zombies among them."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if stat.read_text().rpartition(")")[2].split()[1] == str(os.getpid()):
                found.add(int(stat.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


async def test_both_streams_and_the_exit_status_come_back(tmp_path: Path) -> None:
    result = await run_process(["sh", "-c", "pwd; echo oops >&2; exit 3"], folder=tmp_path)
    assert (result.exit_code, result.signal, result.stdout, result.stderr) == (3, None, f"{tmp_path}\n", "oops\n")
    assert not result.truncated
    assert result.leftovers == 0


async def test_a_signal_that_was_not_ours_is_told(tmp_path: Path) -> None:
    result = await run_process(["sh", "-c", "kill -SEGV $$"], folder=tmp_path)
    assert (result.exit_code, result.signal) == (None, signal.SIGSEGV)


async def test_input_is_fed_and_need_not_be_read(tmp_path: Path) -> None:
    data = b"x" * 300_000
    assert (await run_process(["wc", "-c"], folder=tmp_path, stdin=data)).stdout.strip() == "300000"
    assert (await run_process(["true"], folder=tmp_path, stdin=data)).exit_code == 0
    assert (await run_process(["cat"], folder=tmp_path)).stdout == ""


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["no-such-program"], "cannot run no-such-program: no such program; is it installed, and is its folder in PATH?"),
        (["./data"], "cannot run ./data: not allowed to run it; is it executable?"),
        (["echo", "a\0b"], "cannot run 'echo': embedded null byte"),
        (["echo", "a" * 200_000], "cannot run echo: the arguments are too long"),
    ],
)
async def test_a_command_that_cannot_be_started_says_why(tmp_path: Path, argv: list[str], text: str) -> None:
    (tmp_path / "data").write_text("data")
    before = open_descriptors()
    with pytest.raises(ToolError) as caught:
        await run_process(argv, folder=tmp_path)
    assert str(caught.value) == text
    assert open_descriptors() == before


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"cannot run true in .*/nowhere: no such file or directory"):
        await run_process(["true"], folder=tmp_path / "nowhere")


async def test_the_command_has_the_default_signals(tmp_path: Path) -> None:
    """Python ignores SIGPIPE, the launcher more, `nohup` and a shell's `&` others; a command must not inherit it."""
    before = [(signum, signal.signal(signum, signal.SIG_IGN)) for signum in (signal.SIGQUIT, signal.SIGUSR1)]
    try:
        result = await run_process(["grep", "-E", "Sig(Ign|Blk)", "/proc/self/status"], folder=tmp_path)
    finally:
        for signum, handler in before:
            signal.signal(signum, handler)
    ignored_and_blocked = [int(line.split()[1], 16) for line in result.stdout.splitlines()]
    standard = 0x7FFF_FFFF  # signals 1 to 31; 32 and 33 are the C library's, which lets nobody set them
    assert [mask & standard for mask in ignored_and_blocked] == [0, 0]


async def test_the_command_sees_no_descriptor_of_ours(tmp_path: Path) -> None:
    result = await run_process(["sh", "-c", "ls /proc/$$/fd"], folder=tmp_path)
    assert result.stdout.split() == ["0", "1", "2"]


async def test_what_the_command_leaves_behind_is_ended(tmp_path: Path) -> None:
    """Background, another session, a double fork, and one that holds the output open: none holds us, none stays."""
    script = "sleep 60 & (setsid sleep 60 &) ; (trap '' TERM; setsid sh -c 'sleep 60; :' &) ; sleep 0.1; echo done"
    result = await run_process(["sh", "-c", f"{script}; ps -o pid= -A > pids"], folder=tmp_path)
    assert result.stdout == "done\n"
    assert result.leftovers >= 3
    assert result.seconds < 2
    assert not result.truncated


@pytest.mark.parametrize("how", ["seconds", "deadline", "cancel"])
async def test_a_stop_ends_all_seven_and_goes_on_with_its_cause(tmp_path: Path, how: str) -> None:
    began = time.monotonic()
    argv, cause = ["sh", "-c", TREE], Cancelled("enough", "tester")
    if how == "seconds":
        with pytest.raises(TestsTimedOut):
            await run_process(argv, folder=tmp_path, seconds=0.5, cause=TestsTimedOut(0.5), term_seconds=0.2)
    elif how == "deadline":
        with pytest.raises(ToolTimeout), deadline(0.5, ToolTimeout(0.5)):
            await run_process(argv, folder=tmp_path, term_seconds=0.2)
    else:
        with pytest.raises(Cancelled) as caught:
            await cancelled_when_ready(tmp_path, argv, cause)
        assert caught.value.args == cause.args
    assert len(pids_in(tmp_path)) == 7
    assert living(tmp_path) == []
    assert time.monotonic() - began < 2.5


async def cancelled_when_ready(folder: Path, argv: list[str], cause: Cancelled) -> None:
    def stop_when_ready(stream: str, chunk: bytes) -> None:
        if b"ready" in chunk:
            scope.cancel(cause)

    with Scope() as scope:
        await run_process(argv, folder=folder, term_seconds=0.2, on_output=stop_when_ready)


async def test_a_command_that_obeys_term_is_let_to_end_its_work(tmp_path: Path) -> None:
    script = "trap 'sleep 0.1; echo tidy > tidied; exit 0' TERM; echo ready; while :; do sleep 0.01; done"
    began = time.monotonic()
    with pytest.raises(Cancelled):
        await cancelled_when_ready(tmp_path, ["sh", "-c", script], Cancelled())
    assert (tmp_path / "tidied").read_text() == "tidy\n"
    assert time.monotonic() - began < 1.5


async def test_a_command_that_ignores_term_is_killed_in_time(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(ToolTimeout) as caught:
        await run_process(
            ["sh", "-c", "trap '' TERM; echo $$ > pids; while :; do sleep 1; done"],
            folder=tmp_path,
            seconds=0.2,
            term_seconds=0.5,
        )
    assert caught.value.seconds == 0.2
    assert time.monotonic() - began < 0.2 + 0.5 + 0.5
    assert living(tmp_path) == []


async def test_a_failing_on_output_ends_the_command(tmp_path: Path) -> None:
    def fail(stream: str, chunk: bytes) -> None:
        raise RuntimeError("cannot show that")

    with pytest.raises(RuntimeError, match="cannot show that"):
        await run_process(["sh", "-c", "echo $$ > pids; echo x; sleep 60"], folder=tmp_path, on_output=fail)
    assert living(tmp_path) == []


async def test_endless_output_is_kept_within_the_bound(tmp_path: Path) -> None:
    script = "echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo last"
    result = await run_process(["sh", "-c", script], folder=tmp_path, max_bytes=1000)
    assert result.truncated
    assert result.stdout.startswith("first\nxxx")
    assert result.stdout.endswith("xxx\nlast\n")
    assert "\n... 2,999,012 bytes left out ...\n" in result.stdout
    assert len(result.stdout) < 1100


async def test_the_output_comes_while_the_command_runs(tmp_path: Path) -> None:
    seen: list[tuple[str, bytes, bool]] = []

    def note(stream: str, chunk: bytes) -> None:
        seen.append((stream, chunk, (tmp_path / "over").exists()))

    script = "echo one; while [ ! -e go ]; do sleep 0.01; done; touch over"
    async with tasks() as group:
        group.start_soon(lambda: run_process(["sh", "-c", script], folder=tmp_path, on_output=note))
        await until(lambda: bool(seen))
        (tmp_path / "go").touch()
    assert seen == [("stdout", b"one\n", False)]


async def test_output_that_something_out_of_reach_holds_open_is_not_waited_for(tmp_path: Path) -> None:
    """A process of somebody else got the pipe: here, from outside, by opening it through /proc."""
    script = "echo $$ > pids; echo hello; while [ ! -e held ]; do sleep 0.01; done"
    holder: list[int] = []

    async def hold() -> None:
        await until(lambda: bool(pids_in(tmp_path)))
        holder.append(os.open(f"/proc/{pids_in(tmp_path)[0]}/fd/1", os.O_WRONLY))
        (tmp_path / "held").touch()

    began = time.monotonic()
    async with tasks() as group:
        group.start_soon(hold)
        result = await run_process(["sh", "-c", script], folder=tmp_path, drain_seconds=0.2)
    os.close(holder[0])
    assert (result.stdout, result.truncated) == ("hello\n", True)
    assert time.monotonic() - began < 2


async def test_nothing_is_left_over_twenty_runs(tmp_path: Path) -> None:
    """No descriptor, no child, no zombie; also where half of them are stopped and some do not start."""
    await run_process(["true"], folder=tmp_path)
    descriptors, offspring = open_descriptors(), children()
    for number in range(20):
        try:
            argv = [["true"], ["sleep", "60"], ["no-such-program"]][number % 3]
            await run_process(argv, folder=tmp_path, seconds=0.05 if number % 3 == 1 else 10)
        except (ToolError, ToolTimeout):
            pass
    assert open_descriptors() == descriptors
    assert children() == offspring


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_stop_at_every_await_leaves_nothing(tmp_path: Path) -> None:
    """No task, no process, no descriptor; the cause is kept, a second stop or not."""

    async def work() -> None:
        await run_process(["sh", "-c", "echo one; sleep 60 & echo two"], folder=tmp_path, stdin=b"in", term_seconds=0.5)

    points, descriptors, offspring = 0, open_descriptors(), children()
    for stopped in every_await(work, ways=("cancel",), again_after=(1,)):
        points += 1
        assert stopped.left_running == ()
        assert stopped.error is None or isinstance(stopped.error, type(stopped.cause))
        assert open_descriptors() <= descriptors + 1  # a loop's own, while one is open
        assert children() == offspring
        assert processes_in(tmp_path) == []
    assert points >= 10


async def test_many_at_once(tmp_path: Path) -> None:
    outputs: list[str] = []

    async def one(number: int) -> None:
        outputs.append((await run_process(["echo", str(number)], folder=tmp_path)).stdout)

    async with tasks() as group:
        for number in range(12):
            group.start_soon(one, number)
    assert sorted(map(int, outputs)) == list(range(12))


def test_a_native_cancellation_ends_the_command_and_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        running = asyncio.ensure_future(run_process(["sh", "-c", TREE], folder=tmp_path, term_seconds=0.2))
        await until(lambda: len(pids_in(tmp_path)) == 7)
        running.cancel()
        await asyncio.sleep(0.05)
        running.cancel()  # a second one, in the middle of the tidying
        with pytest.raises(asyncio.CancelledError):
            await running
        assert living(tmp_path) == []

    asyncio.run(main())


OWNER = """
import sys, anyio
from pathlib import Path
from heaveto.tools.processes import run_process
anyio.run(lambda: run_process(["sh", "-c", sys.argv[1]], folder=Path(sys.argv[2])), backend=sys.argv[3])
"""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("with_fork", [False, True])
def test_a_kill_of_our_own_process_leaves_no_descendant(tmp_path: Path, backend: str, with_fork: bool) -> None:
    """Also when a process that was forked without `exec` still holds the control pipe open."""
    owner = OWNER if not with_fork else OWNER.replace("anyio.run(", FORK_LATER + "anyio.run(")
    process = subprocess.Popen([sys.executable, "-c", owner, TREE, str(tmp_path), backend], cwd=tmp_path)
    try:
        anyio.run(until, lambda: len(pids_in(tmp_path)) == 7 and (not with_fork or (tmp_path / "fork").exists()), 10.0)
    finally:
        process.kill()
        process.wait()
    try:
        anyio.run(until, lambda: living(tmp_path) == [], 1.0)
    finally:
        for pid in living(tmp_path):
            os.kill(pid, signal.SIGKILL)
        if with_fork:
            os.kill(int((tmp_path / "fork").read_text()), signal.SIGKILL)


FORK_LATER = """
import os, threading, time
def fork():
    while not Path("pids").exists():
        time.sleep(0.01)
    if not os.fork():
        Path("fork").write_text(str(os.getpid()))
        time.sleep(60)
        os._exit(0)
threading.Thread(target=fork, daemon=True).start()
"""


async def test_a_killed_launcher_takes_the_command_along(tmp_path: Path) -> None:
    async def kill_launcher() -> None:
        await until(lambda: bool(pids_in(tmp_path)))
        launcher = int(Path(f"/proc/{pids_in(tmp_path)[0]}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(launcher, signal.SIGKILL)

    async with tasks() as group:
        group.start_soon(kill_launcher)
        with pytest.raises(ToolError, match="cannot tell how sh ended: its launcher was killed"):
            await run_process(["sh", "-c", "echo $$ > pids; while :; do sleep 0.1; done"], folder=tmp_path)
    await until(lambda: living(tmp_path) == [], 1)


async def test_a_fork_bomb_of_modest_size_is_ended(tmp_path: Path) -> None:
    """Processes that fork while they are being killed do not get away."""
    script = "trap '' TERM; f() { sleep 0.01; f & }; for n in 1 2 3 4; do f & done; sleep 60"
    before = set(processes_in(tmp_path))
    with pytest.raises(ToolTimeout):
        await run_process(["sh", "-c", script], folder=tmp_path, seconds=0.3, term_seconds=0.1)
    assert set(processes_in(tmp_path)) == before


def processes_in(folder: Path) -> list[int]:
    """The living processes whose working folder is `folder`."""
    found = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if os.readlink(link) == str(folder):
                found.append(int(link.parent.name))
        except OSError:
            continue
    return found


def test_only_allowed_variables_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "OPENROUTER_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "GITHUB_TOKEN",
        "HTTPS_PROXY",
        "SSH_AUTH_SOCK",
        "PYTEST_ADDOPTS",
    ):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("LC_TIME", "C")
    seen = child_environment({"EXTRA": "yes", "PATH": "/bin"})
    assert "secret" not in seen.values()
    assert (seen["LC_TIME"], seen["EXTRA"], seen["PATH"]) == ("C", "yes", "/bin")


async def test_a_child_sees_only_allowed_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "sk-secret")
    assert "sk-secret" not in (await run_process(["env"], folder=tmp_path)).stdout
    listed = (await run_process(["env"], folder=tmp_path, env={"PATH": os.environ["PATH"], "ONE": "1"})).stdout
    assert {line.partition("=")[0] for line in listed.splitlines()} <= {"PATH", "ONE", "LC_CTYPE"}


@settings(deadline=None, max_examples=50)
@given(st.lists(st.binary(max_size=40)), st.integers(0, 60))
def test_bounded_output_keeps_the_beginning_and_the_end(chunks: list[bytes], max_bytes: int) -> None:
    output, whole = BoundedOutput(max_bytes), b"".join(chunks)
    for chunk in chunks:
        output.add(chunk)
    assert output.left_out == max(0, len(whole) - max_bytes)
    if output.left_out == 0:
        assert output.text() == whole.decode(errors="replace")
    else:
        assert f"\n... {output.left_out:,} bytes left out ...\n" in output.text()


@settings(deadline=None, max_examples=50)
@given(st.text(min_size=1, max_size=200), st.integers(0, 40))
def test_a_cut_splits_no_character(text: str, max_bytes: int) -> None:
    output = BoundedOutput(max_bytes)
    output.add(text.encode(errors="replace"))
    head, _, tail = output.text().partition(f"\n... {output.left_out:,} bytes left out ...\n")
    assert text.encode(errors="replace").decode().startswith(head)
    assert text.encode(errors="replace").decode().endswith(tail)


async def test_a_command_that_kills_its_launcher_leaves_nobody(tmp_path: Path) -> None:
    """Its daemons have lost their parent twice, and are ended all the same."""
    script = TREE.replace("echo ready\nwait\n", "kill -9 $PPID\nsleep 60\n")
    with pytest.raises(ToolError, match="its launcher was killed"):
        await run_process(["sh", "-c", script], folder=tmp_path)
    assert len(pids_in(tmp_path)) == 7
    assert living(tmp_path) == []


@pytest.mark.parametrize("whom", ["$PPID", "$GUARD", "$PPID $GUARD"])
@pytest.mark.parametrize("end", ["exit 3", "kill -STOP $GUARD; wait"])
async def test_a_command_that_stops_what_stands_over_it_leaves_nobody(tmp_path: Path, whom: str, end: str) -> None:
    """It is neither waited for without end, nor are its daemons left behind."""
    stop = f"GUARD=$(cut -d ' ' -f 4 /proc/$PPID/stat)\nkill -STOP {whom}\n{end}\n"
    script = TREE.replace("echo ready\nwait\n", stop)
    try:
        result = await run_process(["sh", "-c", script], folder=tmp_path, seconds=1, term_seconds=0.1)
        assert (end, result.exit_code) == ("exit 3", 3)
    except ToolTimeout:
        assert end != "exit 3" or whom == "$PPID $GUARD"  # nobody is left to see that it ended: its limit does
    assert len(pids_in(tmp_path)) == 7
    assert living(tmp_path) == []


async def test_the_guard_holds_nothing_of_the_commands_when_that_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a command's end would not be seen for as long as others keep the guard from running."""
    place = "    for descriptor in (0, 1, 2, *descriptors):"
    before, line, after = LAUNCHER.read_text().partition(place)
    (slow := tmp_path / "launcher.py").write_text(f"{before}    time.sleep(0.3)\n{line}{after}")
    monkeypatch.setattr("heaveto.tools.processes.launched.LAUNCHER", slow)
    script = "GUARD=$(cut -d ' ' -f 4 /proc/$PPID/stat); for n in 0 1 2; do readlink /proc/$GUARD/fd/$n; done"
    result = await run_process(["sh", "-c", script], folder=tmp_path)
    assert line
    assert result.stdout == "/dev/null\n" * 3
