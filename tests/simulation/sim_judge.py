"""Whether a simulated run came to what the reference says, and kept the rules that hold at every moment."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from sim_life import simulate
from sim_reference import Happened, Otherwise, Reference, Token
from sim_scenario import TOOLS, Scenario
from sim_world import RUN, Lived, World

from heaveto.errors import Fenced
from heaveto.journal.seals import decode_entries
from heaveto.journal.state import fold
from heaveto.runs import replay

__all__ = ["problems_of", "wrong_with"]

MOMENT = 1.5  # until what does not heed a stop is left
GRACE = 7.0
SLOW = 8.0


def problems_of(scenario: Scenario) -> list[str]:
    """What is wrong with the run of a scenario; an error that comes out of it is one."""
    try:
        return wrong_with(simulate(scenario))
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]


def wrong_with(world: World) -> list[str]:
    reference = Reference(world.scenario)
    try:
        for life in world.lives:
            tokens = [
                Token(event.what, event.about, None if event.what == "asked" else event.data)
                for event in world.of_life(life.number)
            ]
            reference.live(Happened(life.plan, tokens))
    except Otherwise as error:
        return [f"drive {len(reference.ends) + 1}: {error}"]
    return [*_as_the_reference(world, reference), *_rules(world), *_its_end(world, reference)]


def _as_the_reference(world: World, reference: Reference) -> Iterator[str]:
    shown = [event.data for event in world.log if event.what == "asked"]
    for number, (found, wanted) in enumerate(zip(shown, reference.shown, strict=True), 1):
        if len(found) != len(wanted) or not all(map(_is_as, found, wanted)):
            odd = next((pair for pair in zip(found, wanted, strict=False) if not _is_as(*pair)), (len(found), len(wanted)))
            yield f"model call {number} was shown {odd[0]}, not {odd[1]}"
            break
    if _settled(world.done) != _settled(reference.done):
        yield f"done was {dict(world.done)}, not {dict(reference.done)}"
    for life, end in zip(world.lives, reference.ends, strict=True):
        if life.dead or life.paused or life.plan.fault in ("after", "late"):  # then what it was told is not what was written
            continue
        if end is not None and (life.outcome is None or life.outcome.kind != end):
            yield f"drive {life.number + 1} ended {life.outcome and life.outcome.kind}, not {end}: {life.error}"
        if life.outcome is not None and end == life.outcome.kind == "answered" and life.outcome.text[:5] != "turn ":
            yield f"drive {life.number + 1} has the answer {life.outcome.text!r}"


def _is_as(found: tuple[Any, ...], wanted: tuple[Any, ...]) -> bool:
    """Whether a message is the wanted one, whose text may be known only as far as "…"."""
    if wanted[-1] and isinstance(wanted[-1], str) and wanted[-1].endswith("…"):
        return found[:-1] == wanted[:-1] and found[-1].startswith(wanted[-1][:-1])
    return found == wanted


def _settled(done: dict[tuple[str, str, str], int]) -> dict[tuple[str, str, str], int]:
    """How often each thing was done; what is the same once or twice, whether."""
    return {each: 1 if TOOLS[each[0]].effect == "idempotent" else times for each, times in done.items() if times > 0}


def _its_end(world: World, reference: Reference) -> Iterator[str]:
    entries = world.store._runs[RUN].entries
    records = list(decode_entries(RUN, entries))
    state, spend = fold(records), fold(records).spend
    if (state.answer is None) or state.open_calls or not state.finished or state.finished.outcome != "answered":
        yield f"the run's last state is {state.finished}"
    if state.turns != reference.turns:
        yield f"{state.turns} turns, not {reference.turns}"
    wanted = reference.calls, reference.cost, reference.unpriced
    if (spend.calls, spend.cost_usd, spend.unpriced_calls) != wanted:
        yield f"spent {(spend.calls, spend.cost_usd, spend.unpriced_calls)}, not {wanted}"
    if state.spend_by and sum((part.cost_usd for part in state.spend_by.values()), Decimal(0)) != spend.cost_usd:
        yield f"the parts of the spend are {state.spend_by}"
    messages = [each for each in reference.conversation if each[0] != "assistant"]
    if len(list(state.transcript)) - sum(each[0] == "assistant" for each in reference.conversation) != len(messages):
        yield f"the conversation is {list(state.transcript)}"
    yield from (f"replay: {each}" for each in replay(records))


# --- at every moment ----------------------------------------------------------------------------------------------------


def _rules(world: World) -> Iterator[str]:
    yield from _safe_before_it_is_shown(world)
    for event in world.log:
        if event.what in ("robbed", "resumed", "changed"):
            yield f"somebody who may not: {event}"
    for life in world.lives:
        yield from _stops(world, life)
        error = life.outcome.error if life.outcome else life.error
        if life.paused and not life.plan.fault and not isinstance(error, Fenced):
            yield f"drive {life.number + 1} was paused, lost the run and ended: {error}"


def _safe_before_it_is_shown(world: World) -> Iterator[str]:
    """The answers that a model call is shown are in the journal by then; a person's words are, or it would not run."""
    safe = set[str]()
    for event in world.log:
        if event.what in ("kept", "resolved"):
            safe.add(event.about)
        elif event.what == "asked":
            told = {each[1] for each in event.data if each[0] == "tool" and "a person" not in each[3]}
            if not told <= safe:
                yield f"the model was shown {told - safe}, which is not written down"


def _stops(world: World, life: Lived) -> Iterator[str]:
    """After a stop nothing begins, and the drive ends soon."""
    if life.stopped_at is None or life.dead or life.paused:
        return
    at = life.stopped_at - life.began + (1.0 if life.plan.stop == "elsewhere" else 0.0)
    begins = (
        ("asked", "began") if life.plan.fault == "slow" else ("asked", "began", "marked")
    )  # a write under way is finished
    begun = [each for each in world.of_life(life.number) if each.at > at and each.what in begins]
    if begun:
        yield f"drive {life.number + 1} was stopped at {at}, and then: {begun[0]}"
    soon = MOMENT + (GRACE if life.plan.stop == "shutdown" else 1.0 if life.plan.stop == "again" else 0.0)
    soon += SLOW * (life.plan.fault == "slow")
    if life.ended_at - life.began > at + soon:
        yield f"drive {life.number + 1} was stopped at {at}, and ended at {life.ended_at - life.began}"
