"""The tool `run_tests`: the project's tests, with a report of the failures that is short enough for a model.

- Failing tests are an ordinary result; what keeps tests from being run at all is an error.
- The runner's own limit is three quarters of the tool's, so that it can still say which test hung.
- No stale result: no bytecode of the project is read or written (Python compares the size and the second of a source file,
  so after an edit of the same size within a second it would run the old code), and pytest's cache is a fresh folder.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

from ...causes import TestsTimedOut, in_seconds
from ...errors import ConfigError, ToolError
from ...scopes import time_left
from ..decorator import tool
from ..processes import ProcessResult, child_environment, run_process
from ..protocol import Call, Tool
from ..sandbox import Sandbox, no_sandbox
from ..scratch import scratch_folder
from .any_command import INNER_SHARE, CommandTests
from .events import TestEvents
from .interpreters import find_interpreter
from .reports import (
    MAX_CHARS,
    Progress,
    count_line,
    end_text,
    last_of,
    relative,
    write_report,
    write_stack,
)

__all__ = ["run_tests_tool"]

SCRIPT = Path(__file__).with_name("inside.py")
ENDING_SECONDS = 3.0  # ending processes takes that long at most, so the tool's limit as the loop knows it is later
MAX_OUTPUT_BYTES = 200_000  # of what the tests print, and of the events: these are read as they come

HINTS = {
    "pytest": "pytest looks for functions test_* in files test_*.py and *_test.py",
    "unittest": "unittest looks for TestCase classes in files test*.py",
}


class _Runner(Protocol):
    async def run(self, call: Call, only: str) -> str: ...


def run_tests_tool(
    command: str | Sequence[str] | None = None,
    interpreter: str | None = None,
    seconds: float = 300,
    sandbox: Sandbox | None = None,
) -> Tool:
    """The tool `run_tests`.

    Args:
        command: What runs the tests instead of pytest or unittest, such as "go test ./..." or "npm test"; `{only}` in it
            stands for the tool's argument. From the user's own settings only, never from the project's files.
        interpreter: The Python to run pytest or unittest with, instead of the project's own.
        seconds: The limit of one run.
        sandbox: What the tests are kept in; None keeps them in nothing.

    Raises:
        ConfigError: When the command is empty or cannot be split.
    """
    kept_in = sandbox or no_sandbox()
    runner: _Runner = (
        _PythonTests(interpreter, seconds, kept_in) if command is None else CommandTests(_split(command), seconds, kept_in)
    )

    @tool(name="run_tests", effect="idempotent", seconds=seconds + ENDING_SECONDS)
    async def run_tests(call: Call, only: str = "") -> str:
        """Run the project's tests. Says how many passed and failed, and for each failure where and why.

        Args:
            only: A test file, or a test as the runner calls it; empty for all tests.
        """
        return await runner.run(call, check_only(only.strip(), call.folder))

    return run_tests


def _split(command: str | Sequence[str]) -> list[str]:
    try:
        argv = shlex.split(command) if isinstance(command, str) else list(command)
    except ValueError as error:
        raise ConfigError(f"the test command cannot be split: {error}", "quote it as for a shell") from error
    if not argv:
        raise ConfigError("the test command is empty", "give a program and its arguments")
    return argv


def check_only(only: str, folder: Path) -> str:
    """The argument, its path relative to the folder.

    Raises:
        ToolError: When it could be taken for an option, or its path leads out of the folder.
    """
    if only.startswith("-") or "\0" in only:
        raise ToolError(f'"{only}" is no test; give a test file such as tests/test_calc.py, or the name of a test')
    path, colons, name = only.partition("::")
    inside = (folder / path).resolve()
    if not inside.is_relative_to(folder.resolve()):
        raise ToolError(f'"{path}" is outside of the folder; give a path inside it')
    if ("/" in path or path.endswith(".py")) and not inside.exists():
        raise ToolError(f'there is no "{path}"; list the folder to see which test files there are')
    return (inside.relative_to(folder.resolve()).as_posix() if path.startswith("/") else path) + colons + name


class _PythonTests:
    """pytest or unittest, by way of a script of ours in the project's interpreter."""

    def __init__(self, interpreter: str | None, seconds: float, sandbox: Sandbox) -> None:
        self._interpreter, self._seconds, self._sandbox = interpreter, seconds, sandbox

    async def run(self, call: Call, only: str) -> str:
        interpreter = find_interpreter(call.folder, self._interpreter)
        inner = INNER_SHARE * min(self._seconds, time_left())
        events = TestEvents()
        env = child_environment({**interpreter.variables, "PYTHONDONTWRITEBYTECODE": "1"})
        with scratch_folder() as scratch:
            argv = [interpreter.path, str(SCRIPT), str(time.monotonic() + inner), str(scratch), only]
            try:
                keeping = self._sandbox.keeping(
                    argv, call.folder, call.folder, writable=[scratch], readable=interpreter.folders
                )
                with keeping as (kept, extra):
                    result = await self._run(kept, {**env, **extra}, call, events)
            except TestsTimedOut as error:
                if events.under_way:
                    error.add_note(f"while running {events.under_way}")
                raise
        return conclude(events, result, call.folder, inner, only)

    async def _run(self, argv: list[str], env: Mapping[str, str], call: Call, events: TestEvents) -> ProcessResult:
        progress = Progress(call.progress)

        def follow(stream: Literal["stdout", "stderr"], chunk: bytes) -> None:
            if stream == "stdout":
                events.feed(chunk)
            if events.total:
                progress.tell(f"{events.passed} passed, {events.failed} failed")

        late = TestsTimedOut(self._seconds)
        return await run_process(
            argv,
            folder=call.folder,
            env=env,
            seconds=self._seconds,
            cause=late,
            max_bytes=MAX_OUTPUT_BYTES,
            on_output=follow,
        )


