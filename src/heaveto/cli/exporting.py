"""`heaveto export` and `heaveto import`: runs as lines of JSON."""

from __future__ import annotations

from typing import IO, Any

import click

from .options import HELP
from .showing import EVERY_RUN, reading

__all__ = ["export_command", "import_command"]


@click.command("export", context_settings=HELP)
@click.argument("run_ids", metavar="[RUN]...", nargs=-1)
def export_command(run_ids: tuple[str, ...]) -> None:
    """Write runs as lines of JSON, one a record; all runs when none is named."""
    from ..runs import export_runs

    async def export(store: Any) -> None:
        found = [await store.find(run_id) for run_id in run_ids]
        async for line in export_runs(store, found or [row.run_id for row in reversed(await store.runs(EVERY_RUN))]):
            click.echo(line)

    reading(export)


@click.command("import", context_settings=HELP)
@click.argument("file", type=click.File(), default="-")
def import_command(file: IO[str]) -> None:
    """Keep runs that were exported, from FILE or standard input. Nothing is written unless every record is whole."""
    from ..runs import import_runs

    lines = [line for line in file if line.strip()]
    imported = reading(lambda store: import_runs(store, lines))
    click.echo(f"imported {', '.join(imported) or 'nothing'}")
