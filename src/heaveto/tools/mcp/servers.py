"""Several servers, open for the length of a block."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from ...errors import ConfigError
from ...scopes import Tasks, tasks
from ..protocol import Tool
from .config import ServerConfig
from .link import Link
from .questions import Elicit
from .tools import McpTool

__all__ = ["McpServers", "check_installed", "open_servers"]


class McpServers:
    """The open servers.

    Attributes:
        tools: Their tools, to be given to an agent.
    """

    def __init__(self, links: list[Link]) -> None:
        self._links = links
        self.tools: list[Tool] = []

    async def connect(self, group: Tasks, *, approval: bool, elicit: Elicit | None) -> None:
        """Start each link's owner in the group and learn what it offers."""
        for link in self._links:
            group.start_soon(link.own, name=link.label)
        async with tasks() as connecting:  # all at once, since each may take its time
            for link in self._links:
                connecting.start_soon(link.connection)
        for link in self._links:
            own = link.config.options.approval
            asks = approval if own is None else own
            offered = (await link.connection()).tools
            self.tools += [McpTool(link, each, approval=asks, elicit=elicit) for each in offered]

    def close(self) -> None:
        for link in self._links:
            link.close()


@asynccontextmanager
async def open_servers(
    servers: Mapping[str, ServerConfig],
    *,
    folder: Path | str = ".",
    approval: bool = False,
    elicit: Elicit | None = None,
) -> AsyncIterator[McpServers]:
    """A block in which the servers' tools can be used. Its end, or a stop, ends the servers.

        async with open_servers(read_servers("mcp.json")) as servers:
            agent = Agent(model=..., tools=servers.tools)

    Args:
        folder: Where programs are started; the working folder of the agent.
        approval: Whether a person has to approve each call that may change something, where a server's options say nothing.
        elicit: Answers the servers' questions; without it they are told that nobody does.

    Raises:
        ConfigError: The SDK is not installed.
        ToolFatal: A server did not start or answer in time.
    """
    check_installed()
    where = Path(os.path.abspath(folder))  # noqa: ASYNC240
    opened = McpServers([Link(name, config, where, elicit) for name, config in servers.items()])
    async with tasks() as group:
        await opened.connect(group, approval=approval, elicit=elicit)
        yield opened
        opened.close()


def check_installed() -> None:
    """Refuse to begin without the SDK."""
    if importlib.util.find_spec("mcp") is None:
        raise ConfigError("MCP servers need the official SDK", 'pip install "heaveto[mcp]"')
