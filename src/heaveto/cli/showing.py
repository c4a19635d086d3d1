"""`heaveto runs`, `heaveto show` and `heaveto why`: reading the journal."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, TypeVar

import click

from .options import HELP

__all__ = ["reading", "runs_command", "show_command", "why_command"]

T = TypeVar("T")

CLOSE_SECONDS = 10.0


@click.command("runs", context_settings=HELP)
@click.option("-n", "--limit", default=20, show_default=True, type=click.IntRange(min=1), help="How many.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def runs_command(limit: int, as_json: bool) -> None:
    """List the runs, the last touched first."""
    import msgspec

    rows = reading(lambda store: store.runs(limit))
    if as_json:
        for row in rows:
            click.echo(json.dumps(msgspec.to_builtins(row)))
        return
    if not rows:
        click.echo('no runs yet; begin one with heaveto run "...", or try heaveto demo')
    for row in rows:
        click.echo(_row_line(row))


def _row_line(row: Any) -> str:
    from .texts import clip

    summary = row.summary
    usd = "price unknown" if summary.unpriced_calls and not summary.cost_usd else f"${summary.cost_usd:.4f}"
    phase = "killed" if summary.phase == "running" and not _is_driven(row.owner) else summary.phase
    turns = f"{summary.turns} turn" if summary.turns == 1 else f"{summary.turns} turns"
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
def show_command(run_id: str, as_json: bool) -> None:
    """Show what happened in a run, step by step. RUN is its name or the beginning of it; by default the last one."""
    import msgspec

    from .transcript import record_lines

    entries = reading(lambda store: _read(store, run_id))
    for seq, at, record in entries:
        if as_json:
            data = msgspec.to_builtins(record)
            click.echo(json.dumps({"type": data.pop("type"), "id": str(seq), "at": at, **data}))
        else:
            for line in record_lines(record):
                click.echo(line)


async def _read(store: Any, run_id: str) -> list[tuple[int, float, Any]]:
    from ..journal.records import decode_record

    found = await store.find(run_id)
    entries = await store.read(found)
    return [(each.seq, each.at, decode_record(each.body, f"run {found}, record {each.seq}")) for each in entries]


@click.command("why", context_settings=HELP)
@click.argument("run_id", metavar="[RUN]", default="", required=False)
@click.option("--json", "as_json", is_flag=True, help="As JSON, with the chain of causes.")
def why_command(run_id: str, as_json: bool) -> None:
    """Tell why a run ended. RUN is its name or the beginning of it; by default the last one."""
    from ..journal.records import RunFinished
    from .texts import closing_lines

    entries = reading(lambda store: _read(store, run_id))
    run_id, finished = entries[0][2].run_id, entries[-1][2]
    if not isinstance(finished, RunFinished):
        text = "it has no end in the journal: it is under way, or its process was killed"
        click.echo(json.dumps({"run_id": run_id, "why": text}) if as_json else f"{run_id}: {text}")
        click.echo(f"  resume: heaveto resume {run_id}", err=as_json)
        return
    told = _look_back(entries)
    if as_json:
        data = {"run_id": run_id, "outcome": finished.outcome, "why": finished.why, "cause": finished.cause, **told}
        click.echo(json.dumps(data))
        return
    for line in (*closing_lines(finished, run_id), *_told_lines(told)):
        click.echo(line)


def _look_back(entries: Sequence[tuple[int, float, Any]]) -> dict[str, Any]:
    """When and where the run ended, whose limit passed, and the chain of causes."""
    from ..loop.looking_back import cause_chain, limit_owner, place_of_end

    _, at, finished = entries[-1]
    chain = cause_chain(finished.cause)
    answered = finished.outcome == "answered"
    return {
        "ended_at": at,
        "where": "" if answered else place_of_end(record for _, _, record in entries[:-1]),
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

    from ..journal import open_store
    from ..scopes import finish

    async def whole() -> T:
        store = open_store()
        try:
            return await read(store)
        finally:
            await finish(CLOSE_SECONDS, store.aclose)

    return anyio.run(whole)
