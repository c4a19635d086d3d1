"""Servers written with the official SDK, over stdio and over HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from heaveto.causes import Cancelled
from heaveto.errors import OutcomeUnknown, ToolError, ToolFatal
from heaveto.scopes import Scope, tasks
from heaveto.tools import Call
from heaveto.tools.mcp import HttpServer, McpServers, Question, ServerConfig, StdioServer, open_servers
from heaveto.tools.mcp.config import ServerOptions

pytest.importorskip("mcp", reason="no mcp")
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION

from heaveto.tools.mcp.tools import McpTool

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="no subreaper")]

SCRIPT = str(Path(__file__).with_name("sdk_server.py"))
TRUSTING = ServerOptions(trust_hints=True)


def variables(seen: Path, revision: str) -> dict[str, str]:
    """For a server that knows every revision of the protocol, or only one."""
    return {"SEEN": str(seen), "REVISION": revision} if revision else {"SEEN": str(seen)}


class HttpProcess:
    """The server over HTTP, in a process of its own."""

    def __init__(self, seen: Path, port: int = 0, revision: str = "") -> None:
        environment = {**os.environ, **variables(seen, revision)}
        command = [sys.executable, SCRIPT, "http", str(port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    @property
    def config(self) -> HttpServer:
        return HttpServer(url=f"http://127.0.0.1:{self.port}/mcp", options=TRUSTING)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    file = tmp_path / "seen"
    file.touch()
    return file


@pytest.fixture
def http(seen: Path) -> Iterator[HttpProcess]:
    process = HttpProcess(seen)
    yield process
    process.end()


def stdio(seen: Path, revision: str = "") -> StdioServer:
    return StdioServer(command=sys.executable, args=(SCRIPT,), env=variables(seen, revision), options=TRUSTING)


async def call(servers: McpServers, name: str, progress: Callable[[str], None] = lambda _: None, **arguments: Any) -> str:
    tool = next(each for each in servers.tools if each.name == f"sdk__{name}")
    return await tool.run(Call(call_id="c1", progress=progress), tool.parse(json.dumps(arguments)))


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(20):
        while not condition():
            await anyio.sleep(0.01)


async def sure(question: Question) -> dict[str, bool]:
    assert (question.server, question.message) == ("sdk", "Really?")
    assert question.schema is not None
    return {"sure": True}


async def go_through(config: ServerConfig, seen: Path, revision: str = LATEST_MODERN_VERSION) -> None:
    """List, call, an error, progress, a cancel."""
    progress: list[str] = []
    async with open_servers({"sdk": config}, elicit=sure) as servers:
        assert await revision_of(servers) == revision
        assert {tool.name: tool.effect for tool in servers.tools} == {
            **dict.fromkeys(("sdk__slow", "sdk__fail", "sdk__crash", "sdk__ask"), "write"),
            "sdk__add": "read",
        }
        assert await call(servers, "add", a=2, b=3) == "5"
        with pytest.raises(ToolError, match="no such note"):
            await call(servers, "fail")
        with pytest.raises(ToolError):
            await call(servers, "add", a="two", b=3)
        if revision == LATEST_MODERN_VERSION:  # of the others only a session can ask, which raw_server.py does
            assert await call(servers, "ask") == "accept: {'sure': True}"
        with Scope(quiet=True) as scope:
            async with tasks() as group:
                group.start_soon(lambda: call(servers, "slow", progress.append, seconds=60))
                await until(lambda: progress == ["halfway"])
                scope.cancel(Cancelled("changed my mind"))
        await until(lambda: seen.read_text().split() == ["began", "cancelled"])
        assert await call(servers, "add", a=1, b=1) == "2"


async def revision_of(servers: McpServers) -> str | None:
    (tool, *_) = servers.tools
    assert isinstance(tool, McpTool)
    return (await tool._link.connection()).session.protocol_version  # type: ignore[union-attr]


async def test_over_stdio(seen: Path) -> None:
    await go_through(stdio(seen), seen)


async def test_over_http(http: HttpProcess, seen: Path) -> None:
    await go_through(http.config, seen)
    async with open_servers({"sdk": http.config}) as servers:
        with pytest.raises(ToolError, match=r"nobody is there to answer|elicitation"):
            await call(servers, "ask")


@pytest.mark.parametrize("revision", HANDSHAKE_PROTOCOL_VERSIONS)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # both are tried with the newest
async def test_every_revision_of_before_over_stdio(seen: Path, revision: str) -> None:
    await go_through(stdio(seen, revision), seen, revision)


@pytest.mark.parametrize("revision", HANDSHAKE_PROTOCOL_VERSIONS)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_every_revision_of_before_over_http(seen: Path, revision: str) -> None:
    http = HttpProcess(seen, revision=revision)
    try:
        await go_through(http.config, seen, revision)
    finally:
        http.end()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # the ends of connections are tried on both in test_mcp_http
async def test_a_server_that_was_started_again_is_found_again(http: HttpProcess, seen: Path) -> None:
    """A crash in a call is an unknown outcome; without a server the next is fatal; then its old session is unknown to it."""
    async with open_servers({"sdk": http.config}) as servers:
        with pytest.raises(OutcomeUnknown, match="MCP server sdk was lost"):
            await call(servers, "crash")
        http.process.wait()
        with pytest.raises(ToolFatal, match=f"MCP server sdk: POST http://127.0.0.1:{http.port}/mcp"):
            await call(servers, "add", a=1, b=1)
        again = HttpProcess(seen, http.port)
        try:
            assert await call(servers, "add", a=2, b=2) == "4"
        finally:
            again.end()
