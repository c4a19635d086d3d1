"""`heaveto demo`: a small broken project, mended for real by the offline model."""

from __future__ import annotations

import difflib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from .options import HELP, output_options

__all__ = ["demo_command"]

TASK = "make the tests pass"
TEST_SECONDS = 60.0


@click.command("demo", context_settings=HELP)
@click.option("--keep", is_flag=True, help="Keep the project's folder.")
@output_options
def demo_command(keep: bool, output_format: str | None, output_file: str | None) -> int:
    """Mend a small broken project, without a key.

    The project, its tests, the agent, the journal and the local HTTP server are real; only the model is no language model
    but a small engine that searches edits until the tests pass.
    """
    from .demo_project import FILES
    from .driving import drive_new
    from .options import Settings

    folder = Path(tempfile.mkdtemp(prefix="heaveto-demo-"))
    try:
        _write(folder, FILES)
        say = _say if output_format in (None, "text") else _say_nothing
        say(f"a small project with a failing test, in {folder}:\n")
        say(_indented(_first_failure(folder)))
        say(f'\n$ heaveto run --model offline "{TASK}"\n')
        flags = {"model": "offline", "folder": str(folder), "output_format": output_format, "output_file": output_file}
        status = drive_new(Settings.from_flags(flags), TASK)
        say(f"\nwhat it changed:\n\n{_indented(_changes(folder, FILES))}")
        passed = _tests_pass(folder)
        say("\nits tests pass now, run once more by hand" if passed else "\nits tests still fail")
        say(_how_to_go_on(folder if keep else None))
        return status or (0 if passed else 1)
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _say(text: str) -> None:
    click.echo(text, err=True)


def _say_nothing(text: str) -> None: ...


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")


def _run_tests(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-B", "-m", "unittest", "-q"]
    return subprocess.run(  # noqa: S603 - our own interpreter on our own files
        command, cwd=folder, capture_output=True, text=True, timeout=TEST_SECONDS, check=False
    )


def _tests_pass(folder: Path) -> bool:
    return _run_tests(folder).returncode == 0


def _first_failure(folder: Path) -> str:
    """The failing assertion, as the runner words it."""
    lines = _run_tests(folder).stderr.splitlines()
    kept = [line for line in lines if line.startswith(("FAIL:", "AssertionError", "FAILED"))]
    return "\n".join(kept)


def _changes(folder: Path, before: dict[str, str]) -> str:
    """What differs from the project as it was written, as a unified diff."""
    lines: list[str] = []
    for name, old in before.items():
        new = (folder / name).read_text("utf-8")
        lines += difflib.unified_diff(old.splitlines(), new.splitlines(), f"a/{name}", f"b/{name}", lineterm="", n=2)
    return "\n".join(lines) or "nothing"


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def _how_to_go_on(kept: Path | None) -> str:
    lines = [
        "",
        "every step is in the journal:  heaveto show",
        'on a folder of your own:       heaveto run --model offline -C DIR "make the tests pass"',
        "with a language model:         set OPENROUTER_API_KEY, then",
        '                               heaveto run -m openrouter:anthropic/claude-sonnet-4.5 -C DIR "..."',
    ]
    if kept:
        lines.append(f"the project is kept in {kept}")
    return "\n".join(lines)
