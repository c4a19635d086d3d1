"""Building the command's agent and driving a run with it, signals included."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import anyio
import click
import msgspec

from ..causes import Interrupted, Shutdown
from ..errors import ConfigError
from ..journal import Entry, MemoryStore, Store
from ..journal.records import Record, RunFinished
from ..journal.seals import decode_entries
from ..journal.state import fold
from ..loop.events import Event
from ..loop.outcome import exit_status_of
from ..messages import Limits, Prompt
from ..models import CallLimits, Model, by_name
from ..models.providers import PROVIDERS
from ..retry import RetryPolicy
from ..runs import Agent, Permissions, Run, Signals
from ..runs.permissions import Mode
from ..scopes import finish, tasks
from ..tools import Sandbox, Tool, command_tools, file_tools, find_sandbox, read_result, run_tests_tool
from ..tools.project_tests.interpreters import is_program
from ..tools.sandbox import no_sandbox
from .asking import asker, questioner
from .options import Settings
from .sampling import sampling_of
from .servers import run_servers
from .stores import chosen_store
from .texts import was_begun_here
from .watching import show_run, view_for

__all__ = ["built_in_tools", "command_agent", "drive", "drive_again", "drive_new", "model_by_name"]

CLOSE_SECONDS = 10.0
TEST_SECONDS = 300.0  # unless --test-seconds says otherwise
MAX_PROJECT_TEXT = 32_000  # characters of AGENTS.md; what is longer is no introduction

_SYSTEM = """\
You work on the project in the current folder with the tools that you are given. Look before you edit: list and read the
files that matter, run the tests, find the cause, then make the smallest change that mends it and run the tests again. Do
not change tests to make them pass unless you are asked to. When you are done, say in a few sentences what you changed and
why, and what remains."""


def drive_new(settings: Settings, prompt: Prompt) -> int:
    """Start a run and see it to its end; returns the exit status."""
    folder = _folder(settings.folder)
    _check_output_file(settings.output_file)
    _check_test_program(settings, folder)

    async def whole(signals: Signals) -> int:
        store: Store = MemoryStore() if settings.ephemeral else chosen_store()

        def start(agent: Agent) -> AbstractAsyncContextManager[Run]:
            kept = {**settings.kept(), "sandbox_in_force": sandbox_for(settings).name}
            return agent.start(prompt, settings=kept)

        return await _drive_agent(settings, folder, store, signals, start)

    return anyio.run(whole, _own_signals())


def drive_again(flags: dict[str, Any], run_id: str, say: Prompt | None) -> int:
    """Take a run up again and see it to its end; returns the exit status. One that has its answer only tells it again."""

    async def whole(signals: Signals) -> int:
        store = chosen_store()
        try:
            found = await store.find(run_id)
            entries = await store.read(found)
            records = list(decode_entries(found, entries))
            state = fold(records)
        except BaseException:
            await finish(CLOSE_SECONDS, store.aclose)
            raise
        started = state.started
        kept = {"model": started.model, "folder": started.folder, **started.settings}
        settings = Settings.from_flags(flags, kept)
        if not was_begun_here(started):
            _check_program_s_model(settings.model, found)
        _check_output_file(settings.output_file)
        if say is None and state.finished is not None and state.finished.outcome == "answered":
            await finish(CLOSE_SECONDS, store.aclose)
            return await _tell_again(settings, _last_end(found, entries, records))
        folder = _folder(settings.folder)
        _check_test_program(settings, folder)
        limits = _limits(settings, state.limits)

        def reopen(agent: Agent) -> AbstractAsyncContextManager[Run]:
            return agent.reopen(found, limits=limits, say=say)

        return await _drive_agent(settings, folder, store, signals, reopen)

    return anyio.run(whole, _own_signals())


def _own_signals() -> Signals:
    """The process's signals from now on to its end: once there is a run, they are its causes and nothing else."""
    return Signals().__enter__()


