"""A command under `launcher.py`, as seen from here: the descriptors to it, the orders it takes, and what it says at the end.

The descriptors are plain pipes, or one terminal, which AnyIO waits for: the same code on asyncio and Trio, starting has no
await in it that a stop could cut in two, and no watcher thread is needed.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import anyio

from ...errors import ToolError
from .terminal import open_terminal

__all__ = ["CHUNK_BYTES", "Ending", "Launched", "read_some"]

LAUNCHER = Path(__file__).with_name("launcher.py")
CHUNK_BYTES = 65536  # what a pipe holds
WHY_NOT = {
    errno.ENOENT: "no such program; is it installed, and is its folder in PATH?",
    errno.EACCES: "not allowed to run it; is it executable?",
    errno.ENOEXEC: "not a program; a script needs a first line such as #!/bin/sh",
    errno.E2BIG: "the arguments are too long",
}


class Ending(NamedTuple):
    """How a command ended, as its launcher says.

    Attributes:
        exit_code: Its exit status; None when a signal ended it.
        signal: The signal that ended it; None when it exited.
        why_not: Why it did not even start; empty when it did.
        leftovers: How many processes it had left behind.
        survivors: How many of those could not be killed.
    """

    exit_code: int | None
    signal: int | None
    why_not: str
    leftovers: int
    survivors: int


class Launched:
    """A command and its launcher, from the start to the closing of the last descriptor.

    Args:
        terminal: Whether the command gets a terminal, for input and both kinds of output, instead of three pipes.

    Attributes:
        stdin: The descriptor of the command's input; -1 once it is closed.
        stdout: That of its output.
        stderr: That of its errors; -1 with a terminal.
        ended: Whether nothing that the command started is alive any more.

    Raises:
        ToolError: When the launcher cannot be started with such arguments.
    """

    def __init__(self, argv: Sequence[str], folder: Path, env: Mapping[str, str], *, terminal: bool = False) -> None:
        self.argv, self._folder = list(argv), folder
        self._status, self.ended = bytearray(), False
        with ExitStack() as on_failure, ExitStack() as theirs:
            control, self._control = _pipe(theirs, on_failure)
            self._status_pipe, status = _pipe(on_failure, theirs)
            master = slave = -1
            if terminal:
                master, slave = open_terminal()
                on_failure.callback(os.close, master)
                theirs.callback(os.close, slave)
            self._launcher = self._spawn(env, (control, status), slave)
            on_failure.pop_all()
        self._master = master
        pipes = (self._launcher.stdin, self._launcher.stdout, self._launcher.stderr)
        self.stdin, self.stdout, self.stderr = (
            (master, master, -1) if terminal else [pipe.fileno() for pipe in pipes if pipe is not None]
        )
        for descriptor in (self._status_pipe, self.stdin, self.stdout, self.stderr):
            if descriptor >= 0:
                os.set_blocking(descriptor, False)

    def _spawn(self, env: Mapping[str, str], descriptors: tuple[int, int], slave: int) -> subprocess.Popen[bytes]:
        launch = [str(each) for each in (LAUNCHER, *descriptors, os.getpid(), self._folder)]
        end = subprocess.PIPE if slave < 0 else slave
        try:
            return subprocess.Popen(
                [sys.executable, "-I", "-S", "-E", *launch, *self.argv],
                bufsize=0,
                env=dict(env),
                stdin=end,
                stdout=end,
                stderr=end,
                pass_fds=descriptors,
                start_new_session=True,
            )
        except OSError as error:
            raise ToolError(self._why_not(error.errno or 0)) from error
        except ValueError as error:  # a NUL byte in an argument
            raise ToolError(f"cannot run {self.argv[0]!r}: {error}") from error

    def order(self, order: bytes) -> None:
        """Have the launcher end all that the command started: `b"T"` by TERM, `b"K"` by KILL."""
        self._go_on()
        try:
            os.write(self._control, order)
        except BrokenPipeError:  # the launcher is gone, which the status pipe is about to say
            pass

    async def await_end(self) -> None:
        """Until the launcher has said that all are gone, or is gone itself. May be stopped and begun again."""
        while chunk := await read_some(self._status_pipe):
            self._status += chunk
        self.ended = True

    def ending(self) -> Ending | None:
        """What the launcher said; None while it has not, and where it was killed."""
        if not self._status:
            return None
        status = json.loads(self._status)
        number = status["signal"]
        why_not = self._why_not(status["errno"], bool(status["folder"])) if status["errno"] else ""
        return Ending(None if number else status["exit"], number or None, why_not, status["leftovers"], status["survivors"])

    def close_stdin(self) -> None:
        """Let the command's input end."""
        self.stdin = -1
        if self._launcher.stdin is not None:
            self._launcher.stdin.close()

    def close(self) -> None:
        """Close every descriptor and take the launcher's exit status. Its end of the pipe closing kills what is left."""
        self.close_stdin()
        os.close(self._control)
        os.close(self._status_pipe)
        if not self.ended:
            self._launcher.kill()
        self._go_on()
        for pipe in (self._launcher.stdout, self._launcher.stderr):
            if pipe is not None:
                pipe.close()
        if self._master >= 0:
            os.close(self._master)
        self._launcher.wait()  # it is past its last instruction, or killed

    def _go_on(self) -> None:
        """A command may have stopped what stands over it: stopped, that would end nothing, and never end itself."""
        self._launcher.send_signal(signal.SIGCONT)

    def _why_not(self, number: int, folder_is_bad: bool = False) -> str:
        text = os.strerror(number).lower()
        if folder_is_bad:
            return f"cannot run {self.argv[0]} in {self._folder}: {text}"
        return f"cannot run {self.argv[0]}: {WHY_NOT.get(number, text)}"


async def read_some(descriptor: int) -> bytes:
    """What there is to read, once there is something; empty at the end."""
    while True:
        await anyio.wait_readable(descriptor)
        try:
            return os.read(descriptor, CHUNK_BYTES)
        except BlockingIOError:  # woken for nothing
            continue
        except OSError as error:
            if error.errno == errno.EIO:  # a terminal that nobody has open any more
                return b""
            raise


def _pipe(reading: ExitStack, writing: ExitStack) -> tuple[int, int]:
    """A pipe, each end closed by a stack."""
    ends = os.pipe()
    reading.callback(os.close, ends[0])
    writing.callback(os.close, ends[1])
    return ends
