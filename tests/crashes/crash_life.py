"""One process of a run. Those that are to be killed are forked from a warm parent, and kill themselves at a point."""

from __future__ import annotations

import gc
import os
import signal
import sys
import traceback
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from crash_journals import KilledStore, begin_journal, open_journal, stored
from crash_outside import NOTES, Note, Outside, Within, read_notes
from crash_scenarios import FILE_AT_THE_START, INNER, SCENARIOS, TOOLS, Scenario, Speaker, World, enter, here, word_on

from heaveto.causes import Stop
from heaveto.errors import RunNotFound
from heaveto.journal.records import Record
from heaveto.journal.seals import decode_entries
from heaveto.loop import Outcome
from heaveto.retry import RetryPolicy
from heaveto.runs import Agent, approve_call, read_state, resolve_call
from heaveto.scopes import finish
from heaveto.testing.clocks import Backend, FakeClock
from heaveto.tools import Call

__all__ = ["BACKENDS", "RUN", "Left", "begin", "live", "live_and_die", "warm_up"]

BACKENDS: tuple[Backend, ...] = ("asyncio", "trio")
RUN = "run"
WORK = "work"
WITHIN = "within "  # the folder of what was handed over
HANG_SECONDS = 60  # real ones
CLOSE_SECONDS = 10
MOST_DRIVES = 12  # of one process


@dataclass(frozen=True)
class Left:
    """What a process left behind."""

    records: list[Record]
    notes: list[Note]
    file: str
    inner: dict[str, Left] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path) -> Left:
        return cls(
            list(decode_entries(RUN, stored(folder))),
            read_notes(folder / NOTES),
            (folder / WORK / "a.txt").read_text(),
            {each.name: cls.of(each) for each in sorted(folder.glob(f"{WITHIN}*"))},
        )


def begin(folder: Path) -> None:
    """An empty world."""
    work = folder / WORK
    work.mkdir(parents=True)
    (work / "a.txt").write_text(FILE_AT_THE_START)
    begin_journal(folder)


def warm_up(folder: Path) -> None:
    """Load and build here what each process would have to: a few whole lives."""
    for backend in BACKENDS:
        for name in ("plain", "edits"):
            begin(folder / f"{name} {backend}")
            live(SCENARIOS[name], folder / f"{name} {backend}", backend)
    gc.freeze()


def live_and_die(scenario: Scenario, folder: Path, backend: Backend, kill_at: int) -> bool:
    """Drive the run in a process of its own, which kills itself at a point; whether it had that point before the run's end.

    Raises:
        AssertionError: It broke.
    """
    child = os.fork()
    if not child:
        gc.disable()
        try:
            live(scenario, folder, backend, kill_at=kill_at)
            os._exit(0)
        except BaseException:  # it must not go on as a second parent
            Outside(folder).note("broke", text=traceback.format_exc())
        os._exit(1)
    _, status = os.waitpid(child, 0)
    if status and not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL):
        raise AssertionError(f"it broke: {read_notes(folder / NOTES)[-1]}")
    return bool(status)


def live(scenario: Scenario, folder: Path, backend: Backend, *, kill_at: int = 0) -> int:
    """Drive the run in this process until it has ended; returns how many points that had."""
    signal.signal(signal.SIGALRM, _hang)
    signal.alarm(HANG_SECONDS)
    outside = Outside(folder, kill_at)
    try:
        _repeat_trio()
        FakeClock(backend).run(_whole_life, scenario, folder, outside)
    finally:
        signal.alarm(0)
        outside.close()
    return outside.points


def _hang(signum: int, frame: object) -> None:
    raise AssertionError(f"it hangs: more than {HANG_SECONDS} s")


def _repeat_trio() -> None:
    """Trio runs the tasks that are ready in a random order; these are the names by which it can be made to repeat it."""
    scheduler = sys.modules.get("trio._core._run")
    if scheduler is not None:
        vars(scheduler)["_ALLOW_DETERMINISTIC_SCHEDULING"] = True
        vars(scheduler)["_r"].seed(1)


async def _whole_life(scenario: Scenario, folder: Path, outside: Outside) -> None:
    first = not outside.notes()
    outside.note("lived")
    store = open_journal(folder, outside)
    world = enter(World(outside, _Inner(folder, outside).hand_over, first))
    agent = _agent(scenario, folder, outside, store)
    stop_after = scenario.stop_after if first else None
    for _ in range(MOST_DRIVES):
        outcome = await _drive(agent, store, stop_after)
        stop_after = None
        if outcome is None or outcome.kind == "answered" or (outcome.kind == "waiting" and not scenario.person):
            await store.aclose()
            return
        if outcome.kind == "waiting":
            await _decide_within(folder, world)
            await _decide(store, world)
    raise AssertionError("the run never ends")


def _agent(scenario: Scenario, folder: Path, outside: Outside, store: KilledStore) -> Agent:
    return Agent(
        model=Speaker(scenario, outside),
        tools=TOOLS,
        store=store,
        folder=folder / WORK,
        retry=RetryPolicy(base_seconds=0),
        on_unknown=scenario.on_unknown,
    )


@dataclass(frozen=True)
class _Inner:
    """Hands over what a run has to do, to an agent whose run has a journal and a world of its own."""

    folder: Path
    outside: Outside

    async def hand_over(self, what: str, call: Call) -> str:
        folder = self.folder / f"{WITHIN}{what}"
        if not folder.exists():
            begin(folder)
        with closing(Within(folder, self.outside)) as outside:
            store, around = open_journal(folder, outside), here()
            enter(World(outside, self.hand_over))
            try:
                return (await _agent(INNER, folder, outside, store).run_once("go", run_id=RUN)).text
            finally:
                enter(around)
                await finish(CLOSE_SECONDS, store.aclose)


async def _decide_within(folder: Path, world: World) -> None:
    for inner in folder.glob(f"{WITHIN}*"):
        with closing(Within(inner, world.outside)) as outside:
            store = open_journal(inner, outside)
            await _decide(store, World(outside, world.hand_over))
            await store.aclose()


async def _drive(agent: Agent, store: KilledStore, stop_after: tuple[float, Stop] | None) -> Outcome | None:
    """One drive; None where there is nothing left to do."""
    opened: Any
    try:
        state = await read_state(store, RUN)
    except RunNotFound:
        opened = agent.start("go", run_id=RUN)
    else:
        if state.finished is not None and state.finished.outcome == "answered":
            return None
        opened = agent.reopen(RUN)
    async with opened as run:
        if stop_after is None:
            return await run.wait()
        seconds, cause = stop_after
        with anyio.move_on_after(seconds):
            return await run.wait()
        run.cancel(cause)
        return await run.wait()


async def _decide(store: KilledStore, world: World) -> None:
    """What a person does who is asked: look at the world and say what is there, or say what may be done."""
    state = await read_state(store, RUN)
    for entry in state.asked():
        if entry.call.name == "buy" and entry.approval is None:
            verdict, instead = word_on(entry.call.arguments)
            world.outside.note("decided", entry.call.id, verdict)
            await approve_call(store, RUN, entry.call.id, verdict, arguments=instead, why="not that", who="ada")
    for entry in state.in_doubt():
        done = world.was_done(entry.call.id)
        world.outside.note("decided", entry.call.id, "done" if done else "again")
        await resolve_call(store, RUN, entry.call.id, "done" if done else "again")
