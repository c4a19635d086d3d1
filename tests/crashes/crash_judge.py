"""What must hold of a run however often it was killed, judged from its journal and from the notes of the world."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal

from crash_life import Left
from crash_scenarios import ANSWER, FILE_AT_THE_END, FILE_AT_THE_START, INNER, Scenario, cost_of

from heaveto.journal.records import DriveStarted, Replied, RunFinished, ToolApproved, ToolResolved
from heaveto.journal.state import RunState, fold
from heaveto.messages import AssistantMessage, ToolMessage
from heaveto.runs import replay

__all__ = ["only_what_was_allowed", "wrong_with"]

# The rungs that may settle a call of each tool; what only reads carries no marker, and none ever has to.
RUNGS = {
    "put": {"idempotent"},
    "delegate": {"idempotent", "person"},
    "pay": {"check"},
    "post": {"check"},
    "edit_file": {"check"},
    "charge": {"key"},
    "book": {"undo"},
    "buy": {"check"},
    "shout": {"person", "model"},
    "brew": {"person", "model"},
}
READS = ("look", "read_file")


def wrong_with(scenario: Scenario, lefts: Sequence[Left]) -> list[str]:
    """What is wrong with a run, and with what it handed over, given what was left at each kill and, last, at its end."""
    problems = [problem for judge in _JUDGES for problem in judge(scenario, lefts)]
    for name in lefts[-1].inner:
        inner = [left.inner[name] for left in lefts if name in left.inner]
        problems += [f"{name}: {problem}" for problem in wrong_with(INNER, inner)]
    return problems


def _ended(scenario: Scenario, lefts: Sequence[Left]) -> Iterator[str]:
    state = fold(lefts[-1].records)
    if state.finished is None:
        yield "the run has no end"
    elif state.finished.outcome == "waiting" and not scenario.person:
        if not state.finished.unresolved or not state.in_doubt():
            yield "the run waits, and nobody knows for what"
    elif state.finished.outcome != "answered" or state.answer != ANSWER:
        yield f"the run ended otherwise: {state.finished.why}"


def _nothing_lost(scenario: Scenario, lefts: Sequence[Left]) -> Iterator[str]:
    last = lefts[-1]
    for left in lefts[:-1]:
        safe = max((note.number for note in left.notes if note.what == "acked"), default=0)
        if len(left.records) < safe:
            yield f"{safe} records were safe, and {len(left.records)} are there"
        if left.records != last.records[: len(left.records)]:
            yield "records have changed since"
        yield from _settled_stays(left, last)


def _settled_stays(left: Left, last: Left) -> Iterator[str]:
    if not left.records:
        return
    before, after = _answers(fold(left.records)), _answers(fold(last.records))
    ran_since = {note.name for note in last.notes[len(left.notes) :] if note.what == "ran"}
    for call_id, answer in before.items():
        if after.get(call_id) != answer:
            yield f"{call_id} had the answer {answer}, and has {after.get(call_id)}"
        if call_id in ran_since:
            yield f"{call_id} was settled, and ran again"


def _answers(state: RunState) -> dict[str, ToolMessage]:
    settled = [entry.answer for entry in state.open_calls.values() if entry.state == "settled" and entry.answer]
    return {each.call_id: each for each in (*state.transcript, *settled) if isinstance(each, ToolMessage)}


def _nothing_twice(scenario: Scenario, lefts: Sequence[Left]) -> Iterator[str]:
    last = lefts[-1]
    verdicts = [record for record in last.records if isinstance(record, ToolResolved)]
    again = Counter(record.call_id for record in verdicts if record.verdict == "again")
    ran = Counter((note.name, note.text) for note in last.notes if note.what == "ran")
    for (call_id, name), times in ran.items():
        if name not in READS and times > 1 + again[call_id]:
            yield f"{call_id} ({name}) ran {times} times, and {again[call_id]} verdicts had it run again"
    for verdict in verdicts:
        if verdict.by not in RUNGS.get(verdict.name, ()):
            yield f"{verdict.call_id} ({verdict.name}) was settled by: {verdict.by}"
    effects = Counter(note.text for note in last.notes if note.what == "effect")
    names = {note.name: note.text for note in last.notes if note.what == "effect"}
    effects.subtract(names[note.name] for note in last.notes if note.what == "undone")
    for effect, times in effects.items():
        if times > 1 and not effect.startswith("put "):
            yield f"{effect}: {times} times"


def _all_done(scenario: Scenario, lefts: Sequence[Left]) -> Iterator[str]:
    """What the conversation says was done was done, and each call has its one answer."""
    last = lefts[-1]
    state = fold(last.records)
    done = {note.name for note in last.notes if note.what == "effect"}
    for answer in _answers(state).values():
        if answer.ending == "ok" and answer.name not in (*READS, "edit_file") and answer.call_id not in done:
            yield f"{answer.call_id} ({answer.name}) has a result, and nothing was done"
        if answer.ending == "denied" and answer.name == "buy":
            continue
        if answer.ending not in ("ok", "not_run", "unknown") or (
            answer.ending == "unknown" and state.started.on_unknown == "wait"
        ):
            yield f"{answer.call_id} ({answer.name}) ended {answer.ending}: {answer.content}"
    yield from _in_order(state)
    edited = any(answer.name == "edit_file" for answer in _answers(state).values())
    if last.file != (FILE_AT_THE_END if edited else FILE_AT_THE_START):
        yield f"the file is {last.file!r}"


def _in_order(state: RunState) -> Iterator[str]:
    waiting: list[str] = []
    for message in state.transcript:
        if isinstance(message, ToolMessage):
            if not waiting or message.call_id != waiting.pop(0):
                yield f"an answer out of place: {message}"
        elif waiting:
            yield f"calls without an answer before {message}: {waiting}"
        if isinstance(message, AssistantMessage):
            waiting = [call.id for call in message.tool_calls]


def _spend_is_right(scenario: Scenario, lefts: Sequence[Left]) -> Iterator[str]:
    """Each reply of the conversation is counted once; each call that was cut is flagged, and nothing else is."""
    last = lefts[-1]
    state = fold(last.records)
    spend = state.spend
    wanted = sum((cost_of(turn) for turn in range(1, state.turns + 1)), Decimal(0))
    if spend.cost_usd != wanted:
        yield f"{state.turns} replies cost {wanted}, and {spend.cost_usd} was counted"
    asked = sum(note.what == "asked" for note in last.notes) - sum(note.what == "refused" for note in last.notes)
    unknown = asked - state.turns
    if not unknown <= spend.unpriced_calls:
        yield f"{unknown} calls came to nothing, and {spend.unpriced_calls} are flagged"
    drives = sum(isinstance(record, DriveStarted) for record in last.records)
    if spend.unpriced_calls > min(drives - 1, len(lefts) - 1 + (scenario.stop_after is not None)):
        yield f"{spend.unpriced_calls} calls are flagged, in {drives} drives with {len(lefts) - 1} kills"
    ends = sum(isinstance(record, RunFinished) for record in last.records)
    if drives - ends > len(lefts) - 1:
        yield f"{drives} drives, {ends} ends and {len(lefts) - 1} kills"


def only_what_was_allowed(scenario: Scenario, lefts: Sequence[Left]) -> Iterator[str]:
    """A purchase has one word of a person, in the journal before it runs, and is what that word says."""
    for left in lefts:
        words: dict[str, ToolApproved] = {}
        asked: dict[str, str] = {}
        for record in left.records:
            if isinstance(record, Replied):
                asked.update((call.id, call.arguments) for call in record.message.tool_calls)
            elif isinstance(record, ToolApproved):
                if record.call_id in words:
                    yield f"two words about {record.call_id}"
                words[record.call_id] = record
        for note in left.notes:
            if note.what == "effect" and note.text.startswith("bought "):
                word = words.get(note.name)
                if word is None or word.verdict != "approved":
                    yield f"{note.text}, and nobody allowed {note.name}"
                elif note.text != f"bought {json.loads(word.arguments or asked[note.name])['what']}":
                    yield f"{note.text}, and the word about {note.name} is for something else"


def _as_the_code_makes_it(scenario: Scenario, lefts: Sequence[Left]) -> Iterator[str]:
    yield from replay(lefts[-1].records)


_JUDGES: tuple[Callable[[Scenario, Sequence[Left]], Iterator[str]], ...] = (
    _ended,
    _nothing_lost,
    _nothing_twice,
    _all_done,
    _spend_is_right,
    only_what_was_allowed,
    _as_the_code_makes_it,
)
