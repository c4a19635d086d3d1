"""`heaveto export` and `heaveto import`: runs as lines of JSON."""

from __future__ import annotations

import sys
from typing import IO, Any

import click

from .options import HELP
from .showing import EVERY_RUN, reading

__all__ = ["export_command", "import_command"]


@click.command("export", context_settings=HELP)
@click.argument("run_ids", metavar="[RUN]...", nargs=-1)
def export_command(run_ids: tuple[str, ...]) -> None:
    """Write runs as lines of JSON, one a record; all runs when none is named.

    One that is damaged is left out and named, and the exit status is 1.
    """
    from ..errors import JournalBusy, JournalError, JournalUnreachable, RunNotFound
    from ..runs import export_runs

    async def export(store: Any) -> list[str]:
        found, problems = [await store.find(run_id) for run_id in run_ids], list[str]()
        for run_id in found or [row.run_id for row in reversed(await store.runs(EVERY_RUN))]:
            try:
                async for line in export_runs(store, [run_id]):
                    click.echo(line)
            except RunNotFound:  # it was deleted since it was listed
                continue
            except (JournalBusy, JournalUnreachable):  # the journal as a whole
                raise
            except JournalError as error:
                problems.append(str(error))
        return problems

    problems = reading(export)
    for problem in problems:
        click.echo(f"heaveto: left out: {problem}", err=True)
    sys.exit(1 if problems else 0)


@click.command("import", context_settings=HELP)
@click.argument("file", type=click.File("rb"), default="-")
def import_command(file: IO[bytes]) -> None:
    """Keep runs that were exported, from FILE or standard input. Nothing is written unless every record is whole.

    Runs that are there already, record for record, are passed over.
    """
    from ..runs import import_runs

    lines = [line.decode(errors="replace") for line in file if line.strip()]  # what is replaced fits no checksum
    imported = reading(lambda store: import_runs(store, lines))
    click.echo(f"imported {', '.join(imported) or 'nothing'}")
