"""Bugs that the exploration must find: each a change of the product's tables and decisions, or of the order of the steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from model_check import facts_of
from model_moves import Moves
from model_world import Actor, Lease, Scenario, State, StoreRules, state_of

from heaveto.journal import MemoryStore
from heaveto.journal.records import ToolFinished
from heaveto.journal.state import CallEntry, RunState
from heaveto.journal.transitions import CallState, CallStep
from heaveto.loop.rungs import Decision, Known, Move, next_move

__all__ = ["BUGS", "TABLE_BUGS", "Bug", "changed_table"]


@dataclass(frozen=True)
class Bug:
    """What is wrong, where it shows, and a part of what the exploration says of it."""

    name: str
    scenario: Scenario
    moves: Callable[[Scenario], Moves]
    broken: str


# --- the order of the steps -----------------------------------------------------------------------------------------


class MarkerAfterEffect(Moves):
    def _mark(self, actor: Actor, run: RunState, marked: list[CallEntry]) -> Actor:
        return actor._replace(at="run", only_marked=())

    def _finished(self, actor: Actor, ending: Any) -> Actor:
        run = state_of(actor.view)
        marked = super()._mark(actor, run, [run.open_calls[actor.batch[0]]])
        return super()._finished(marked, ending)


class MarkerNotCommitted(Moves):
    def _mark(self, actor: Actor, run: RunState, marked: list[CallEntry]) -> Actor:
        return super()._mark(actor, run, marked)._replace(at="run")


class RungNotWritten(MarkerNotCommitted):
    """What a verdict allows is done before the verdict is on disk."""

    def _settled(self, actor: Actor, entry: CallEntry, decision: Decision) -> Actor:
        return super()._settled(actor, entry, decision)._replace(at="step")


class RunsAgainWhatWasSettled(Moves):
    def _mark(self, actor: Actor, run: RunState, marked: list[CallEntry]) -> Actor:
        self._again = marked
        return super()._mark(actor, run, marked)

    def _ran(self, state: State, who: int, actor: Actor) -> Iterator[tuple[str, State]]:
        for label, after in super()._ran(state, who, actor):
            yield label, after
            yield f"{label}, and it runs once more", self._changed(after, actor)


class WritesOnAfterAFault(Moves):
    def _after_fault(self, actor: Actor) -> Actor:
        return actor


class GoesOnAfterAFence(Moves):
    def _after_fence(self, actor: Actor) -> Actor:
        return actor._replace(at=actor.then, saved=len(actor.view))


class SaysThatWhatBegunNeverRan(Moves):
    def _not_run(self, run: RunState, actor: Actor, why: str) -> list[ToolFinished]:
        return super()._not_run(run, actor._replace(only_marked=tuple(run.open_calls)), why)


class SettlesNothing(Moves):
    def _next(self, run: RunState) -> str:
        return "answer" if run.asked() else "call" if run.answer is None else "done"


# --- the ladder -----------------------------------------------------------------------------------------------------


class TakesAWriteForRepeatable(Moves):
    def _decide(self, known: Known) -> Move:
        return next_move(replace(known, marked="idempotent", effect="idempotent"))


class RunsWhatHasLapsed(Moves):
    """A key's verdict holds for ever, also for a drive that comes when the key is forgotten."""

    def _has_lapsed(self, state: State, entry: CallEntry) -> bool:
        return False


class TakesAForgottenKey(RunsWhatHasLapsed):
    def _decide(self, known: Known) -> Move:
        return next_move(replace(known, key_lives=True))


class TakesUnknownForNotDone(Moves):
    def _decide(self, known: Known) -> Move:
        found = {look: replace(seen, verdict="not_done") if seen else seen for look, seen in known.found.items()}
        return next_move(replace(known, found=found))


class TellsTheModelUnasked(Moves):
    def _decide(self, known: Known) -> Move:
        return next_move(replace(known, tells_model=True))


class RunsAgainWhenNobodyKnows(Moves):
    def _decide(self, known: Known) -> Move:
        return next_move(known) or Decision("check", "again")


# --- the store ------------------------------------------------------------------------------------------------------


def in_store(**overrides: Callable[..., Any]) -> Callable[[Scenario], Moves]:
    """Moves in a store some of whose answers are others."""

    def made(scenario: Scenario) -> Moves:
        moves = Moves(scenario)
        for name, override in overrides.items():
            setattr(moves.store, name, override)
        return moves

    return made


RIGHT = StoreRules()


class NeverRenewed(MemoryStore):
    """An append does not count as a sign of life."""

    async def append(self, run_id: str, *rest: Any) -> int:
        updated = self._runs[run_id].updated
        last = await super().append(run_id, *rest)
        self._runs[run_id].updated = updated
        return last


