"""The exploration of the model, state by state, and what must hold in each of them."""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from model_moves import Broken, Moves
from model_world import TOOLS, Effects, Journal, Scenario, State, beginning, record_of, state_of

from heaveto.errors import JournalDamaged
from heaveto.journal.records import RunFinished, ToolFinished, ToolResolved
from heaveto.journal.state import RunState
from heaveto.journal.transitions import SETTLED
from heaveto.messages import ToolMessage

__all__ = ["Explored", "explore", "facts_of", "steps"]

MOST_STATES = 2_000_000

# The rungs that may settle a call of each tool, besides a person and, where the user wants that, the model.
RUNGS = {
    "look": {"read"},
    "put": {"idempotent"},
    "shout": set[str](),
    "pay": {"check"},
    "charge": {"key"},
    "bill": {"key"},
    "book": {"undo"},
}


@dataclass
class Explored:
    """What became of an exploration.

    Attributes:
        journals: All that there were.
        cut: How many states at whose end no process may take the run up any more, since there were as many as the model has.
        broken: The invariant that did not hold, and the shortest way there.
    """

    scenario: Scenario
    states: int = 0
    journals: set[Journal] = field(default_factory=set)
    cut: int = 0
    broken: str = ""
    trace: Sequence[str] = field(default_factory=list)


def explore(scenario: Scenario, moves: Callable[[Scenario], Moves] = Moves) -> Explored:
    """Every state that can be reached, the nearest first."""
    ways, first = moves(scenario), beginning(scenario)
    numbers, states = {first: 0}, [first]
    came_from, labels = array("q", [-1]), [""]
    edges_from, edges_to = array("I"), array("I")
    open_states, found = deque([0]), Explored(scenario)
    while open_states:
        number = open_states.popleft()
        state = states[number]
        try:
            _must_hold(scenario, state)
            for label, after in ways(state):
                _must_stay(state, after)
                known = numbers.setdefault(after, len(states))
                if known == len(states):
                    states.append(after)
                    came_from.append(number)
                    labels.append(label)
                    open_states.append(known)
                edges_from.append(number)
                edges_to.append(known)
        except (Broken, JournalDamaged) as error:
            found.broken, found.trace = str(error), [*_trace(came_from, labels, number)]
            found.states = len(states)
            return found
        if len(states) > MOST_STATES:
            raise AssertionError(f"{scenario} has more than {MOST_STATES:,} states")
    found.states, found.journals = len(states), {state.journal for state in states}
    _no_dead_end(found, states, edges_from, edges_to, came_from, labels)
    return found


def _trace(came_from: Sequence[int], labels: Sequence[str], number: int) -> list[str]:
    steps = []
    while number:
        steps.append(labels[number])
        number = came_from[number]
    return steps[::-1]


# --- in each state --------------------------------------------------------------------------------------------------


def _must_hold(scenario: Scenario, state: State) -> None:
    facts = facts_of(state.journal)
    if facts.wrong:
        raise Broken(facts.wrong)
    for number, (name, effects) in enumerate(zip(scenario.calls, state.effects, strict=True)):
        call_id = f"{name}{number}"
        if problem := _wrong_with(call_id, name, effects, facts, scenario, forgotten=state.forgotten):
            raise Broken(problem)
    for epoch in facts.stopped_epochs:
        if epoch not in state.asked_stops:
            raise Broken(f"the driver of epoch {epoch} was stopped, and nobody asked it")


def _wrong_with(call_id: str, name: str, effects: Effects, facts: Facts, scenario: Scenario, *, forgotten: bool) -> str:
    allowed = 1 + facts.again[call_id]
    if effects.made > allowed:
        return f"{call_id} took effect {effects.made} times, and verdicts allow {allowed}"
    if TOOLS[name].effect == "write" and not effects.late and effects.standing > 1:
        return f"{call_id} took effect {effects.standing} times, and no driver was late"
    for by, verdict in facts.verdicts[call_id]:
        if by not in RUNGS[name] | {"person"} | ({"model"} if scenario.tells_model else set()):
            return f"{call_id} was settled by: {by}"
        if verdict == "told" and by != "person" and not scenario.tells_model:
            return f"the model was told of {call_id}, and a person wanted to be asked"
    answer = facts.answers.get(call_id)
    if answer is not None and not effects.late and TOOLS[name].effect != "read":
        if answer.ending == "ok" and not effects.made:
            return f"{call_id} has a result, and nothing happened"
        if answer.ending == "not_run" and effects.standing:
            return f"{call_id} is said not to have run, and it took effect"
    return ""


