"""`heaveto undo`, and the diff of `heaveto show --diff`: what a run changed in its folder."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from .options import HELP
from .showing import reading

if TYPE_CHECKING:
    from ..journal.records import UndoneFile
    from ..journal.store import Entry
    from ..runs import RunChanges

__all__ = ["show_diff", "undo_command"]


@click.command("undo", context_settings=HELP)
@click.argument("run_id", metavar="RUN")
def undo_command(run_id: str) -> None:
    """Put the files that a run changed back as they were before it: all of them, or none.

    Refused, with each file's name, when one was changed since. Covers what the file tools changed, not what commands did.
    When the run is resumed, the model is told.
    """
    from .resolving import who
    from .texts import counted, printable

    async def undo(store: Any) -> Any:
        from ..runs import undo_run

        return await undo_run(store, run_id, who())

    undone = reading(undo)
    count = counted(len(undone.files), "file")
    if undone.before_this:
        at = datetime.fromtimestamp(undone.at).astimezone().isoformat(" ", "seconds")
        by = f" by {undone.by}" if undone.by else ""
        click.echo(f"run {undone.run_id} was undone already, {at}{printable(by)}: {count} in {printable(undone.folder)}")
        return
    click.echo(f"undone: {count} in {printable(undone.folder)}")
    for file in undone.files:
        click.echo(printable(f"  {file.path}: {_what_was_done(file)}"))


def _what_was_done(file: UndoneFile) -> str:
    if file.before is None:
        return "deleted, as the run had made it"
    return "there again, as the run had deleted or moved it" if file.after is None else "as it was"


def show_diff(run_id: str, entries: list[Entry]) -> None:
    """Print what a run changed. To a pipe exactly, for `git apply` and `patch`."""
    from ..journal.seals import decode_entries
    from ..runs import changes_of, diff_lines
    from .output import is_terminal
    from .texts import printable

    changes = changes_of(decode_entries(run_id, entries))
    plain = is_terminal(1)
    for line in diff_lines(changes):
        click.echo(printable(line.decode(errors="replace")) if plain else line, nl=False)
    for note in _notes(changes):
        click.echo(printable(note), err=True)


def _notes(changes: RunChanges) -> list[str]:
    notes = [f"not shown, since its outcome is not known: {call}" for call in changes.unknown]
    notes += [
        f"{file.path}: what something else changed between two of the run's changes is in this diff too"
        for file in changes.files
        if file.interrupted
    ]
    if changes.undone is not None:
        notes.append("the run was undone, and has changed nothing since")
    elif not changes.files and not notes:
        notes.append("the run changed no files by its file tools")
    return notes
