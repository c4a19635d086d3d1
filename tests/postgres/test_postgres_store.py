"""The Postgres store against the checks that every store has to pass, and what only it can do."""

from __future__ import annotations

import random
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from anyio import to_thread

pytest.importorskip("psycopg", reason="no psycopg")

import psycopg
from postgres_proxy import FAULTS, LATE_SECONDS, BadLine, Fault
from postgres_server import Server, other_server

from heaveto.errors import (
    ConfigError,
    Fenced,
    JournalBusy,
    JournalError,
    JournalNewer,
    JournalUnreachable,
    RunNotFound,
    RunTaken,
)
from heaveto.journal import Summary, open_store, this_process
from heaveto.journal.postgres import PostgresStore
from heaveto.journal.postgres_address import read_address
from heaveto.journal.postgres_problems import explained, remedy_for
from heaveto.journal.postgres_schema import FORMAT, MIGRATIONS, Connection, bring_up, connect
from heaveto.journal.postgres_statements import Create, Take
from heaveto.runs import Agent
from heaveto.scopes import tasks
from heaveto.testing.scripted_model import scripted
from heaveto.testing.store_conformance import CHECKS, Check


@pytest.mark.anyio
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_conformance(check: Check, address: str) -> None:
    await check(lambda: PostgresStore(address))


# --- a lost connection ----------------------------------------------------------------------------------------------


@pytest.fixture
def line(server: Server, address: str) -> Iterator[BadLine]:
    """The way to the server, which can go wrong."""
    if other_server():
        pytest.skip("another server's socket is not ours to stand in for")
    with BadLine(server.folder) as line:
        yield line


async def warm(store: PostgresStore) -> None:
    """Open both connections, so that the next message is what a test asks for."""
    await store.release("nobody", 1)
    await store.runs()


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.anyio
async def test_an_append_is_written_once_whatever_becomes_of_its_message(line: BadLine, address: str, fault: Fault) -> None:
    store = PostgresStore(line.address(address))
    await store.create("run", "", [b"one"], Summary())
    line.arm(fault, 1)
    assert await store.append("run", 1, [b"two", b"three"], Summary(turns=1)) == 3
    assert line.went_wrong.is_set()
    line.arm(None, 0)
    if fault == "late":
        await anyio.sleep(2 * LATE_SECONDS)  # what was lost arrives now, and comes to nothing
    assert await store.append("run", 1, [b"four"], Summary(turns=2)) == 4
    assert [entry.body for entry in await store.read("run")] == [b"one", b"two", b"three", b"four"]
    await store.aclose()


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_every_other_change_is_made_once_too(line: BadLine, address: str, fault: Fault) -> None:
    """Of the messages that follow, the first goes wrong, then the second, and so on, until none is left."""
    store = PostgresStore(line.address(address))
    await warm(store)
    for at in count(1):
        run_id = f"run-{at}"
        line.arm(fault, at)
        assert await store.create(run_id, "", [b"one"], Summary()) == 1
        assert await store.take(run_id, this_process()) == 2
        assert await store.ask_stop(run_id, b"cause") == 2
        await store.release(run_id, 2)
        assert await store.take(run_id, this_process()) == 3
        assert await store.append(run_id, 3, [], Summary()) == 1
        await store.delete(run_id, 3)
        if not line.went_wrong.is_set():
            break
        line.arm(None, 0)
        with pytest.raises(RunNotFound):
            await store.read(run_id)
    assert at > 7
    await store.aclose()


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_several_appends_are_looked_up_one_by_one(line: BadLine, address: str) -> None:
    """Those of one commit whose answer is lost, two of the same run among them."""
    store = PostgresStore(line.address(address))
    for run_id in ("a", "b"):
        await store.create(run_id, "", [], Summary())
    for at in (1, 2, 3, 4):
        line.arm("answer lost", at)
        async with tasks() as group:
            for run_id, body in (("a", b"1"), ("b", b"2"), ("a", b"3"), ("b", b"4")):
                group.start_soon(store.append, run_id, 1, [body], Summary())
        line.arm(None, 0)
        for run_id in ("a", "b"):
            entries = await store.read(run_id)
            assert [entry.seq for entry in entries] == list(range(1, 2 * at + 1))
            assert len({entry.body for entry in entries}) == 2
    await store.aclose()


