"""Tests that a command of the user's runs: judged by its exit status, told by what its runner printed.

The user's, because it runs with the user's rights: a project's own files do not say what it is.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Literal

from ...causes import TestsTimedOut, in_seconds
from ...errors import ToolError
from ...scopes import current_cause, time_left
from ..processes import ProcessResult, child_environment, run_process
from ..processes.output import BoundedOutput
from ..protocol import Call
from ..results import cut_middle
from ..sandbox import Sandbox
from ..scratch import scratch_folder
from .interpreters import find_interpreter
from .output import recognize
from .reports import (
    GAP_CHARS,
    MAX_CHARS,
    Progress,
    count_line,
    end_text,
    last_of,
    relative,
    write_report,
)
from .told import ToldTests, without_colours

__all__ = ["INNER_SHARE", "CommandTests"]

INNER_SHARE = 0.75  # of the tool's limit, for the runner, so that what it printed can still be told
RUNNERS_SHARE = 0.9  # of that, for a runner that knows itself which test hangs
MAX_OUTPUT_BYTES = 2_000_000  # of what a runner prints
ONLY = "{only}"


class CommandTests:
    """A command of the user's that runs the tests."""

    def __init__(self, argv: list[str], seconds: float, sandbox: Sandbox) -> None:
        self._argv, self._seconds, self._sandbox = argv, seconds, sandbox

    async def run(self, call: Call, only: str) -> str:
        if only and not any(ONLY in each for each in self._argv):
            raise ToolError("the configured test command runs all tests; call run_tests without only")
        argv = [each.replace(ONLY, only) for each in self._argv if only or each != ONLY]
        inner = INNER_SHARE * min(self._seconds, time_left())
        printed = _Printed(Progress(call.progress))
        try:
            result = await self._run(argv, call, inner, printed)
        except TestsTimedOut as error:
            if current_cause() is not None:  # a wider limit, the run's perhaps
                raise
            raise ToolError(_timed_out(printed, call.folder, inner)) from error
        if _told_late(printed):
            raise ToolError(_timed_out(printed, call.folder, RUNNERS_SHARE * inner))
        return _judge(shlex.join(argv), result, printed, call.folder)

    async def _run(self, argv: list[str], call: Call, inner: float, printed: _Printed) -> ProcessResult:
        with scratch_folder() as scratch:
            interpreter = find_interpreter(call.folder)
            env = child_environment(interpreter.variables | self._variables(scratch, inner))
            keeping = self._sandbox.keeping(argv, call.folder, call.folder, writable=[scratch], readable=interpreter.folders)
            with keeping as (kept, extra):
                return await run_process(
                    kept,
                    folder=call.folder,
                    env={**env, **extra},
                    seconds=inner,
                    cause=TestsTimedOut(inner),
                    max_bytes=0,
                    on_output=printed.feed,
                )

    def _variables(self, scratch: Path, inner: float) -> dict[str, str]:
        """No stale result: no bytecode of before, no cached verdict of go's, which also tells which test hangs."""
        fresh = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": str(scratch), "NO_COLOR": "1"}
        fresh["GOFLAGS"] = f"-count=1 -v -timeout={RUNNERS_SHARE * inner:.3f}s"
        return fresh if self._sandbox.name == "none" else {**fresh, "GOCACHE": str(scratch / "go")}


class _Printed:
    """What the command prints, as it comes."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._streams = {"stdout": BoundedOutput(MAX_OUTPUT_BYTES), "stderr": BoundedOutput(MAX_OUTPUT_BYTES)}

    def feed(self, stream: Literal["stdout", "stderr"], chunk: bytes) -> None:
        self._streams[stream].add(chunk)
        if lines := chunk.strip().splitlines():
            self._progress.tell(without_colours(lines[-1].decode(errors="replace")))

    @property
    def stdout(self) -> str:
        return self._streams["stdout"].text()

    @property
    def stderr(self) -> str:
        return self._streams["stderr"].text()

    def told(self) -> ToldTests | None:
        return recognize(self.stdout, self.stderr)

    def text(self, folder: Path) -> str:
        return "\n".join(relative(without_colours(each), folder).strip() for each in (self.stdout, self.stderr)).strip()


def _judge(command: str, result: ProcessResult, printed: _Printed, folder: Path) -> str:
    told = printed.told()
    if result.exit_code == 0:
        if told is None or not told.passed:
            return f"tests passed: {command} ended with exit status 0"
        return count_line(told)
    if told is not None and told.failures:
        told.status = result.exit_code
        head = count_line(told)
        return f"{head}\n\n{write_report(told.failures, folder, MAX_CHARS - len(head) - 2)}"
    if not printed.stdout.strip():
        raise ToolError(last_of(relative(printed.stderr, folder)) or f"the test command said nothing: {end_text(result)}")
    head = f"tests failed: {command} ended with {end_text(result)}"
    return f"{head}\n\n{cut_middle(printed.text(folder), MAX_CHARS - len(head) - GAP_CHARS)}"


def _told_late(printed: _Printed) -> bool:
    """Whether the runner itself ended the tests, since its time was over."""
    return "panic: test timed out after " in printed.stdout


def _timed_out(printed: _Printed, folder: Path, inner: float) -> str:
    """Which test hung, where the runner had told that it began; else what it printed last."""
    told, head = printed.told(), f"tests timed out after {in_seconds(inner)}"
    if told is None:
        said = printed.text(folder)
        return f"{head}; the last that was printed:\n{last_of(said)}" if said else f"{head}; nothing was printed"
    if told.running:
        head += f" while running {', '.join(told.running)}"
    if told.failed or told.passed:
        head += f"\nbefore that: {told.failed} failed, {told.passed} passed"
    if told.failures:
        head += f"\n\n{write_report(told.failures, folder, MAX_CHARS - len(head) - 2)}"
    return head
