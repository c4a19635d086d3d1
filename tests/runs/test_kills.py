"""A run that was killed after any of its records gets under way again, and does nothing twice and nothing settled again.

A rich run is driven once, with the number of records on disk written down at each side effect. Then, for each prefix of
its journal and each state in which the world can have been at that moment, a fresh agent resumes it. A person who is
asked looks at the world and tells the truth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import anyio
import pytest

from heaveto.causes import Cancelled
from heaveto.errors import APIError
from heaveto.journal import Summary
from heaveto.journal.records import Record, RunFinished, ToolResolved, decode_record
from heaveto.journal.state import fold
from heaveto.messages import ToolMessage
from heaveto.runs import read_records, resolve_call

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Kill:
    """A journal as a kill left it, and the effects that there had been."""

    bodies: list[bytes]
    effects: list[str]

    @property
    def records(self) -> list[Record]:
        return [decode_record(body) for body in self.bodies]


class Lived:
    """A run that was driven to its end, and where it could have been killed."""

    def __init__(self, rig: Any) -> None:
        self.rig = rig
        self.effects: list[tuple[int, str]] = []  # with the number of records that were on disk
        rig.world.noted = lambda effect: self.effects.append((self.on_disk, effect))

    @property
    def on_disk(self) -> int:
        return len(self.rig.store._runs["run"].entries)

    async def kills(self) -> list[Kill]:
        return list(self._kills([entry.body for entry in await self.rig.store.read("run")]))

    def _kills(self, bodies: list[bytes]) -> Iterator[Kill]:
        for length in range(1, len(bodies)):
            before = [effect for on_disk, effect in self.effects if on_disk < length]
            since = [effect for on_disk, effect in self.effects if on_disk == length]
            for more in range(len(since) + 1):
                yield Kill(bodies[:length], before + since[:more])


async def live(rig: Any, *, stops: bool) -> Lived:
    lived = Lived(rig)
    if not stops:
        await rig.agent().run("go", run_id="run")
        return lived
    await stop_after(3.7, rig.agent().start("go", run_id="run"))  # it has shouted, and not said so
    await decide(rig, await stop_after(9, rig.agent().reopen("run")))
    await stop_after(1.7, rig.agent().reopen("run"))  # it has paid, and not said so
    await stop_after(0.05, rig.agent().reopen("run"))  # it looks whether it has
    await drive_to_the_answer(rig)
    return lived


async def stop_after(seconds: float, opened: Any) -> Any:
    async with opened as run:
        with anyio.move_on_after(seconds):
            return await run.wait()
        run.cancel(Cancelled("lunch", "ada"))
        return await run.wait()


async def drive_to_the_answer(rig: Any, **options: Any) -> None:
    """Resume until the run has its answer, deciding by the world whenever it waits."""
    for _ in range(9):
        async with rig.agent(**options).reopen("run") as run:
            outcome = await run.wait()
        if outcome.kind == "answered":
            return
        await decide(rig, outcome)
    raise AssertionError("it never ends")


async def decide(rig: Any, outcome: Any) -> None:
    """What a person does who is asked: look at the world, and say what is there."""
    assert outcome.kind == "waiting", outcome.why
    for entry in fold(await read_records(rig.store, "run")).in_doubt():
        assert entry.call.name == "shout", "every other tool has a rung of its own"
        done = "shouted hey" in rig.world.effects
        await resolve_call(rig.store, "run", entry.call.id, "done" if done else "again")


async def resume(kill: Kill, new_rig: Any, plan: Any, **options: Any) -> Any:
    rig = new_rig(plan=plan)
    rig.world.effects += kill.effects
    await rig.store.create("run", "", kill.bodies, Summary())
    await drive_to_the_answer(rig, **options)
    return rig


def settled_calls(records: list[Record]) -> set[str]:
    state = fold(records)
    answered = {message.call_id for message in state.transcript if isinstance(message, ToolMessage)}
    return answered | {entry.call.id for entry in state.open_calls.values() if entry.state == "settled"}


@pytest.mark.parametrize("stops", [False, True], ids=["one drive", "stopped and resumed"])
async def test_a_run_killed_after_any_record_is_finished_with_each_effect_once(
    rig: Any, plan: Any, once: list[str], answer: str, stops: bool
) -> None:
    first = rig(plan=plan(APIError("p", 503, "busy")))
    lived = await live(first, stops=stops)
    kills = await lived.kills()
    assert len(kills) >= (35 if stops else 25)
    for kill in kills:
        again = await resume(kill, rig, plan())
        state = fold(await read_records(again.store, "run"))
        assert state.answer == answer
        effects = Counter(again.world.effects)
        assert {effect: effects[effect] for effect in once} == dict.fromkeys(once, 1), kill
        assert effects["put x"] >= 1
        assert settled_calls(kill.records).isdisjoint(again.world.ran), "what is settled never runs again"
        answers = again.checked(list(state.transcript))
        assert {each.ending for each in answers} <= {"ok", "tool_error", "not_run"}
        if not stops:
            assert [each.ending for each in answers].count("ok") == 8


async def test_no_effect_is_repeated_without_a_rung_that_allows_it(rig: Any, plan: Any) -> None:
    """Each call that ran before the kill and again after it has a verdict between, and only from a rung that may say so."""
    lived = await live(rig(plan=plan()), stops=False)
    for kill in await lived.kills():
        again = await resume(kill, rig, plan())
        begun = {entry.call.id: entry.call.name for entry in fold(kill.records).in_doubt()}
        verdicts = {
            record.call_id: record for record in await read_records(again.store, "run") if isinstance(record, ToolResolved)
        }
        assert set(verdicts) == set(begun), "exactly what had begun and had no result is settled by the ladder"
        for call_id, verdict in verdicts.items():
            assert verdict.by == {"put": "idempotent", "pay": "check", "shout": "person"}[begun[call_id]]
            assert (call_id in again.world.ran) == (verdict.verdict == "again")


async def test_the_model_is_told_instead_when_that_was_chosen(rig: Any, plan: Any, once: list[str]) -> None:
    """Then nobody is asked, and what nobody can know is not done again: at most once, and the model knows."""
    first = rig(plan=plan())
    lived = Lived(first)
    await first.agent(on_unknown="tell_model").run("go", run_id="run")
    told = 0
    for kill in await lived.kills():
        again = rig(plan=plan())
        again.world.effects += kill.effects
        await again.store.create("run", "", kill.bodies, Summary())
        result = await again.agent().resume("run")
        effects = Counter(again.world.effects)
        endings = [each.ending for each in again.checked(result.report.messages)]
        told += "unknown" in endings
        assert effects["paid rent"] == effects["paid tax"] == 1
        assert effects["shouted hey"] == 1 or ("unknown" in endings and effects["shouted hey"] == 0)
    assert told == 2, "killed between its marker and its result, before and after it shouted"


async def test_the_spend_survives_every_kill(rig: Any, plan: Any) -> None:
    """What a reply cost is never lost and never counted twice; a call that was under way is counted as one nobody knows."""
    first = rig(plan=plan(APIError("p", 503, "busy")))
    lived = await live(first, stops=False)
    whole = fold(await read_records(first.store, "run")).spend
    for kill in await lived.kills():
        again = await resume(kill, rig, plan())
        spend = fold(await read_records(again.store, "run")).spend
        assert spend.cost_usd == whole.cost_usd
        assert spend.calls - spend.unpriced_calls == whole.calls
        assert spend.unpriced_calls <= 1


async def test_a_run_that_is_killed_again_and_again_still_ends(rig: Any, plan: Any, once: list[str], answer: str) -> None:
    """Each drive is killed after the three records of a resume that runs a call again, and one more."""
    now = rig(plan=plan())
    lived = await live(now, stops=False)
    kept, effects, drives = 2, list[str](), 0
    bodies = [entry.body for entry in await now.store.read("run")]
    while kept < len(bodies):
        drives += 1
        assert drives < 50, "it makes no headway"
        now = rig(plan=plan())
        now.world.effects += effects
        await now.store.create("run", "", bodies[:kept], Summary())
        lived = Lived(now)
        await drive_to_the_answer(now)
        bodies = [entry.body for entry in await now.store.read("run")]
        kept = min(kept + 4, len(bodies))
        effects += [effect for on_disk, effect in lived.effects if on_disk <= kept]
    records = await read_records(now.store, "run")
    assert isinstance(records[-1], RunFinished)
    assert fold(records).answer == answer
    assert drives > 8
    assert {effect: Counter(now.world.effects)[effect] for effect in once} == dict.fromkeys(once, 1)