@pytest.mark.anyio
@pytest.mark.parametrize(("fault", "written"), [("lost", False), ("answer lost", True)])
async def test_a_driver_that_was_fenced_meanwhile_is_told_the_truth(
    line: BadLine, address: str, fault: Fault, written: bool
) -> None:
    """The answer to its append is lost, and before it can ask again another driver has taken the run."""
    store, other = PostgresStore(line.address(address), lease_seconds=-1), PostgresStore(address, lease_seconds=-1)
    await store.create("run", "far/x", [b"one"], Summary())
    line.arm(fault, 1)
    line.admits.clear()
    ends: list[int | Fenced] = []

    async def append() -> None:
        try:
            ends.append(await store.append("run", 1, [b"two"], Summary()))
        except Fenced as error:
            ends.append(error)

    async with tasks() as group:
        group.start_soon(append)
        await to_thread.run_sync(line.went_wrong.wait)
        while len(await other.read("run")) < 1 + written:
            await anyio.sleep(0.01)
        assert await other.take("run", "near/x") == 2
        await other.append("run", 2, [b"three"], Summary())
        line.admits.set()
    (end,) = ends
    assert (end == 2) if written else isinstance(end, Fenced)
    assert [entry.body for entry in await other.read("run")] == [b"one", *([b"two"] if written else []), b"three"]
    await store.aclose()
    await other.aclose()


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_server_that_says_nothing_is_given_up(line: BadLine, address: str) -> None:
    """The error names the place; the store is of use again when the server is."""
    store = PostgresStore(line.address(address), save_seconds=1.0)
    await store.create("run", "", [b"one"], Summary())
    line.arm("mute", 1)
    with pytest.raises(JournalUnreachable, match=r"^the journal postgresql://\[.*\]/postgres does not answer: ") as caught:
        await store.append("run", 1, [b"two"], Summary())
    assert caught.value.__cause__ is not None
    line.arm(None, 0)
    assert await store.append("run", 1, [b"three"], Summary()) in (2, 3)
    bodies = [entry.body for entry in await store.read("run")]
    assert bodies in ([b"one", b"three"], [b"one", b"two", b"three"])
    await store.aclose()


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_reader_waits_no_longer_than_it_may(line: BadLine, address: str) -> None:
    store = PostgresStore(line.address(address), save_seconds=1.0)
    await warm(store)
    line.arm("mute", 1)
    with pytest.raises(JournalUnreachable):
        await store.runs()
    line.arm(None, 0)
    assert await store.runs() == []
    await store.aclose()


# --- a server that goes away ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [signal.SIGQUIT, signal.SIGINT])
@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_restart_is_waited_for(server: Server, how: signal.Signals) -> None:
    store = PostgresStore(server.place())
    await store.create("run", "", [], Summary())

    async def append() -> None:
        for number in range(20):
            assert await store.append("run", 1, [b"%d" % number], Summary()) == number + 1

    async with tasks() as group:
        group.start_soon(append)
        await to_thread.run_sync(server.restart, how)
    assert [entry.body for entry in await store.read("run")] == [b"%d" % number for number in range(20)]
    await store.aclose()


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_server_that_stays_away_is_an_error_in_time_and_of_use_again_later(server: Server) -> None:
    store = PostgresStore(server.place(), save_seconds=1.0)
    await store.create("run", "", [], Summary())
    await to_thread.run_sync(server.stop)
    try:
        with pytest.raises(JournalUnreachable):
            await store.append("run", 1, [b"one"], Summary())
    finally:
        await to_thread.run_sync(server.start)
    assert await store.append("run", 1, [b"two"], Summary()) == 1
    await store.aclose()


@pytest.mark.anyio
async def test_a_server_that_was_never_there_is_not_waited_for() -> None:
    store = PostgresStore("postgresql://ada:geheim@127.0.0.1:1/agents")
    began = time.monotonic()
    with pytest.raises(
        JournalUnreachable, match=r"^the journal postgresql://127.0.0.1:1/agents does not answer: "
    ) as caught:
        await store.create("run", "", [], Summary())
    assert time.monotonic() - began < 5
    assert "geheim" not in "".join(traceback.format_exception(caught.value))
    await store.aclose()


