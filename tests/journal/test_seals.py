"""A record that was changed, lost or moved is named, and those before it are as they were."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaveto.errors import JournalDamaged, RunNotFound
from heaveto.journal import Entry, SqliteStore
from heaveto.journal.records import LimitNear, Record, RunStarted, Said, ToolApproved, encode_record, unseal
from heaveto.journal.schema import FORMAT
from heaveto.journal.seals import decode_entries, last_seal, seal
from heaveto.messages import Image, ToolMessage
from heaveto.runs import Agent, read_records, read_state, replay, resolve_call, verify_run
from heaveto.testing.scripted_model import scripted
from heaveto.tools import tool

RECORDS: list[Record] = [RunStarted(run_id="run", task="go"), *(Said(content=f"number {number}") for number in range(5))]
STORED = Path(__file__).parent / "data" / "format-1.db"
SEALED = STORED.with_name("format-2.db")  # a run with images, approvals and a warning, and a fork of it; never written again


def sealed(records: list[Record] = RECORDS) -> list[Entry]:
    return [Entry(seq, 0.0, body) for seq, body in enumerate(seal(map(encode_record, records), b""), 1)]


def read_until_damage(entries: list[Entry]) -> tuple[list[Record], str]:
    records: list[Record] = []
    try:
        records.extend(decode_entries("run", entries))  # what came before the error is kept
    except JournalDamaged as error:
        return records, str(error)
    return records, ""


def test_what_was_sealed_is_read_as_it_was() -> None:
    assert read_until_damage(sealed()) == (RECORDS, "")


def test_seals_go_on_where_an_earlier_writer_stopped() -> None:
    first = sealed(RECORDS[:3])
    more = seal(map(encode_record, RECORDS[3:]), last_seal(first))
    assert [entry.body for entry in first] + more == [entry.body for entry in sealed()]


def test_records_without_seals_are_those_of_an_older_version() -> None:
    old = [Entry(seq, 0.0, encode_record(record)) for seq, record in enumerate(RECORDS[:3], 1)]
    new = [Entry(seq, 0.0, body) for seq, body in enumerate(seal(map(encode_record, RECORDS[3:]), last_seal(old)), 4)]
    assert read_until_damage([*old, *new]) == (RECORDS, "")


@given(data=st.data())
def test_any_changed_byte_is_found_and_named(data: st.DataObject) -> None:
    entries = sealed()
    at = data.draw(st.integers(0, len(entries) - 1))
    body = bytearray(entries[at].body)
    byte = data.draw(st.integers(0, len(body) - 1))
    body[byte] ^= data.draw(st.integers(1, 255))
    entries[at] = Entry(at + 1, 0.0, bytes(body))
    records, problem = read_until_damage(entries)
    assert records == RECORDS[:at]
    assert f"run run, record {at + 1}" in problem


def test_a_record_without_a_seal_among_sealed_ones_is_named() -> None:
    entries = sealed()
    entries[-1] = Entry(6, 0.0, unseal(entries[-1].body)[0])
    assert "record 6: it has no checksum" in read_until_damage(entries)[1]


@pytest.mark.parametrize("at", range(6))
def test_a_missing_record_is_named(at: int) -> None:
    entries = sealed()
    del entries[at]
    records, problem = read_until_damage(entries)
    assert records == RECORDS[:at]
    assert at == 5 or problem == f"run run, record {at + 1}: it is missing"


def test_two_records_that_changed_places_are_found() -> None:
    entries = sealed()
    entries[2:4] = [Entry(3, 0.0, entries[3].body), Entry(4, 0.0, entries[2].body)]
    assert "record 3: its checksum does not fit" in read_until_damage(entries)[1]


# --- in files -------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_damage_in_a_file_is_named_by_whoever_reads_the_run(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "journal.db")
    await Agent(model=scripted("fine", "fine"), store=store).run("go", run_id="run")
    (row,) = await store.runs()
    assert await verify_run(store, row) == row.entries
    await store.aclose()
    with closing(sqlite3.connect(store.path)) as connection, connection:
        connection.execute("UPDATE entry SET body = CAST(replace(CAST(body AS TEXT), 'fine', 'bad!') AS BLOB)")
    for read in (lambda: verify_run(store, row), lambda: read_state(store, "run")):
        with pytest.raises(JournalDamaged, match=r"run run, record 3: its checksum does not fit"):
            await read()
    await store.aclose()


@pytest.mark.anyio
async def test_records_lost_from_the_end_are_missed(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "journal.db")
    await Agent(model=scripted("fine"), store=store).run("go", run_id="run")
    (row,) = await store.runs()
    await store.aclose()
    with closing(sqlite3.connect(store.path)) as connection, connection:
        connection.execute("DELETE FROM entry WHERE place = (SELECT max(place) FROM entry)")
    with pytest.raises(JournalDamaged, match=f"record {row.entries}: it is missing, and {row.entries} were written"):
        await verify_run(store, row)
    await store.aclose()


@tool(effect="write")
async def shout(what: str) -> str:
    """Shout."""
    return f"shouted {what}"


@pytest.mark.anyio
async def test_a_file_of_the_first_format_is_read_migrated_and_gone_on_with(tmp_path: Path) -> None:
    path = Path(shutil.copy(STORED, tmp_path / "journal.db"))
    store = SqliteStore(path)
    assert [(row.run_id, row.summary.phase) for row in await store.runs()] == [
        ("waiting", "waiting"),
        ("answered", "answered"),
    ]
    assert (await read_state(store, "answered")).answer == "all is done"
    with pytest.raises(RunNotFound):
        await store.read("nobody")
    await resolve_call(store, "waiting", "call_3", "done", "the neighbours say so")
    result = await Agent(model=scripted("fine"), tools=[shout], store=store).resume("waiting")
    assert result.text == "fine"
    for row in await store.runs():
        await verify_run(store, row)
    await store.aclose()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (FORMAT,)


@pytest.mark.anyio
async def test_a_file_of_the_second_format_is_read_and_is_what_the_code_makes_of_it(tmp_path: Path) -> None:
    store = SqliteStore(shutil.copy(SEALED, tmp_path / "journal.db"))
    for row in await store.runs():
        assert await verify_run(store, row) == row.entries
        assert replay(await read_records(store, row.run_id)) == []
    records = await read_records(store, "lived")
    said = [(record.verdict, record.by, record.why) for record in records if isinstance(record, ToolApproved)]
    assert said == [("approved", "ada", ""), ("denied", "ada", "not today")]
    assert [(record.setting, record.percent) for record in records if isinstance(record, LimitNear)] == [
        ("Limits(turns=...)", 80)
    ]
    state = await read_state(store, "lived")
    assert state.answer == "all is done"
    answers = [message for message in state.transcript if isinstance(message, ToolMessage)]
    assert [answer.ending for answer in answers] == ["ok", "ok", "denied", "ok", "ok"]
    assert "half the rent" in answers[1].content
    assert [isinstance(part, Image) for part in answers[0].parts] == [False, True]
    fork = await read_state(store, "forked")
    assert (fork.started.forked_from, fork.turns, fork.spend.cost_usd) == ("lived turn 2", 2, 0)
    assert fork.started.parts == state.started.parts
    await store.aclose()
