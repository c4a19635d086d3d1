"""`heaveto doctor`: what this machine has, what it lacks, and what follows from that."""

from __future__ import annotations

import os
import platform
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import click

from .options import HELP

__all__ = ["doctor_command"]

CLOSE_SECONDS = 10.0


class Finding(NamedTuple):
    """One thing looked at. `mark` is "ok", "lack" (something is missing that the work does not need) or "bad"."""

    mark: str
    what: str
    text: str


@click.command("doctor", context_settings=HELP)
def doctor_command() -> int:
    """Check what this machine has and lacks. Exit status 1 when something is missing without which nothing works."""
    findings = [finding for check in _CHECKS for finding in check()]
    for finding in findings:
        click.echo(f"{finding.mark:>4}  {finding.what}: {finding.text}")
    return 1 if any(finding.mark == "bad" for finding in findings) else 0


def _platform() -> Iterator[Finding]:
    version = platform.python_version()
    yield Finding("ok", "python", f"{version} at {sys.executable}")
    if sys.platform == "linux":
        yield Finding("ok", "platform", f"Linux {platform.release()}")
    elif sys.platform == "darwin":
        lost = "there is no subreaper, so a process that leaves its group may outlive a run that is killed with -9"
        yield Finding("lack", "platform", f"macOS: {lost}")
    else:
        yield Finding("bad", "platform", f"{sys.platform} is not supported: use Linux or macOS")


def _journal() -> Iterator[Finding]:
    from ..errors import ConfigError, JournalError
    from ..journal import SqliteStore
    from .showing import reading
    from .stores import chosen_store
    from .texts import counted

    try:
        store = chosen_store()
    except ConfigError as error:
        yield Finding("bad", "journal", str(error))
        return
    try:
        rows = reading(lambda store: store.runs(1000))
    except JournalError as error:
        yield Finding("bad", "journal", f"{error} ({store})")
        return
    count = counted(len(rows), "run")
    kind = f" (SQLite {sqlite3.sqlite_version})" if isinstance(store, SqliteStore) else ""
    yield Finding("ok", "journal", f"{count} in {store}{kind}")


def _keys() -> Iterator[Finding]:
    from ..models import PROVIDERS

    variables = sorted({name for row in PROVIDERS.values() for name in (row.key_variable, row.other_key_variable)} - {""})
    present = [name for name in variables if os.environ.get(name)]
    if present:
        yield Finding("ok", "keys", f"{', '.join(present)} set")
    else:
        yield Finding("lack", "keys", f"none of {', '.join(variables)} is set; --model offline needs none")
    if model := os.environ.get("HEAVETO_MODEL"):
        yield Finding("ok", "model", f"HEAVETO_MODEL is {model}")


def _offline_model() -> Iterator[Finding]:
    import anyio

    from ..causes import DeadlinePassed
    from ..errors import AgentError
    from ..offline import OfflineServer
    from ..scopes import deadline

    async def start() -> None:
        with deadline(CLOSE_SECONDS, DeadlinePassed(CLOSE_SECONDS)):
            async with OfflineServer():
                pass

    try:
        anyio.run(start)
    except (AgentError, DeadlinePassed) as error:
        yield Finding("bad", "offline model", str(error))
    else:
        yield Finding("ok", "offline model", "its server starts on loopback and ends")


def _tests_here() -> Iterator[Finding]:
    from ..tools.project_tests.interpreters import find_interpreter

    python = find_interpreter(Path.cwd(), os.environ.get("HEAVETO_TEST_PYTHON"))
    yield Finding("ok", "tests here", f"run_tests uses {python.path}")


def _sandbox() -> Iterator[Finding]:
    from ..tools import find_sandbox

    box = find_sandbox()
    yield Finding("lack" if box.name == "none" else "ok", "sandbox", box.text)


def _search() -> Iterator[Finding]:
    from ..tools.files.ripgrep import find_ripgrep

    if program := find_ripgrep(Path.cwd()):
        yield Finding("ok", "search", f"search_files asks ripgrep, {program}, which files it need not read")
    else:
        lost = "no ripgrep from 12 on outside this folder, so search_files reads every file itself, which is slower"
        yield Finding("lack", "search", f"{lost} (Debian, Ubuntu: apt install ripgrep)")


_CHECKS: list[Callable[[], Iterator[Finding]]] = [
    _platform, _journal, _keys, _offline_model, _tests_here, _sandbox, _search,
]  # fmt: skip
