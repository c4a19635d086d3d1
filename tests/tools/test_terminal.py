"""Commands that get a terminal: what they see, what the model reads of it, and that all ends with them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaveto.causes import Cancelled
from heaveto.errors import ToolError
from heaveto.scopes import Scope
from heaveto.testing import every_await
from heaveto.tools import Call, run_command_tool
from heaveto.tools.processes import run_process
from heaveto.tools.processes.terminal import terminal_text
from heaveto.tools.sandbox import Sandbox, find_sandbox

linux = pytest.mark.skipif(sys.platform != "linux", reason="no subreaper")


async def run(folder: Path, command: str | list[str], sandbox: Sandbox | None = None, **arguments: Any) -> str:
    tool = run_command_tool(seconds=30, sandbox=sandbox)
    return await tool.run(Call(folder=folder), {"command": command, "terminal": True, **arguments})


LOOKS = r"""
for n in 0 1 2; do test -t $n && echo "$n is one"; done
tty -s && stty size; echo "$TERM"; echo out; echo err >&2
printf 'loading 10%%\rloading 100%%\n\033[31mred\033[0m\n'
read line || echo "nobody types"
exit 3
"""


@linux
@pytest.mark.anyio
async def test_it_has_a_terminal_of_its_own_and_the_model_reads_text(tmp_path: Path) -> None:
    head, *lines = (await run(tmp_path, LOOKS)).splitlines()
    assert head.startswith("exit status 3 after ")
    assert lines == [
        *("0 is one", "1 is one", "2 is one", "24 120", "xterm-256color"),
        *("out", "err", "loading 100%", "red", "nobody types"),
    ]
    assert (await run(tmp_path, "test -t 0 || echo none", terminal=False)).endswith("\nnone")


@linux
@pytest.mark.anyio
async def test_it_is_the_commands_controlling_terminal_in_the_sandbox_too(tmp_path: Path) -> None:
    for sandbox in (None, find_sandbox()):
        text = await run(
            tmp_path, "echo hello > /dev/tty; trap 'echo interrupted; exit 0' INT; printf '' ; kill -INT $$", sandbox
        )
        assert text.splitlines()[1:] == ["hello", "interrupted"], text


@linux
@pytest.mark.anyio
async def test_what_it_prints_is_bounded(tmp_path: Path) -> None:
    text = await run(tmp_path, "echo first; yes x | head -c 1000000; echo; echo last")
    assert text.splitlines()[1] == "first"
    assert text.endswith("last")
    assert len(text) < 25_000


TREE = "echo $$ >> pids; setsid sleep 60 & echo $! >> pids; (trap '' HUP TERM; echo $$ >> pids; sleep 60) & wait"


@linux
@pytest.mark.anyio
async def test_a_stop_and_a_limit_end_all_that_it_started(tmp_path: Path) -> None:
    """At once, since each ending waits until what ignores it has had its moment."""

    async def stopped(folder: Path) -> None:
        with Scope(quiet=True) as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(run, folder, TREE)
                await _until(lambda: len(pids_in(folder)) == 3)
                scope.cancel(Cancelled("enough"))
        assert not any(is_alive(pid) for pid in pids_in(folder))

    async def limited(folder: Path) -> None:
        with pytest.raises(ToolError, match=r"ended after 0\.5 s, its limit"):
            await run(folder, TREE, limit_seconds=0.5)
        assert not any(is_alive(pid) for pid in pids_in(folder))

    async with anyio.create_task_group() as both:
        for act in (stopped, limited):
            (folder := tmp_path / act.__name__).mkdir()
            both.start_soon(act, folder)


@linux
def test_a_stop_at_any_await_leaves_nothing(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))

    async def whole() -> None:
        await run_process(["/bin/sh", "-c", "echo $$ >> pids; echo x"], folder=tmp_path, terminal=True)

    for stopped in every_await(whole, ways=("cancel",), again_after=()):
        assert stopped.left_running == (), stopped
        assert not any(is_alive(pid) for pid in pids_in(tmp_path))
        assert len(os.listdir("/proc/self/fd")) <= before, stopped


@linux
@pytest.mark.anyio
async def test_no_descriptor_is_left(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        await run_process(["/bin/echo", "x"], folder=tmp_path, terminal=True)
        with pytest.raises(ToolError, match="no such program"):
            await run_process(["no-such-program"], folder=tmp_path, terminal=True)
        with pytest.raises(ToolError, match="null byte"):
            await run_process(["a\0b"], folder=tmp_path, terminal=True)
    assert len(os.listdir("/proc/self/fd")) == before


PROGRAM = """
import sys, anyio
from pathlib import Path
from heaveto.runs import main
from heaveto.tools import Call, run_command_tool
async def run():
    await run_command_tool().run(Call(folder=Path(sys.argv[1])), {"command": sys.argv[2], "terminal": True})
main(run)
"""


@linux
def test_kill_9_of_the_program_ends_all_that_it_started(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM, tmp_path, TREE]) as program:
        anyio.run(_until, lambda: len(pids_in(tmp_path)) == 3)
        program.send_signal(signal.SIGKILL)
    anyio.run(_until, lambda: not any(is_alive(pid) for pid in pids_in(tmp_path)))


def pids_in(folder: Path) -> list[int]:
    path = folder / "pids"
    return [int(pid) for pid in path.read_text().split()] if path.exists() else []


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def _until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not come about"
        await anyio.sleep(0.02)


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("a\r\nb\r\n", "a\nb\n"),
        ("10%\r20%\r", "20%"),
        ("\x1b[2K\x1b[1Gdone\x1b]0;title\x07", "done"),
        ("ab\bc\b\b\bx", "x"),
        ("\x1b(Bplain\x1b=", "plain"),
    ],
)
def test_what_a_terminal_shows(printed: str, shown: str) -> None:
    assert terminal_text(printed) == shown


@given(st.text())
def test_any_text_has_a_shown_form_that_steers_nothing_more(text: str) -> None:
    shown = terminal_text(text)
    assert "\b" not in shown
    assert len(shown) <= len(text)
