"""Real servers of other people's, in JavaScript: `make mcp` installs them and runs this; it is no part of the suite."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from heaveto.causes import Cancelled
from heaveto.errors import ToolError
from heaveto.scopes import Scope, tasks
from heaveto.tools import Call
from heaveto.tools.mcp import McpServers, StdioServer, open_servers
from heaveto.tools.mcp.config import ServerOptions

pytestmark = pytest.mark.anyio

INSTALLED = Path(os.environ["HEAVETO_MCP_SERVERS"]) / "node_modules" / ".bin"


def everything() -> StdioServer:
    return StdioServer(command=str(INSTALLED / "mcp-server-everything"), args=("stdio",))


async def call(servers: McpServers, name: str, progress: Callable[[str], None] = lambda _: None, **arguments: Any) -> str:
    tool = next(each for each in servers.tools if each.name == name)
    return await tool.run(Call(call_id="c1", progress=progress), tool.parse(json.dumps(arguments)))


def node_processes() -> list[int]:
    """Every server of ours that lives."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if os.fsencode(INSTALLED / "mcp-server-everything") in words and words[0].endswith(b"node") and state != "Z":
                found.append(int(entry.name))
    return found


def has_ended(pid: int) -> bool:
    """Whether it is gone with all its threads: its command line, and even its first thread, go sooner than its pipes."""
    return not Path(f"/proc/{pid}").exists()


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(20):
        while not condition():
            await anyio.sleep(0.02)


async def test_everything_is_listed_called_and_stopped() -> None:
    lines: list[str] = []
    async with open_servers({"all": everything()}) as servers:
        assert await call(servers, "all__echo", message="hello") == "Echo: hello"
        assert "4" in await call(servers, "all__get-sum", a=1, b=3)
        result = await call(servers, "all__trigger-long-running-operation", lines.append, duration=1, steps=2)
        assert "completed" in result.lower()
        assert len(lines) == 2
        with Scope(quiet=True) as scope:
            async with tasks() as group:
                lines.clear()
                group.start_soon(
                    lambda: call(servers, "all__trigger-long-running-operation", lines.append, duration=60, steps=600)
                )
                await until(lambda: bool(lines))
                scope.cancel(Cancelled("changed my mind"))
        assert await call(servers, "all__echo", message="on") == "Echo: on"
    assert node_processes() == []


async def test_after_each_of_five_kills_there_is_one_server_and_it_answers() -> None:
    async with open_servers({"all": everything()}) as servers:
        for number in range(5):
            (pid,) = node_processes()
            os.kill(pid, signal.SIGKILL)
            await until(lambda dead=pid: has_ended(dead))
            assert await call(servers, "all__echo", message=str(number)) == f"Echo: {number}"
    assert node_processes() == []


async def test_files_are_read_and_written_and_no_path_leads_out(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    server = StdioServer(
        command=str(INSTALLED / "mcp-server-filesystem"), args=(str(tmp_path),), options=ServerOptions(trust_hints=True)
    )
    async with open_servers({"files": server}, folder=tmp_path) as servers:
        effects = {tool.name: tool.effect for tool in servers.tools}
        assert effects["files__read_text_file"] == "read"
        assert effects["files__edit_file"] == "write"
        assert await call(servers, "files__read_text_file", path=str(tmp_path / "a.txt")) == "hello"
        await call(servers, "files__write_file", path=str(tmp_path / "b.txt"), content="new")
        assert (tmp_path / "b.txt").read_text() == "new"
        with pytest.raises(ToolError, match="outside allowed directories"):
            await call(servers, "files__read_text_file", path="/etc/passwd")
