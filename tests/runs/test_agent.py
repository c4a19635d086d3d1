"""Agents set to work: run, start, resume, reopen."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import pytest

from heaveto.causes import Cancelled
from heaveto.errors import (
    APIError,
    ConfigError,
    Fenced,
    JournalDamaged,
    JournalError,
    JournalNewer,
    MaxTurns,
    RunNotFound,
    RunTaken,
    ToolFatal,
    Waiting,
)
from heaveto.journal import MemoryStore, SqliteStore, Summary
from heaveto.journal.records import CallSpent, DriveStarted, RunFinished, RunStarted, Said, encode_record
from heaveto.messages import Limits, UserMessage
from heaveto.runs import Agent, read_records, read_state, resolve_call
from heaveto.scopes import Slots, tasks
from heaveto.testing.scripted_model import calls, scripted
from heaveto.tools import tool

pytestmark = pytest.mark.anyio


@tool(effect="read")
async def look(seconds: float = 0) -> str:
    """Look."""
    await anyio.sleep(seconds)
    return "seen"


@tool(effect="write", approval=True)
async def pay() -> str:
    """Pay."""
    return "paid"


def agent_of(*lines: Any, store: Any, **options: Any) -> Agent:
    return Agent(model=scripted(*lines), store=store, tools=[look, pay], **options)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


# --- whole runs -----------------------------------------------------------------------------------------------------


async def test_an_answer_comes_with_what_it_took(store: MemoryStore) -> None:
    result = await agent_of(calls(("look", {})), "42", store=store).run("what is it?")
    assert (result.text, result.turns, result.cost_usd, result.spend.calls) == ("42", 2, Decimal("0.002"), 2)
    assert len(result.run_id) == 10
    assert result.report.messages[0] == UserMessage("what is it?")
    (row,) = await store.runs()
    assert (row.run_id, row.owner, row.summary.phase, row.summary.task) == (result.run_id, "", "answered", "what is it?")
    assert (row.summary.turns, row.summary.cost_usd, row.summary.why) == (2, Decimal("0.002"), "the model answered")


@pytest.mark.parametrize(
    ("lines", "options", "error"),
    [
        ([calls(("look", {}))], {"limits": Limits(turns=1)}, MaxTurns),
        ([calls(("pay", {}))], {}, Waiting),
        ([APIError("p", 400, "too long")], {}, APIError),
        ([ValueError("a bug")], {}, ValueError),
    ],
)
async def test_what_is_no_answer_is_raised_with_the_run_as_far_as_it_came(
    store: MemoryStore, lines: Any, options: Any, error: type[Exception]
) -> None:
    with pytest.raises(error) as caught:
        await agent_of(*lines, store=store, **options).run("go", run_id="run")
    if error is not ValueError:
        assert caught.value.report.run_id == "run"  # type: ignore[attr-defined]
        assert caught.value.report.resumable  # type: ignore[attr-defined]


async def test_a_run_has_a_name_of_its_own(store: MemoryStore) -> None:
    agent = agent_of("a", "b", "c", store=store)
    assert (await agent.run("x", run_id="mine")).run_id == "mine"
    with pytest.raises(JournalError, match="there is a run mine already"):
        await agent.run("x", run_id="mine")
    assert isinstance((await read_records(store, "mine"))[-1], RunFinished)  # and is whole
    assert (await agent.run("x")).run_id != (await agent.run("x")).run_id


async def test_a_name_that_is_taken_does_no_harm_to_the_run_that_has_it(store: MemoryStore) -> None:
    """Whoever asks twice for a run of its own name, by a bug or in a race, leaves the one that is driven alone."""
    agent = agent_of(calls(("look", {})), "42", store=store)
    async with agent.start("go", run_id="mine") as run:
        with pytest.raises(JournalError, match="there is a run mine already"):
            await agent.run("go", run_id="mine")
        with pytest.raises(RunTaken):
            await agent.resume("mine")
        assert (await run.wait()).kind == "answered"
    assert [type(each) for each in await read_records(store, "mine")][-1] is RunFinished


async def test_what_a_run_began_with_is_written_down(store: MemoryStore, tmp_path: Path) -> None:
    agent = agent_of("a", store=store, system="be kind", folder=tmp_path, limits=Limits(turns=7), on_unknown="tell_model")
    async with agent.start("go", run_id="run", settings={"flags": ["-v"]}) as run:
        await run.wait()
    started = (await read_records(store, "run"))[0]
    assert started == RunStarted(
        run_id="run",
        task="go",
        system="be kind",
        model="scripted",
        folder=str(tmp_path.resolve()),
        tools=("look", "pay"),
        limits=Limits(turns=7),
        on_unknown="tell_model",
        settings={"flags": ["-v"]},
    )


async def test_one_agent_drives_many_runs_at_once(store: MemoryStore) -> None:
    agent = Agent(model=scripted(*["fine"] * 20), store=store, slots=Slots(2))
    texts: list[str] = []

    async def run() -> None:
        texts.append((await agent.run("go")).text)

    async with tasks() as group:
        for _ in range(20):
            group.start_soon(run)
    assert texts == ["fine"] * 20
    assert len(await store.runs()) == 20


async def test_stopping_one_run_leaves_its_neighbour_alone(store: MemoryStore) -> None:
    agent = agent_of(calls(("look", {"seconds": 5})), calls(("look", {"seconds": 5})), "fine", store=store)
    async with agent.start("one") as one, agent.start("two") as two:
        await anyio.sleep(1)
        one.cancel(Cancelled("only this one"))
        assert ((await one.wait()).kind, (await two.wait()).kind) == ("stopped", "answered")


def test_two_tools_of_one_name_are_refused_before_anything_begins() -> None:
    with pytest.raises(ConfigError, match='two tools are named "look"'):
        Agent(model=scripted(), store=MemoryStore(), tools=[look, tool(effect="read", name="look")(lambda: "x")])


async def test_a_store_of_its_own_is_open_while_runs_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEAVETO_STATE", str(tmp_path))
    agent = Agent(model=scripted("a", "b"), tools=[look])
    result = await agent.run("go")
    assert (await agent.run("go")).text == "b"
    assert (tmp_path / "journal.db").exists()
    async with agent:
        pass
    store = SqliteStore(tmp_path / "journal.db")
    try:
        assert (await read_state(store, result.run_id)).answer == "a"
    finally:
        await store.aclose()


def test_a_script_runs_an_agent_without_a_loop_of_its_own() -> None:
    result = Agent(model=scripted("42"), store=MemoryStore()).run_sync("go", run_id="run")
    assert (result.text, result.run_id) == ("42", "run")
    with pytest.raises(MaxTurns):
        Agent(model=scripted(), store=MemoryStore(), limits=Limits(turns=0)).run_sync("go")


# --- resume ---------------------------------------------------------------------------------------------------------


async def stopped(store: MemoryStore, *lines: Any, run_id: str = "run") -> None:
    async with agent_of(*(lines or [calls(("look", {"seconds": 9}))]), store=store).start("go", run_id=run_id) as run:
        await anyio.sleep(1)
        run.cancel(Cancelled("lunch"))
        await run.wait()


async def test_a_run_is_found_by_the_beginning_of_its_name(store: MemoryStore) -> None:
    await stopped(store, run_id="abcdef")
    assert (await agent_of("fine", store=store).resume("abc")).run_id == "abcdef"
    with pytest.raises(RunNotFound):
        await agent_of("fine", store=store).resume("x")


async def test_a_resumed_run_goes_on_where_it_was(store: MemoryStore) -> None:
    await stopped(store)
    agent = agent_of("fine", store=store)
    result = await agent.resume("run")
    assert (result.text, result.turns, result.spend.calls) == ("fine", 2, 2)
    drives = [record for record in await read_records(store, "run") if isinstance(record, DriveStarted)]
    assert [(drive.epoch, drive.resumed) for drive in drives] == [(1, False), (2, True)]


async def test_a_resume_says_what_is_not_as_it_was(store: MemoryStore, tmp_path: Path) -> None:
    """Against the last drive, not only the first."""

    @tool(effect="read")
    async def smell() -> str:
        """Smell."""
        return "fine"

    async def resumed(*, tools: list[Any], folder: Path, name: str) -> tuple[str, ...]:
        model = scripted(calls(("look", {})), name=name)
        agent = Agent(model=model, store=store, tools=tools, folder=folder)
        with pytest.raises(MaxTurns):
            await agent.resume("run", limits=Limits(turns=(await read_state(store, "run")).turns + 1))
        drive = [record for record in await read_records(store, "run") if isinstance(record, DriveStarted)][-1]
        return drive.differences

    first = agent_of(calls(("look", {})), store=store, folder=tmp_path, limits=Limits(turns=1))
    with pytest.raises(MaxTurns):
        await first.run("go", run_id="run")
    (other := tmp_path / "other").mkdir()
    same, changed = {"tools": [look, pay], "folder": tmp_path}, {"tools": [look, smell], "folder": other}
    assert await resumed(**same, name="scripted") == ()
    assert await resumed(**changed, name="another") == (
        "the model is another, and was scripted",
        "tools that are gone: pay",
        "new tools: smell",
        f"the folder is {other}, and was {tmp_path}",
    )
    assert await resumed(**changed, name="another") == ()
    assert len(await resumed(**same, name="scripted")) == 4


async def test_an_answered_run_goes_on_only_with_something_new(store: MemoryStore) -> None:
    await agent_of("42", store=store).run("what?", run_id="run")
    with pytest.raises(ConfigError, match="run run has its answer already; to go on from it, say something new"):
        await agent_of(store=store).resume("run")
    assert (await store.runs())[0].owner == "", "and it is nobody's afterwards"
    agent = agent_of("because", store=store)
    result = await agent.resume("run", say="why?")
    assert result.text == "because"
    assert [message.content for message in result.report.messages] == ["what?", "42", "why?", "because"]
    assert [record.content for record in await read_records(store, "run") if isinstance(record, Said)] == ["why?"]


async def test_of_two_resumers_one_wins(store: MemoryStore) -> None:
    await stopped(store)
    asked = calls(("look", {"seconds": 5}))
    async with agent_of(asked, "fine", store=store).reopen("run") as run:
        await anyio.sleep(1)
        with pytest.raises(RunTaken, match="run run is being driven by process"):
            await agent_of(store=store).resume("run")
        with pytest.raises(RunTaken):
            await resolve_call(store, "run", "x", "done")
        assert (await run.wait()).text == "fine"


async def test_who_lost_its_run_to_another_writes_nothing_more(store: MemoryStore) -> None:
    """As when a machine slept, and its run was taken over meanwhile."""
    async with agent_of(calls(("look", {"seconds": 5})), store=store).start("go", run_id="run") as run:
        await anyio.sleep(1)
        store._runs["run"].owner = ""
        winner = agent_of("fine", store=store)
        assert (await winner.resume("run")).text == "fine"
        written = await store.read("run")
        outcome = await run.wait()
    assert isinstance(outcome.error, Fenced)
    assert outcome.why == "run run was taken over by another driver"
    assert await store.read("run") == written


async def test_a_killed_model_call_is_counted_as_one_that_nobody_knows(store: MemoryStore) -> None:
    bodies = [encode_record(RunStarted(run_id="run", task="go")), encode_record(DriveStarted(epoch=1))]
    await store.create("run", "", bodies, Summary())
    result = await agent_of("fine", store=store).resume("run")
    assert (result.spend.calls, result.spend.unpriced_calls, result.spend.estimated_calls) == (2, 1, 1)
    spent = [record for record in await read_records(store, "run") if isinstance(record, CallSpent)]
    assert [each.error["code"] for each in spent] == ["killed"]


async def test_a_newer_journal_is_refused_and_left_alone(store: MemoryStore) -> None:
    await store.create("run", "", [encode_record(RunStarted(run_id="run", task="go", format=99))], Summary())
    with pytest.raises(JournalNewer, match=r"the journal has format 99; this version reads up to \d"):
        await agent_of(store=store).resume("run")
    assert ((await store.runs())[0].owner, len(await store.read("run"))) == ("", 1)


async def test_a_damaged_journal_is_refused_with_the_place(store: MemoryStore) -> None:
    await store.create("run", "", [encode_record(RunStarted(run_id="run", task="go")), b'{"type":"reply","tu'], Summary())
    with pytest.raises(JournalDamaged, match="run run, record 2"):
        await agent_of(store=store).resume("run")
    assert ((await store.runs())[0].owner, len(await store.read("run"))) == ("", 2)


async def test_a_fatal_end_is_no_end_for_ever(store: MemoryStore) -> None:
    @tool(effect="read", name="look")
    async def gone() -> str:
        """Be gone."""
        raise ToolFatal("look", "no server")

    broken = Agent(model=scripted(calls(("look", {}))), store=store, tools=[gone])
    with pytest.raises(ToolFatal):
        await broken.run("go", run_id="run")
    assert (await agent_of("fine", store=store).resume("run")).text == "fine"


# --- a person's word ------------------------------------------------------------------------------------------------


async def test_only_a_call_in_doubt_is_resolved(store: MemoryStore) -> None:
    await stopped(store)
    (entry,) = (await read_state(store, "run")).in_doubt()
    with pytest.raises(ConfigError, match=rf"run run has no call nonsense in doubt; in doubt: {entry.call.id} \(look\)"):
        await resolve_call(store, "run", "nonsense", "done")
    await resolve_call(store, "run", entry.call.id, "done", "I saw it")
    with pytest.raises(ConfigError, match="none of its calls is"):
        await resolve_call(store, "run", entry.call.id, "done")
    row = (await store.runs())[0]
    assert (row.owner, row.summary.phase) == ("", "stopped"), "the list still says how the last drive ended"
    agent = agent_of("fine", store=store)
    result = await agent.resume("run")
    assert result.report.messages[2].content == "a person looked: it took effect: I saw it"


async def test_the_last_record_of_each_drive_is_its_end(store: MemoryStore) -> None:
    await stopped(store)
    await agent_of("fine", store=store).resume("run")
    kinds = [type(record) for record in await read_records(store, "run")]
    assert kinds.count(RunFinished) == kinds.count(DriveStarted) == 2
    assert kinds[-1] is RunFinished
    assert kinds[kinds.index(RunFinished) + 1] is DriveStarted


@pytest.mark.parametrize("task", [None, 5, b"bytes"])
async def test_a_task_that_is_no_text_is_refused_before_anything_is_written(task: Any) -> None:
    store = MemoryStore()
    agent = Agent(model=scripted("done"), store=store)
    with pytest.raises(ConfigError, match="the task must be text"):
        await agent.run(task)
    assert await store.runs() == []


@pytest.mark.parametrize("run_id", ["", "a b", "../x", "-x", "é", "x" * 65, "x\n", 7])
async def test_a_name_that_is_none_is_refused_before_anything_is_written(store: MemoryStore, run_id: Any) -> None:
    agent = Agent(model=scripted("fine"), store=store)
    with pytest.raises(ConfigError, match="cannot be the name of a run; use up to 64 letters"):
        await agent.run("do it", run_id=run_id)
    assert await store.runs() == []
    assert (await agent.run("do it", run_id="nightly.2026-12-01_" + "x" * 45)).text == "fine"
