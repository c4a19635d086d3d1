"""A server that is a program: its process under our launcher, and the lines that go in and out.

The launcher ends the server and all that it started when we end, `kill -9` included. Everything here belongs to the task
that opened the connection; only `send` is called from the tasks of calls, and a stop in the middle of a line leaves the
rest of it for whoever sends next.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from ...causes import Cancelled
from ...errors import ToolError
from ...scopes import Scope, finish, outside_the_loop, tasks
from ..processes.launched import CHUNK_BYTES, Launched, read_some
from ..processes.output import BoundedOutput
from .streams import Outgoing, TakeLine, deliver, encode, read_lines

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectSendStream
    from mcp.shared.message import SessionMessage

    from .streams import Streams

__all__ = ["ServerProcess", "process_transport"]

MAX_ERROR_BYTES = 4_000  # of its standard error, for the text that says why it ended
LEAVE_SECONDS = 2.0  # from the end of its input until it is told to end; the protocol gives it that
TERM_SECONDS = 2.0
KILL_SECONDS = 0.5


class ServerProcess:
    """A server's process, from its start to the closing of the last descriptor.

    Raises:
        ToolError: When its launcher cannot be started with such arguments.
    """

    def __init__(self, argv: Sequence[str], folder: Path, env: Mapping[str, str]) -> None:
        self._launched = Launched(argv, folder, env)
        self.errors = BoundedOutput(MAX_ERROR_BYTES)
        self.stray = BoundedOutput(MAX_ERROR_BYTES)
        self.broken = ""  # what it sent that nobody can read on from
        self._fell_silent = self._stopped_by_us = False
        self._unsent, self._sending = bytearray(), anyio.Lock()

    async def send(self, line: bytes) -> None:
        """Write a line to the server's input.

        Raises:
            BrokenResourceError: Nobody reads it any more.
        """
        self._unsent += line
        async with self._sending:
            while self._unsent:
                if self._launched.stdin < 0:
                    raise anyio.BrokenResourceError
                await anyio.wait_writable(self._launched.stdin)
                if self._launched.stdin >= 0:
                    del self._unsent[: self._write()]

    def _write(self) -> int:
        try:
            return os.write(self._launched.stdin, self._unsent[:CHUNK_BYTES])
        except BlockingIOError:
            return 0
        except OSError as error:
            raise anyio.BrokenResourceError from error

    async def read(self, take: TakeLine) -> None:
        """Give each line of the server's output to `take`, until it ends."""
        await read_lines(self._launched.stdout, take)
        self._fell_silent = True

    async def watch(self) -> None:
        """Keep what it says on its standard error, until it has ended. May be stopped and begun again."""
        async with tasks() as group:
            group.start_soon(self._keep, self._launched.stderr, self.errors.add)
            await self._await_end()
            group.scope.cancel(Cancelled("the server has ended"))

    async def stop(self) -> None:
        """End the server and all that it started. Whoever calls this shields it."""
        self._stopped_by_us = not (self._fell_silent or self._launched.ended)
        self._launched.close_stdin()
        for order, seconds in ((b"", LEAVE_SECONDS), (b"T", TERM_SECONDS), (b"K", KILL_SECONDS)):
            if not self._launched.ended:
                self._launched.order(order)
                with Scope(seconds, quiet=True):
                    await self._drain()

    async def aclose_input(self) -> None:
        self._launched.close_stdin()

    def close(self) -> None:
        """Close every descriptor; what is left of it is killed."""
        self._launched.close()

    def describe_end(self) -> str:
        """How it ended and what it said, in a few words for an error; empty while it lives and says nothing."""
        parts = [self.broken or self._how_it_ended()]
        if said := self.errors.text().strip():
            parts.append(f"it said: {said}")
        if stray := self.stray.text().strip():
            parts.append(f"its output was not the protocol's: {stray}")
        return "; ".join(part for part in parts if part)

    def _how_it_ended(self) -> str:
        ending = self._launched.ending()
        if ending is None or self._stopped_by_us:
            return ""
        if ending.why_not:
            return ending.why_not
        if ending.signal is not None:
            return f"it was ended by signal {ending.signal}"
        return f"it exited with status {ending.exit_code}"

    async def _drain(self) -> None:
        """Until it has ended; what it still writes must not hold it up."""
        async with tasks() as group:
            group.start_soon(self._keep, self._launched.stderr, self.errors.add)
            group.start_soon(self._keep, self._launched.stdout, lambda _: None)
            await self._await_end()
            group.scope.cancel(Cancelled("the server has ended"))

    async def _await_end(self) -> None:
        await self._launched.await_end()
        with contextlib.suppress(BlockingIOError):  # what it said last is in the pipe
            while chunk := os.read(self._launched.stderr, CHUNK_BYTES):
                self.errors.add(chunk)

    async def _keep(self, descriptor: int, keep: Callable[[bytes], Any]) -> None:
        while chunk := await read_some(descriptor):
            keep(chunk)


@asynccontextmanager
async def process_transport(process: ServerProcess, lost: Callable[[], None]) -> AsyncIterator[Streams]:
    """The server's process as the SDK's transport. The block's end is the process's.

    Args:
        lost: Called when the server says nothing any more, before the SDK learns that.
    """
    from mcp.shared.message import SessionMessage

    incoming, messages = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    with outside_the_loop():
        try:
            async with tasks() as group, messages, incoming:
                group.start_soon(_receive, process, incoming, lost)
                group.start_soon(process.watch)
                yield messages, Outgoing(partial(_send, process), process.aclose_input)
                group.scope.cancel(Cancelled("the connection is closed"))
        finally:
            await finish(LEAVE_SECONDS + TERM_SECONDS + 4 * KILL_SECONDS, process.stop)
            process.close()


async def _send(process: ServerProcess, message: SessionMessage) -> None:
    await process.send(encode(message))


async def _receive(
    process: ServerProcess, incoming: MemoryObjectSendStream[SessionMessage | Exception], lost: Callable[[], None]
) -> None:
    async with incoming:
        try:
            await process.read(partial(deliver, incoming, process.stray.add))
        except ToolError as error:
            process.broken = str(error)
        lost()
