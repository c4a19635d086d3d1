"""One server, and at most one live connection to it.

A connection belongs to one task, the link's owner: the SDK's contexts are entered and left there, in the scope of whoever
opened the servers. A call only borrows the session, so stopping the run that made the first call stops nothing else. When
a connection is lost, the next call has a new one made, after the old process is gone.
"""

from __future__ import annotations

import copy
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from ...causes import Cancelled, ConnectTimeout, DeadlinePassed, Stop
from ...errors import ConfigError, ToolError, ToolFatal, find, walk
from ...scopes import Scope, current_cause, tasks
from ..processes import child_environment
from .config import HttpServer, ServerConfig, StdioServer
from .http import http_transport
from .process import ServerProcess, process_transport
from .questions import Elicit, answer
from .streams import Streams

if TYPE_CHECKING:
    from mcp.client import Client, ClientSession
    from mcp_types import Tool

__all__ = ["Connection", "Link"]

LEAVE_SECONDS = 5.0  # for the good-bye to a server behind an URL
AUTO, HANDSHAKE = "auto", "legacy"  # the SDK's words: the newest protocol if the server knows it; those before 2026
MAX_TOOLS = 1000
MAX_PAGES = 100  # a server whose list never ends


class Connection:
    """A connection from when it is wanted until nothing is left of it.

    Attributes:
        session: The SDK's session; None when there never was one.
        tools: What the server offered when it was opened, or when it last said that it offers others.
        news: What is different since, for the model.
        changed: Set when the server says that its tools changed.
        problem: Why it ended or never began, for people.
        ready: Set when it can be used, or never will be.
        closing: Set when it is to end, or has been lost.
        gone: Set when nothing of it is left.
        is_lost: Whether the server has fallen silent.
    """

    def __init__(self) -> None:
        self.session: ClientSession | None = None
        self.tools: list[Tool] = []
        self.problem = ""
        self.error: Exception | None = None
        self.news = ""
        self.changed = anyio.Event()
        self.ready, self.closing, self.gone = anyio.Event(), anyio.Event(), anyio.Event()
        self.is_lost = False

    def lose(self) -> None:
        """The server has fallen silent: the end of a connection that was in use."""
        self.is_lost = True
        if self.session is not None:
            self.closing.set()

    def begin(self, session: ClientSession) -> None:
        """From now on it can be used."""
        self.session = session
        self.ready.set()
        if self.is_lost:
            self.closing.set()

    def take_news(self) -> str:
        """What has become of the server's tools, told once. Those of a run stay as they were when it began."""
        news, self.news = self.news, ""
        return news


