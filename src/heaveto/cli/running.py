"""`heaveto run` and `heaveto resume`."""

from __future__ import annotations

import sys
from typing import Any

import click

from ..messages import Prompt, attached
from .options import HELP, Settings, output_options, resume_options, run_options

__all__ = ["resume_command", "run_command"]

_attach = click.option(
    "--attach",
    metavar="FILE",
    multiple=True,
    type=click.Path(),
    help="An image, a PDF or a text file for the model to see; may be given several times.",
)


@click.command("run", context_settings=HELP)
@click.argument("prompt", required=False)
@_attach
@run_options
@output_options
def run_command(prompt: str | None, attach: tuple[str, ...], **flags: Any) -> int:
    """Set the agent to work on a task in a folder.

    PROMPT is the task; "-", or no PROMPT and something piped in, reads it from standard input.

    The agent may read and edit files in the folder and run its tests. Ctrl-C stops it well: what it did is kept, and the
    last line tells how to resume. SIGTERM leaves it --grace seconds to finish what it is at, a second signal ends that, a
    third leaves at once, without a last line; the run can be resumed all the same.
    """
    from .driving import drive_new

    settings = Settings.from_flags(flags)
    return drive_new(settings, _with_files(_prompt(prompt), attach))


@click.command("resume", context_settings=HELP)
@click.argument("run_id", metavar="[RUN]", default="", required=False)
@click.option(
    "--say", metavar="TEXT", help="Something new to tell the model; a run that has its answer goes on only with it."
)
@_attach
@resume_options
@output_options
def resume_command(run_id: str, say: str | None, attach: tuple[str, ...], **flags: Any) -> int:
    """Get a stopped, failed or killed run under way again.

    RUN is its name or the beginning of it; by default the run that was touched last. Folder, model and limits are those
    that it had, unless a flag says otherwise; a limit counts what was used up before. A run that has its answer tells it
    again, and spends nothing.
    """
    from .driving import drive_again

    if attach and say is None:
        raise click.UsageError("--attach goes with --say: a file needs a word on what it is for")
    return drive_again(flags, run_id, None if say is None else _with_files(say, attach))


def _with_files(text: str, paths: tuple[str, ...]) -> Prompt:
    """The text, with what is attached behind it."""
    return [text, *map(attached, paths)] if paths else text


def _prompt(prompt: str | None) -> str:
    if prompt is None and sys.stdin is not None and sys.stdin.isatty():
        raise click.UsageError('no task: give it in quotes, such as heaveto run "make the tests pass", or pipe it in')
    if prompt is None or prompt == "-":
        prompt = sys.stdin.read() if sys.stdin is not None else ""
    if not prompt.strip():
        raise click.UsageError('the task is empty; say what is to be done, such as "make the tests pass"')
    return prompt
