"""Replaying a journal without a model and without tools: what the code decides and counts, held against what was written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..errors import JournalDamaged
from ..journal.records import DriveStarted, LimitNear, Record, Replied, RunFinished, RunStarted, ToolResolved, ToolStarted
from ..journal.state import RunState
from ..loop.turn import next_step

__all__ = ["replay"]


def replay(records: Sequence[Record]) -> list[str]:
    """How a run's records differ from what this version's code makes of them; nothing when they do not.

    Each record must be one that the loop could have written in the state that those before it come to; keys, spend, turns,
    the answer and the calls in doubt are computed anew.
    """
    if not records or not isinstance(records[0], RunStarted):
        return ["record 1: a run begins with run.started"]
    state, differences = RunState.begin(records[0]), list[str]()
    for seq, record in enumerate(records[1:], 2):
        differences += [f"record {seq}: {each}" for each in _before(state, record)]
        try:
            state.apply(record)
        except JournalDamaged as error:
            return [*differences, f"record {seq}: {error.problem}"]
        if isinstance(record, RunFinished):
            differences += [f"record {seq}: {each}" for each in _at_the_end(state, record)]
    return differences


def _before(state: RunState, record: Record) -> Iterator[str]:
    match record:
        case Replied() if next_step(state) != "call":
            yield f"a reply, where the loop would {next_step(state)}"
        case Replied(turn=turn) if turn != state.turns + 1:
            yield f"turn {turn}, after turn {state.turns}"
        case DriveStarted(epoch=epoch) if epoch <= state.epoch:
            yield f"epoch {epoch}, after epoch {state.epoch}"
        case LimitNear(setting=setting, percent=percent) if any(_is_again(record, each) for each in state.warned):
            yield f"a warning at {percent} % of {setting}, which there was before"
        case ToolStarted(call_id=call_id, key=key):
            entry = state.open_calls.get(call_id)
            if entry is not None and (computed := state.idempotency_key(entry.call)) != key:
                yield f"call {call_id} has the key {key}, and the code makes {computed}"
        case ToolResolved(call_id=call_id) if call_id not in {entry.call.id for entry in state.in_doubt()}:
            yield f"a verdict about call {call_id}, which is not in doubt"
        case _:
            pass


def _is_again(warning: LimitNear, earlier: LimitNear) -> bool:
    same = (warning.limit, warning.of, warning.setting) == (earlier.limit, earlier.of, earlier.setting)
    return same and warning.percent <= earlier.percent


def _at_the_end(state: RunState, record: RunFinished) -> Iterator[str]:
    unresolved = tuple(f"{entry.call.name} ({entry.call.id})" for entry in state.in_doubt() if entry.may_have_changed)
    for what, written, computed in (
        ("spend", record.spend, state.spend),
        ("its parts", record.spend_by or state.spend_by, state.spend_by),  # records of earlier versions have none
        ("turns", record.turns, state.turns),
        ("unresolved calls", record.unresolved, unresolved),
        ("what was left to itself", record.abandoned, tuple(state.abandoned)),
        ("the answer", record.text, (state.answer or "") if record.outcome == "answered" else ""),
    ):
        if written != computed:
            yield f"{what}: {written!r} was written, and the code makes {computed!r}"
