"""A person's word on a call in doubt: the rung of the ladder that waits."""

from __future__ import annotations

from typing import Literal

from ..errors import ConfigError
from ..journal import Store
from ..journal.records import ToolResolved
from ..journal.state import CallEntry, RunState
from .opening import write_word

__all__ = ["resolve_call", "word_on"]


async def resolve_call(
    store: Store, run_id: str, call_id: str, verdict: Literal["done", "again", "told"], evidence: str = "", who: str = ""
) -> str:
    """Settle a call of a run that nobody drives; returns the run's whole name.

    Args:
        run_id: The run's name, or the beginning of it.
        verdict: It took effect, it did not and is to be run again, or nobody can tell and the model is told so.
        evidence: What the person saw; for "done" it is the result that the model reads.
        who: The person.

    Raises:
        RunNotFound, RunTaken: It cannot be taken up.
        ConfigError: There is no such call in doubt.
    """
    return await write_word(store, run_id, lambda state: word_on(_in_doubt(state, call_id), verdict, evidence, who))


def _in_doubt(state: RunState, call_id: str) -> CallEntry:
    entries = {entry.call.id: entry for entry in state.in_doubt()}
    if call_id not in entries:
        known = ", ".join(f"{entry.call.id} ({entry.call.name})" for entry in entries.values())
        raise ConfigError(
            f"run {state.run_id} has no call {call_id} in doubt",
            f"in doubt: {known}" if known else "none of its calls is",
        )
    return entries[call_id]


def word_on(entry: CallEntry, verdict: Literal["done", "again", "told"], evidence: str, who: str) -> ToolResolved:
    """A person's verdict as it is written down."""
    call = entry.call
    if verdict == "told":
        content = (
            f"outcome unknown: {entry.why_in_doubt or 'the process ended while it ran'}; a person could not tell either"
        )
        content = f"{content}: {evidence}" if evidence else content
    else:
        content = f"a person looked: it took effect{': ' + evidence if evidence else ''}" if verdict == "done" else ""
    return ToolResolved(
        call_id=call.id,
        name=call.name,
        verdict=verdict,
        by="person",
        content=content,
        ending="unknown" if verdict == "told" else "ok",
        evidence=evidence,
        who=who,
    )
