"""Tools stopped at each await, on both back ends: commands, commands in the background, isolated functions, and a person
who is asked. Nothing is left running, the cause comes out, and what was not allowed did not happen.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from heaveto.causes import Stop
from heaveto.journal import MemoryStore
from heaveto.journal.records import ToolStarted
from heaveto.messages import ToolCall, unanswered
from heaveto.runs import Agent, read_records
from heaveto.testing import calls, every_await, scripted
from heaveto.testing.stops import StoppedRun
from heaveto.tools import Call, command_tools, run_command_tool, tool

from . import isolated_functions as functions

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="no subreaper")

PROGRAM = """
import sys, anyio
from pathlib import Path
from heaveto import Agent, MemoryStore
from heaveto.testing import calls, scripted
from heaveto.tools import command_tools
command = "(setsid sh -c 'echo $$ >> pids; exec sleep 600' &); echo $$ >> pids; exec sleep 600"
waiting = calls(("read_output", {"handle": "bg1", "wait_seconds": 60}))
script = scripted(calls(("start_command", {"command": command})), waiting)
agent = Agent(model=script, store=MemoryStore(), tools=command_tools(approval=False), folder=sys.argv[1])
anyio.run(agent.run, "go")
"""


@pytest.fixture
def more(request: pytest.FixtureRequest) -> tuple[int, ...]:
    """When a second cancel comes: each stop here costs a process, so only with `--stop-points`."""
    return () if request.config.getoption("--stop-points") is None else (1, 3)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def pids_in(folder: Path) -> list[int]:
    return [int(line) for path in folder.glob("pid*") for line in path.read_text().split()]


def each_stop(fn: Callable[[], Awaitable[Any]], folder: Path, again_after: tuple[int, ...]) -> Iterator[StoppedRun[Any]]:
    """Every stop of something that writes the numbers of its processes into `pids`; none of them is alive after one."""
    for run in every_await(fn, ways=("cancel",), again_after=again_after):
        assert run.left_running == (), run
        assert not [pid for pid in pids_in(folder) if alive(pid)], run
        (folder / "pids").unlink(missing_ok=True)
        yield run


def test_a_command_stopped_at_any_await(tmp_path: Path, more: tuple[int, ...]) -> None:
    """It may have changed something, so the stop comes out, never a result that says that it ended by a signal."""
    points = 0
    for run in each_stop(lambda: _command(tmp_path), tmp_path, more):
        points += 1
        assert isinstance(run.error, type(run.cause)) or (run.error is None and run.value.endswith("\nhi")), run
    assert points >= 6


async def _command(folder: Path) -> str:
    call = Call(folder=folder.resolve())
    return await run_command_tool().run(call, {"command": "echo $$ >> pids; sleep 600 & echo $! >> pids; echo hi"})


def test_a_run_with_a_background_command_stopped_at_any_await(tmp_path: Path, more: tuple[int, ...]) -> None:
    script = [calls(("start_command", {"command": "echo $$ >> pids; exec sleep 600"})), "done"]

    async def whole() -> Any:
        tools = command_tools(approval=False)
        agent = Agent(model=scripted(*script), store=MemoryStore(), tools=tools, folder=tmp_path)
        return await agent.run("go")

    points = 0
    for run in each_stop(whole, tmp_path, more):
        points += 1
        assert run.error is None or isinstance(run.error, type(run.cause)), run
    assert points >= 10


def test_an_isolated_function_stopped_at_any_await(tmp_path: Path, more: tuple[int, ...]) -> None:
    async def whole() -> str:
        call = Call(call_id="c", folder=tmp_path.resolve())
        text: str = await functions.note.run(call, {"pids": str(tmp_path / "pids")})
        return text

    points = 0
    for run in each_stop(whole, tmp_path, more):
        points += 1
        assert isinstance(run.error, type(run.cause)) or (run.error is None and run.value == "noted"), run
    assert points >= 4


def test_waiting_for_a_person_stopped_at_any_await(second_stops: tuple[int, ...]) -> None:
    """A stop is no permission: what was not allowed did not run, and what ran has its marker."""
    stores: list[MemoryStore] = []
    done: list[str] = []
    asked: list[str] = []
    said: list[str] = []

    @tool(effect="write", approval=True, check=lambda call, arguments: None)
    async def pay(what: str) -> str:
        """Pay."""
        done.append(what)
        return "paid"

    async def approve(call: ToolCall) -> bool:
        asked.append(call.id)
        await anyio.sleep(3)
        said.append(call.id)
        return True

    async def whole() -> Any:
        done.clear()
        asked.clear()
        said.clear()
        stores.append(store := MemoryStore())
        agent = Agent(model=scripted(calls(("pay", {"what": "rent"})), "done"), store=store, tools=[pay], approve=approve)
        return (await agent.run("go", run_id="run")).text

    waited = 0
    for run in every_await(whole, again_after=second_stops):
        assert run.left_running == (), run
        assert run.error is None or isinstance(run.error, type(run.cause)), run
        records = anyio.run(_records, stores[-1])
        assert said or not done, run
        assert not done or any(isinstance(each, ToolStarted) for each in records), run
        waited += bool(asked) and not said
        if isinstance(run.error, Stop) and (report := getattr(run.error, "report", None)) is not None:
            assert not unanswered(report.messages) or report.pending, run
    assert waited >= 8, "some stops came while the person was asked"


async def _records(store: MemoryStore) -> list[Any]:
    return list(await read_records(store, "run")) if await store.runs() else []


def test_background_commands_are_gone_after_kill_9_of_the_program(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM, tmp_path]) as program:
        _until(lambda: len(pids_in(tmp_path)) == 2)
        assert all(alive(pid) for pid in pids_in(tmp_path))
        program.send_signal(signal.SIGKILL)
    _until(lambda: not any(alive(pid) for pid in pids_in(tmp_path)))


def _until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.02)
