"""Watching a run: each watcher sees every durable event, whenever it comes and however slow it is."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from heaveto.causes import Cancelled
from heaveto.journal import MemoryStore
from heaveto.journal.records import Said
from heaveto.loop import Event, TextPiece
from heaveto.runs import Agent, read_records
from heaveto.runs.watchers import MAX_WAITING, Events, Watchers
from heaveto.scopes import tasks
from heaveto.testing.scripted_model import calls, scripted
from heaveto.tools import tool

pytestmark = pytest.mark.anyio


@tool(effect="read")
async def look(seconds: float = 1) -> str:
    """Look."""
    await anyio.sleep(seconds)
    return "seen"


def agent_of(*lines: Any, store: Any = None) -> Agent:
    return Agent(model=scripted(*lines, pause_seconds=0.1), store=store or MemoryStore(), tools=[look])


LINES = (calls(("look", {}), text="let me see"), calls(("look", {})), "it is all there")


async def take(events: Events, into: list[Event]) -> None:
    async for event in events:
        into.append(event)  # noqa: PERF401 - one by one, since what came before a stop counts


def durable(events: list[Event]) -> list[Any]:
    return [event.body for event in events if event.durable]


async def test_every_watcher_sees_all_and_a_late_one_what_was_kept() -> None:
    store, first, second, late, after = MemoryStore(), [], [], [], []  # type: ignore[var-annotated]
    async with agent_of(*LINES, store=store).start("go", run_id="run") as run, tasks() as group:
        group.start_soon(take, run.events(), first)
        group.start_soon(take, run.events(), second)
        await anyio.sleep(1.3)
        group.start_soon(take, run.events(), late)
        await run.wait()
        await take(run.events(), after)
    records = await read_records(store, "run")
    assert first == second
    assert durable(first) == durable(late) == durable(after) == records
    assert [event.id for event in after] == [str(seq) for seq in range(1, len(records) + 1)]
    assert len(after) == len(records)
    assert len(records) < len(late) < len(first)
    assert {event.run_id for event in first} == {"run"}


async def test_ids_say_where_an_event_belongs() -> None:
    seen: list[Event] = []
    async with agent_of(*LINES).start("go") as run:
        await take(run.events(), seen)
    places = [tuple(map(int, event.id.split("."))) for event in seen]
    assert places == sorted(places)
    assert len(set(places)) == len(places)
    assert all(("." not in event.id) == event.durable for event in seen)
    assert seen[-1].type == "run.finished"
    text = "".join(event.body.text for event in seen if isinstance(event.body, TextPiece) and event.body.turn == 3)
    assert text == "it is all there"


async def test_an_event_is_plain_data() -> None:
    seen: list[Event] = []
    async with agent_of("fine").start("go", run_id="run") as run:
        await take(run.events(), seen)
    data = seen[-1].to_data()
    assert list(data)[:4] == ["type", "id", "run_id", "at"]
    assert (data["type"], data["run_id"], data["outcome"], data["text"]) == ("run.finished", "run", "answered", "fine")
    assert [event.type for event in seen] == [
        "run.started",
        "drive.started",
        "turn.started",
        "text",
        "reply",
        "run.finished",
    ]


async def test_leaving_the_events_early_leaves_the_run_going() -> None:
    async with agent_of(*LINES).start("go") as run:
        async for event in run.events():
            if event.type == "tool.running":
                break
        assert run.outcome is None
        assert (await run.wait()).text == "it is all there"


async def test_a_watcher_that_is_stopped_leaves_the_run_going() -> None:
    seen: list[Event] = []
    async with agent_of(*LINES).start("go") as run:
        with anyio.move_on_after(0.5):
            await take(run.events(), seen)
        assert seen
        assert (await run.wait()).kind == "answered"


async def test_a_watcher_of_a_resumed_run_sees_this_drive() -> None:
    store, seen = MemoryStore(), []  # type: ignore[var-annotated]
    async with agent_of(calls(("look", {"seconds": 100})), store=store).start("go", run_id="run") as run:
        await anyio.sleep(1)
        run.cancel(Cancelled("lunch"))
        await run.wait()
    before = len(await store.read("run"))
    async with agent_of("fine", store=store).reopen("run") as run:
        run.cancel(Cancelled("at once"))
        await take(run.events(), seen)
    assert [event.type for event in seen] == ["drive.started", "run.finished"]
    assert [event.id for event in seen] == [str(before + 1), str(before + 2)]


def piece(number: int) -> Event:
    return Event(f"0.{number}", "run", 0.0, False, TextPiece(1, 1, str(number)))


async def test_a_slow_watcher_loses_pieces_and_never_a_durable_event() -> None:
    watchers = Watchers()
    slow, quick = watchers.watch(), watchers.watch()
    kept: list[Event] = []
    for number in range(MAX_WAITING + 500):
        watchers.publish(piece(number))
        kept.append(await anext(quick))
    for number in range(300):
        watchers.publish(Event(str(number), "run", 0.0, True, Said(content=str(number))))
    watchers.close()
    seen: list[Event] = []
    await take(slow, seen)
    assert len(kept) == MAX_WAITING + 500, "who keeps up loses nothing"
    assert [event.body.content for event in seen if isinstance(event.body, Said)] == [str(number) for number in range(300)]
    assert len(seen) == MAX_WAITING + 300


async def test_a_watcher_that_catches_up_is_told_again() -> None:
    watchers = Watchers()
    slow = watchers.watch()
    for number in range(MAX_WAITING + 1):
        watchers.publish(piece(number))
    for _ in range(10):
        await anext(slow)
    watchers.publish(piece(-1))
    watchers.close()
    seen: list[Event] = []
    await take(slow, seen)
    assert seen[-1] == piece(-1)
