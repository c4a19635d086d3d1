"""`heaveto runs`, `heaveto show` and `heaveto why`: reading the journal."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .ages import seconds_of
from .options import HELP
from .stores import chosen_store, command_line

if TYPE_CHECKING:
    from ..journal.records import Record, RunFinished

__all__ = ["reading", "runs_command", "show_command", "why_command"]

T = TypeVar("T")

CLOSE_SECONDS = 10.0
EVERY_RUN = 1_000_000_000


@click.command("runs", context_settings=HELP)
@click.option("-n", "--limit", default=20, show_default=True, type=click.IntRange(min=1), help="How many.")
@click.option("--state", "states", multiple=True, metavar="STATE", help="Only these: running, answered, waiting, stopped...")
@click.option("--cause", default="", metavar="CODE", help="Only those that this cause or error ended, such as cost_budget.")
@click.option("--newer-than", metavar="AGE", callback=seconds_of, help="Only those touched since, such as 2h or 7d.")
@click.option("--older-than", metavar="AGE", callback=seconds_of, help="Only those not touched since.")
@click.option("--min-usd", default=Decimal(0), type=Decimal, help="Only those that cost so much.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def runs_command(limit: int, as_json: bool, **wanted: Any) -> None:
    """List the runs, the last touched first."""
    import msgspec

    rows = reading(lambda store: _select(store, limit, **wanted))
    if as_json:
        for row in rows:
            click.echo(json.dumps(msgspec.to_builtins(row)))
        return
    if not rows:
        any_wanted = any(wanted.values())
        click.echo("no such runs" if any_wanted else 'no runs yet; begin one with heaveto run "...", or try heaveto demo')
    for row in rows:
        click.echo(_row_line(row))


async def _select(
    store: Any,
    limit: int,
    states: tuple[str, ...],
    cause: str,
    newer_than: float | None,
    older_than: float | None,
    min_usd: Decimal,
) -> list[Any]:
    if not (states or cause or newer_than or older_than or min_usd):
        rows: list[Any] = await store.runs(limit)
        return rows
    from ..runs import select_rows

    now = time.time()
    since, until = newer_than and now - newer_than, older_than and now - older_than
    rows = await store.runs(EVERY_RUN)
    return select_rows(rows, states=states, cause=cause, since=since, until=until, least_usd=min_usd)[:limit]


def _row_line(row: Any) -> str:
    from .texts import clip, counted

    summary = row.summary
    usd = "price unknown" if summary.unpriced_calls and not summary.cost_usd else f"${summary.cost_usd:.4f}"
    phase = "killed" if summary.phase == "running" and not _is_driven(row.owner) else summary.phase
    turns = counted(summary.turns, "turn")
    return f"{row.run_id}  {_age(row.updated):>8}  {phase:<11}  {turns:>9}  {usd:>13}  {clip(summary.task, 50)}"


def _is_driven(owner: str) -> bool:
    from ..journal.owner import is_alive

    return bool(owner) and is_alive(owner) is not False


def _age(at: float) -> str:
    seconds = max(0.0, time.time() - at)
    for length, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds // length:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"


@click.command("show", context_settings=HELP)
@click.argument("run_id", metavar="[RUN]", default="", required=False)
@click.option("--json", "as_json", is_flag=True, help="The run's records, one JSON object a line.")
@click.option("--diff", is_flag=True, help="What it changed in its folder, as a unified diff told from the journal.")
def show_command(run_id: str, as_json: bool, diff: bool) -> None:
    """Show what happened in a run, step by step. RUN is its name or the beginning of it; by default the last one."""
    if diff:
        from .undoing import show_diff

        show_diff(*reading(lambda store: _read(store, run_id)))
        return
    import msgspec

    from ..journal.seals import decode_entries
    from .transcript import record_lines, waiting_lines

    found, entries = reading(lambda store: _read(store, run_id))
    records = []
    for entry, record in zip(entries, decode_entries(found, entries), strict=False):  # up to one that is damaged
        records.append(record)
        if as_json:
            data = msgspec.to_builtins(record)
            click.echo(json.dumps({"type": data.pop("type"), "id": str(entry.seq), "at": entry.at, **data}))
        else:
            for line in record_lines(record):
                click.echo(line)
    if not as_json:
        for line in waiting_lines(found, records):
            click.echo(line)


async def _read(store: Any, run_id: str) -> tuple[str, list[Any]]:
    found = await store.find(run_id)
    return found, await store.read(found)


@click.command("why", context_settings=HELP)
@click.argument("run_id", metavar="[RUN]", default="", required=False)
@click.option("--json", "as_json", is_flag=True, help="As JSON, with the chain of causes.")
def why_command(run_id: str, as_json: bool) -> None:
    """Tell why a run ended. RUN is its name or the beginning of it; by default the last one."""
    from ..journal.records import DriveStarted, RunFinished, RunStarted
    from ..journal.seals import decode_entries
    from .texts import closing_lines, resume_step, was_begun_here

    run_id, entries = reading(lambda store: _read(store, run_id))
    records = list(decode_entries(run_id, entries))
    ends = [at for at, record in enumerate(records) if isinstance(record, (RunFinished, DriveStarted))]
    ours = isinstance(records[0], RunStarted) and was_begun_here(records[0])
    finished = records[ends[-1]] if ends else None  # what a person said since, an undo included, is no new end
    if not isinstance(finished, RunFinished):
        text = "it has no end in the journal: it is under way, or its process was killed"
        click.echo(json.dumps({"run_id": run_id, "why": text}) if as_json else f"{run_id}: {text}")
        click.echo(f"  resume: {resume_step(run_id, ours=ours)}", err=as_json)
        return
    told = _look_back(finished, records[: ends[-1]], entries[ends[-1]].at)
    if as_json:
        data = {"run_id": run_id, "outcome": finished.outcome, "why": finished.why, "cause": finished.cause, **told}
        click.echo(json.dumps(data))
        return
    *lines, next_step = closing_lines(finished, run_id, ours=ours)
    for line in (*lines, *_since(records[ends[-1] + 1 :], run_id, next_step, ours=ours), *_told_lines(told)):
        click.echo(line)


def _since(after: Sequence[Record], run_id: str, next_step: str, *, ours: bool) -> Iterator[str]:
    """What a person said since the run ended, and the step that is next then."""
    from ..journal.records import UndoFinished, UndoStarted
    from .texts import resume_step

    match [each for each in after if not (isinstance(each, UndoFinished) and each.problem)]:
        case []:
            yield next_step
        case [*_, UndoFinished()]:
            yield f"  since then: what it changed was undone; show: {command_line('show', run_id)}"
        case [*_, UndoStarted()] if isinstance(after[-1], UndoStarted):
            yield f"  since then: an undo was cut off; finish it: {command_line('undo', run_id)}"
        case [UndoStarted()]:
            yield next_step
        case _:
            yield f"  since then: a person has answered; resume: {resume_step(run_id, ours=ours)}"


def _look_back(finished: RunFinished, before: Sequence[Record], at: float) -> dict[str, Any]:
    """When and where the run ended, whose limit passed, and the chain of causes."""
    from ..loop.looking_back import cause_chain, limit_owner, place_of_end

    chain = cause_chain(finished.cause)
    answered = finished.outcome == "answered"
    return {
        "ended_at": at,
        "where": "" if answered else place_of_end(before),
        "limit_of": limit_owner(chain),
        "chain": [{"code": link.code, "text": link.text, "notes": list(link.notes)} for link in chain],
    }


def _told_lines(told: dict[str, Any]) -> Iterator[str]:
    from .texts import printable

    ended = datetime.fromtimestamp(told["ended_at"]).astimezone()
    yield f"  when: {ended.isoformat(' ', 'seconds')} ({_age(told['ended_at'])})"
    if told["where"]:
        yield printable(f"  where: {told['where']}")
    if told["limit_of"]:
        yield f"  the limit is that of {told['limit_of']}"
    for depth, link in enumerate(told["chain"]):
        indent = "  " * (depth + 1)
        if depth:
            yield printable(f"{indent}because: {link['text']} [{link['code']}]")
        for note in link["notes"]:
            yield printable(f"{indent}  {note}")


def reading(read: Callable[[Any], Awaitable[T]]) -> T:
    """Open the journal, read from it, close it."""
    import anyio

    from ..scopes import finish

    store = chosen_store()

    async def whole() -> T:
        try:
            return await read(store)
        finally:
            await finish(CLOSE_SECONDS, store.aclose)

    return anyio.run(whole)