class Link:
    """A server's connections, one after the other.

    Args:
        folder: The working folder of the tools; a program of the server's starts there.
        elicit: Who answers the server's questions; nobody, and then the server is told so.
    """

    def __init__(self, name: str, config: ServerConfig, folder: Path, elicit: Elicit | None = None) -> None:
        self.name, self.config, self._folder, self._elicit = name, config, folder, elicit
        self._current: Connection | None = None
        self._mode = AUTO
        self._asked, self._closed = anyio.Event(), False

    async def own(self) -> None:
        """Hold the connections that are asked for. This task owns them; it ends when the link is closed."""
        while not self._closed:
            await self._asked.wait()
            self._asked = anyio.Event()
            if self._current is not None and not self._closed:
                await self._hold(self._current)

    async def connection(self) -> Connection:
        """The live connection, or a new one. A stop of the caller leaves it alone.

        Raises:
            ToolFatal: There is none to be had.
        """
        current = self._current
        if current is None or current.closing.is_set():
            if current is not None:
                await current.gone.wait()  # never a second process beside the first
            if self._current is current:
                self._current = Connection()
                self._asked.set()
            current = self._current
        if current is None or self._closed:
            raise ToolFatal(self.label, "it was closed")
        await current.ready.wait()
        if current.session is None:
            raise ToolFatal(self.label, current.problem or "it was closed") from current.error
        return current

    def drop(self, connection: Connection) -> None:
        """Have a connection ended that is of no more use."""
        connection.closing.set()

    def close(self) -> None:
        """Have everything ended; `own` returns when it has."""
        self._closed = True
        self._asked.set()
        if self._current is not None:
            self._current.closing.set()

    @property
    def label(self) -> str:
        return f"MCP server {self.name}"

    async def _hold(self, current: Connection) -> None:
        try:
            await self._connected_as_it_can_be(current)
        except Exception as error:  # boundary: whatever the SDK raises ends this connection, and nothing else
            if isinstance(error, Stop) and current_cause() is not None:
                raise
            current.error, current.problem = error, _join(_text(error, current.problem), current.problem)
        finally:
            current.closing.set()
            current.ready.set()
            current.gone.set()

    async def _connected_as_it_can_be(self, current: Connection) -> None:
        """Connect, and once more in the old way where a server ended at the question for the newest protocol.

        Servers written with the first releases of the SDK do that. Both ways together have the one limit.
        """
        until = anyio.current_time() + self.config.options.connect_seconds
        try:
            await self._connected(current, until)
        except Exception as error:  # boundary: whatever the SDK raises, and only where the server fell silent
            if self._mode != AUTO or not current.is_lost or current.session is not None or find(error, Stop) is not None:
                raise
        else:
            return
        current.is_lost, current.problem, self._mode = False, "", HANDSHAKE
        try:
            await self._connected(current, until)
        finally:
            if current.session is None:
                self._mode = AUTO  # that was not why

    async def _connected(self, current: Connection, until: float) -> None:
        """Connect, tell the waiting, and stay until the connection is to end or has been lost."""
        whole = Scope()
        try:
            with whole:
                await self._connected_in(whole, current, until)
        except Exception as error:  # boundary: the SDK's, while it was left
            if isinstance(error, Stop) or whole.own_cause is None or current.session is not None:
                raise
            raise copy.copy(whole.own_cause) from error  # what went wrong on the way out is not why

    async def _connected_in(self, whole: Scope, current: Connection, until: float) -> None:
        seconds = self.config.options.connect_seconds
        late = ConnectTimeout(seconds, f"connectSeconds of the MCP server {self.name}")
        whole.limit(until, late)
        async with self._client(current) as client:
            current.tools = await _all_tools(client)
            whole.limit(math.inf, late)
            current.begin(client.session)
            async with tasks() as group:
                group.start_soon(self._follow, client, current)
                await current.closing.wait()
                group.scope.cancel(Cancelled("the connection is closed"))
            whole.limit(anyio.current_time() + LEAVE_SECONDS, DeadlinePassed(LEAVE_SECONDS))

    async def _follow(self, client: Client, current: Connection) -> None:
        """Learn the tools anew whenever the server says that they changed."""
        while True:
            await current.changed.wait()
            current.changed = anyio.Event()
            before = current.tools
            try:
                current.tools = await _all_tools(client)
            except Exception as error:  # boundary: whatever the SDK raises, the connection is judged by its calls
                if isinstance(error, Stop) and current_cause() is not None:
                    raise
                current.news = f"{self.label} has changed its tools, and does not tell them"
            else:
                current.news = _news_text(self.label, before, current.tools)

    def _client(self, current: Connection) -> Client:
        from mcp.client import Client
        from mcp_types import ElicitRequestParams, ElicitResult, Implementation, ToolListChangedNotification

        elicit = self._elicit

        async def ask(context: Any, params: ElicitRequestParams) -> ElicitResult:  # noqa: ARG001 - the SDK names it
            assert elicit is not None, "without it the server was told that nobody answers"  # noqa: S101 - for the type checker
            return await answer(elicit, self.name, params)

        async def hear(message: object) -> None:
            if isinstance(message, ToolListChangedNotification):
                current.changed.set()

        return Client(
            self._transport(current),
            client_info=Implementation(name="heaveto", version=version("heaveto")),
            elicitation_callback=None if elicit is None else ask,
            message_handler=hear,
            cache=None,
            mode=self._mode,
        )

    def _transport(self, current: Connection) -> AbstractAsyncContextManager[Streams]:
        if isinstance(self.config, HttpServer):
            return http_transport(self.config)
        return self._program(self.config, current)

    @asynccontextmanager
    async def _program(self, config: StdioServer, current: Connection) -> AsyncIterator[Streams]:
        env = child_environment(config.env)
        process = ServerProcess([config.command, *config.args], self._folder / config.cwd, env)
        try:
            async with process_transport(process, current.lose) as streams:
                yield streams
        finally:
            current.problem = process.describe_end()


def _news_text(label: str, before: Sequence[Tool], now: Sequence[Tool]) -> str:
    """What differs between two lists of tools; empty where nothing does."""
    old, new = ({tool.name: tool.input_schema for tool in tools} for tools in (before, now))
    parts = [
        ("new", sorted(new.keys() - old.keys())),
        ("gone", sorted(old.keys() - new.keys())),
        ("with other arguments", sorted(name for name in old.keys() & new.keys() if old[name] != new[name])),
    ]
    told = "; ".join(f"{what}: {', '.join(names)}" for what, names in parts if names)
    return f"{label} has changed its tools ({told}); in this run they stay as they were until it is resumed" if told else ""


async def _all_tools(client: Client) -> list[Tool]:
    """Every page of the server's list.

    Raises:
        ToolError: It has no end.
    """
    found: list[Tool] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        found.extend(page.tools)
        if len(found) > MAX_TOOLS:
            break
        if (cursor := page.next_cursor) is None:
            return found
    raise ToolError(f"its list of tools has no end, or more than {MAX_TOOLS} tools")


def _text(error: Exception, known: str) -> str:
    """What went wrong in a connection, without the groups and layers around it; nothing where `known` says it better."""
    from mcp import MCPError
    from mcp_types import CONNECTION_CLOSED

    leaves = [each for each in walk(error) if not isinstance(each, BaseExceptionGroup)]
    best = next((each for each in leaves if isinstance(each, (Stop, ToolError, ConfigError))), leaves[0])
    if known and isinstance(best, MCPError) and best.code == CONNECTION_CLOSED:
        return ""
    return str(best).rstrip(".") or type(best).__name__


def _join(*texts: str) -> str:
    return "; ".join(text for text in texts if text)
