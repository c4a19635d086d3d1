"""Run a command so that nothing of it outlives the call, however the call ends.

- The command runs under `launcher.py`. The descriptors are plain pipes, which AnyIO waits for: the same code on asyncio and
  Trio, spawning has no await in it that a stop could cut in two, and no watcher thread is needed.
- What happened to a command is read from the status pipe. What we ended ourselves is never reported as ended by a signal:
  the stop that asked for it goes on, with its cause.
"""

from __future__ import annotations

import errno
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, TypeAlias

import anyio

from ...causes import Cancelled, Stop, ToolTimeout
from ...errors import ToolError
from ...scopes import Scope, finish, outside_the_loop, tasks
from .environment import child_environment
from .output import BoundedOutput

__all__ = ["OnOutput", "ProcessResult", "run_process"]

OnOutput: TypeAlias = Callable[[Literal["stdout", "stderr"], bytes], None]

LAUNCHER = Path(__file__).with_name("launcher.py")
CHUNK_BYTES = 65536  # what a pipe holds
KILL_SECONDS = 0.4  # from KILL until the launcher has said that all are gone; they need a few milliseconds
WHY_NOT = {
    errno.ENOENT: "no such program; is it installed, and is its folder in PATH?",
    errno.EACCES: "not allowed to run it; is it executable?",
    errno.ENOEXEC: "not a program; a script needs a first line such as #!/bin/sh",
    errno.E2BIG: "the arguments are too long",
}


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

    Raises:
        ToolError: When the command cannot be started.
        Stop: When it was stopped: `cause`, or that of the wider scope.
    """
    with Scope(seconds, cause or ToolTimeout(seconds)), outside_the_loop():
        streams = _Stream("stdout", max_bytes, on_output), _Stream("stderr", max_bytes, on_output)
        process = _Process(argv, folder, child_environment() if env is None else env, *streams)
        began = time.monotonic()
        try:
            await process.watch(drain_seconds, stdin)
        except BaseException:
            await finish(term_seconds + 2 * KILL_SECONDS, process.stop, term_seconds)
            raise
        finally:
            process.close()
        return process.result(time.monotonic() - began)
    raise AssertionError("a scope that is not quiet raises")


class _Stream:
    """One output stream of a command."""

    def __init__(self, name: Literal["stdout", "stderr"], max_bytes: int, on_output: OnOutput | None) -> None:
        self.name, self.on_output = name, on_output
        self.kept = BoundedOutput(max_bytes)
        self.ended = anyio.Event()

    def read_from(self, pipe: IO[bytes] | None) -> None:
        assert pipe is not None, "the launcher is started with pipes"  # noqa: S101 - for the type checker
        self._descriptor = pipe.fileno()
        os.set_blocking(self._descriptor, False)

    async def drain(self) -> None:
        """Read to the end. May be stopped and begun again."""
        while chunk := await _read(self._descriptor):
            self.kept.add(chunk)
            if self.on_output is not None:
                self.on_output(self.name, chunk)
        self.ended.set()


class _Process:
    """A command under its launcher, from its start to the closing of the last descriptor.

    Raises:
        ToolError: When the launcher cannot be started with such arguments.
    """

    def __init__(self, argv: Sequence[str], folder: Path, env: Mapping[str, str], out: _Stream, err: _Stream) -> None:
        self._argv, self._folder, self.stdout, self.stderr = list(argv), folder, out, err
        self._status, self._ended = bytearray(), False
        with ExitStack() as on_failure, ExitStack() as theirs:
            control, self._control = _pipe(theirs, on_failure)
            self._status_pipe, status = _pipe(on_failure, theirs)
            launch = [str(each) for each in (LAUNCHER, control, status, os.getpid(), folder)]
            self._launcher = self._spawn([sys.executable, "-I", "-S", "-E", *launch, *argv], env, (control, status))
            on_failure.pop_all()
        os.set_blocking(self._status_pipe, False)
        out.read_from(self._launcher.stdout)
        err.read_from(self._launcher.stderr)

    def _spawn(self, argv: list[str], env: Mapping[str, str], descriptors: tuple[int, int]) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        try:
            return subprocess.Popen(
                argv, bufsize=0, env=env, stdin=pipe, stdout=pipe, stderr=pipe, pass_fds=descriptors, start_new_session=True
            )
        except OSError as error:
            raise ToolError(self._why_not(error.errno or 0)) from error
        except ValueError as error:  # a NUL byte in an argument
            raise ToolError(f"cannot run {self._argv[0]!r}: {error}") from error

    async def watch(self, drain_seconds: float, stdin: bytes | None = None) -> None:
        """Until the command and all that it started are gone and its output is read. May be stopped and begun again."""
        async with tasks() as group:
            group.start_soon(self.stdout.drain)
            group.start_soon(self.stderr.drain)
            group.start_soon(self._feed, memoryview(stdin or b""))
            await self._read_status()
            with Scope(drain_seconds, quiet=True):
                await self.stdout.ended.wait()
                await self.stderr.ended.wait()
            group.scope.cancel(Cancelled("the command has ended"))

    async def stop(self, term_seconds: float) -> None:
        """End the command and all that it started. Whoever calls this shields it."""
        self.stdout.on_output = self.stderr.on_output = None
        for order, seconds in ((b"T", term_seconds), (b"K", KILL_SECONDS)):
            if not self._ended:
                self._order(order)
                with Scope(seconds, quiet=True):
                    await self.watch(drain_seconds=0)

    def close(self) -> None:
        """Close every descriptor and take the launcher's exit status. Its end of the pipe closing kills what is left."""
        os.close(self._control)
        os.close(self._status_pipe)
        if not self._ended:
            self._launcher.kill()
        for pipe in (self._launcher.stdin, self._launcher.stdout, self._launcher.stderr):
            if pipe is not None:
                pipe.close()
        self._launcher.wait()  # it is past its last instruction, or killed

    def result(self, seconds: float) -> ProcessResult:
        """How the command ended, as the launcher reported.

        Raises:
            ToolError: When it never started, or when the launcher was killed.
        """
        if not self._status:
            raise ToolError(f"cannot tell how {self._argv[0]} ended: its launcher was killed")
        status = json.loads(self._status)
        if status["errno"]:
            raise ToolError(self._why_not(status["errno"], bool(status["folder"])))
        number = status["signal"]
        held_open = not (self.stdout.ended.is_set() and self.stderr.ended.is_set())
        return ProcessResult(
            exit_code=None if number else status["exit"],
            signal=number or None,
            stdout=self.stdout.kept.text(),
            stderr=self.stderr.kept.text(),
            truncated=held_open or self.stdout.kept.left_out + self.stderr.kept.left_out > 0,
            leftovers=status["leftovers"],
            survivors=status["survivors"],
            seconds=seconds,
        )

    def _why_not(self, number: int, folder_is_bad: bool = False) -> str:
        text = os.strerror(number).lower()
        if folder_is_bad:
            return f"cannot run {self._argv[0]} in {self._folder}: {text}"
        return f"cannot run {self._argv[0]}: {WHY_NOT.get(number, text)}"

    def _order(self, order: bytes) -> None:
        try:
            os.write(self._control, order)
        except BrokenPipeError:  # the launcher is gone, which the status pipe is about to say
            pass

    async def _read_status(self) -> None:
        while chunk := await _read(self._status_pipe):
            self._status += chunk
        self._ended = True

    async def _feed(self, data: memoryview) -> None:
        pipe = self._launcher.stdin
        if pipe is None or pipe.closed:
            return
        os.set_blocking(pipe.fileno(), False)
        while data:
            await anyio.wait_writable(pipe.fileno())
            data = data[_write(pipe.fileno(), data) :]
        pipe.close()


def _pipe(reading: ExitStack, writing: ExitStack) -> tuple[int, int]:
    """A pipe, each end closed by a stack."""
    ends = os.pipe()
    reading.callback(os.close, ends[0])
    writing.callback(os.close, ends[1])
    return ends


async def _read(descriptor: int) -> bytes:
    """What there is to read, once there is something; empty at the end."""
    while True:
        await anyio.wait_readable(descriptor)
        try:
            return os.read(descriptor, CHUNK_BYTES)
        except BlockingIOError:  # woken for nothing
            continue


def _write(descriptor: int, data: memoryview) -> int:
    """How much of `data` was taken; all of it when nobody reads any more."""
    try:
        return os.write(descriptor, data)
    except BlockingIOError:
        return 0
    except BrokenPipeError:  # the command does not want its input, which is its own affair
        return len(data)