def _append_unfenced(lease: Lease, epoch: int) -> Lease | None:
    return RIGHT.append(lease, lease.epoch)


def _take_any_time(lease: Lease, who: int) -> Lease | None:
    return RIGHT.take(lease._replace(owner=0), who)


def _take_the_same_epoch(lease: Lease, who: int) -> Lease | None:
    taken = RIGHT.take(lease, who)
    return None if taken is None else taken._replace(epoch=lease.epoch)


def _release_for_all(lease: Lease, epoch: int) -> Lease:
    return RIGHT.release(lease, lease.epoch)


def _hears_old_stops(lease: Lease, epoch: int) -> bool:
    return bool(lease.stop)


# --- the table ------------------------------------------------------------------------------------------------------


@contextmanager
def changed_table(table: dict[Any, Any], changes: dict[Any, Any]) -> Iterator[None]:
    """The product's own table, with other steps for as long as the block lasts; None takes one out."""
    before = dict(table)
    table.update(changes)
    for step in [step for step, after in table.items() if after is None]:
        del table[step]
    _forget()
    try:
        yield
    finally:
        table.clear()
        table.update(before)
        _forget()


def _forget() -> None:
    """What was remembered of another table's answers."""
    state_of.cache_clear()
    facts_of.cache_clear()


TABLE_BUGS: Sequence[tuple[Scenario, tuple[CallState, CallStep], CallState | None]] = [
    (Scenario(("shout",), unknowns=1), ("begun", "result"), "in_doubt"),
    (Scenario(("put",)), ("begun", "again"), None),
    (Scenario(("pay",)), ("begun", "done"), "asked"),
    (Scenario(("pay",), unknowns=1), ("in_doubt", "again"), "begun"),
    (Scenario(("look",), stops=1), ("asked", "no_result"), "settled"),
    (Scenario(("shout",)), ("asked", "marker"), "asked"),
]

LATE = Scenario(("pay",))
BUGS: Sequence[Bug] = (
    Bug("marker after effect", Scenario(("shout",)), MarkerAfterEffect, "took effect 2 times"),
    Bug("marker not committed before effect", Scenario(("shout",)), MarkerNotCommitted, "took effect 2 times"),
    Bug("rung acted on before it is written", Scenario(("put",)), RungNotWritten, "took effect 2 times"),
    Bug("a settled call runs once more", Scenario(("shout",)), RunsAgainWhatWasSettled, "took effect 2 times"),
    Bug("an append that failed is made again", Scenario(("look",), faults=1), WritesOnAfterAFault, "does not know"),
    Bug("a driver that is fenced off goes on", LATE, GoesOnAfterAFence, "took effect 2 times"),
    Bug(
        "what had begun is said not to have run", Scenario(("shout",), stops=1), SaysThatWhatBegunNeverRan, "not to have run"
    ),
    Bug(
        "the model is called before doubts are settled", Scenario(("shout",)), SettlesNothing, "where answers cannot follow"
    ),
    Bug("a write is taken for repeatable", Scenario(("shout",)), TakesAWriteForRepeatable, "was settled by: idempotent"),
    Bug("a key's verdict outlives the key", Scenario(("bill",)), RunsWhatHasLapsed, "no driver was late"),
    Bug("a forgotten key is sent again", Scenario(("bill",)), TakesAForgottenKey, "no driver was late"),
    Bug(
        "a look that cannot see is taken for nothing there", Scenario(("pay",)), TakesUnknownForNotDone, "no driver was late"
    ),
    Bug("the model is told unasked", Scenario(("shout",)), TellsTheModelUnasked, "was settled by: model"),
    Bug("run again when nobody knows", Scenario(("shout",)), RunsAgainWhenNobodyKnows, "was settled by: check"),
    Bug("epoch not checked", LATE, in_store(append=_append_unfenced), "another was let in since"),
    Bug("lease not looked at", LATE, in_store(take=_take_any_time), "while its driver's lease lasts"),
    Bug("lease not renewed", LATE, in_store(append=StoreRules(NeverRenewed).append), "while its driver's lease lasts"),
    Bug("epoch not raised", LATE, in_store(take=_take_the_same_epoch), "an epoch that there was before"),
    Bug(
        "a driver that lost the run gives it away", LATE, in_store(release=_release_for_all), "gives the run of another away"
    ),
    Bug(
        "a stop reaches the next driver", Scenario(("pay",), stops=1), in_store(is_asked=_hears_old_stops), "nobody asked it"
    ),
)
