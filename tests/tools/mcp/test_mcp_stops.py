"""Connecting, calling and closing, stopped at each await on both back ends; and a run that uses a server."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from heaveto import Agent, MemoryStore
from heaveto.causes import Cancelled
from heaveto.errors import OutcomeUnknown
from heaveto.scopes import tasks
from heaveto.testing import calls, scripted
from heaveto.testing.stops import every_await
from heaveto.tools import Call
from heaveto.tools.mcp import McpServers, StdioServer, open_servers
from heaveto.tools.mcp.link import Connection, Link
from heaveto.tools.mcp.streams import Outgoing, Streams

pytest.importorskip("mcp", reason="no mcp")

RAW = Path(__file__).with_name("raw_server.py")
ANSWERS: dict[str, Any] = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "m", "version": "1"},
    },
    "tools/list": {"tools": [{"name": "wait", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": "waited"}]},
}


class MemoryLink(Link):
    """A link to a server in the same loop, which takes a second for a call."""

    def __init__(self) -> None:
        super().__init__("m", StdioServer(command="none"), Path())
        self.received: list[dict[str, Any]] = []
        self.answered = False

    def _transport(self, current: Connection) -> AbstractAsyncContextManager[Streams]:
        return self._memory()

    @asynccontextmanager
    async def _memory(self) -> AsyncIterator[Streams]:
        asking, asked = anyio.create_memory_object_stream[Any](10)
        answering, answered = anyio.create_memory_object_stream[Any](10)
        async with asking, asked, answering, answered, tasks() as group:
            group.start_soon(self._serve, asked, answering, group)
            yield answered, Outgoing(asking.send, asking.aclose)
            group.scope.cancel(Cancelled("closed"))

    async def _serve(self, asked: Any, answering: Any, group: Any) -> None:
        async for item in asked:
            message = item.message.model_dump(by_alias=True)
            self.received.append(message)
            if message.get("id") is not None:
                group.start_soon(self._answer, message, answering)

    async def _answer(self, message: dict[str, Any], answering: Any) -> None:
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        if message["method"] == "tools/call":
            await anyio.sleep(1)
            self.answered = True
        known = ANSWERS.get(message["method"])
        said = {"result": known} if known else {"error": {"code": -32601, "message": "no such method"}}
        answer = {"jsonrpc": "2.0", "id": message["id"], **said}
        await answering.send(SessionMessage(jsonrpc_message_adapter.validate_python(answer)))


def test_a_stop_anywhere_leaves_nothing_and_keeps_its_cause(second_stops: tuple[int, ...]) -> None:
    links: list[MemoryLink] = []

    async def whole() -> str:
        links.append(link := MemoryLink())
        servers = McpServers([link])
        async with tasks() as group:
            await servers.connect(group, approval=False, elicit=None)
            text = await servers.tools[0].run(Call(call_id="c1"), {})
            servers.close()
        return text

    reached = 0
    for run in every_await(whole, again_after=second_stops):
        link = links[-1]
        assert run.left_running == (), run
        assert run.error is None or isinstance(run.error, type(run.cause)), run
        told = [each["params"]["reason"] for each in link.received if each["method"] == "notifications/cancelled"]
        assert set(told) <= {str(run.cause)}, run
        reached += any(each["method"] == "tools/call" for each in link.received) and not link.answered
    assert reached > 0, "some stops came in the middle of the call"


@pytest.mark.anyio
@pytest.mark.skipif(sys.platform != "linux", reason="no subreaper")
async def test_a_run_waits_for_a_person_when_a_server_died_in_a_call(tmp_path: Path) -> None:
    server = StdioServer(command=sys.executable, args=("-I", str(RAW), str(tmp_path / "log")))
    model = scripted(calls(("raw__crash", {})), "never said")
    async with open_servers({"raw": server}, folder=tmp_path) as servers:
        agent = Agent(model=model, tools=servers.tools, store=MemoryStore(), folder=tmp_path)
        with pytest.raises(OutcomeUnknown, match=r"raw__crash \(call_[0-9]+\): outcome unknown: MCP server raw was lost"):
            await agent.run("crash it")
