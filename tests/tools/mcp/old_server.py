"""A server on an old release of the official SDK, 1.0 or newer: `python old_server.py`, or `... http` from 1.8 on.

Over HTTP it prints its port. What its slow tool goes through is written to the file that SEEN names.
"""

from __future__ import annotations

import os
import socket
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from mcp import types
from mcp.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions

server: Any = Server("old")
TOOLS = ("add", "fail", "slow")
SCHEMA = {"type": "object", "properties": {name: {"type": "number"} for name in ("a", "b", "seconds")}}


def saw(what: str) -> None:
    with Path(os.environ["SEEN"]).open("a") as seen:
        print(what, file=seen, flush=True)


@server.list_tools()
async def list_tools() -> list[Any]:
    return [types.Tool(name=name, description=name, inputSchema=SCHEMA) for name in TOOLS]


@server.call_tool()
async def call_tool(name: str, arguments: dict[str, Any] | None) -> list[Any]:
    values = arguments or {}
    match name:
        case "add":
            text = str(values["a"] + values["b"])
        case "slow":
            text = await slow(values["seconds"])
        case _:
            raise ValueError("no such note")
    return [types.TextContent(type="text", text=text)]


async def slow(seconds: float) -> str:
    saw("began")
    try:
        context = server.request_context
        if context.meta is not None and context.meta.progressToken is not None:
            await context.session.send_progress_notification(context.meta.progressToken, 1, 2)
        await anyio.sleep(seconds)
    except BaseException:
        saw("cancelled")
        raise
    return "slept"


async def serve_stdio() -> None:
    from mcp.server.stdio import stdio_server

    capabilities = server.get_capabilities(NotificationOptions(), {})
    options = InitializationOptions(server_name="old", server_version="1", capabilities=capabilities)
    async with stdio_server() as (read, write):
        await server.run(read, write, options)


def serve_http() -> None:
    import uvicorn
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from starlette.applications import Starlette
    from starlette.routing import Mount

    manager = StreamableHTTPSessionManager(server)

    @asynccontextmanager
    async def whole(app: Any) -> Any:
        async with manager.run():
            yield

    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    print(listening.getsockname()[1], flush=True)
    app = Starlette(routes=[Mount("/mcp", app=manager.handle_request)], lifespan=whole)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])


if sys.argv[1:2] == ["http"]:
    serve_http()
else:
    anyio.run(serve_stdio)