# --- the address ----------------------------------------------------------------------------------------------------

SECRET = "Zq7Kx9"


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://ada:{SECRET}@db.example/agents",
        f"postgresql://db.example/agents?user=ada&password={SECRET}",
        f"postgresql://ada:x@{SECRET}@db.example/agents",
        f"postgresql://ada:x/{SECRET}@db.example/agents",
        f"postgresql://ada:1/{SECRET}@db.example/agents",
        f"postgresql://ada:1?{SECRET}@db.example/agents",
        f"postgresql://ada:x#{SECRET}@db.example/agents",
        f"postgresql://ada:x:{SECRET}@db.example/agents",
        f"postgresql://ada:100%{SECRET}@db.example/agents",
        f"postgresql://[{SECRET}",
    ],
)
def test_a_password_is_never_shown(address: str) -> None:
    """Wherever somebody put it: the store does not show it, or refuses the address without repeating it."""
    try:
        store = PostgresStore(address)
    except ConfigError as error:
        shown = "".join(traceback.format_exception(error)) + repr(error)
    else:
        shown = f"{store!r} {store} {store._address!r}"
        assert shown.startswith("PostgresStore('postgresql://db.example/agents')")
    assert SECRET not in shown.replace(__file__, "")


@pytest.mark.parametrize(
    ("address", "wrong"),
    [
        ("postgresql://db.example:99999/agents", "a port in the journal's address is not between 1 and 65,535; write it as"),
        ("postgresql://db.example:0/agents", "a port in the journal's address is not between 1 and 65,535"),
        ("postgresql://a,b/agents?port=5432,65536", "a port in the journal's address is not between"),
        ("postgresql://db.example:-1/agents", "the port in the journal's address has characters that none has"),
        ("postgresql://db.example:http/agents", "the port in the journal's address has characters"),
        ("postgresql://db.example/agents?nonsense=1", "the journal's address cannot be read"),
    ],
)
def test_an_address_that_is_none_is_refused(address: str, wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong):
        PostgresStore(address)


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("postgresql://db.example:65535/agents", "postgresql://db.example:65535/agents"),
        ("postgresql://[::1]:5433/agents", "postgresql://[::1]:5433/agents"),
        ("postgresql://[fe80::1],b/agents", "postgresql://[fe80::1],b/agents"),
        ("postgresql://db.example:/agents", "postgresql://db.example/agents"),
    ],
)
def test_an_address_is_shown_as_it_is_written(address: str, place: str) -> None:
    assert str(PostgresStore(address)) == place


def test_a_place_is_read_as_a_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert repr(open_store("postgres://db.example:5433/agents")) == "PostgresStore('postgresql://db.example:5433/agents')"
    with pytest.raises(ConfigError, match="no store for mysql://"):
        open_store("mysql://db.example/agents")
    monkeypatch.setenv("HEAVETO_STORE", "postgresql:///agents")
    assert str(open_store()) == "postgresql://[local]/agents"
    assert str(open_store(tmp_path / "x.db")) == str(tmp_path / "x.db")
    with pytest.raises(ConfigError, match="no store for mysql://"):
        Agent(model=scripted("fine"), store="mysql://db.example/agents")


def test_without_psycopg_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "heaveto.journal.postgres", None)
    with pytest.raises(ConfigError, match=r'^psycopg is not installed; pip install "heaveto\[postgres\]"$'):
        open_store("postgresql://db.example/agents")


# --- the tables -----------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_newer_journal_is_refused_and_left_as_it_is(address: str) -> None:
    store = PostgresStore(address)
    await store.create("run", "", [b"one"], Summary())
    await store.aclose()
    change(address, "UPDATE heaveto_journal SET format = 99")
    for refused in (store.runs(), store.take("run", "x"), store.compact()):
        with pytest.raises(JournalNewer) as caught:
            await refused
        assert (caught.value.found, caught.value.known) == (99, FORMAT)
    await store.aclose()
    change(address, f"UPDATE heaveto_journal SET format = {FORMAT}")
    assert (await store.runs())[0].entries == 1
    await store.aclose()


