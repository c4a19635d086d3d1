"""Our tools as an MCP server, tried with our own client: the command as a process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from heaveto.errors import ToolError
from heaveto.tools import Call
from heaveto.tools.mcp import McpServers, StdioServer, open_servers
from heaveto.tools.mcp.config import ServerOptions

pytest.importorskip("mcp", reason="no mcp")
pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="no subreaper")]

WRITING = ("edit_file", "write_file", "apply_patch", "move_file", "delete_file")


def ourselves(folder: Path, bare_python: str) -> StdioServer:
    args = ("-m", "heaveto", "mcp", "-C", str(folder), "--test-python", bare_python)
    return StdioServer(command=sys.executable, args=args, options=ServerOptions(trust_hints=True))


async def call(servers: McpServers, name: str, lines: list[str], **arguments: Any) -> str:
    tool = next(each for each in servers.tools if each.name == f"own__{name}")
    return await tool.run(Call(progress=lines.append), tool.parse(json.dumps(arguments)))


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # the server's own back end is the command's
async def test_files_are_read_and_edited_and_tests_are_run(tmp_path: Path, bare_python: str) -> None:
    (tmp_path / "cart.py").write_text("TOTAL = 2\n")
    (tmp_path / "test_cart.py").write_text(
        "import time, unittest, cart\nclass T(unittest.TestCase):\n    def test_it(self): self.assertEqual(cart.TOTAL, 3)\n"
        "    def test_that_takes_long_enough_to_be_told_of(self): time.sleep(1.1)\n"
    )
    lines: list[str] = []
    async with open_servers({"own": ourselves(tmp_path, bare_python)}, folder=tmp_path) as servers:
        assert {tool.name: tool.effect for tool in servers.tools} == {
            **dict.fromkeys(("own__list_files", "own__read_file", "own__search_files"), "read"),
            **dict.fromkeys((f"own__{name}" for name in WRITING), "write"),
            "own__run_tests": "idempotent",
        }
        assert "TOTAL = 2" in await call(servers, "read_file", lines, path="cart.py")
        assert "edited cart.py" in await call(servers, "edit_file", lines, path="cart.py", old="TOTAL = 2", new="TOTAL = 3")
        assert "tests passed: 2" in await call(servers, "run_tests", lines)
        with pytest.raises(ToolError, match=r"secret"):
            await call(servers, "read_file", lines, path="../secret")
    assert lines


def test_a_signal_ends_it(tmp_path: Path) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-m", "heaveto", "mcp", "-C", str(tmp_path)], stdin=pipe, stdout=pipe, text=True
    ) as served:
        assert served.stdin is not None
        assert served.stdout is not None
        info = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        served.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": info}) + "\n")
        served.stdin.flush()
        assert json.loads(served.stdout.readline())["result"]["serverInfo"]["name"] == "heaveto"
        served.send_signal(signal.SIGTERM)
        assert served.wait(20) == 143
