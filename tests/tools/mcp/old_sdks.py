"""Real servers and clients on old releases of the official SDK: `make mcp` installs them and runs this; it is no part of the
suite.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from heaveto.causes import Cancelled
from heaveto.errors import ToolError
from heaveto.scopes import Scope, tasks
from heaveto.tools import Call
from heaveto.tools.mcp import HttpServer, McpServers, ServerConfig, StdioServer, open_servers
from heaveto.tools.mcp.tools import McpTool

pytestmark = [
    pytest.mark.anyio,
    # The SDK leaves a stream's generator to the collector when the answer has come.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"),
]

INSTALLED = Path(os.environ["HEAVETO_MCP_SERVERS"])
SCRIPT = str(Path(__file__).with_name("old_server.py"))
CLIENT = str(Path(__file__).with_name("old_client.py"))
ENDLESS_TEST = """
import time, unittest
class T(unittest.TestCase):
    def test_it(self):
        while True:
            open("begun", "w").close()
            time.sleep(0.05)
"""
REVISIONS = {
    "1.0.0": "2024-11-05",
    "1.7.1": "2024-11-05",
    "1.9.4": "2025-03-26",
    "1.12.4": "2025-06-18",
    "1.24.0": "2025-11-25",
}
ENDED_BY_A_CANCEL = ("1.0.0", "1.7.1", "1.9.4")  # their own fault: any client's notification does that
WITHOUT_HTTP = ("1.0.0", "1.7.1")
RELEASES = [pytest.param(release, id=release) for release in REVISIONS]


def variables(release: str, seen: Path) -> dict[str, str]:
    return {"PYTHONPATH": str(INSTALLED / f"mcp-{release}"), "SEEN": str(seen)}


def stdio(release: str, seen: Path) -> StdioServer:
    return StdioServer(command=sys.executable, args=(SCRIPT,), env=variables(release, seen))


@contextmanager
def http(release: str, seen: Path) -> Iterator[HttpServer]:
    environment = {**os.environ, **variables(release, seen)}
    with subprocess.Popen([sys.executable, SCRIPT, "http"], stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            yield HttpServer(url=f"http://127.0.0.1:{int(process.stdout.readline())}/mcp/")
        finally:
            process.kill()


async def call(servers: McpServers, name: str, progress: Callable[[str], None] = lambda _: None, **arguments: Any) -> str:
    tool = next(each for each in servers.tools if each.name == f"old__{name}")
    return await tool.run(Call(call_id="c1", progress=progress), tool.parse(json.dumps(arguments)))


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(20):
        while not condition():
            await anyio.sleep(0.01)


async def go_through(config: ServerConfig, release: str, seen: Path) -> None:
    """List, call, an error, progress, a cancel, as far as that release goes."""
    seen.touch()
    async with open_servers({"old": config}) as servers:
        assert [tool.name for tool in servers.tools] == ["old__add", "old__fail", "old__slow"]
        tool = servers.tools[0]
        assert isinstance(tool, McpTool)
        session = (await tool._link.connection()).session
        assert session is not None
        assert session.protocol_version == REVISIONS[release]
        assert await call(servers, "add", a=2, b=3) == "5"
        with pytest.raises(ToolError, match="no such note"):
            await call(servers, "fail")
        progress: list[str] = []
        assert await call(servers, "slow", progress.append, seconds=0.1) == "slept"
        assert progress == ([] if release == "1.0.0" else ["1 of 2"]), "that one loses what a progress is for"
        with Scope(quiet=True) as scope:
            async with tasks() as group:
                group.start_soon(lambda: call(servers, "slow", seconds=60))
                await until(lambda: seen.read_text().split() == ["began", "began"])
                scope.cancel(Cancelled("changed my mind"))
        if release not in ENDED_BY_A_CANCEL:
            await until(lambda: seen.read_text().split() == ["began", "began", "cancelled"])
            assert await call(servers, "add", a=1, b=1) == "2"


@pytest.mark.parametrize("release", RELEASES)
async def test_over_stdio(release: str, tmp_path: Path) -> None:
    await go_through(stdio(release, tmp_path / "seen"), release, tmp_path / "seen")


@pytest.mark.parametrize("release", [each for each in REVISIONS if each not in WITHOUT_HTTP])
async def test_over_http(release: str, tmp_path: Path) -> None:
    with http(release, tmp_path / "seen") as config:
        await go_through(config, release, tmp_path / "seen")


@pytest.mark.parametrize("release", RELEASES)
def test_an_old_client_uses_our_server(release: str, tmp_path: Path) -> None:
    """List, call, an error, a cancel that ends what the tool started."""
    (tmp_path / "a.txt").write_text("hello\n")
    (tmp_path / "test_it.py").write_text(ENDLESS_TEST)
    environment = {**os.environ, **variables(release, tmp_path / "seen")}
    command = [sys.executable, CLIENT, sys.executable, str(tmp_path)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    came = json.loads(ended.stdout)
    assert came["revision"] == REVISIONS[release]
    assert {"read_file", "apply_patch", "run_tests"} <= set(came["tools"])
    assert came["read"] == came["after"] == "a.txt, lines 1-1 of 1\n1\thello"
    assert came["out"].startswith('error: "../a.txt" has ".." in it')
    assert came["stopped"] is True