@dataclass
class Facts:
    """What a journal says."""

    wrong: str = ""
    again: Counter[str] = field(default_factory=Counter)
    verdicts: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    answers: dict[str, ToolMessage] = field(default_factory=dict)
    stopped_epochs: set[int] = field(default_factory=set)


@cache
def facts_of(journal: Journal) -> Facts:
    run = state_of(journal)
    facts = Facts(answers=_answers(run))
    facts.verdicts = {f"{name}{number}": [] for name in TOOLS for number in range(2)}
    epoch, has_result = 0, set[str]()
    for number in journal:
        record = record_of(number)
        epoch = getattr(record, "epoch", epoch)
        if isinstance(record, ToolResolved):
            facts.again[record.call_id] += record.verdict == "again"
            facts.verdicts[record.call_id].append((record.by, record.verdict))
        if isinstance(record, ToolFinished) and record.ending == "ok":
            has_result.add(record.call_id)
        if isinstance(record, RunFinished) and record.outcome == "stopped":
            facts.stopped_epochs.add(epoch)
    facts.wrong = _wrong_end(run) or _wrong_answers(facts.answers, has_result)
    return facts


def _wrong_answers(answers: Mapping[str, ToolMessage], has_result: Collection[str]) -> str:
    for call_id in has_result:
        if call_id not in answers:
            return f"{call_id} has its result, and is not settled"
    for call_id, answer in answers.items():
        if answer.ending not in SETTLED | {"unknown"}:
            return f"{call_id} is settled, and ended {answer.ending}"
    return ""


def _answers(run: RunState) -> dict[str, ToolMessage]:
    settled = [entry.answer for entry in run.open_calls.values() if entry.state == "settled" and entry.answer]
    return {each.call_id: each for each in (*run.transcript, *settled) if isinstance(each, ToolMessage)}


def _wrong_end(run: RunState) -> str:
    ended = run.finished
    if ended is None or run.drive != "ended":
        return ""
    if ended.outcome == "answered" and (run.open_calls or run.answer is None):
        return "the run is answered, and not all of its calls are"
    if ended.outcome == "waiting" and not ended.unresolved:
        return "the run waits, and nobody knows for what"
    if ended.outcome not in ("answered", "waiting", "stopped"):
        return f"the run ended {ended.outcome}: {ended.why}"
    return ""


# --- from one to the next -------------------------------------------------------------------------------------------


def _must_stay(before: State, after: State) -> None:
    """What is written stays, and so does each answer."""
    if before.journal is after.journal or before.journal == after.journal:
        return
    if after.journal[: len(before.journal)] != before.journal:
        raise Broken("what was written is not there any more")
    answers = _answers(state_of(after.journal))
    for call_id, answer in _answers(state_of(before.journal)).items():
        if answers.get(call_id) != answer:
            raise Broken(f"{call_id} was settled, and has another answer")


# --- from all of them -----------------------------------------------------------------------------------------------


def _no_dead_end(
    found: Explored,
    states: Sequence[State],
    edges_from: Sequence[int],
    edges_to: Sequence[int],
    came_from: Sequence[int],
    labels: Sequence[str],
) -> None:
    """From every state, as long as a process may still come, the run can end answered or waiting for a named decision."""
    goes_back: list[list[int]] = [[] for _ in states]
    for before, after in zip(edges_from, edges_to, strict=True):
        goes_back[after].append(before)
    good = [number for number, state in enumerate(states) if _has_ended_well(state)]
    seen = bytearray(len(states))
    for number in good:
        seen[number] = 1
    while good:
        for before in goes_back[good.pop()]:
            if not seen[before]:
                seen[before] = 1
                good.append(before)
    for number, state in enumerate(states):
        if not seen[number] and state.lease.epoch < found.scenario.epochs:
            found.broken, found.trace = "there is no way on to an end", _trace(came_from, labels, number)
            return
    found.cut = len(states) - sum(seen)


def _has_ended_well(state: State) -> bool:
    run = state_of(state.journal)
    return (
        run.drive == "ended"
        and run.finished is not None
        and run.finished.outcome in ("answered", "waiting")
        and all(actor.at == "out" for actor in state.actors)
    )


def steps(trace: Sequence[str]) -> Iterator[str]:
    """A way, for people."""
    for number, step in enumerate(trace, 1):
        yield f"  {number:2}. {step}"
