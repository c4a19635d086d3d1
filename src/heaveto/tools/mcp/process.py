"""A server that is a program: its process under our launcher, and the lines that go in and out.

The launcher ends the server and all that it started when we end, `kill -9` included. Everything here belongs to the task
that opened the connection; only `send` is called from the tasks of calls, and a stop in the middle of a line leaves the
rest of it for whoever sends next.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from ...causes import Cancelled
from ...errors import ToolError
from ...scopes import Scope, finish, outside_the_loop, tasks
from ..processes.output import BoundedOutput
from ..processes.process import LAUNCHER, WHY_NOT
from .streams import CHUNK_BYTES, Outgoing, TakeLine, deliver, encode, read_lines, read_some

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
        self.argv, self._folder = list(argv), folder
        self.errors = BoundedOutput(MAX_ERROR_BYTES)
        self.stray = BoundedOutput(MAX_ERROR_BYTES)
        self._status, self._gone = bytearray(), anyio.Event()
        self._fell_silent = self._stopped_by_us = False
        self._unsent, self._sending = bytearray(), anyio.Lock()
        with ExitStack() as on_failure, ExitStack() as theirs:
            control, self._control = _pipe(theirs, on_failure)
            self._status_pipe, status = _pipe(on_failure, theirs)
            self._launcher = self._spawn(env, control, status)
            on_failure.pop_all()
        self._input, self._output, self._error = _descriptors(self._launcher)
        for descriptor in (self._status_pipe, self._input, self._output, self._error):
            os.set_blocking(descriptor, False)

    def _spawn(self, env: Mapping[str, str], control: int, status: int) -> subprocess.Popen[bytes]:
        launch = [str(each) for each in (LAUNCHER, control, status, os.getpid(), self._folder)]
        pipe = subprocess.PIPE
        try:
            return subprocess.Popen(
                [sys.executable, "-I", "-S", "-E", *launch, *self.argv],
                bufsize=0,
                env=dict(env),
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                pass_fds=(control, status),
                start_new_session=True,
            )
        except (OSError, ValueError) as error:  # the second for a NUL byte in an argument
            raise ToolError(f"cannot run {self.argv[0]!r}: {error}") from error

    async def send(self, line: bytes) -> None:
        """Write a line to the server's input.

        Raises:
            BrokenResourceError: Nobody reads it any more.
        """
        self._unsent += line
        async with self._sending:
            while self._unsent:
                if self._input < 0:
                    raise anyio.BrokenResourceError
                await anyio.wait_writable(self._input)
                if self._input >= 0:
                    del self._unsent[: self._write()]

    def _write(self) -> int:
        try:
            return os.write(self._input, self._unsent[:CHUNK_BYTES])
        except BlockingIOError:
            return 0
        except OSError as error:
            raise anyio.BrokenResourceError from error

    async def read(self, take: TakeLine) -> None:
        """Give each line of the server's output to `take`, until it ends."""
        await read_lines(self._output, take)
        self._fell_silent = True

    async def watch(self) -> None:
        """Keep what it says on its standard error, until it has ended. May be stopped and begun again."""
        async with tasks() as group:
            group.start_soon(self._keep, self._error, self.errors.add)
            await self._await_end()
            group.scope.cancel(Cancelled("the server has ended"))

    async def stop(self) -> None:
        """End the server and all that it started. Whoever calls this shields it."""
        self._stopped_by_us = not (self._fell_silent or self._gone.is_set())
        self._close_input()
        for order, seconds in ((b"", LEAVE_SECONDS), (b"T", TERM_SECONDS), (b"K", KILL_SECONDS)):
            if not self._gone.is_set():
                self._order(order)
                with Scope(seconds, quiet=True):
                    await self._drain()

    async def aclose_input(self) -> None:
        self._close_input()

    def close(self) -> None:
        """Close every descriptor and take the launcher's exit status. Its end of the pipe closing kills what is left."""
        self._close_input()
        os.close(self._control)
        os.close(self._status_pipe)
        if not self._gone.is_set():
            self._launcher.kill()
        for pipe in (self._launcher.stdout, self._launcher.stderr):
            if pipe is not None:
                pipe.close()
        self._launcher.wait()  # it is past its last instruction, or killed

    def describe_end(self) -> str:
        """How it ended and what it said, in a few words for an error; empty while it lives and says nothing."""
        parts = [self._how_it_ended()]
        if said := self.errors.text().strip():
            parts.append(f"it said: {said}")
        if stray := self.stray.text().strip():
            parts.append(f"its output was not the protocol's: {stray}")
        return "; ".join(part for part in parts if part)

    def _how_it_ended(self) -> str:
        if not self._status or self._stopped_by_us:
            return ""
        status = json.loads(self._status)
        if status["errno"]:
            what = f" in {self._folder}" if status["folder"] else ""
            text = os.strerror(status["errno"]).lower()
            return f"cannot run {self.argv[0]}{what}: {text if what else WHY_NOT.get(status['errno'], text)}"
        if status["signal"]:
            return f"it was ended by signal {status['signal']}"
        return f"it exited with status {status['exit']}"

    def _close_input(self) -> None:
        self._input = -1
        if self._launcher.stdin is not None:
            self._launcher.stdin.close()

    def _order(self, order: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):  # the launcher is gone, which the status pipe is about to say
            os.write(self._control, order)

    async def _drain(self) -> None:
        """Until it has ended; what it still writes must not hold it up."""
        async with tasks() as group:
            group.start_soon(self._keep, self._error, self.errors.add)
            group.start_soon(self._keep, self._output, lambda _: None)
            await self._await_end()
            group.scope.cancel(Cancelled("the server has ended"))

    async def _await_end(self) -> None:
        while chunk := await read_some(self._status_pipe):
            self._status += chunk
        self._gone.set()
        with contextlib.suppress(BlockingIOError):  # what it said last is in the pipe
            while chunk := os.read(self._error, CHUNK_BYTES):
                self.errors.add(chunk)

    async def _keep(self, descriptor: int, keep: Callable[[bytes], Any]) -> None:
        while chunk := await read_some(descriptor):
            keep(chunk)


@asynccontextmanager
async def process_transport(process: ServerProcess, lost: anyio.Event) -> AsyncIterator[Streams]:
    """The server's process as the SDK's transport. The block's end is the process's.

    Args:
        lost: Set when the server says nothing any more.
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
    process: ServerProcess, incoming: MemoryObjectSendStream[SessionMessage | Exception], lost: anyio.Event
) -> None:
    async with incoming:
        await process.read(partial(deliver, incoming, process.stray.add))
        lost.set()


def _descriptors(launcher: subprocess.Popen[bytes]) -> tuple[int, int, int]:
    pipes = launcher.stdin, launcher.stdout, launcher.stderr
    stdin, stdout, stderr = (pipe.fileno() for pipe in pipes if pipe is not None)
    return stdin, stdout, stderr


def _pipe(reading: ExitStack, writing: ExitStack) -> tuple[int, int]:
    """A pipe, each end closed by a stack."""
    ends = os.pipe()
    reading.callback(os.close, ends[0])
    writing.callback(os.close, ends[1])
    return ends
