"""Sandboxes: what can be done inside each that this machine has, and what cannot."""

from __future__ import annotations

import shutil
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from heaveto.errors import ConfigError
from heaveto.tools import find_sandbox, run_command_tool, run_tests_tool
from heaveto.tools import sandbox as sandboxes
from heaveto.tools.landlock import landlock_version
from heaveto.tools.protocol import Call

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="no sandbox but on Linux")]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["bwrap", "landlock"])
def box(request: pytest.FixtureRequest) -> Any:
    if request.param == "bwrap":
        if shutil.which("bwrap") is None:
            pytest.skip("no bwrap")
        if not sandboxes._bwrap_works():
            pytest.skip("this machine allows no user namespaces")  # nothing that an installation could mend
        return sandboxes._Bubblewrap(False)
    if landlock_version() < sandboxes.TCP_VERSION:
        pytest.skip("this machine's kernel is without Landlock for TCP")
    return sandboxes._Landlock(False)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder.resolve()


async def run(box: Any, workspace: Path, command: str) -> str:
    tool = run_command_tool(sandbox=box)
    text: str = await tool.run(Call(folder=workspace), {"command": command})
    return text


async def test_inside_can_be_written_and_outside_cannot(box: Any, workspace: Path) -> None:
    outside = workspace.parent / "outside"
    text = await run(
        box,
        workspace,
        f"echo hi > in.txt; mkdir d; mv in.txt d/; echo tmp > $TMPDIR/x; echo x > /dev/null && echo fine; touch {outside}",
    )
    assert "\nfine" in text
    assert (workspace / "d/in.txt").read_text() == "hi\n"
    assert not outside.exists()
    assert "touch" in text or box.name == "bwrap"  # there a temporary folder of its own hides that one
    assert "exit status 0" not in await run(box, workspace, "touch /usr/bin/heaveto-was-here")


async def test_the_sandboxs_own_process_is_not_left_behind_by_a_command(box: Any, workspace: Path) -> None:
    for _ in range(10):
        assert "left behind" not in await run(box, workspace, "true")
    assert (
        "left behind ended with it" in await run(box, workspace, "sleep 60 > /dev/null 2>&1 & true") or box.name == "bwrap"
    )


async def test_there_is_no_network(box: Any, workspace: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        program = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5); print('connected')"
        text = await run(box, workspace, f'{shutil.which("python3")} -c "{program}"')
    assert "connected" not in text
    assert "refused" in text.lower() or "denied" in text.lower()


async def test_outside_processes_are_out_of_reach(box: Any, workspace: Path) -> None:
    import os

    text = await run(box, workspace, f"kill -0 {os.getpid()} && echo reached")
    assert "reached" not in text or (box.name == "landlock" and landlock_version() < 6)


async def test_a_missing_program_is_an_error_inside_too(box: Any, workspace: Path) -> None:
    from heaveto.errors import ToolError

    with pytest.raises(ToolError, match="no such program"):
        await run_command_tool(sandbox=box).run(Call(folder=workspace), {"command": ["no-such-program"]})


async def test_tests_run_inside(box: Any, workspace: Path) -> None:
    outside = workspace.parent / "outside"
    inside = "def test_a(tmp_path):\n    (tmp_path / 'x').write_text('')\n"
    (workspace / "test_it.py").write_text(f"{inside}\n\ndef test_b():\n    open({str(outside)!r}, 'w')\n")
    text = await run_tests_tool(interpreter=sys.executable, sandbox=box).run(Call(folder=workspace), {})
    assert not outside.exists()
    assert "2 failed" not in text


def test_a_required_sandbox_fails_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandboxes, "_bwrap_works", lambda: False)
    monkeypatch.setattr(sandboxes, "landlock_version", lambda: 0)
    assert find_sandbox().name == "none"
    with pytest.raises(ConfigError, match="no sandbox works"):
        find_sandbox(required=True)


def test_the_best_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandboxes, "landlock_version", lambda: 7)
    monkeypatch.setattr(sandboxes, "_bwrap_works", lambda: True)
    assert find_sandbox().name == "bwrap"
    monkeypatch.setattr(sandboxes, "_bwrap_works", lambda: False)
    assert find_sandbox().name == "landlock"
    monkeypatch.setattr(sandboxes, "landlock_version", lambda: 3)
    assert find_sandbox().name == "none"
    assert find_sandbox(network=True).name == "landlock"
