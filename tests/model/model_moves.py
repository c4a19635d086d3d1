"""What may happen next in a state of the model: each actor's next step, its end by a kill, a fault of the store, time.

An actor takes the steps of the product's loop in its order: what is decided comes from the product (see `model_world`), what
is written and when it is committed is said here. A seeded bug overrides one of the methods.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias

from model_world import EXPIRED, OUT, TOOLS, Actor, Effects, Journal, Scenario, State, StoreRules, intern, state_of

from heaveto.causes import Cancelled
from heaveto.errors import OutcomeUnknown
from heaveto.journal.records import DriveStarted, Record, Replied, ToolFinished, ToolStarted
from heaveto.journal.state import CallEntry, RunState
from heaveto.loop.answering import in_batches, not_run
from heaveto.loop.outcome import conclude, describe
from heaveto.loop.rungs import Decision, Known, Look, Move, has_lapsed, known_of, next_move, resolved
from heaveto.loop.turn import next_step
from heaveto.messages import AssistantMessage, Ending, ToolCall
from heaveto.runs.opening import opening_records
from heaveto.runs.resolving import word_on
from heaveto.tools import Check, recovery_of

__all__ = ["Broken", "Moves", "Way"]

PERSON = 2
NAMES = ("driver A", "driver B", "the person")
BEFORE_IT_IS_FORGOTTEN, AFTERWARDS = 2.0, 100.0  # seconds since 1970; the markers are of second 1
Way: TypeAlias = tuple[str, State]


class Broken(Exception):
    """An invariant does not hold."""


class Moves:
    """The ways on from a state.

    Raises:
        Broken: One of them may not be.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.scenario, self.store = scenario, StoreRules()
        self._ids = tuple(f"{name}{number}" for number, name in enumerate(scenario.calls))

    def __call__(self, state: State) -> Iterator[Way]:
        for who, actor in enumerate(state.actors):
            if actor.at == "out":
                yield from self._come(state, who)
                continue
            if state.crashes:
                yield f"{NAMES[who]} is killed", _with(state, who, OUT, crashes=state.crashes - 1)
            yield from getattr(self, f"_{actor.at}")(state, who, actor)
        yield from self._around(state)

    def _around(self, state: State) -> Iterator[Way]:
        lease = state.lease
        if lease.owner and (state.since < EXPIRED or lease.quiet < EXPIRED):
            quiet, since = min(lease.quiet + 1, EXPIRED), min(state.since + 1, EXPIRED)
            yield "time passes", state._replace(lease=lease._replace(quiet=quiet), since=since)
        if lease.owner and state.stops and lease.stop != lease.epoch:
            asked = self.store.ask_stop(lease)
            yield (
                f"somebody asks the driver of epoch {lease.epoch} to stop",
                state._replace(lease=asked, stops=state.stops - 1, asked_stops=(*state.asked_stops, lease.epoch)),
            )
        if not state.forgotten and "bill" in self.scenario.calls and all(actor.at == "out" for actor in state.actors):
            yield "the other side forgets its keys", state._replace(forgotten=True)

    # --- coming and going -------------------------------------------------------------------------------------------

    def _come(self, state: State, who: int) -> Iterator[Way]:
        if state.lease.epoch >= self.scenario.epochs or not self._may_come(state, who):
            return
        lease = self.store.take(state.lease, who + 1)
        if lease is None:
            return
        if state.lease.owner and state.since < EXPIRED:
            raise Broken(f"{NAMES[who]} takes the run while its driver's lease lasts")
        if lease.epoch <= state.lease.epoch:
            raise Broken(f"{NAMES[who]} drives under an epoch that there was before")
        taken = state._replace(lease=lease, granted=who + 1, since=0, words=state.words - (who == PERSON))
        at = "word" if who == PERSON else "read"
        yield f"{NAMES[who]} takes the run, epoch {lease.epoch}", _with(taken, who, Actor(at, lease.epoch))
        if state.faults:
            yield f"{NAMES[who]} takes the run and is told that it failed", taken._replace(faults=state.faults - 1)

    def _may_come(self, state: State, who: int) -> bool:
        run = state_of(state.journal)
        waits = run.finished is not None and run.finished.outcome == "waiting" and run.drive == "ended"
        if who == PERSON:
            return bool(state.words and run.in_doubt())
        return run.finished is None or (run.finished.outcome != "answered" and not (waits and not _has_word(state.journal)))

    def _read(self, state: State, who: int, actor: Actor) -> Iterator[Way]:
        run = state_of(state.journal)
        if run.finished is not None and run.finished.outcome == "answered":
            yield f"{NAMES[who]} finds the answer", _with(state, who, actor._replace(at="release"))
            return
        records = opening_records(run, DriveStarted(epoch=actor.epoch, resumed=True), None, None)
        read = actor._replace(view=state.journal, saved=len(state.journal))
        yield f"{NAMES[who]} reads the journal", _with(state, who, _commit(_add(read, *records), "step"))

    def _word(self, state: State, who: int, actor: Actor) -> Iterator[Way]:
        read = actor._replace(view=state.journal, saved=len(state.journal))
        entries = state_of(state.journal).in_doubt()
        if not entries:
            yield "the person finds nothing to decide", _with(state, who, actor._replace(at="release"))
            return
        entry = entries[0]
        seen = "done" if self._effects(state, entry).standing else "again"
        for verdict in (seen, "told"):
            spoken = _commit(_add(read, word_on(entry, verdict, "", "ada")), "release")  # type: ignore[arg-type]
            yield f"the person says of {entry.call.id}: {verdict}", _with(state, who, spoken)

    def _release(self, state: State, who: int, actor: Actor) -> Iterator[Way]:
        lease = self.store.release(state.lease, actor.epoch)
        if state.lease.owner and not lease.owner and state.granted != who + 1:
            raise Broken(f"{NAMES[who]} gives the run of another away")
        yield f"{NAMES[who]} leaves", _with(state._replace(lease=lease), who, OUT)

    # --- writing ----------------------------------------------------------------------------------------------------

    def _commit(self, state: State, who: int, actor: Actor) -> Iterator[Way]:
        lease = self.store.append(state.lease, actor.epoch)
        if lease is None:
            yield f"{NAMES[who]} is fenced off", _with(state, who, self._after_fence(actor))
            return
        if (actor.epoch, who + 1) != (state.lease.epoch, state.granted):
            raise Broken(f"{NAMES[who]} writes under epoch {actor.epoch}, and another was let in since")
        if actor.view[: actor.saved] != state.journal:
            raise Broken(f"{NAMES[who]} writes after records that it does not know")
        written = state._replace(journal=state.journal + actor.view[actor.saved :], lease=lease, since=0)
        yield f"{NAMES[who]} writes", _with(written, who, actor._replace(at=actor.then, saved=len(actor.view)))
        if state.faults:
            failed = {"faults": state.faults - 1}
            after = self._after_fault(actor)
            yield f"{NAMES[who]} writes and is told that it failed", _with(written, who, after, **failed)
            yield f"{NAMES[who]} cannot write", _with(state, who, after, **failed)

    def _after_fence(self, actor: Actor) -> Actor:
        return actor._replace(at="release")

    def _after_fault(self, actor: Actor) -> Actor:
        """Nothing is written from now on, since nobody knows what is there."""
        return actor._replace(at="release")

    # --- the loop ---------------------------------------------------------------------------------------------------

    def _step(self, state: State, who: int, actor: Actor) -> Iterator[Way]:
        run = state_of(actor.view)
        if self.store.is_asked(state.lease, actor.epoch):
            yield f"{NAMES[who]} hears of the stop", _with(state, who, self._end(actor, Cancelled()))
        match self._next(run):
            case "done":
                yield f"{NAMES[who]} has the answer", _with(state, who, self._end(actor, None))
            case "call" if actor.saved < len(actor.view):
                yield f"{NAMES[who]} has results to write", _with(state, who, _commit(actor, "step"))
            case "call":
                yield f"{NAMES[who]} calls the model", _with(state, who, _add(actor, self._reply(run)))
            case "answer":
                yield self._begin(state, who, actor, run)
            case "settle":
                yield from self._settle(state, who, actor, run)

    def _next(self, run: RunState) -> str:
        return next_step(run)

    def _reply(self, run: RunState) -> Replied:
        calls = zip(self._ids, self.scenario.calls, strict=True)
        asked = tuple(ToolCall(call_id, name, '{"what": "x"}') for call_id, name in calls) if run.turns == 0 else ()
        message = AssistantMessage("" if asked else "done", asked)
        return Replied(turn=run.turns + 1, message=message, finish="tool_calls" if asked else "answer")

    def _begin(self, state: State, who: int, actor: Actor, run: RunState) -> Way:
        batch = in_batches(run.asked(), lambda name: not TOOLS[name].alone)[0]
        lapsed = [entry for entry in batch if self._has_lapsed(state, entry)]
        if lapsed:
            lost = [ToolFinished(call_id=each.call.id, name=each.call.name, ending="unknown", content="") for each in lapsed]
            return f"{NAMES[who]} does not run what may be forgotten", _with(state, who, _add(actor, *lost))
        ids = tuple(entry.call.id for entry in batch)
        marked = [entry for entry in batch if TOOLS[entry.call.name].effect != "read"]
        begun = actor._replace(batch=ids, only_marked=tuple(entry.call.id for entry in marked))
        return f"{NAMES[who]} will run {', '.join(ids)}", _with(state, who, self._mark(begun, run, marked))

    def _has_lapsed(self, state: State, entry: CallEntry) -> bool:
        return has_lapsed(entry, TOOLS[entry.call.name], _now(state))

    def _mark(self, actor: Actor, run: RunState, marked: list[CallEntry]) -> Actor:
        return _commit(_add(actor, *(_marker(run, entry) for entry in marked)), "run")

    def _run(self, state: State, who: int, actor: Actor) -> Iterator[Way]:
        """The calls of the batch have their markers on disk; the first is next."""
        call_id, name = actor.batch[0], NAMES[who]
        running = actor._replace(only_marked=tuple(each for each in actor.only_marked if each != call_id))
        if self.store.is_asked(state.lease, actor.epoch):
            yield f"{name} hears of the stop before {call_id} begins", _with(state, who, self._end(actor, Cancelled()))
            stopped = self._finished(running, "stopped")
            yield f"{name} hears of the stop while {call_id} begins", _with(state, who, self._end(stopped, Cancelled()))
        yield f"{name} runs {call_id}", _with(self._changed(state, actor), who, running._replace(at="ran"))
        if state.unknowns and TOOLS[_tool_of(call_id)].effect == "write":
            lost = self._finished(running, "unknown")
            yield f"{call_id} does nothing and cannot say so", _with(state, who, lost, unknowns=state.unknowns - 1)

    def _ran(self, state: State, who: int, actor: Actor) -> Iterator[Way]:
        """The first call of the batch has taken effect, and has no result yet."""
        call_id, name = actor.batch[0], NAMES[who]
        yield f"{call_id} has its result", _with(state, who, self._finished(actor, "ok"))
        if self.store.is_asked(state.lease, actor.epoch):
            stopped = self._finished(actor, "stopped")
            yield f"{name} hears of the stop while {call_id} ends", _with(state, who, self._end(stopped, Cancelled()))
        if state.unknowns and TOOLS[_tool_of(call_id)].effect == "write":
            lost = self._finished(actor, "unknown")
            yield f"{call_id} cannot say what it did", _with(state, who, lost, unknowns=state.unknowns - 1)

    def _finished(self, actor: Actor, ending: Ending) -> Actor:
        call_id, *rest = actor.batch
        ended = ToolFinished(call_id=call_id, name=_tool_of(call_id), ending=ending, content="")
        return _add(actor._replace(batch=tuple(rest), at="run" if rest else "step"), ended)

    def _end(self, actor: Actor, error: Exception | None) -> Actor:
        if isinstance(error, Cancelled):
            actor = _add(actor, *self._not_run(state_of(actor.view), actor, describe(error)))
        ended = _add(actor, conclude(state_of(actor.view), error, 0.0))
        return _commit(ended, "release")._replace(batch=(), only_marked=(), skipped=(), found=())

    def _not_run(self, run: RunState, actor: Actor, why: str) -> list[ToolFinished]:
        return not_run(run, set(actor.only_marked), why)

    # --- the ladder -------------------------------------------------------------------------------------------------

    def _settle(self, state: State, who: int, actor: Actor, run: RunState) -> Iterator[Way]:
        left = [entry for entry in run.in_doubt() if entry.call.id not in actor.skipped]
        if not left:
            waits = run.in_doubt()[0].call
            ended = self._end(actor, OutcomeUnknown(waits.name, waits.id, "nobody knows"))
            yield f"{NAMES[who]} waits for a person", _with(state, who, ended)
            return
        entry, name = left[0], NAMES[who]
        move = self._decide(self._known(state, actor, run, entry))
        if move is None:
            skipped = actor._replace(skipped=(*actor.skipped, entry.call.id), found=())
            yield f"no rung can tell of {entry.call.id}", _with(state, who, skipped)
        elif isinstance(move, Decision):
            settled = self._settled(actor._replace(found=()), entry, move)
            yield f"{name} settles {entry.call.id}: {move.verdict}, by {move.by}", _with(state, who, settled)
        else:
            yield from self._look(state, who, actor, entry, move)

    def _known(self, state: State, actor: Actor, run: RunState, entry: CallEntry) -> Known:
        tells_model = run.started.on_unknown == "tell_model"
        known = known_of(entry, TOOLS[entry.call.name], now=_now(state), tells_model=tells_model)
        return replace(known, found=dict(actor.found))

    def _decide(self, known: Known) -> Move:
        return next_move(known)

    def _settled(self, actor: Actor, entry: CallEntry, decision: Decision) -> Actor:
        return _commit(_add(actor, resolved(entry, decision, "nobody knows")), "step")

    def _look(self, state: State, who: int, actor: Actor, entry: CallEntry, look: Look) -> Iterator[Way]:
        """What a look tells: the truth, or nothing where it goes wrong."""
        at, effects = self._ids.index(entry.call.id), self._effects(state, entry)
        if look == "undo":
            state = state._replace(effects=_set(state.effects, at, effects._replace(undone=effects.made)))
        can_tell = look == "undo" or entry.call.name == "pay"
        verdict = "done" if effects.standing and look != "undo" else "not_done"
        found = Check(verdict) if can_tell else None  # type: ignore[arg-type]
        seen = "nothing" if found is None else found.verdict
        looked = actor._replace(found=(*actor.found, (look, found)))
        yield f"{NAMES[who]} looks ({look}): {seen}", _with(state, who, looked)
        if can_tell and look == "check":
            locked = actor._replace(found=(*actor.found, (look, Check("unknown"))))
            yield f"{NAMES[who]} looks ({look}) and cannot see", _with(state, who, locked)

    # --- the world --------------------------------------------------------------------------------------------------

    def _effects(self, state: State, entry: CallEntry) -> Effects:
        return state.effects[self._ids.index(entry.call.id)]

    def _changed(self, state: State, actor: Actor) -> State:
        """The world once the first call of the batch has taken effect. What has a key happens once for each."""
        call_id = actor.batch[0]
        tool, at = TOOLS[_tool_of(call_id)], self._ids.index(call_id)
        effects = state.effects[at]
        entry = state_of(actor.view).open_calls.get(call_id)
        key = entry.started.key if entry is not None and entry.started is not None else ""
        is_known = (
            recovery_of(tool).key_seconds
            and effects.made
            and effects.key == key
            and not self._is_forgotten(state, tool.name)
        )
        if tool.effect == "read" or is_known:
            return state
        late = effects.late or actor.epoch != state.lease.epoch
        if not late and self._has_answer(state, call_id):
            raise Broken(f"{call_id} is settled, and runs again")
        return state._replace(effects=_set(state.effects, at, Effects(min(effects.made + 1, 4), effects.undone, late, key)))

    def _is_forgotten(self, state: State, tool: str) -> bool:
        return state.forgotten and tool == "bill"

    def _has_answer(self, state: State, call_id: str) -> bool:
        run = state_of(state.journal)
        entry = run.open_calls.get(call_id)
        return run.turns > 0 and (entry is None or entry.state == "settled")


