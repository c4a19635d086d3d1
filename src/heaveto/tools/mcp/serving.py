"""The other side: our tools as an MCP server over standard input and output."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from ...causes import Cancelled, DeadlinePassed, ToolTimeout
from ...errors import ToolCrashed, ToolError, UnknownTool
from ...scopes import deadline, loop_waker, outside_the_loop, tasks
from ..current import running
from ..protocol import Call, Tool
from .servers import check_installed
from .streams import Outgoing, Streams, deliver, encode, read_lines

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectSendStream
    from mcp.server.context import ServerRequestContext
    from mcp.shared.message import SessionMessage
    from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult

__all__ = ["serve_tools"]

WRITE_BYTES = 4096  # a pipe that can be written to takes so many without making us wait
MAX_PROGRESS = 100  # lines that a slow client may be behind; what is more is dropped


async def serve_tools(tools: Sequence[Tool], folder: Path) -> None:
    """Offer the tools to whoever is at the other end of this process's standard input and output, until that ends.

    Meanwhile what is printed goes to standard error. A client that cancels a call stops its tool.

    Raises:
        ConfigError: The SDK is not installed.
    """
    check_installed()
    from mcp.server import Server

    offered = _Offered(tools, folder)
    server: Server[Any] = Server(
        "heaveto", version=version("heaveto"), on_list_tools=offered.list_tools, on_call_tool=offered.call_tool
    )
    async with _standard_streams() as (read, write):
        await server.run(read, write, server.create_initialization_options())


class _Offered:
    """The tools as the SDK's server asks for them."""

    def __init__(self, tools: Sequence[Tool], folder: Path) -> None:
        self._tools, self._folder = {tool.name: tool for tool in tools}, folder

    async def list_tools(self, _context: ServerRequestContext[Any], _params: Any) -> ListToolsResult:
        import mcp_types

        return mcp_types.ListToolsResult(
            tools=[
                mcp_types.Tool(
                    name=tool.name,
                    description=tool.description,
                    input_schema=dict(tool.schema),
                    annotations=mcp_types.ToolAnnotations(
                        read_only_hint=tool.effect == "read", idempotent_hint=tool.effect != "write", open_world_hint=False
                    ),
                )
                for tool in self._tools.values()
            ],
            ttl_ms=0,
        )

    async def call_tool(self, context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        """Run a tool; what it says on the way goes to the client as progress."""
        from mcp_types import CallToolResult, TextContent

        sending, lines = anyio.create_memory_object_stream[str](MAX_PROGRESS)
        wake = loop_waker()

        def tell(text: str) -> None:
            with contextlib.suppress(anyio.WouldBlock, anyio.ClosedResourceError):
                sending.send_nowait(text)

        async def forward() -> None:
            number = 0
            async for line in lines:
                number += 1
                await context.session.report_progress(number, None, line)

        call = Call(tool=params.name, folder=self._folder, progress=lambda line: wake(lambda: tell(line)))
        async with lines, tasks() as group:
            group.start_soon(forward)
            with sending:
                text, failed = await self._run(params, call)
        return CallToolResult(content=[TextContent(text=text)], is_error=failed)

    async def _run(self, params: CallToolRequestParams, call: Call) -> tuple[str, bool]:
        """The result of a call, and whether it is an error."""
        name = params.name
        try:
            return await self._call(name, params.arguments or {}, call), False
        except ToolError as error:
            return error.for_model, True
        except DeadlinePassed as error:
            return f"{name}: {error}", True
        except Exception as error:  # boundary: a tool's bug must not end the server
            return ToolCrashed(name, type(error).__name__, str(error)).for_model, True

    async def _call(self, name: str, arguments: dict[str, Any], call: Call) -> str:
        tool = self._tools.get(name)
        if tool is None:
            raise UnknownTool(name, list(self._tools))
        parsed = tool.parse(json.dumps(arguments))
        with _time_limit(tool), running(call):
            facts = await tool.plan(call, parsed)
            return await tool.run(replace(call, facts=facts), parsed)


def _time_limit(tool: Tool) -> AbstractContextManager[object]:
    return nullcontext() if tool.seconds is None else deadline(tool.seconds, ToolTimeout(tool.seconds))


@asynccontextmanager
async def _standard_streams() -> AsyncIterator[Streams]:
    """Standard input and output as the SDK's streams. What is printed meanwhile goes to standard error."""
    from mcp.shared.message import SessionMessage

    incoming, messages = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    output = os.dup(1)
    os.dup2(2, 1)
    try:
        with outside_the_loop():
            async with tasks() as group, messages, incoming:
                group.start_soon(_receive, incoming)
                yield messages, Outgoing(_Output(output).send, _nothing)
                group.scope.cancel(Cancelled("the client has left"))
    finally:
        os.dup2(output, 1)
        os.close(output)


class _Output:
    """A descriptor that messages are written to, one after the other."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._unsent, self._sending = descriptor, bytearray(), anyio.Lock()

    async def send(self, message: SessionMessage) -> None:
        """Write a message. A stop leaves the rest of it for whoever sends next."""
        self._unsent += encode(message)
        async with self._sending:
            while self._unsent:
                await anyio.wait_writable(self._descriptor)
                try:
                    del self._unsent[: os.write(self._descriptor, self._unsent[:WRITE_BYTES])]
                except BrokenPipeError as error:
                    raise anyio.BrokenResourceError from error


async def _receive(incoming: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
    def stray(line: bytes) -> None:
        """What is no message cannot be answered."""

    async with incoming:
        await read_lines(0, partial(deliver, incoming, stray))


async def _nothing() -> None: ...
