"""A server written with the official SDK: `python sdk_server.py` over stdio, `python sdk_server.py http` over HTTP.

Over HTTP it prints its port. What its slow tool goes through is written to the file that SEEN names. With REVISION it knows
no other revision of the protocol than that one, of those before 2026.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import Annotated, Any

import anyio
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult, ToolAnnotations
from pydantic import Field

server = MCPServer("sdk")


def saw(what: str) -> None:
    with Path(os.environ["SEEN"]).open("a") as seen:
        print(what, file=seen, flush=True)


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: Annotated[int, Field(description="The first number.")], b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def slow(seconds: float, ctx: Context) -> str:
    """Take some time."""
    saw("began")
    try:
        await ctx.report_progress(1, 2, "halfway")
        await anyio.sleep(seconds)
    except BaseException:
        saw("cancelled")
        raise
    return "slept"


@server.tool()
def fail() -> str:
    """Go wrong."""
    raise ToolError("no such note")


@server.tool()
def crash() -> str:
    """End the server."""
    os._exit(3)


@server.tool()
def ask(ctx: Context) -> str | InputRequiredResult:
    """Ask, then say what was answered."""
    if ctx.input_responses is None:
        schema = {"type": "object", "properties": {"sure": {"type": "boolean"}}}
        question = ElicitRequestFormParams(message="Really?", requested_schema=schema)
        return InputRequiredResult(input_requests={"q": ElicitRequest(params=question)}, request_state="asked")
    answer = ctx.input_responses["q"]
    return f"{answer.action}: {answer.content}"


def speak_only(revision: str) -> None:
    """Be as a release of the SDK from when that was the newest: the question for a newer one is a wrong request."""
    from mcp.server import runner, streamable_http_manager
    from starlette.responses import PlainTextResponse

    async def refuse(*args: Any) -> None:
        *_, scope, receive, send = args
        await PlainTextResponse("Bad Request: Unsupported protocol version", 400)(scope, receive, send)

    changed: Any = (runner, streamable_http_manager)
    changed[0].HANDSHAKE_PROTOCOL_VERSIONS, changed[0].LATEST_HANDSHAKE_VERSION = (revision,), revision
    changed[0]._has_modern_envelope = lambda params: False
    changed[1].handle_modern_request = refuse


def serve_http() -> None:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", int((*sys.argv, 0)[2])))
    listening.listen()
    print(listening.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="warning")).run(sockets=[listening])


if "REVISION" in os.environ:
    speak_only(os.environ["REVISION"])
if sys.argv[1:2] == ["http"]:
    serve_http()
else:
    server.run()
