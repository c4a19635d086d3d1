"""`heaveto runs`, `heaveto show` and `heaveto why`: reading the journal."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
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
    from ..runs import read_state
    from .texts import closing_lines, printable

    async def read(store: Any) -> Any:
        return await read_state(store, await store.find(run_id))

    state = reading(read)
    finished = state.finished
    if finished is None:
        text = "it has no end in the journal: it is under way, or its process was killed"
        click.echo(json.dumps({"run_id": state.run_id, "why": text}) if as_json else f"{state.run_id}: {text}")
        click.echo(f"  resume: heaveto resume {state.run_id}", err=as_json)
        return
    if as_json:
        data = {"run_id": state.run_id, "outcome": finished.outcome, "why": finished.why, "cause": finished.cause}
        click.echo(json.dumps(data))
        return
    for line in closing_lines(finished, state.run_id):
        click.echo(line)
    for depth, cause in enumerate(_chain(finished.cause), 1):
        click.echo(printable(f"{'  ' * depth}because: {cause['text']} [{cause['code']}]"))


def _chain(cause: dict[str, Any] | None) -> list[dict[str, Any]]:
    chain: list[dict[str, Any]] = []
    inner = cause and cause.get("cause")
    while inner:
        if inner["text"] not in [each["text"] for each in chain]:
            chain.append(inner)
        inner = inner.get("cause")
    return chain


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
