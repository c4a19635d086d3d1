"""Commands: what the model reads of one, and that nothing of it outlives the call or the run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from heaveto.causes import Cancelled
from heaveto.errors import ToolError
from heaveto.journal import MemoryStore
from heaveto.runs import Agent
from heaveto.testing.scripted_model import calls, scripted
from heaveto.tools import Call, command_tools, run_command_tool

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="no subreaper")]


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


async def run(folder: Path, command: str | list[str], **arguments: Any) -> str:
    call = Call(call_id="c", folder=folder.resolve(), progress=arguments.pop("progress", lambda text: None))
    text: str = await run_command_tool(seconds=30).run(call, {"command": command, **arguments})
    return text


async def test_a_command_is_the_shells_or_a_list(tmp_path: Path) -> None:
    text = await run(tmp_path, "pwd; echo oops >&2; exit 3")
    assert text.startswith("exit status 3 after ")
    assert text.endswith(f"s\n{tmp_path}\n--- stderr\noops")
    assert (await run(tmp_path, ["echo", "a b", "$HOME"])).endswith("\na b $HOME")


async def test_it_runs_in_a_folder_inside(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    assert (await run(tmp_path, "pwd", cwd="sub")).endswith(f"\n{tmp_path}/sub")
    (tmp_path / "out").symlink_to("/")
    for outside in ("..", "/", "out", "sub/../.."):
        with pytest.raises(ToolError, match="outside"):
            await run(tmp_path, "pwd", cwd=outside)
    with pytest.raises(ToolError, match="no folder"):
        await run(tmp_path, "pwd", cwd="nowhere")


async def test_what_cannot_start_is_an_error_and_a_failed_command_is_not(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="no such program"):
        await run(tmp_path, ["no-such-program"])
    with pytest.raises(ToolError, match="empty"):
        await run(tmp_path, " ")
    assert (await run(tmp_path, "no-such-program")).startswith("exit status 127")


async def test_its_limit_ends_all_of_it_and_keeps_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(ToolError) as caught:
        await run(tmp_path, "echo begun; sleep 60 & echo $! > pid; wait", limit_seconds=0.5)
    assert str(caught.value) == "ended after 0.5 s, its limit, with all that it had started\nbegun"
    assert gone(int((tmp_path / "pid").read_text()))


async def test_output_is_bounded_and_its_head_and_tail_kept(tmp_path: Path) -> None:
    text = await run(tmp_path, "echo first; yes | head -c 3000000; echo last")
    assert len(text) < 21_000
    assert "first" in text
    assert text.endswith("last")


async def test_it_sees_no_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    assert "SOME_API_KEY" not in await run(tmp_path, "env")


async def drive(folder: Path, *lines: Any, during: Any = None) -> Any:
    tools = command_tools(approval=False)
    agent = Agent(model=scripted(*lines), store=MemoryStore(), tools=tools, folder=folder)
    async with agent.start("go") as run:
        if during is not None:
            await during(run)
        return await run.wait()


SERVER = "echo up; echo $$ > pid; trap '' TERM; while true; do sleep 0.05; done"


# A machine with much to do starts the server's shell late.
UNTIL_UP = calls(("run_command", {"command": "until test -s pid; do sleep 0.01; done"}))


async def test_a_background_command_is_read_stopped_and_gone(tmp_path: Path) -> None:
    outcome = await drive(
        tmp_path,
        calls(("start_command", {"command": SERVER})),
        UNTIL_UP,
        calls(("read_output", {"handle": "bg1"})),
        calls(("read_output", {"handle": "bg7"})),
        calls(("stop_command", {"handle": "bg1"})),
        "done",
    )
    texts = [message.content for message in outcome.report.messages if getattr(message, "ending", None)]
    assert (texts[0] + texts[2]).replace("\nup", "", 1) == "bg1 still running" + "still running"
    assert texts[3] == 'no background command "bg7"; there are bg1'
    assert texts[4] == "it was ended"
    assert gone(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize("how", ["answered", "stopped"])
async def test_background_commands_end_with_the_run(tmp_path: Path, how: str) -> None:
    async def stop(run: Any) -> None:
        with anyio.fail_after(20):
            while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
                await anyio.sleep(0.01)
        run.cancel(Cancelled("enough"))

    line = calls(("start_command", {"command": SERVER}))
    if how == "answered":
        outcome = await drive(tmp_path, line, UNTIL_UP, "done")
    else:
        outcome = await drive(tmp_path, line, calls(("read_output", {"handle": "bg1", "wait_seconds": 60})), during=stop)
    assert outcome.kind == how
    assert gone(int((tmp_path / "pid").read_text()))


async def test_one_that_ends_or_cannot_start_says_so(tmp_path: Path) -> None:
    outcome = await drive(
        tmp_path,
        calls(("start_command", {"command": ["no-such-program"]})),
        calls(("read_output", {"handle": "bg1", "wait_seconds": 30})),  # on a machine with much to do it says so later
        calls(("start_command", {"command": "sleep 0.3; echo late; exit 4"})),
        calls(("read_output", {"handle": "bg2", "wait_seconds": 30})),
        "done",
    )
    texts = [message.content for message in outcome.report.messages if getattr(message, "ending", None)]
    assert "no such program" in texts[1], texts
    assert texts[3].startswith("ended: exit status 4")
    assert texts[3].endswith("late")
