"""Running commands in the folder: to their end, or in the background with a handle. Everything ends with the run."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import anyio

from ..causes import Cancelled, Stop, ToolTimeout, in_seconds
from ..errors import ToolError
from ..scopes import Scope, current_cause
from .decorator import tool
from .processes import ProcessResult, child_environment, run_process
from .processes.output import BoundedOutput
from .processes.terminal import terminal_text
from .project_tests.interpreters import find_interpreter
from .project_tests.reports import end_text
from .protocol import Call, Tool
from .results import Shortened, behind, cut_middle, shortened
from .sandbox import Sandbox, no_sandbox

__all__ = ["command_tools", "run_command_tool"]

MAX_BYTES = 200_000  # of each stream, while the command runs
MAX_CHARS = 20_000  # of what the model reads
PROGRESS_SECONDS = 1.0
ENDING_SECONDS = 3.0  # ending processes takes that long at most, so the tool's limit as the loop knows it is later
START_SECONDS = 0.2  # in which a command that cannot start has said so
MOST_IN_BACKGROUND = 8
MOST_WAIT_SECONDS = 60.0
TERMINAL = {"TERM": "xterm-256color"}


def run_command_tool(*, seconds: float = 300, approval: bool = True, sandbox: Sandbox | None = None) -> Tool:
    """The tool `run_command`.

    Args:
        seconds: The limit of one command, unless the model asks for a lower one.
        approval: Whether a person has to approve each command.
        sandbox: What the command is kept in; see `sandbox.py`. None keeps it in nothing.
    """
    kept_in = sandbox or no_sandbox()

    @tool(name="run_command", effect="write", approval=approval, seconds=seconds + ENDING_SECONDS)
    async def run_command(
        call: Call, command: str | list[str], cwd: str = "", limit_seconds: float = seconds, terminal: bool = False
    ) -> str:
        """Run a command to its end. Says its exit status and what it printed; a failed command is an ordinary result.

        Args:
            command: For the shell (sh), or a program and its arguments as a list.
            cwd: Folder to run it in, relative to the working folder.
            limit_seconds: When it is ended.
            terminal: Whether it gets a terminal, for a program that does not work without one. Nobody types there.
        """
        limit = min(seconds, limit_seconds)
        if not limit > 0:
            raise ToolError(f"limit_seconds must be more than 0, not {limit_seconds:g}")
        job = _Job(call, to_argv(command), folder_in(call.folder, cwd), kept_in, terminal)
        return await _run(job, limit)

    return run_command


def command_tools(*, seconds: float = 300, approval: bool = True, sandbox: Sandbox | None = None) -> list[Tool]:
    """`run_command`, and `start_command`, `read_output` and `stop_command` for what runs in the background."""
    background, kept_in = _Background(), sandbox or no_sandbox()

    @tool(effect="write", approval=approval)
    async def start_command(call: Call, command: str | list[str], cwd: str = "", terminal: bool = False) -> str:
        """Start a command in the background, such as a server. It is ended when the run ends.

        Args:
            command: For the shell (sh), or a program and its arguments as a list.
            cwd: Folder to run it in, relative to the working folder.
            terminal: Whether it gets a terminal, for a program that does not work without one.
        """
        return await background.start(_Job(call, to_argv(command), folder_in(call.folder, cwd), kept_in, terminal))

    @tool(effect="read", alone=True)
    async def read_output(call: Call, handle: str, wait_seconds: float = 0) -> str:
        """What a background command has printed since the last time, and whether it still runs.

        Args:
            handle: As start_command gave it.
            wait_seconds: How long to wait for its end first; up to 60.
        """
        each = background.get(call, handle)
        with Scope(min(max(0.0, wait_seconds), MOST_WAIT_SECONDS), quiet=True):
            await each.ended.wait()
        return each.report()

    @tool(effect="idempotent")
    async def stop_command(call: Call, handle: str) -> str:
        """End a background command and everything that it started.

        Args:
            handle: As start_command gave it.
        """
        each = background.get(call, handle)
        each.scope.cancel(Cancelled("stop_command", "the model"))
        await each.ended.wait()
        return each.report()

    one = run_command_tool(seconds=seconds, approval=approval, sandbox=sandbox)
    return [one, start_command, read_output, stop_command]


def to_argv(command: str | list[str]) -> list[str]:
    """What is started for a command.

    Raises:
        ToolError: When it is empty.
    """
    if not (command.strip() if isinstance(command, str) else command and command[0]):
        raise ToolError('the command is empty; give one such as "ls -l"')
    return ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)


def folder_in(folder: Path, cwd: str) -> Path:
    """The folder to run in.

    Raises:
        ToolError: When it is not there, or outside.
    """
    if "\0" in cwd:
        raise ToolError("cwd has a NUL byte; give a folder's path without it")
    found = (folder / cwd).resolve()
    if not found.is_relative_to(folder.resolve()):
        raise ToolError(f'"{cwd}" is outside of the working folder; give a folder inside it')
    if not found.is_dir():
        raise ToolError(f'there is no folder "{cwd}"; list the files to see what there is')
    return found


@dataclass(frozen=True, slots=True)
class _Job:
    """A command to be run, and where and in what."""

    call: Call
    argv: list[str]
    folder: Path
    sandbox: Sandbox
    terminal: bool


class Output:
    """What a command prints, kept within bounds, and told now and then to whoever watches.

    Args:
        terminal: Whether it is what a terminal is to show.
    """

    def __init__(self, progress: Callable[[str], None], *, terminal: bool = False) -> None:
        self._progress, self._said, self._terminal = progress, time.monotonic(), terminal
        self._streams = self._fresh()

    def feed(self, stream: Literal["stdout", "stderr"], chunk: bytes) -> None:
        self._streams[stream].add(chunk)
        if time.monotonic() - self._said >= PROGRESS_SECONDS and chunk.strip():
            self._said = time.monotonic()
            self._progress(self._plain(chunk.strip().splitlines()[-1].decode(errors="replace")))

    def take(self) -> str:
        """The output since the last time, as the model reads it."""
        streams, self._streams = self._streams, self._fresh()
        texts = {name: self._plain(kept.text()).rstrip() for name, kept in streams.items()}
        if not texts["stderr"]:
            return shortened(texts["stdout"], MAX_CHARS)
        err = cut_middle(texts["stderr"], MAX_CHARS // 2)
        out = cut_middle(texts["stdout"], MAX_CHARS - len(err))
        short, whole = _both(out, err), _both(texts["stdout"], texts["stderr"])
        return short if short == whole else Shortened(short, whole)

    def _plain(self, text: str) -> str:
        return terminal_text(text) if self._terminal else text

    @staticmethod
    def _fresh() -> Mapping[Literal["stdout", "stderr"], BoundedOutput]:
        return {"stdout": BoundedOutput(MAX_BYTES), "stderr": BoundedOutput(MAX_BYTES)}


async def _run(job: _Job, seconds: float) -> str:
    output, late = Output(job.call.progress, terminal=job.terminal), ToolTimeout(seconds)
    try:
        result = await _in_sandbox(job, output, seconds, late)
    except ToolTimeout as error:
        if current_cause() is not None:  # a wider limit, the run's perhaps
            raise
        said = output.take()
        ended = f"ended after {in_seconds(seconds)}, its limit, with all that it had started"
        raise ToolError(f"{ended}\n{said}".rstrip()) from error
    return behind(_ending(result), output.take())


def _both(out: str, err: str) -> str:
    return "\n".join([*([out] if out else []), "--- stderr", err])


async def _in_sandbox(job: _Job, output: Output, seconds: float, late: Stop | None) -> ProcessResult:
    program, workspace = job.argv[0], job.call.folder
    env = child_environment(find_interpreter(workspace).variables | (TERMINAL if job.terminal else {}))
    if job.sandbox.name != "none" and shutil.which(program, path=env.get("PATH")) is None and "/" not in program:
        raise ToolError(f"cannot run {program}: no such program; is it installed, and is its folder in PATH?")
    with job.sandbox.keeping(job.argv, workspace, job.folder) as (kept, extra):
        return await run_process(
            kept,
            folder=job.folder,
            env={**env, **extra},
            seconds=seconds,
            cause=late,
            max_bytes=0,
            on_output=output.feed,
            terminal=job.terminal,
        )


def _ending(result: ProcessResult) -> str:
    left = ""
    if result.leftovers:
        left = (
            f"; {result.leftovers} {'process' if result.leftovers == 1 else 'processes'} that it left behind ended with it"
        )
    return f"{end_text(result)} after {in_seconds(round(result.seconds, 1))}{left}"


class _Command:
    """A command in the background, from its start to the end of its run."""

    def __init__(self, job: _Job) -> None:
        self._job = job
        self._output = Output(job.call.progress, terminal=job.terminal)
        self.scope, self.ended = Scope(quiet=True), anyio.Event()
        self.problem = ""
        self._result: ProcessResult | None = None

    async def run(self) -> None:
        """See it to its end, and keep what it said until the run ends."""
        try:
            with self.scope:
                self._result = await _in_sandbox(self._job, self._output, math.inf, None)
        except ToolError as error:
            self.problem = str(error)
        finally:
            self.ended.set()
        await anyio.sleep_forever()

    def report(self) -> str:
        if not self.ended.is_set():
            state = "still running"
        elif self._result is not None:
            state = f"ended: {_ending(self._result)}"
        else:
            state = self.problem or "it was ended"
        return behind(state, self._output.take())


class _Background:
    """The background commands of each run, by their handles."""

    def __init__(self) -> None:
        self._runs: dict[str, dict[str, _Command]] = {}

    async def start(self, job: _Job) -> str:
        call = job.call
        commands = self._runs.setdefault(call.run_id, {})
        running = [handle for handle, each in commands.items() if not each.ended.is_set()]
        if len(running) >= MOST_IN_BACKGROUND:
            raise ToolError(f"{len(running)} commands run in the background, which is the most; stop one: {running[0]}")
        handle, each = f"bg{len(commands) + 1}", _Command(job)
        call.background(lambda: self._keep(call.run_id, each))
        commands[handle] = each
        with Scope(START_SECONDS, quiet=True):
            await each.ended.wait()
        if each.problem:
            raise ToolError(each.problem)
        return behind(handle, each.report(), " ")

    async def _keep(self, run_id: str, each: _Command) -> None:
        try:
            await each.run()
        finally:
            self._runs.pop(run_id, None)  # tasks of a run end together

    def get(self, call: Call, handle: str) -> _Command:
        commands = self._runs.get(call.run_id, {})
        if handle not in commands:
            known = f"there are {', '.join(commands)}" if commands else "none was started since this run was taken up"
            raise ToolError(f'no background command "{handle}"; {known}')
        return commands[handle]
