"""Tools in a process of their own: what goes in, what comes back, and that a stop kills all of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from heaveto.causes import ToolTimeout
from heaveto.errors import ConfigError, OutcomeUnknown, ToolCrashed, ToolError, ToolFatal
from heaveto.scopes import deadline
from heaveto.tools import Call, find_sandbox, tool

from . import isolated_functions as functions

pytestmark = pytest.mark.anyio


async def run(each: Any, tmp_path: Path, **arguments: Any) -> str:
    call = Call(call_id="c1", tool=each.name, folder=tmp_path.resolve())
    text: str = await each.run(call, each.parse(json.dumps(arguments)))
    return text


async def test_arguments_go_there_and_the_result_comes_back(tmp_path: Path) -> None:
    result = json.loads(await run(functions.add, tmp_path, point={"x": 1, "y": 2}, more=[3, 4]))
    assert result["sum"] == 10
    assert result["pid"] != os.getpid()


async def test_an_async_one_has_its_call_and_tells_its_progress(tmp_path: Path) -> None:
    said: list[str] = []
    each = functions.wait
    call = Call(call_id="c1", tool="wait", folder=tmp_path.resolve(), progress=said.append)
    assert await each.run(call, {"seconds": 0.01}) == f"c1 in {tmp_path.name}"
    assert said == ["waiting"]


async def test_what_it_keeps_secret_is_told_to_the_run(tmp_path: Path) -> None:
    kept: list[str] = []
    call = Call(call_id="c1", tool="sign", folder=tmp_path.resolve(), keep_secret=kept.append)
    arguments = functions.sign.parse('{"password": "hunter22"}')
    assert await functions.sign.run(call, arguments) == "hunter22: a token of its own"
    assert kept == ["a token of its own"]


async def test_it_runs_in_the_calls_sandbox(tmp_path: Path) -> None:
    sandbox = find_sandbox()
    if sandbox.name == "none":
        pytest.skip("no sandbox")
    (work := tmp_path / "work").mkdir()
    inside, outside = str(work / "in"), str(Path(__file__).parent / "never-written")
    each = functions.writes
    call = Call(call_id="c1", tool=each.name, folder=work.resolve(), sandbox=sandbox)
    assert json.loads(await each.run(call, {"paths": [inside, outside]})) == {inside: True, outside: False}


async def test_it_knows_the_time_left(tmp_path: Path) -> None:
    assert await run(functions.left, tmp_path) == "null"  # infinite, which JSON has no word for
    with deadline(1000, ToolTimeout(1000)):
        assert 0 < float(await run(functions.left, tmp_path)) < 1000


async def test_it_sees_no_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    seen = await run(functions.keys, tmp_path)
    assert "PATH" in seen
    assert "SOME_API_KEY" not in seen


async def test_errors_come_back_as_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"^try 7$"):
        await run(functions.fail, tmp_path, how="tool")
    with pytest.raises(ToolFatal, match=r"^fail: no server"):
        await run(functions.fail, tmp_path, how="fatal")
    with pytest.raises(OutcomeUnknown, match="who knows"):
        await run(functions.fail, tmp_path, how="unknown")
    with pytest.raises(ToolCrashed, match="ValueError: boom") as caught:
        await run(functions.fail, tmp_path, how="bug")
    assert "raise errors[how]" in caught.value.__notes__[0]


async def test_a_write_whose_process_died_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(OutcomeUnknown, match="signal"):
        await run(functions.fail, tmp_path, how="kill")


async def test_a_stop_kills_it_and_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    with pytest.raises(ToolTimeout), deadline(60, ToolTimeout(60)) as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: run(functions.hang, tmp_path, pids=str(pids)))
            while not (pids.exists() and len(pids.read_text().split()) == 2):
                await anyio.sleep(0.01)
            scope.cancel(ToolTimeout(60))
    for pid in pids.read_text().split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


def test_what_cannot_be_imported_is_refused() -> None:
    with pytest.raises(ConfigError, match="could not import"):

        @tool(isolate=True)
        def inner() -> None:
            """Inside a function."""

    with pytest.raises(ConfigError, match="could not import"):
        functions.Bag().look  # noqa: B018


def test_a_tool_of_a_program_runs_too(tmp_path: Path) -> None:
    """The file is run again, under another name than `__main__`."""
    program = tmp_path / "program.py"
    program.write_text(
        "import anyio\nfrom heaveto.tools import Call, tool\n\n"
        "@tool(effect='read', isolate=True)\ndef double(x: int) -> int:\n    'Double.'\n    return 2 * x\n\n"
        "if __name__ == '__main__':\n    print(anyio.run(double.run, Call(), {'x': 4}))\n"
    )
    ended = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.stdout, ended.stderr) == ("8\n", "")
