"""Runs are forgotten, carried elsewhere, forked, and held against the code."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from heaveto.causes import Cancelled
from heaveto.errors import APIError, ConfigError, JournalDamaged, JournalError, RunNotFound, RunTaken
from heaveto.journal import MemoryStore, RunRow, Summary, this_process
from heaveto.journal.records import LimitNear, Record, Replied, RunFinished, ToolStarted, encode_record, unseal
from heaveto.journal.seals import decode_entries, seal
from heaveto.journal.state import fold
from heaveto.messages import AssistantMessage
from heaveto.runs import (
    delete_run,
    export_runs,
    fork_run,
    import_runs,
    prune_runs,
    read_records,
    read_state,
    replay,
    select_rows,
    verify_run,
)
from heaveto.scopes import wall_time

pytestmark = pytest.mark.anyio


@pytest.fixture
async def lived(rig: Any, plan: Any) -> Any:
    """A rich run that has its answer, with a retry in it."""
    lived = rig(plan=plan(APIError("p", 503, "busy")))
    await lived.agent().run("go", run_id="run")
    return lived


async def lines_of(store: Any, *run_ids: str) -> list[str]:
    return [line async for line in export_runs(store, run_ids)]


# --- forgetting -----------------------------------------------------------------------------------------------------


async def test_only_a_run_that_nobody_drives_is_deleted(lived: Any) -> None:
    await lived.store.create("driven", this_process(), [b"x"], Summary())
    with pytest.raises(RunTaken):
        await delete_run(lived.store, "driven")
    assert await delete_run(lived.store, "ru") == "run"
    with pytest.raises(RunNotFound):
        await lived.store.read("run")
    assert len(await lived.store.runs()) == 1


async def test_old_runs_go_but_for_those_that_somebody_needs() -> None:
    store = MemoryStore()
    for name, owner, phase in (("old", "", "answered"), ("waits", "", "waiting"), ("driven", this_process(), "running")):
        await store.create(name, owner, [b"x"], Summary(phase=phase))
    now = wall_time()
    await store.create("new", "", [b"x"], Summary(phase="answered"))
    assert await prune_runs(store, now) == ["old"]
    assert await prune_runs(store, now, waiting_too=True) == ["waits"]
    assert {row.run_id for row in await store.runs()} == {"driven", "new"}


class Touched(MemoryStore):
    """Between the listing and what follows from it, somebody has one of the runs and lets it go, and deletes another."""

    async def runs(self, limit: int = 50) -> list[RunRow]:
        rows = await super().runs(limit)
        await self.release("resumed", await self.take("resumed", this_process()))
        await self.delete("deleted", await self.take("deleted", this_process()))
        return rows


async def test_what_was_touched_or_deleted_since_it_was_listed_is_not_pruned() -> None:
    store = Touched()
    for name in ("old", "resumed", "deleted"):
        await store.create(name, "", [b"x"], Summary(phase="answered"))
    assert await prune_runs(store, wall_time()) == ["old"]
    assert await store.find("") == "resumed"
    await store.take("resumed", this_process())  # nobody has it


async def test_a_list_is_narrowed_down() -> None:
    store = MemoryStore()
    for name, phase, cause, usd in (
        ("a", "answered", "", 1),
        ("b", "limit", "cost_budget", 3),
        ("c", "limit", "max_turns", 2),
    ):
        await store.create(name, "", [], Summary(phase=phase, cause=cause, cost_usd=Decimal(usd)))
    rows = await store.runs()

    def names(**wanted: Any) -> str:
        return "".join(sorted(row.run_id for row in select_rows(rows, **wanted)))

    assert names() == "abc"
    assert names(states=["limit"]) == "bc"
    assert names(states=["limit", "answered"], least_usd=Decimal(2)) == "bc"
    assert names(cause="max_turns") == "c"
    assert names(since=rows[0].updated) == "c"
    assert names(until=rows[-1].updated) == "a"


# --- carrying elsewhere ---------------------------------------------------------------------------------------------


async def test_a_run_is_the_same_elsewhere_and_goes_on_there(rig: Any, plan: Any, answer: str) -> None:
    here, there = rig(plan=plan()), rig(plan=plan())
    async with here.agent().start("go", run_id="run") as run:
        run.cancel(Cancelled("moving"))
    lines = await lines_of(here.store, "run")
    assert await import_runs(there.store, lines) == ["run"]
    assert await lines_bodies(there.store) == await lines_bodies(here.store)
    assert (await there.agent().resume("run")).text == answer
    (row,) = await there.store.runs()
    await verify_run(there.store, row)


async def lines_bodies(store: Any) -> list[bytes]:
    return [entry.body for entry in await store.read("run")]


def at(time: str, line: str) -> str:
    return re.sub(r'"at":[0-9.]+', f'"at":{time}', line)


async def test_what_is_not_whole_is_not_imported(lived: Any) -> None:
    lines = await lines_of(lived.store, "run")
    store = MemoryStore()
    wrong: list[tuple[type[JournalError | ConfigError], Sequence[str], str]] = [
        (
            JournalDamaged,
            [*lines[:3], lines[3].replace("turn 0", "turn 9"), *lines[4:]],
            "record 4: its checksum does not fit",
        ),
        (JournalDamaged, [*lines[:3], *lines[4:]], "record 4: it is missing"),
        (ConfigError, [*lines, "hello"], f"line {len(lines) + 1} is none of an export"),
        *((ConfigError, [at(time, lines[0]), *lines[1:]], "line 1 is none of an export: .*at") for time in ("-5", "1e300")),
    ]
    for kind, bad, text in wrong:
        assert bad != lines
        with pytest.raises(kind, match=text):
            await import_runs(store, bad)
    assert await store.runs() == []
    await import_runs(store, lines[:-1])
    with pytest.raises(JournalError, match="there is a run run already"):
        await import_runs(store, lines)


async def test_an_import_that_was_cut_off_is_made_again(lived: Any) -> None:
    await fork_run(lived.store, "run", 1, "fork")
    lines = await lines_of(lived.store, "run", "fork")
    store = MemoryStore()
    await import_runs(store, await lines_of(lived.store, "run"))
    assert await import_runs(store, lines) == ["fork"]
    assert await import_runs(store, lines) == []
    assert await lines_of(store, "run", "fork") == lines


def sealed_anew(lines: Sequence[str], name: str, at: int, changed: dict[str, Any]) -> list[str]:
    """The lines as somebody would forge them: with other fields in one record, and whole all the same."""
    before, forged = b"", []
    for number, line in enumerate(lines):
        data = json.loads(line) | {"run_id": name}
        data["record"] |= changed if number == at else {}
        record = json.dumps(data["record"]).encode()
        before = unseal(seal([record], before)[0])[1]
        forged.append(json.dumps({**data, "seal": before.decode()}))
    return forged


@pytest.mark.parametrize(
    ("run_id", "at", "changed", "problem"),
    [
        ("", 0, {"run_id": ""}, "cannot be the name of a run"),
        ("--help", 0, {"run_id": "--help"}, "cannot be the name of a run"),
        ("a\x1b[2J", 0, {"run_id": "a\x1b[2J"}, r"'a\\x1b\[2J' cannot be the name of a run"),
        ("other", 0, {}, "run other cannot be kept: its first record is of run 'run'"),
        ("run", 0, {"folder": "a\0b"}, "its folder cannot be one"),
        ("run", 1, {"epoch": 2**63}, "it has 9223372036854775808 drives"),
        *(("run", 3, {"usage": {"cost_usd": cost}}, "it has cost what nothing can") for cost in ("NaN", "1e99", "-1")),
    ],
)
async def test_what_no_run_can_have_written_is_not_imported(
    lived: Any, run_id: str, at: int, changed: dict[str, Any], problem: str
) -> None:
    lines = await lines_of(lived.store, "run")
    store = MemoryStore()
    with pytest.raises(ConfigError, match=problem):
        await import_runs(store, sealed_anew(lines, run_id, at, changed))
    assert await store.runs() == []
    assert await import_runs(store, sealed_anew(lines, "run", at, {})) == ["run"], "it was refused for that alone"


async def test_lines_that_are_no_text_or_too_deep_are_none_of_an_export(lived: Any) -> None:
    first, *_ = await lines_of(lived.store, "run")
    for line in ("\ud800", first.replace('"go"', "[" * 9999 + "]" * 9999)):
        with pytest.raises(ConfigError, match="line 1 is none of an export"):
            await import_runs(MemoryStore(), [line])


async def test_what_could_not_be_imported_is_not_exported(lived: Any) -> None:
    run = lived.store._runs["run"]
    for body in (run.entries[3].body.replace(b"turn 0", b"turn \xb5"), b"{}"):
        run.entries[3] = msgspec.structs.replace(run.entries[3], body=body)
        with pytest.raises(JournalDamaged, match="run run, record 4: "):
            await lines_of(lived.store, "run")


# --- forking --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turn", [0, 1, 2, 3, 4])
async def test_a_fork_goes_on_from_its_turn(lived: Any, rig: Any, plan: Any, answer: str, turn: int) -> None:
    assert await fork_run(lived.store, "ru", turn, "fork") == "fork"
    state = await read_state(lived.store, "fork")
    assert (state.turns, state.started.forked_from) == (turn, f"run turn {turn}")
    assert state.spend.cost_usd == 0, "the run before has paid for that"
    old = list((await read_state(lived.store, "run")).transcript)
    assert list(state.transcript) == old[: len(state.transcript)]
    assert sum(isinstance(message, AssistantMessage) for message in state.transcript) == turn
    if turn == 4:
        assert state.answer == answer
        return
    lived.plan = plan()
    result = await lived.agent().resume("fork")
    assert (result.text, result.turns) == (answer, 4)
    assert replay(await read_records(lived.store, "fork")) == []


async def test_a_fork_is_warned_of_its_limits_anew(lived: Any) -> None:
    entries = await lived.store.read("run")
    warning = LimitNear(limit="turns", percent=80, used=4, of=5, setting="--max-turns")
    bodies = [*map(encode_record, [*decode_entries("run", entries[:-1]), warning])]
    await lived.store.create("warned", "", seal(bodies, b""), Summary())
    await fork_run(lived.store, "warned", 4, "fork")
    assert (await read_state(lived.store, "warned")).warned == [warning]
    assert (await read_state(lived.store, "fork")).warned == []


async def test_there_is_no_fork_where_there_is_no_turn_or_no_answer(lived: Any) -> None:
    with pytest.raises(ConfigError, match="run run has no turn 5"):
        await fork_run(lived.store, "run", 5, "fork")
    records = await read_records(lived.store, "run")
    at = next(index for index, record in enumerate(records) if isinstance(record, ToolStarted))
    entries = await lived.store.read("run")
    await lived.store.create("killed", "", [entry.body for entry in entries[: at + 1]], Summary())
    with pytest.raises(ConfigError, match="turn 2 of run killed has calls without an answer"):
        await fork_run(lived.store, "killed", 2, "fork")
    assert {row.run_id for row in await lived.store.runs()} == {"run", "killed"}


# --- replaying ------------------------------------------------------------------------------------------------------


async def test_a_journal_is_what_the_code_makes_of_it(lived: Any) -> None:
    assert replay(await read_records(lived.store, "run")) == []


async def test_what_the_code_would_not_have_written_is_named(lived: Any) -> None:
    records = await read_records(lived.store, "run")

    def changed(kind: type[Record], **fields: Any) -> list[str]:
        at = next(index for index, record in enumerate(records) if isinstance(record, kind))
        return replay([*records[:at], msgspec.structs.replace(records[at], **fields), *records[at + 1 :]])

    assert "has the key none, and the code makes" in changed(ToolStarted, key="none")[0]
    assert "turn 7, after turn 0" in changed(Replied, turn=7)[0]
    assert "turns: 9 was written, and the code makes 4" in changed(RunFinished, turns=9)[0]
    assert "the answer: 'no' was written" in changed(RunFinished, text="no")[0]
    state = fold(records)
    assert "spend: " in changed(RunFinished, spend=msgspec.structs.replace(state.spend, calls=99))[0]
    at = next(index for index, record in enumerate(records) if isinstance(record, Replied))
    assert "a reply, where the loop would answer" in replay([*records[: at + 1], *records[at:]])[0]
    warning = LimitNear(limit="turns", percent=80, used=4, of=5, setting="--max-turns")
    assert replay([*records[:-1], warning, records[-1]]) == []
    assert "a warning at 80 % of --max-turns, which" in replay([*records[:-1], warning, warning, records[-1]])[0]
    assert "what was left to itself: ('task x',)" in changed(RunFinished, abandoned=("task x",))[0]
    assert "its parts: " in changed(RunFinished, spend_by={"retries": state.spend})[0]
    assert replay(records[1:]) == ["record 1: a run begins with run.started"]