async def drive(opening: AbstractAsyncContextManager[Run], settings: Settings, signals: Signals) -> int:
    """See a run to its end, shown as the settings say, with the process's signals as its causes."""
    view = view_for(settings.output_format, kept=not settings.ephemeral)
    async with opening as run, tasks() as group:
        signals.hand_to(run.cancel)
        group.start_soon(show_run, run, view)
        outcome = await run.wait()
    if outcome.kind == "answered":
        _write_answer(settings, outcome.text)
    return outcome.exit_status


async def _tell_again(settings: Settings, end: Event) -> int:
    """Show the answer that a run has, as if it had just come: a script may resume a run without knowing how it ended."""
    await view_for(settings.output_format).show(end)
    finished = cast(RunFinished, end.body)
    _write_answer(settings, finished.text)
    return 0


def _last_end(run_id: str, entries: Sequence[Entry], records: Sequence[Record]) -> Event:
    at = max(at for at, record in enumerate(records) if isinstance(record, RunFinished))
    return Event(str(entries[at].seq), run_id, entries[at].at, True, records[at])


async def _drive_agent(
    settings: Settings,
    folder: Path,
    store: Store,
    signals: Signals,
    opening: Callable[[Agent], AbstractAsyncContextManager[Run]],
) -> int:
    """Build the agent, with its MCP servers, and see its run to the end; everything is closed behind it."""
    try:
        model = model_by_name(settings.model, limits=_call_limits(settings))  # before any server is started
        try:
            elicit = questioner() if settings.output_format == "text" else None
            async with run_servers(settings.mcp_config, folder, signals, elicit) as tools:
                agent = command_agent(settings, folder, store, model, tools)
                return await drive(opening(agent), settings, signals)
        finally:
            await finish(CLOSE_SECONDS, model.aclose)
    except (Interrupted, Shutdown) as stop:  # while the servers started: there is no run yet
        click.echo(f"heaveto: {stop}, before the run began", err=True)
        return exit_status_of(stop)
    finally:
        await finish(CLOSE_SECONDS, store.aclose)


def command_agent(settings: Settings, folder: Path, store: Store, model: Model, more: Sequence[Tool] = ()) -> Agent:
    """The agent that the command sets to work: the file tools, run_tests and commands, inside the folder, and `more`."""
    box = sandbox_for(settings)
    return Agent(
        model=model,
        tools=[*built_in_tools(settings, box), *more],
        system=f"{_system_text(folder)}\n\nCommands and tests: {box.text}.",
        limits=_limits(settings, Limits(told_as=_LIMIT_FLAGS)),
        store=store,
        folder=folder,
        retry=RetryPolicy() if settings.attempts is None else RetryPolicy(attempts=settings.attempts),
        grace_seconds=settings.grace,
        permit=Permissions(cast(Mode, settings.permission), settings.allow, settings.deny, settings.ask),
        approve=asker() if settings.output_format == "text" else None,
        sandbox=box,
        sampling=sampling_of(settings.sampling),
    )


def _check_program_s_model(name: str, run_id: str) -> None:
    """Refuse to go on with a model that only the program that began the run can make."""
    if name.partition(":")[0] not in (*PROVIDERS, "offline"):
        raise ConfigError(
            f'run {run_id} was begun by a program, with its model "{name}"',
            f'resume it there, with agent.resume("{run_id}"), or go on with another model: -m PROVIDER:NAME',
        )


def model_by_name(name: str, **options: Any) -> Model:
    """The model of a `--model`.

    Raises:
        ConfigError: There is no such provider, or its key is missing.
    """
    if name.partition(":")[0] == "offline":
        from ..offline import model

        return model(**options)
    try:
        return by_name(name, **options)
    except ConfigError as error:
        if "the providers are" not in error.remedy:
            raise
        raise ConfigError(error.problem, f"{error.remedy}; or offline, which needs no key") from error


_FLAGS = (  # what a limit that passed is called: the flag that moves it
    ("first_byte_seconds", "--idle-seconds"),
    ("idle_seconds", "--idle-seconds"),
    ("content_idle_seconds", "twice --idle-seconds"),
    ("call_seconds", "--call-seconds"),
    ("stream_seconds", "--call-seconds"),
)


