"""`heaveto stop`, `fork`, `replay`, `verify`, `delete`, `prune` and `compact`: what is done to runs without driving them."""

from __future__ import annotations

import sys
import time
from typing import Any

import click

from .ages import seconds_of
from .options import HELP
from .showing import EVERY_RUN, reading
from .stores import command_line

__all__ = [
    "compact_command",
    "delete_command",
    "fork_command",
    "prune_command",
    "replay_command",
    "stop_command",
    "verify_command",
]

WRONG = 1


@click.command("stop", context_settings=HELP)
@click.argument("run_id", metavar="RUN")
@click.option("--why", metavar="TEXT", default="", help="The cause; it is what the run's end says.")
@click.option("--wait", metavar="SECONDS", default=15.0, show_default=True, help="How long to wait until it has stopped.")
def stop_command(run_id: str, why: str, wait: float) -> None:
    """Stop a run that another process drives. It stops within a second or so, and is saved."""
    from ..causes import Cancelled
    from ..runs import stop_run
    from .resolving import who

    async def stop(store: Any) -> tuple[str, Any]:
        found = await store.find(run_id)
        asked = await stop_run(store, found, Cancelled(why, who()))
        return found, await _wait_until_released(store, found, wait) if asked else None

    found, summary = reading(stop)
    if summary is None:
        raise click.ClickException(f"nobody drives run {found}; this says how it ended: {command_line('why', found)}")
    if summary.phase == "running":
        click.echo(f"asked, and not stopped yet: {command_line('why', found)}")
    else:
        click.echo(f"{summary.phase}: {summary.why}")


async def _wait_until_released(store: Any, run_id: str, seconds: float) -> Any:
    import anyio

    from ..journal.owner import is_alive

    until = time.monotonic() + seconds
    while True:
        row = next(row for row in await store.runs(EVERY_RUN) if row.run_id == run_id)
        if not row.owner or is_alive(row.owner) is False or time.monotonic() >= until:
            return row.summary
        await anyio.sleep(0.2)


@click.command("fork", context_settings=HELP)
@click.argument("run_id", metavar="RUN")
@click.option(
    "--turn", type=click.IntRange(min=0), required=True, help="The last turn that the new run has; 0: the task alone."
)
def fork_command(run_id: str, turn: int) -> None:
    """Begin another run that goes on from a turn of this one, which stays as it is. Then `heaveto resume` it."""
    from ..runs import fork_run
    from ..runs.agent import new_run_id
    from .resolving import begun_here
    from .texts import resume_step

    async def fork(store: Any) -> tuple[str, bool]:
        found = await fork_run(store, run_id, turn, new_run_id())
        return found, await begun_here(store, found)

    found, ours = reading(fork)
    click.echo(f"forked; resume: {resume_step(found, ours=ours)}")


@click.command("replay", context_settings=HELP)
@click.argument("run_id", metavar="[RUN]", default="", required=False)
def replay_command(run_id: str) -> None:
    """Hold a run's journal against the code, without model or tools: same steps, keys, spend, answer; else exit status 1."""
    from ..runs import read_records, replay
    from .texts import counted

    async def read(store: Any) -> Any:
        found = await store.find(run_id)
        return found, await read_records(store, found)

    found, records = reading(read)
    differences = replay(records)
    for difference in differences:
        click.echo(difference)
    click.echo(
        f"run {found}: {counted(len(records), 'record')}, "
        + (counted(len(differences), "difference") if differences else "all as written")
    )
    sys.exit(WRONG if differences else 0)


@click.command("verify", context_settings=HELP)
@click.argument("run_id", metavar="[RUN]", default="", required=False)
def verify_command(run_id: str) -> None:
    """Look for damaged or missing records, in one run or in all. Exit status 1 when there are any."""
    from ..errors import JournalBusy, JournalError, JournalUnreachable, RunNotFound
    from ..runs import verify_run
    from .texts import counted

    async def verify(store: Any) -> tuple[int, int, list[str]]:
        only = await store.find(run_id) if run_id else None
        rows = [row for row in await store.runs(EVERY_RUN) if only in (None, row.run_id)]
        deleted, count, problems = 0, 0, list[str]()
        for row in rows:
            try:
                count += await verify_run(store, row)
            except RunNotFound:  # it was deleted since it was listed
                deleted += 1
            except (JournalBusy, JournalUnreachable):  # the journal as a whole, which says nothing of the run
                raise
            except JournalError as error:
                problems.append(str(error))
        return len(rows) - deleted, count, problems

    runs, records, problems = reading(verify)
    for problem in problems:
        click.echo(problem)
    found = f"{counted(len(problems), 'run')} damaged" if problems else "whole"
    click.echo(f"{counted(runs, 'run')}, {counted(records, 'record')}: {found}")
    sys.exit(WRONG if problems else 0)


@click.command("delete", context_settings=HELP)
@click.argument("run_id", metavar="RUN")
def delete_command(run_id: str) -> None:
    """Forget a run that nobody drives."""
    from ..runs import delete_run

    click.echo(f"deleted {reading(lambda store: delete_run(store, run_id))}")


@click.command("prune", context_settings=HELP)
@click.option(
    "--older-than", "seconds", metavar="AGE", required=True, callback=seconds_of, help="Such as 30d, 12h or 90min."
)
@click.option("--waiting-too", is_flag=True, help="Those too that wait for a person.")
def prune_command(seconds: float, waiting_too: bool) -> None:
    """Forget the runs that were last touched longer ago, and give their room back. What is driven or waits for you stays."""
    from ..runs import prune_runs
    from .texts import counted

    async def prune(store: Any) -> tuple[int, int]:
        pruned = await prune_runs(store, time.time() - seconds, waiting_too=waiting_too)
        return len(pruned), await store.compact()

    runs, freed = reading(prune)
    click.echo(f"deleted {counted(runs, 'run')}, {max(0, freed):,} bytes freed")


@click.command("compact", context_settings=HELP)
def compact_command() -> None:
    """Give the room of deleted runs back to the disk. Runs may be driven meanwhile.

    A file is written anew, so its disk needs room for a copy.
    """
    freed = reading(lambda store: store.compact())
    click.echo(f"{max(0, freed):,} bytes freed")
