"""A client on an old release of the official SDK, 1.0 or newer: `python old_client.py PYTHON FOLDER`.

It starts `PYTHON -m heaveto mcp` in the folder, goes through its tools, and prints what came as one line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.stdio import stdio_client


async def main(python: str, folder: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    server = StdioServerParameters(command=python, args=["-m", "heaveto", "mcp", "-C", folder], env=environment)
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        came: dict[str, Any] = {"revision": (await session.initialize()).protocolVersion}
        came["tools"] = [tool.name for tool in (await session.list_tools()).tools]
        came["read"] = text_of(await session.call_tool("read_file", {"path": "a.txt"}))
        came["out"] = text_of(await session.call_tool("read_file", {"path": "../a.txt"}))
        came["stopped"] = await stop_a_call(session)
        came["after"] = text_of(await session.call_tool("read_file", {"path": "a.txt"}))
    print(json.dumps(came))


async def stop_a_call(session: Any) -> bool:
    """Cancel a call under way by the protocol's notification; whether its test, which writes on and on, ended."""
    params = types.CallToolRequestParams(name="run_tests", arguments={})
    request = types.ClientRequest(types.CallToolRequest(method="tools/call", params=params))
    begun = Path(sys.argv[2]) / "begun"

    async def call() -> None:
        with suppress(McpError):  # that it was cancelled
            await session.send_request(request, types.CallToolResult)

    async with anyio.create_task_group() as group:
        number = session._request_id
        group.start_soon(call)
        await until(lambda: begun.exists())
        params = {"requestId": number, "reason": "enough"}
        await send(session, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        ended = await until(lambda: time.time() - begun.stat().st_mtime > 1)
        group.cancel_scope.cancel()
    return ended


async def until(condition: Callable[[], bool]) -> bool:
    with anyio.move_on_after(20):
        while not condition():
            await anyio.sleep(0.02)
    return condition()


async def send(session: Any, message: dict[str, Any]) -> None:
    parsed = types.JSONRPCMessage.model_validate(message)
    try:
        from mcp.shared.message import SessionMessage
    except ImportError:  # before 1.8
        await session._write_stream.send(parsed)
    else:
        await session._write_stream.send(SessionMessage(parsed))


def text_of(result: Any) -> str:
    return ("error: " if result.isError else "") + "".join(each.text for each in result.content)


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
