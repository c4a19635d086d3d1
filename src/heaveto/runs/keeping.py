"""Keeping runs: delete and prune, export and import, fork, and looking for damage."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Annotated

import msgspec

from ..errors import ConfigError, JournalDamaged, JournalError, RunNotFound, RunTaken
from ..journal import RunRow, Store
from ..journal.records import (
    CallSpent,
    DriveStarted,
    LimitNear,
    Record,
    Replied,
    Retried,
    RunFinished,
    RunStarted,
    ToolStarted,
    UndoFinished,
    UndoStarted,
    encode_record,
    unseal,
)
from ..journal.seals import decode_entries, seal
from ..journal.state import RunState, fold
from ..journal.store import Entry
from ..loop.log import summarize
from ..messages import Usage
from ..scopes import finish
from .hold import RELEASE_SECONDS, Hold, take
from .names import check_run_id

__all__ = ["delete_run", "export_runs", "fork_run", "import_runs", "prune_runs", "select_rows", "verify_run"]

EVERY_RUN = 1_000_000_000
FREE = Usage(cost_usd=Decimal(0))


MOST_EPOCHS, MOST_USD = 2**53, 10**12
YEAR_10000 = 253_402_300_800  # in seconds since 1970; no calendar of Python's goes on from there


class _Line(msgspec.Struct, frozen=True):
    """A line of an export: one record of a run, byte for byte."""

    run_id: str
    seq: int
    at: Annotated[float, msgspec.Meta(ge=0, lt=YEAR_10000)]
    record: msgspec.Raw
    seal: str = ""


def select_rows(
    rows: Iterable[RunRow],
    *,
    states: Sequence[str] = (),
    cause: str = "",
    since: float | None = None,
    until: float | None = None,
    least_usd: Decimal = Decimal(0),
) -> list[RunRow]:
    """The rows that fit all that is given.

    Args:
        states: Kinds of outcome, or "running".
        cause: The code of a cause or an error, such as "cancelled".
        since: Last touched then or later, in seconds since 1970.
        until: Last touched then or before.
        least_usd: Known dollars spent.
    """
    return [
        row
        for row in rows
        if (not states or row.summary.phase in states)
        and (not cause or row.summary.cause == cause)
        and (since is None or row.updated >= since)
        and (until is None or row.updated <= until)
        and row.summary.cost_usd >= least_usd
    ]


async def delete_run(store: Store, run_id: str) -> str:
    """Forget a run that nobody drives; returns its whole name.

    Raises:
        RunNotFound, RunTaken: Nothing was deleted.
    """
    run_id = await store.find(run_id)
    await _forget(store, await take(store, run_id))
    return run_id


async def _forget(store: Store, hold: Hold) -> None:
    try:
        await store.delete(hold.run_id, hold.epoch)
    except BaseException:
        await finish(RELEASE_SECONDS, hold.release)
        raise


async def prune_runs(store: Store, until: float, *, waiting_too: bool = False) -> list[str]:
    """Forget the runs that were last touched before a time; those that are driven stay, and those that wait for a person.

    Args:
        until: In seconds since 1970.
    """
    rows = select_rows(await store.runs(EVERY_RUN), until=until)
    return [row.run_id for row in rows if (waiting_too or row.summary.phase != "waiting") and await _prune(store, row)]


async def _prune(store: Store, row: RunRow) -> bool:
    """Whether the run is forgotten: not when somebody has it, had it since it was listed, or deleted it first."""
    try:
        hold = await take(store, row.run_id)
    except (RunTaken, RunNotFound):
        return False
    if hold.epoch != row.epoch + 1:
        await finish(RELEASE_SECONDS, hold.release)
        return False
    await _forget(store, hold)
    return True


async def verify_run(store: Store, row: RunRow) -> int:
    """Check every record of a run; returns how many there are.

    Args:
        row: As the store lists it.

    Raises:
        JournalNewer, JournalDamaged: With the first record that is wrong; those before it are usable.
    """
    run_id, entries = row.run_id, await store.read(row.run_id)
    records = list(decode_entries(run_id, entries))
    if row.entries > len(entries):
        raise JournalDamaged(f"run {run_id}, record {len(entries) + 1}", f"it is missing, and {row.entries} were written")
    fold(records)
    return len(records)


async def export_runs(store: Store, run_ids: Sequence[str]) -> AsyncIterator[str]:
    """The runs as lines of JSON, one a record, from which `import_runs` makes the same journal elsewhere.

    Raises:
        RunNotFound: There is no such run.
        JournalNewer, JournalDamaged: A run could not be imported anywhere, with the first record that is wrong; no line of
            it comes.
    """
    for run_id in run_ids:
        entries = await store.read(run_id)
        fold(decode_entries(run_id, entries))
        for entry in entries:
            body, sealed = unseal(entry.body)
            yield msgspec.json.encode(_Line(run_id, entry.seq, entry.at, msgspec.Raw(body), sealed.decode())).decode()


async def import_runs(store: Store, lines: Iterable[str]) -> list[str]:
    """Keep exported runs in this store; returns their names. All are checked before any is written.

    Those that are there already, record for record, are passed over, so an import that was cut off can be made again.

    Raises:
        ConfigError: A line is not one of an export, or a run has what heaveto never writes.
        JournalDamaged: A record was changed or is missing.
        JournalError: There is another run of that name already.
    """
    exported = _by_run(lines)
    runs = {run_id: list(decode_entries(run_id, entries)) for run_id, entries in exported.items()}
    states = {run_id: fold(records) for run_id, records in runs.items()}
    for run_id, state in states.items():
        _check_written(run_id, state, runs[run_id])
    there = {row.run_id for row in await store.runs(EVERY_RUN)} & set(states)
    for run_id in sorted(there):
        if [each.body for each in await store.read(run_id)] != [each.body for each in exported[run_id]]:
            raise JournalError(f"there is a run {run_id} already; delete it first")
    new = [run_id for run_id in states if run_id not in there]
    for run_id in new:
        await store.restore(run_id, max(1, states[run_id].epoch), exported[run_id], summarize(states[run_id]))
    return new


def _check_written(run_id: str, state: RunState, records: Iterable[Record]) -> None:
    """Refuse what is whole and was never written by a run: other code goes by what a run can write.

    Raises:
        ConfigError: With what it is.
    """
    check_run_id(run_id)
    if state.run_id != run_id:
        problem = f"its first record is of run {state.run_id!a}"
    elif not 0 <= state.epoch <= MOST_EPOCHS:
        problem = f"it has {state.epoch} drives"
    elif not (state.spend.cost_usd.is_finite() and 0 <= state.spend.cost_usd <= MOST_USD):
        problem = "it has cost what nothing can cost"
    elif any("\0" in (getattr(record, "folder", None) or "") for record in records):
        problem = "its folder cannot be one"
    else:
        return
    raise ConfigError(f"run {run_id} cannot be kept: {problem}", "give it what heaveto export wrote")


def _by_run(lines: Iterable[str]) -> dict[str, list[Entry]]:
    runs: dict[str, list[Entry]] = {}
    for number, text in enumerate(lines, 1):
        try:
            line = msgspec.json.decode(text, type=_Line)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
            raise ConfigError(f"line {number} is none of an export: {error}", "give it what heaveto export wrote") from error
        body = bytes(line.record) + (b"\n" + line.seal.encode() if line.seal else b"")
        runs.setdefault(line.run_id, []).append(Entry(line.seq, line.at, body))
    return runs


async def fork_run(store: Store, run_id: str, turn: int, new_id: str) -> str:
    """Begin another run that goes on from a turn of this one; returns the new one's name. What was spent so far is not its.

    Args:
        turn: The last that it has, with all answers; 0 for the task alone.

    Raises:
        RunNotFound, JournalNewer, JournalDamaged: The run cannot be read that far.
        ConfigError: It has no such turn, or a call of that turn has no answer yet; or the new name is none.
    """
    check_run_id(new_id)
    run_id = await store.find(run_id)
    records = _until_turn(run_id, await store.read(run_id), turn, new_id)
    state = fold(records)
    finished = RunFinished(
        outcome="stopped",
        why=f"forked from {run_id} after turn {turn}",
        spend=state.spend,
        turns=state.turns,
        resumable=True,
    )
    state.apply(finished)
    bodies = seal([encode_record(record) for record in (*records, finished)], b"")
    await store.create(new_id, "", bodies, summarize(state))
    return new_id


def _until_turn(run_id: str, entries: Iterable[Entry], turn: int, new_id: str) -> list[Record]:
    copied = _copied(decode_entries(run_id, entries), new_id, f"{run_id} turn {turn}")
    records: list[Record] = [next(copied)]
    state = fold(records)
    while not (state.turns == turn and not state.open_calls):
        record = next(copied, None)
        if record is None or (isinstance(record, Replied) and record.turn > turn):
            raise _not_there(run_id, turn, state)
        if isinstance(record, ToolStarted) and (entry := state.open_calls.get(record.call_id)):
            record = msgspec.structs.replace(record, key=state.idempotency_key(entry.call))
        records.append(record)
        state.apply(record)
    return records


def _not_there(run_id: str, turn: int, state: RunState) -> ConfigError:
    if state.turns < turn:
        return ConfigError(f"run {run_id} has no turn {turn}", f"name one from 0 to {state.turns}")
    return ConfigError(
        f"turn {turn} of run {run_id} has calls without an answer", "resume or resolve it first, or fork an earlier turn"
    )


def _copied(records: Iterator[Record], new_id: str, source: str) -> Iterator[Record]:
    """The records of the conversation, without what one drive or another spent on it."""
    for record in records:
        match record:
            case RunStarted():
                yield msgspec.structs.replace(record, run_id=new_id, forked_from=source)
            case Replied():
                yield msgspec.structs.replace(record, usage=FREE)
            case DriveStarted() | RunFinished() | CallSpent() | Retried() | LimitNear() | UndoStarted() | UndoFinished():
                pass
            case _:
                yield record