def test_an_older_journal_is_migrated_all_or_nothing(address: str) -> None:
    newer = MIGRATIONS | {
        FORMAT: ("ALTER TABLE heaveto_run ADD COLUMN mood text", "SELECT 1 / (SELECT count(*) FROM heaveto_run)")
    }
    with closing(connect(read_address(address), 5.0)) as connection:
        with pytest.raises(psycopg.errors.DivisionByZero):
            bring_up(connection, "here", newer)
        assert connection.execute("SELECT format FROM heaveto_journal").fetchone() == (FORMAT,)
        anyio.run(PostgresStore(address).create, "run", "", [b"one"], Summary())
        bring_up(connection, "here", newer)
        assert connection.execute("SELECT format, mood FROM heaveto_journal, heaveto_run").fetchone() == (FORMAT + 1, None)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_many_that_come_first_at_once_make_one_journal(address: str) -> None:
    stores = [PostgresStore(address) for _ in range(6)]
    async with tasks() as group:
        for number, store in enumerate(stores):
            group.start_soon(store.create, f"run-{number}", "", [b"one"], Summary())
    assert len(await stores[0].runs()) == 6
    async with tasks() as group:
        for store in stores:
            group.start_soon(store.aclose)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_lost_table_is_told(address: str) -> None:
    store = PostgresStore(address)
    await store.create("run", "", [b"one"], Summary())
    change(address, "DROP TABLE heaveto_entry")
    with pytest.raises(JournalError, match=r"^the journal postgresql://.*: its tables are gone"):
        await store.append("run", 1, [b"two"], Summary())
    await store.aclose()


@pytest.mark.parametrize("run_id", ["a\0b", "a\udcffb"])
@pytest.mark.anyio
async def test_an_id_that_cannot_be_stored_is_refused(address: str, run_id: str) -> None:
    store = PostgresStore(address)
    with pytest.raises(JournalError, match=r"^a run's id must be text"):
        await store.create(run_id, "", [], Summary())
    assert await store.runs() == []
    await store.aclose()


# --- several drivers ------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_who_holds_a_row_for_too_long_is_told_as_busy(address: str) -> None:
    store = PostgresStore(address, save_seconds=1.0)
    await store.create("run", "", [], Summary())
    with psycopg.connect(address) as other:
        other.execute("SELECT FROM heaveto_run FOR UPDATE")
        with pytest.raises(JournalBusy):
            await store.append("run", 1, [b"one"], Summary())
        other.rollback()
    assert await store.append("run", 1, [b"one"], Summary()) == 1
    await store.aclose()


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_looking_for_a_stop_renews_the_lease(address: str) -> None:
    """So a long call loses no run; and the lease is the driver's, whatever its taker's is."""
    driver, taker = PostgresStore(address, lease_seconds=1.5), PostgresStore(address, lease_seconds=0.0)
    await driver.create("run", "elsewhere", [], Summary())
    for _ in range(8):
        await anyio.sleep(0.4)
        assert await driver.asked_to_stop("run", 1) is None
        with pytest.raises(RunTaken):
            await taker.take("run", "elsewhere too")
    await anyio.sleep(1.6)
    assert await taker.take("run", "elsewhere too") == 2
    await driver.asked_to_stop("run", 1)
    assert await taker.take("run", "third") == 3
    for store in (driver, taker):
        await store.aclose()


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_two_stores_of_one_driver_count_on(address: str) -> None:
    """Neither knows what the other wrote."""
    one, other = PostgresStore(address), PostgresStore(address)
    await one.create("run", "", [b"1"], Summary())
    for seq in range(2, 6):
        store = one if seq % 2 else other
        assert await store.append("run", 1, [b"%d" % seq], Summary()) == seq
    assert [entry.body for entry in await one.read("run")] == [b"%d" % seq for seq in range(1, 6)]
    for store in (one, other):
        await store.aclose()


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_appends_that_wait_are_one_statement(address: str) -> None:
    store = PostgresStore(address)
    for number in range(50):
        await store.create(f"run-{number}", "", [], Summary())
    before = transactions(address)
    async with tasks() as group:
        for number in range(50):
            group.start_soon(store.append, f"run-{number}", 1, [b"one"], Summary())
    written = transactions(address) - before
    assert written < 10, "the first one alone, and the others behind it"
    assert {row.entries for row in await store.runs(100)} == {1}
    await store.aclose()


