"""A simulated run, from its task to its last answer: one drive after the other, as the scenario has it."""

from __future__ import annotations

import random
import signal
import sys
from contextlib import nullcontext
from typing import Any

import anyio
from sim_scenario import TOOLS as KINDS
from sim_scenario import Life, Scenario
from sim_world import RUN, TOOLS, LifeStore, Lived, Speaker, World, life_of

from heaveto.causes import Cancelled, DeadlinePassed, Shutdown
from heaveto.errors import AgentError, ConfigError, RunNotFound, RunTaken
from heaveto.messages import Limits, ToolCall
from heaveto.runs import Agent, approve_call, read_state, resolve_call, stop_run
from heaveto.scopes import Slots, deadline
from heaveto.testing.clocks import FakeClock

__all__ = ["simulate"]

MOST_LIVES = 40
MOST_CPU_SECONDS = 10  # a seed takes a thirtieth of a second
INSTEAD = '{"what": "c"}'
GO_ON = "go on"


def simulate(scenario: Scenario) -> World:
    """Drive the scenario's run to its end, under a fake clock."""
    random.seed(scenario.seed)  # the product's jitter
    backend: Any = scenario.backend
    clock = FakeClock(backend)
    scheduler = sys.modules.get("trio._core._run")
    if scheduler is not None:  # Trio runs what is ready in a random order; by these names it can be made to repeat it
        vars(scheduler)["_ALLOW_DETERMINISTIC_SCHEDULING"] = True
        vars(scheduler)["_r"].seed(scenario.seed)
    late: list[int] = []

    def never_ends(signum: int, frame: object) -> None:
        late.append(signum)
        raise KeyboardInterrupt  # which nobody takes for a tool's bug

    signal.signal(signal.SIGVTALRM, never_ends)
    signal.setitimer(signal.ITIMER_VIRTUAL, MOST_CPU_SECONDS)
    try:
        return clock.run(_whole, scenario)
    except BaseException as error:
        if late:
            raise AssertionError(f"it never ends: more than {MOST_CPU_SECONDS} s of CPU") from error
        raise
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


async def _whole(scenario: Scenario) -> World:
    world = World(scenario)
    async with anyio.create_task_group() as group:
        plans, answers = list(scenario.lives), 0
        for _ in range(MOST_LIVES):
            life = Lived(world, plans.pop(0) if plans else Life())
            group.start_soon(_live, life, GO_ON if answers else "")
            await life.over.wait()
            await _take_away(life)
            outcome = _outcome(life)
            if outcome == "answered":
                answers += 1
                if answers == sum(not turn.calls for turn in scenario.turns):
                    break
            if outcome == "waiting":
                await _decide(life)
        else:
            raise AssertionError("the run never ends")
        for life in world.lives:
            life.resumed.set()
        for life in world.lives:
            await life.ended.wait()
        await _look_again(world)
    return world


def _outcome(life: Lived) -> str:
    """How its drive ended, as far as the journal has it."""
    return next((event.about for event in life.world.of_life(life.number) if event.what == "finished"), "")


async def _take_away(life: Lived) -> None:
    """Wait until nothing of it is left; what is dead or paused loses the run to whoever takes it."""
    if life.dead:
        life.scope.cancel()
    if not life.paused:
        await life.ended.wait()
    try:
        rows = await life.world.store.runs()
    except RunNotFound:
        return
    for row in rows:
        await life.world.store.release(row.run_id, row.epoch)


async def _live(life: Lived, say: str) -> None:
    life_of.set(life)
    try:
        with life.scope:
            await _drive(life, LifeStore(life), say)
    except (AgentError, DeadlinePassed) as error:
        life.error = error
    finally:
        life.ended_at = anyio.current_time()
        life.ended.set()
        life.over.set()