def _now(state: State) -> float:
    return AFTERWARDS if state.forgotten else BEFORE_IT_IS_FORGOTTEN


def _tool_of(call_id: str) -> str:
    return call_id.rstrip("0123456789")


def _has_word(journal: Journal) -> bool:
    """Whether a person has said something since the last drive ended: that its end was not the last record."""
    return state_of(journal[:-1]).drive == "ended"


def _marker(run: RunState, entry: CallEntry) -> ToolStarted:
    call, tool = entry.call, TOOLS[entry.call.name]
    if tool.effect == "read":
        raise AssertionError("a call that only reads carries no marker")
    at = 1.0 if tool.name == "bill" else 0.0
    return ToolStarted(call_id=call.id, name=call.name, effect=tool.effect, key=run.idempotency_key(call), at=at)


def _add(actor: Actor, *records: Record) -> Actor:
    return actor._replace(view=actor.view + intern(*records))


def _commit(actor: Actor, then: str) -> Actor:
    """Have what is not written yet written before what follows."""
    return actor._replace(at=then if actor.saved == len(actor.view) else "commit", then=then)  # type: ignore[arg-type]


def _with(state: State, who: int, actor: Actor, **changes: int) -> State:
    return state._replace(actors=_set(state.actors, who, actor), **changes)


def _set(items: tuple, at: int, item: object) -> tuple:  # type: ignore[type-arg]
    return (*items[:at], item, *items[at + 1 :])
