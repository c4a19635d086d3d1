"""Run a command so that nothing of it outlives the call, however the call ends.

- The command runs under `launcher.py`, which `launched.py` starts and speaks to.
- What happened to a command is read from the status pipe. What we ended ourselves is never reported as ended by a signal:
  the stop that asked for it goes on, with its cause.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import anyio

from ...causes import Cancelled, Stop, ToolTimeout
from ...errors import ToolError
from ...scopes import Scope, finish, outside_the_loop, tasks
from .environment import child_environment
from .launched import Launched, read_some
from .output import BoundedOutput
from .terminal import END_OF_INPUT

__all__ = ["OnOutput", "ProcessResult", "run_process"]

OnOutput: TypeAlias = Callable[[Literal["stdout", "stderr"], bytes], None]

KILL_SECONDS = 0.4  # from KILL until the launcher has said that all are gone; they need a few milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessResult:
    """How a command ended.

    Attributes:
        exit_code: Its exit status; None when a signal ended it.
        signal: The signal that ended it (it was not ours); None when it exited.
        stdout: Its output as text, with a line in the gap where `max_bytes` was not enough.
        stderr: The same for the other stream.
        truncated: Whether one of the two has such a gap, or was still held open when waiting for its end was given up.
        leftovers: How many processes it had left behind; they were ended.
        survivors: How many of those could not be killed, such as another user's.
        seconds: How long it took.
    """

    exit_code: int | None
    signal: int | None
    stdout: str
    stderr: str
    truncated: bool = False
    leftovers: int = 0
    survivors: int = 0
    seconds: float = 0.0


async def run_process(
    argv: Sequence[str],
    *,
    folder: Path,
    env: Mapping[str, str] | None = None,
    seconds: float = math.inf,
    cause: Stop | None = None,
    max_bytes: int = 1_000_000,
    drain_seconds: float = 5.0,
    term_seconds: float = 2.0,
    on_output: OnOutput | None = None,
    stdin: bytes | None = None,
    terminal: bool = False,
) -> ProcessResult:
    """Run a command to its end, and end whatever it leaves behind.

    On a stop every descendant gets SIGTERM, after `term_seconds` SIGKILL, and then the stop goes on. When this very process
    is killed, they are killed too.

    Args:
        argv: The program, looked up in the child's PATH, and its arguments.
        folder: The command's working folder.
        env: The whole environment of the command; `child_environment()` by default.
        seconds: The command's time limit.
        cause: What is raised when that passes; `ToolTimeout` by default.
        max_bytes: How much of each output stream is kept, half from its beginning and half from its end.
        drain_seconds: How long output that something out of reach holds open is waited for after the end.
        term_seconds: The time between SIGTERM and SIGKILL on a stop.
        on_output: Called in the loop with each piece of output as it comes.
        stdin: What the command reads; nothing by default.
        terminal: Whether the command gets a terminal; all that it prints there counts as stdout.

    Raises:
        ToolError: When the command cannot be started.
        Stop: When it was stopped: `cause`, or that of the wider scope.
    """
    with Scope(seconds, cause or ToolTimeout(seconds)), outside_the_loop():
        streams = _Stream("stdout", max_bytes, on_output), _Stream("stderr", max_bytes, on_output)
        launched = Launched(argv, folder, child_environment() if env is None else env, terminal=terminal)
        process = _Process(launched, *streams)
        began = time.monotonic()
        try:
            await process.watch(drain_seconds, (stdin or b"") + END_OF_INPUT if terminal else stdin)
        except BaseException:
            await finish(term_seconds + 2 * KILL_SECONDS, process.stop, term_seconds)
            raise
        finally:
            launched.close()
        return process.result(time.monotonic() - began)
    raise AssertionError("a scope that is not quiet raises")


class _Stream:
    """One output stream of a command."""

    def __init__(self, name: Literal["stdout", "stderr"], max_bytes: int, on_output: OnOutput | None) -> None:
        self.name, self.on_output = name, on_output
        self.kept = BoundedOutput(max_bytes)
        self.ended = anyio.Event()

    async def drain(self, descriptor: int) -> None:
        """Read to the end. May be stopped and begun again."""
        while descriptor >= 0 and (chunk := await read_some(descriptor)):
            self.kept.add(chunk)
            if self.on_output is not None:
                self.on_output(self.name, chunk)
        self.ended.set()


class _Process:
    """A command under its launcher, and what is done with it."""

    def __init__(self, launched: Launched, out: _Stream, err: _Stream) -> None:
        self._launched, self.stdout, self.stderr = launched, out, err

    async def watch(self, drain_seconds: float, stdin: bytes | None = None) -> None:
        """Until the command and all that it started are gone and its output is read. May be stopped and begun again."""
        async with tasks() as group:
            group.start_soon(self.stdout.drain, self._launched.stdout)
            group.start_soon(self.stderr.drain, self._launched.stderr)
            group.start_soon(self._feed, memoryview(stdin or b""))
            await self._launched.await_end()
            with Scope(drain_seconds, quiet=True):
                await self.stdout.ended.wait()
                await self.stderr.ended.wait()
            group.scope.cancel(Cancelled("the command has ended"))

    async def stop(self, term_seconds: float) -> None:
        """End the command and all that it started. Whoever calls this shields it."""
        self.stdout.on_output = self.stderr.on_output = None
        for order, seconds in ((b"T", term_seconds), (b"K", KILL_SECONDS)):
            if not self._launched.ended:
                self._launched.order(order)
                with Scope(seconds, quiet=True):
                    await self.watch(drain_seconds=0)

    def result(self, seconds: float) -> ProcessResult:
        """How the command ended, as the launcher reported.

        Raises:
            ToolError: When it never started, or when the launcher was killed.
        """
        ending = self._launched.ending()
        if ending is None:
            raise ToolError(f"cannot tell how {self._launched.argv[0]} ended: its launcher was killed")
        if ending.why_not:
            raise ToolError(ending.why_not)
        held_open = not (self.stdout.ended.is_set() and self.stderr.ended.is_set())
        return ProcessResult(
            exit_code=ending.exit_code,
            signal=ending.signal,
            stdout=self.stdout.kept.text(),
            stderr=self.stderr.kept.text(),
            truncated=held_open or self.stdout.kept.left_out + self.stderr.kept.left_out > 0,
            leftovers=ending.leftovers,
            survivors=ending.survivors,
            seconds=seconds,
        )

    async def _feed(self, data: memoryview) -> None:
        descriptor = self._launched.stdin
        while data and descriptor >= 0:
            await anyio.wait_writable(descriptor)
            data = data[_write(descriptor, data) :]
        self._launched.close_stdin()


def _write(descriptor: int, data: memoryview) -> int:
    """How much of `data` was taken; all of it when nobody reads any more."""
    try:
        return os.write(descriptor, data)
    except BlockingIOError:
        return 0
    except OSError:  # the command does not want its input, which is its own affair
        return len(data)