def _call_limits(settings: Settings) -> CallLimits:
    """The limits of a model call. A stream may be silent for `--idle-seconds`, and without content for twice that."""
    limits = CallLimits(told_as=_FLAGS)
    if (idle := settings.idle_seconds) is not None:
        limits = replace(limits, first_byte_seconds=idle, idle_seconds=idle, content_idle_seconds=2 * idle)
    if (whole := settings.call_seconds) is not None:
        limits = replace(limits, call_seconds=whole, stream_seconds=whole)
    return limits


def sandbox_for(settings: Settings) -> Sandbox:
    """What the run's commands are kept in.

    Raises:
        ConfigError: When one is required and none works.
    """
    if settings.sandbox == "off":
        return no_sandbox()
    return find_sandbox(network=settings.network, required=settings.sandbox == "require")


def built_in_tools(settings: Settings, box: Sandbox | None = None) -> list[Tool]:
    """The tools that the command has by itself, those of MCP servers not among them."""
    seconds = TEST_SECONDS if settings.test_seconds is None else settings.test_seconds
    command, interpreter = settings.test_command, settings.test_python
    tests = run_tests_tool(command=command, interpreter=interpreter, seconds=seconds, sandbox=box)
    return [*file_tools(), tests, *command_tools(sandbox=box), read_result]


def _check_test_program(settings: Settings, folder: Path) -> None:
    """Refuse, before anything is spent, a test command or interpreter that is not there."""
    try:
        program, flag = shlex.split(settings.test_command or "")[:1], "--test-command"
    except ValueError:
        return  # which `run_tests_tool` says better
    if settings.test_command is None:
        program, flag = [settings.test_python or sys.executable], "--test-python"
    if program and not is_program(program[0], folder):
        raise ConfigError(f'there is no program "{program[0]}" to run the tests with', f"give one that exists with {flag}")


def _limits(settings: Settings, had: Limits) -> Limits:
    """The limits that the run had, changed where a flag says so."""
    flags = {
        "turns": settings.max_turns,
        "usd": settings.max_usd,
        "tokens": settings.max_tokens,
        "seconds": settings.max_seconds,
    }
    given = {name: value for name, value in flags.items() if value is not None}
    return msgspec.structs.replace(had, **given, told_as=had.told_as | {name: _LIMIT_FLAGS[name] for name in given})


_LIMIT_FLAGS = {name: f"--max-{name}" for name in ("turns", "usd", "tokens", "seconds")}


def _folder(path: str) -> Path:
    folder = Path(path).expanduser()
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise ConfigError(f'the folder "{path}" {what}', "give an existing one with -C")
    if not os.access(folder, os.R_OK | os.X_OK):
        raise ConfigError(f'the folder "{path}" cannot be read', "change its permissions, or give another with -C")
    try:
        return folder.resolve()
    except FileNotFoundError as error:
        raise ConfigError("the current folder was deleted", "change to one that exists, or give one with -C") from error


def _system_text(folder: Path) -> str:
    """What the model is told first: how to work here, and what the project says of itself in AGENTS.md."""
    path = folder / "AGENTS.md"
    try:
        text = path.read_text("utf-8", errors="replace")
    except FileNotFoundError:
        return _SYSTEM
    except OSError as error:
        raise ConfigError(
            f"AGENTS.md cannot be read: {error.strerror}", "change its permissions, or move it away"
        ) from error
    return f"{_SYSTEM}\n\nThe project's AGENTS.md says:\n\n{text[:MAX_PROJECT_TEXT]}"


def _check_output_file(path: str | None) -> None:
    """Refuse, before anything is spent, a file that the answer could not be written to."""
    if path is None:
        return
    file = Path(path)
    if file.is_dir() or not file.parent.is_dir():
        raise ConfigError(f'"{path}" cannot be written', "give a file in a folder that exists with -o")


def _write_answer(settings: Settings, text: str) -> None:
    if settings.output_file is None:
        return
    try:
        Path(settings.output_file).write_text(text, "utf-8", errors="replace")
    except OSError as error:
        raise ConfigError(
            f'"{settings.output_file}" cannot be written: {error.strerror}', "the answer is in the journal"
        ) from error
