"""A stop at every await of a run: by a cancel, a passed deadline, a shutdown, and a second cancel soon after.

Whatever the moment: the cause comes out and is on disk, each call has one answer or is pending with a reason, the journal
is closed, nothing is left running, and the run that is taken up again reaches its answer with each effect once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from heaveto.causes import from_data
from heaveto.errors import APIError
from heaveto.journal import Summary
from heaveto.journal.records import Record, RunFinished, RunStarted, ToolStarted, decode_record
from heaveto.journal.state import RunState, fold
from heaveto.messages import unanswered
from heaveto.runs import read_records, resolve_call
from heaveto.testing.clocks import Backend, FakeClock
from heaveto.testing.stops import StoppedRun, Way, every_await

pytestmark = pytest.mark.slow

REPLIES = [
    [("look", {"what": "a"}), ("fail", {}), ("look", {"what": "b"})],
    [("pay", {"what": "rent"}), ("shout", {"what": "hey"}), ("look", {"what": "c"})],
]
KINDS = {"cancel": "stopped", "deadline": "stopped", "shutdown": "shutdown"}


class Life:
    """One run after the other, each in a world of its own; the last one's world is there to be looked at."""

    def __init__(self, new_rig: Any, plan: Any) -> None:
        self._new_rig, self._plan = new_rig, plan
        self.rig = new_rig()
        self.already_begun = set[str]()  # when the process before was killed

    def _begin(self, *first: Exception) -> None:
        self.rig.world.clear()  # and not a new one, whose tools would have to be made again
        self.rig = self._new_rig(world=self.rig.world, plan=self._plan(*first, replies=REPLIES))

    async def run(self) -> str:
        self._begin(APIError("p", 503, "busy"))
        return str((await self.rig.agent(grace_seconds=0.7).run("go", run_id="run")).text)

    def kill_after(self, kind: type[Record]) -> None:
        """Keep the last run's journal as a kill right after its first record of that kind left it, and the payment made."""
        bodies = [entry.body for entry in self.rig.store._runs["run"].entries]
        kinds = [type(decode_record(body)) for body in bodies]
        self._killed = bodies[: kinds.index(kind) + 1]
        self.already_begun = {entry.call.id for entry in fold(map(decode_record, self._killed)).in_doubt()}

    async def resume(self) -> str:
        self._begin()
        self.rig.world.effects.append("paid rent")
        await self.rig.store.create("run", "", self._killed, Summary())
        return str((await self.rig.agent(grace_seconds=0.7).resume("run")).text)

    async def records(self) -> list[Any]:
        return await read_records(self.rig.store, "run") if await self.rig.store.runs() else []

    async def take_up(self) -> str:
        """Resume until there is an answer, deciding by the world when the run waits for that."""
        self.rig.plan = self._plan(replies=REPLIES)
        for _ in range(3):
            async with self.rig.agent().reopen("run") as run:
                outcome = await run.wait()
            if outcome.kind != "waiting":
                return str(outcome.text)
            for entry in fold(await self.records()).in_doubt():
                assert entry.call.name == "shout", "every other tool has a rung of its own"
                done = "shouted hey" in self.rig.world.effects
                await resolve_call(self.rig.store, "run", entry.call.id, "done" if done else "again")
        raise AssertionError("it never ends")


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("way", ["cancel", "deadline", "shutdown"])
def test_a_run_stopped_at_any_await(
    rig: Any, plan: Any, answer: str, second_stops: tuple[int, ...], backend: Backend, way: Way
) -> None:
    life = Life(rig, plan)
    points = 0
    for stopped in every_await(life.run, backends=[backend], ways=[way], again_after=second_stops):
        points += 1
        check(life, stopped, answer)
    assert points >= (75 if way == "cancel" else 40)  # with eager tasks there are fewer awaits


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("way", ["cancel", "deadline", "shutdown"])
def test_a_resume_stopped_at_any_await(
    rig: Any, plan: Any, answer: str, second_stops: tuple[int, ...], backend: Backend, way: Way
) -> None:
    """Of a run that was killed while it paid, so that the ladder is among the awaits."""
    life = Life(rig, plan)
    FakeClock(backend).run(life.run)
    life.kill_after(ToolStarted)
    points = 0
    for stopped in every_await(life.resume, backends=[backend], ways=[way], again_after=second_stops):
        points += 1
        check(life, stopped, answer)
    assert points >= (30 if way == "cancel" else 15)


def check(life: Life, stopped: StoppedRun[str], answer: str) -> None:
    assert stopped.left_running == (), stopped
    records = FakeClock(stopped.backend).run(life.records)
    if stopped.error is None:
        assert stopped.value == answer
    else:
        assert (type(stopped.error), str(stopped.error)) == (type(stopped.cause), str(stopped.cause)), stopped
    if not records:
        return
    check_journal(records, stopped, life.already_begun)
    state = fold(records)
    if state.answer is None:
        assert FakeClock(stopped.backend).run(life.take_up) == answer, stopped
        state = fold(FakeClock(stopped.backend).run(life.records))
    life.rig.checked(list(state.transcript))
    assert Counter(life.rig.world.effects) <= Counter(["paid rent", "shouted hey"])
    check_answers_are_honest(life, state)


def check_journal(records: list[Any], stopped: StoppedRun[str], already_begun: set[str]) -> None:
    assert isinstance(records[0], RunStarted)
    end = records[-1]
    assert isinstance(end, RunFinished), stopped
    assert sum(isinstance(record, RunFinished) for record in records) == 1
    state = fold(records)
    if end.outcome != "answered":
        assert end.outcome == KINDS[stopped.way], stopped
        assert end.cause is not None
        assert str(from_data(end.cause)) == str(stopped.cause), stopped
    pending = {entry.call.id: entry for entry in state.open_calls.values() if entry.state != "settled"}
    killed = {entry.call.id for entry in pending.values() if entry.state == "begun"}  # of the process before
    assert all(entry.state == "in_doubt" and entry.why_in_doubt for entry in pending.values() if entry.call.id not in killed)
    assert killed <= already_begun
    for_a_person = [entry.call.id for entry in pending.values() if entry.may_have_changed]  # who only looked asks nobody
    assert for_a_person == [each.split("(")[1][:-1] for each in end.unresolved]
    unknown = {call.id for call in unanswered(state.conversation())}
    assert unknown == killed, "also what is in doubt is answered, with what is known of it"


def check_answers_are_honest(life: Life, state: RunState) -> None:
    """A call of which the model reads that it is done did happen, and one that it reads was not run did not."""
    effects = {"pay": "paid rent", "shout": "shouted hey"}
    for message in _answers(state):
        if message.name in effects:
            assert (effects[message.name] in life.rig.world.effects) == (message.ending == "ok"), message


def _answers(state: RunState) -> Iterator[Any]:
    return (message for message in state.transcript if getattr(message, "call_id", None))