async def _drive(life: Lived, store: LifeStore, say: str) -> None:
    plan = life.plan
    agent = _agent(life, store)
    opened: Any
    try:
        state = await read_state(life.world.store, RUN)
    except RunNotFound:
        life.note("seconds", data=_limits(plan, 0.0).seconds)
        opened = agent.start("go", run_id=RUN)
    else:
        said = plan.say or (say if state.answer is not None and not state.open_calls else "")
        life.note("says", said)
        limits = _limits(plan, state.seconds)
        life.note("seconds", data=limits.seconds)
        opened = agent.reopen(RUN, limits=limits, say=said or None)
    with deadline(plan.at, DeadlinePassed(plan.at)) if plan.stop == "outer" else nullcontext():
        if plan.stop == "outer":
            life.stopped_at = life.began + plan.at
        try:
            async with opened as life.run, anyio.create_task_group() as group:
                if plan.stop == "deadline":
                    life.stopped_at = anyio.current_time() + plan.at
                group.start_soon(_rival, life)
                await _wait(life)
                group.cancel_scope.cancel()
        finally:
            life.outcome = life.run and life.run.outcome


def _agent(life: Lived, store: LifeStore) -> Agent:
    scenario = life.world.scenario

    async def approve(call: ToolCall) -> bool | str:
        await anyio.sleep(0.5)
        return "not that" if scenario.asked(call.id).word == "deny" else True

    return Agent(
        model=Speaker(life),
        tools=TOOLS,
        store=store,
        limits=_limits(life.plan, 0.0),
        slots=Slots(scenario.slots),
        approve=approve if scenario.approver else None,
        on_unknown="tell_model" if scenario.tell_model else "wait",
    )


def _limits(plan: Life, used: float) -> Limits:
    return Limits(turns=plan.turns, usd=plan.usd, seconds=used + plan.at if plan.stop == "deadline" else None)


async def _wait(life: Lived) -> None:
    run, plan = life.run, life.plan
    if run is None:
        raise AssertionError("it was opened")
    if plan.stop in ("", "outer", "deadline"):
        await run.wait()
        return
    with anyio.move_on_after(plan.at):
        await run.wait()
        return
    if life.paused:
        await run.wait()
        return
    life.stopped_at = anyio.current_time()
    match plan.stop:
        case "cancel":
            run.cancel(Cancelled("lunch", "ada"))
        case "elsewhere":
            await stop_run(life.world.store, RUN, Cancelled("lunch", "ada"))
        case _:
            run.cancel(Shutdown("SIGTERM"))
    if plan.stop == "again":
        with anyio.move_on_after(1):
            await run.wait()
        run.cancel(Shutdown("SIGINT"))
    await run.wait()


async def _rival(life: Lived) -> None:
    """Somebody who has no right to the run, while it is driven."""
    if life.plan.rival is None:
        return
    await anyio.sleep(life.plan.rival)
    if life.run is None or life.run.outcome is not None or life.paused or life.dead:
        return
    other = Lived(World(life.world.scenario, life.world.store), Life())
    try:
        async with _agent(other, LifeStore(other)).reopen(RUN):
            pass
    except RunTaken:
        return
    life.note("robbed")


async def _decide(life: Lived) -> None:
    """What a person does who is asked: allow or deny, look what was done, or say that it cannot be known."""
    world = life.world
    state = await read_state(world.store, RUN)
    for entry in state.asked():
        if KINDS[entry.call.name].approval and entry.approval is None:
            word = world.scenario.asked(entry.call.id).word
            verdict: Any = "denied" if word == "deny" else "approved"
            instead = INSTEAD if word == "edit" else None
            await approve_call(world.store, RUN, entry.call.id, verdict, arguments=instead, why="not that", who="ada")
    for entry in state.in_doubt():
        done = world.was_done(entry.call.id)
        seen: Any = "done" if done else "again"
        if world.scenario.asked(entry.call.id).doubt == "told":
            seen = "told"
        await resolve_call(world.store, RUN, entry.call.id, seen, "it is there" if seen == "done" else "")


async def _look_again(world: World) -> None:
    """A run that has its answer is not taken up again."""
    before = await world.store.read(RUN)
    last = Lived(world, Life())
    life_of.set(last)
    try:
        async with _agent(last, LifeStore(last)).reopen(RUN):
            pass
    except ConfigError:
        pass
    else:
        last.note("resumed")
    if await world.store.read(RUN) != before:
        last.note("changed")
    world.lives.remove(last)