def conclude(events: TestEvents, result: ProcessResult, folder: Path, inner: float, only: str) -> str:
    """What the model reads of a run that ended by itself.

    Raises:
        ToolError: When no tests were run, or one hung.
    """
    if events.stack and events.status is None:
        raise ToolError(_timed_out(events, folder, inner))
    if events.status is None:
        if not events.under_way:
            raise ToolError(_could_not_run(result, folder))
        output = last_of(relative(result.stderr, folder))
        events.end_abruptly(f"the test process ended here: {end_text(result)}\n{output}")
    elif events.tests_under_way:  # `pytest.exit`, whose status may be 0
        output = last_of(relative(result.stderr, folder))
        events.end_abruptly(
            f"{events.runner} was ended in it, with exit status {events.status}: nothing behind it ran\n{output}"
        )
    elif not events.total:
        none_found = events.status in (0, 5)
        raise ToolError(_no_tests(events.runner, only) if none_found else _could_not_run(result, folder))
    head = count_line(events)
    if events.failures:
        return f"{head}\n\n{write_report(events.failures.items(), folder, MAX_CHARS - len(head) - 2)}"
    if events.status:  # such as a coverage limit that was not reached
        return (
            f"{head}\n\n{events.runner} ended with exit status {events.status}\n{last_of(relative(result.stderr, folder))}"
        )
    return head


def _timed_out(events: TestEvents, folder: Path, inner: float) -> str:
    stack = write_stack(events.stack, folder)
    where = f"while running {events.under_way}" if events.under_way else "before the first test"
    text = f"tests timed out after {in_seconds(inner)} {where}\n{stack}".rstrip()
    if events.total:
        text += f"\nbefore that: {events.failed} failed, {events.passed} passed"
    if events.failures:
        text += f"\n\n{write_report(events.failures.items(), folder, MAX_CHARS - len(text) - 2)}"
    return text


def _no_tests(runner: str, only: str) -> str:
    if only:
        return f'no tests match "{only}"; give a test file such as tests/test_calc.py, or nothing to run all tests'
    return f"no tests found; {HINTS.get(runner, 'add some')}"


def _could_not_run(result: ProcessResult, folder: Path) -> str:
    return f"the tests could not be run ({end_text(result)})\n{last_of(relative(result.stderr, folder))}".rstrip()