@pytest.mark.anyio
async def test_a_refused_append_takes_no_other_with_it(address: str) -> None:
    store = PostgresStore(address)
    for run_id in ("a", "b", "c"):
        await store.create(run_id, "", [], Summary())
    refused: list[JournalError] = []

    async def append(run_id: str, epoch: int) -> None:
        try:
            await store.append(run_id, epoch, [b"one"], Summary())
        except JournalError as error:
            refused.append(error)

    async with tasks() as group:
        for run_id, epoch in (("a", 1), ("b", 7), ("c", 1), ("nobody", 1)):
            group.start_soon(append, run_id, epoch)
    assert sorted(type(error).__name__ for error in refused) == ["Fenced", "RunNotFound"]
    assert sorted((row.run_id, row.entries) for row in await store.runs()) == [("a", 1), ("b", 0), ("c", 1)]
    await store.aclose()


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_room_is_given_back(address: str) -> None:
    store = PostgresStore(address)
    await store.create("run", "", [random.randbytes(100_000) for _ in range(20)], Summary())
    await store.take("run", this_process())
    await store.delete("run", 2)
    assert await store.compact() > 1_000_000
    await store.aclose()


def change(address: str, statement: str) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(statement.encode())


def transactions(address: str) -> int:
    """How many this server has begun that wrote something, in all of its databases."""
    with psycopg.connect(address, autocommit=True) as connection:
        row = connection.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize(
    ("error", "remedy", "becomes"),
    [
        (psycopg.errors.LockNotAvailable(), "refuse", JournalBusy),
        (psycopg.errors.QueryCanceled(), "refuse", JournalUnreachable),
        (psycopg.errors.AdminShutdown(), "again", JournalUnreachable),
        (psycopg.errors.CannotConnectNow(), "again", JournalUnreachable),
        (psycopg.errors.TooManyConnections(), "again", JournalUnreachable),
        (psycopg.errors.IdleInTransactionSessionTimeout(), "again", JournalUnreachable),
        (psycopg.OperationalError(), "again", JournalUnreachable),
        (psycopg.errors.DeadlockDetected(), "one by one", JournalError),
        (psycopg.errors.DiskFull(), "one by one", JournalError),
        (psycopg.errors.ReadOnlySqlTransaction(), "one by one", JournalError),
        (ValueError("a bug"), "one by one", ValueError),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Exception) else "",
)
def test_each_problem_has_its_remedy_and_its_error(error: Exception, remedy: str, becomes: type[Exception]) -> None:
    assert remedy_for(error) == remedy
    told = explained(error, read_address("postgresql://ada:geheim@db.example/agents"))
    assert type(told) is becomes
    assert told is error or told.__cause__ is error


def test_what_the_other_side_repeats_of_a_password_is_struck_out() -> None:
    error = psycopg.OperationalError('no host "geheim@db"')
    told = explained(error, read_address("postgresql://ada:geheim@db.example/agents"))
    assert "geheim" not in "".join(traceback.format_exception(told))
    assert 'no host "***@db"' in str(told)


def test_who_shows_life_between_a_look_and_the_taking_is_not_taken(address: str) -> None:
    """The lease is over when another looks, and renewed before it takes."""
    with closing(connect(read_address(address), 5.0)) as connection:

        class Renewed:
            """The same connection, on which something comes between."""

            looks = 0

            def execute(self, query: str, params: Any) -> Any:
                found = connection.execute(query.encode(), params)
                self.looks += 1
                if self.looks == 1:
                    connection.execute("UPDATE heaveto_run SET lease_until = clock_timestamp() + interval '1 minute'")
                return found

        create = Create("run", "far/x", [], b"{}", lease_seconds=-1.0)
        assert create.answer(connection, {}) == 1
        refusal = Take("run", "near/x", lease_seconds=60.0).answer(cast(Connection, Renewed()), {})
        assert isinstance(refusal, RunTaken)
        assert connection.execute("SELECT epoch, owner FROM heaveto_run").fetchone() == (1, "far/x")
