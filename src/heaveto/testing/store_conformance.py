"""What every store must do, as checks that can be run on a store of one's own.

    import pytest
    from heaveto.testing.store_conformance import CHECKS

    @pytest.mark.anyio
    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    async def test_my_store(check, tmp_path):
        await check(lambda: MyStore(tmp_path / "journal"))

A check calls the factory once, for a store in an empty place, and closes the store. It raises AssertionError with what it
expected and what came. Run them under asyncio and under Trio. What a killed process or a full disk does to a store only
its author can try.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any, TypeAlias

from ..causes import Cancelled
from ..errors import Fenced, JournalError, RunNotFound, RunTaken
from ..journal.owner import this_process
from ..journal.store import Entry, Store, Summary
from ..scopes import Scope, finish, tasks, wall_time

__all__ = ["CHECKS", "Check", "StoreFactory"]

StoreFactory: TypeAlias = Callable[[], Store]
Check: TypeAlias = Callable[[StoreFactory], Awaitable[None]]

CLOSE_SECONDS = 30.0  # more than a store of ours takes at its slowest, less than a test that hangs


async def a_new_run_has_its_first_records(factory: StoreFactory) -> None:
    async with _opened(factory) as store:
        before = wall_time()
        _expect("epoch", await store.create("run", this_process(), [b"one", b"two"], Summary()), 1)
        entries = await store.read("run")
        _expect("records", [(each.seq, each.body) for each in entries], [(1, b"one"), (2, b"two")])
        _expect("times within the test", [before <= each.at <= wall_time() for each in entries], [True, True])


async def an_id_is_used_once(factory: StoreFactory) -> None:
    async with _opened(factory) as store:
        await store.create("run", "", [b"one"], Summary(task="first"))
        error = await _refused(JournalError, store.create, "run", "", [b"other"], Summary(task="second"))
        _expect("that the id is named", "run" in str(error), True)
        _expect("records", await _bodies(store, "run"), [b"one"])
        _expect("summary", (await store.runs())[0].summary, Summary(task="first"))


async def a_restored_run_is_as_it_was(factory: StoreFactory) -> None:
    """With its times, in its place in the list, and under an epoch that is above its last one when it is taken."""
    async with _opened(factory) as store:
        await store.create("new", "", [b"new"], Summary())
        entries = [Entry(1, 1_000.25, b"one"), Entry(2, 1_000.25, b"two"), Entry(3, 2_000.5, b"three")]
        await store.restore("old", 7, entries, Summary(task="kept"))
        await store.restore("older", 1, entries[:1], Summary())
        _expect("records", await store.read("old"), entries)
        row = (await store.runs())[1]
        _expect("row", (row.run_id, row.created, row.updated, row.entries), ("old", 1_000.25, 2_000.5, 3))
        _expect("row", (row.epoch, row.owner, row.summary), (7, "", Summary(task="kept")))
        _expect("order", [row.run_id for row in await store.runs()], ["new", "old", "older"])
        _expect("last touched", await store.find(""), "new")
        await _refused(JournalError, store.restore, "old", 1, entries, Summary())
        _expect("epoch", await store.take("old", this_process()), 8)
        _expect("seq", await store.append("old", 8, [b"four"], Summary()), 4)
        _expect("last touched", await store.find(""), "old")


async def an_append_returns_the_last_seq(factory: StoreFactory) -> None:
    async with _opened(factory) as store:
        await store.create("run", "", [b"one"], Summary())
        _expect("seq", await store.append("run", 1, [b"two", b"three"], Summary()), 3)
        _expect("seq", await store.append("run", 1, [b"four"], Summary()), 4)
        _expect("records", await _bodies(store, "run"), [b"one", b"two", b"three", b"four"])


async def reading_starts_where_the_reader_was(factory: StoreFactory) -> None:
    async with _opened(factory) as store:
        await store.create("other", "", [b"x"] * 5, Summary())
        await store.create("run", "", [b"1", b"2", b"3"], Summary())
        await store.create("third", "", [b"y"] * 5, Summary())
        for after, wanted in ((0, [1, 2, 3]), (2, [3]), (3, []), (99, [])):
            _expect(f"seqs after {after}", [each.seq for each in await store.read("run", after)], wanted)


async def an_append_of_nothing_renews_the_summary(factory: StoreFactory) -> None:
    async with _opened(factory) as store:
        await store.create("run", "", [b"one"], Summary())
        _expect("seq", await store.append("run", 1, [], Summary(phase="answered")), 1)
        _expect("summary", (await store.runs())[0].summary, Summary(phase="answered"))


async def any_bytes_are_kept(factory: StoreFactory) -> None:
    bodies = [b"", bytes(range(256)), b"\0" * 100, b"x" * 1_000_000]
    async with _opened(factory) as store:
        await store.create("run", "", bodies, Summary())
        _expect("that the records are the same", await _bodies(store, "run") == bodies, True)


async def an_unknown_run_is_said_to_be_unknown(factory: StoreFactory) -> None:
    async with _opened(factory) as store:
        await _refused(RunNotFound, store.read, "nobody")
        await _refused(RunNotFound, store.take, "nobody", this_process())
        await _refused(RunNotFound, store.append, "nobody", 1, [b"one"], Summary())
        await store.release("nobody", 1)
        _expect("runs", await store.runs(), [])


async def a_new_driver_fences_the_old_one(factory: StoreFactory) -> None:
    async with _opened(factory) as store:
        await store.create("run", "", [b"one"], Summary(task="kept"))
        _expect("epoch", await store.take("run", this_process()), 2)
        await _refused(Fenced, store.append, "run", 1, [b"late"], Summary(task="lost"))
        await _refused(Fenced, store.append, "run", 3, [b"early"], Summary(task="lost"))
        _expect("records", await _bodies(store, "run"), [b"one"])
        _expect("summary", (await store.runs())[0].summary, Summary(task="kept"))
        _expect("seq", await store.append("run", 2, [b"two"], Summary()), 2)


async def a_driven_run_is_not_taken(factory: StoreFactory) -> None:
    async with _opened(factory) as store:
        await store.create("run", this_process(), [], Summary())
        await _refused(RunTaken, store.take, "run", this_process())
        _expect("seq", await store.append("run", 1, [b"one"], Summary()), 1)


async def a_run_of_an_unknown_machine_is_left_alone(factory: StoreFactory) -> None:
    """For a minute after its last record, that is."""
    async with _opened(factory) as store:
        await store.create("run", "a driver that is nowhere near", [], Summary())
        await _refused(RunTaken, store.take, "run", this_process())


async def a_dead_driver_loses_its_run_at_once(factory: StoreFactory) -> None:
    async with _opened(factory) as store:
        await store.create("run", _owner_before_the_last_boot(), [b"one"], Summary())
        _expect("epoch", await store.take("run", this_process()), 2)
        await _refused(RunTaken, store.take, "run", this_process())


async def a_released_run_can_be_taken(factory: StoreFactory) -> None:
    async with _opened(factory) as store:
        await store.create("run", this_process(), [], Summary())
        await store.release("run", 1)
        _expect("owner", (await store.runs())[0].owner, "")
        _expect("epoch", await store.take("run", this_process()), 2)


async def an_old_driver_releases_nothing(factory: StoreFactory) -> None:
    async with _opened(factory) as store:
        await store.create("run", "", [], Summary())
        await store.take("run", this_process())
        await store.release("run", 1)
        await _refused(RunTaken, store.take, "run", this_process())


async def one_of_several_takers_wins(factory: StoreFactory) -> None:
    won: list[int] = []
    refused: list[RunTaken] = []

    async def try_to_take() -> None:
        try:
            won.append(await store.take("run", this_process()))
        except RunTaken as error:
            refused.append(error)

    async with _opened(factory) as store:
        await store.create("run", "", [], Summary())
        async with tasks() as group:
            for _ in range(5):
                group.start_soon(try_to_take)
        _expect("the winner's epoch", won, [2])
        _expect("losers", len(refused), 4)


async def a_list_shows_the_last_touched_first(factory: StoreFactory) -> None:
    async with _opened(factory) as store:
        for run_id in ("a", "b", "c"):
            await store.create(run_id, "", [b"one"], Summary(task=run_id))
        await store.append("a", 1, [b"two"], Summary(task="a", turns=1))
        rows = await store.runs()
        _expect("order", [row.run_id for row in rows], ["a", "c", "b"])
        _expect("the first two", [row.run_id for row in await store.runs(2)], ["a", "c"])
        _expect("the first none", await store.runs(0), [])
        _expect("entries and epoch", (rows[0].entries, rows[0].epoch), (2, 1))
        _expect("that time goes on", rows[0].created <= rows[0].updated <= wall_time(), True)


async def a_summary_comes_back_whole(factory: StoreFactory) -> None:
    summary = Summary(
        task="töst \N{SAILBOAT}\0",
        folder="/home/x",
        model="openrouter:a/b",
        phase="limit",
        why="cost budget reached",
        cause="cost_budget",
        turns=7,
        cost_usd=Decimal("0.0123450"),
        unpriced_calls=1,
    )
    async with _opened(factory) as store:
        await store.create("run", "", [], summary)
        _expect("summary", (await store.runs())[0].summary, summary)


async def a_stray_surrogate_breaks_nothing(factory: StoreFactory) -> None:
    """Such come from file names and command lines that are no UTF-8."""
    async with _opened(factory) as store:
        await store.create("run", "", [b"one"], Summary(task="bad \udcff", model="kept", turns=3))
        summary = (await store.runs())[0].summary
        _expect("model and turns", (summary.model, summary.turns), ("kept", 3))


async def an_id_is_found_by_its_beginning(factory: StoreFactory) -> None:
    async with _opened(factory) as store:
        await _refused(RunNotFound, store.find, "")
        for run_id in ("ab", "abc1", "abd", "b%", "b_"):
            await store.create(run_id, "", [], Summary())
        await store.append("abd", 1, [b"one"], Summary())
        for prefix, wanted in (("abc", "abc1"), ("ab", "ab"), ("b%", "b%"), ("", "abd")):
            _expect(f'the run of "{prefix}"', await store.find(prefix), wanted)
        await _refused(RunNotFound, store.find, "abx")
        error = await _refused(JournalError, store.find, "a")
        _expect("that several is told from none", isinstance(error, RunNotFound), False)


async def runs_side_by_side_do_not_mix(factory: StoreFactory) -> None:
    async def drive(run_id: str) -> None:
        await store.create(run_id, this_process(), [f"{run_id} 1".encode()], Summary())
        for seq in range(2, 6):
            _expect("seq", await store.append(run_id, 1, [f"{run_id} {seq}".encode()], Summary()), seq)

    names = [f"run-{number}" for number in range(20)]
    async with _opened(factory) as store:
        async with tasks() as group:
            for name in names:
                group.start_soon(drive, name)
        for name in names:
            _expect("records", await _bodies(store, name), [f"{name} {seq}".encode() for seq in range(1, 6)])


async def a_stopped_caller_writes_to_the_end(factory: StoreFactory) -> None:
    async with _opened(factory) as store:
        with Scope(quiet=True) as scope:
            scope.cancel(Cancelled("enough"))
            await store.create("run", "", [b"one"], Summary())
            epoch = await store.take("run", this_process())
            _expect("seq", await store.append("run", epoch, [b"two"], Summary()), 2)
            await store.release("run", epoch)
        _expect("records", await _bodies(store, "run"), [b"one", b"two"])
        _expect("owner", (await store.runs())[0].owner, "")


async def a_driver_learns_that_it_is_asked_to_stop(factory: StoreFactory) -> None:
    async with _opened(factory) as store:
        await store.create("run", this_process(), [], Summary())
        _expect("the cause before", await store.asked_to_stop("run", 1), None)
        _expect("the epoch that is asked", await store.ask_stop("run", b"first"), 1)
        await store.ask_stop("run", b"second")
        _expect("the cause", await store.asked_to_stop("run", 1), b"second")
        await store.release("run", 1)
        _expect("that nobody is asked", await store.ask_stop("run", b"late"), 0)
        _expect(
            "that the next driver is not", await store.asked_to_stop("run", await store.take("run", this_process())), None
        )
        await _refused(RunNotFound, store.ask_stop, "nobody", b"x")


async def a_deleted_run_is_gone_and_others_are_there(factory: StoreFactory) -> None:
    async with _opened(factory) as store:
        for run_id in ("a", "b", "c"):
            await store.create(run_id, "", [run_id.encode()], Summary())
        epoch = await store.take("b", this_process())
        await _refused(Fenced, store.delete, "b", epoch - 1)
        await store.delete("b", epoch)
        await _refused(RunNotFound, store.read, "b")
        await _refused(RunNotFound, store.delete, "b", epoch)
        _expect("those left", sorted(row.run_id for row in await store.runs()), ["a", "c"])
        _expect("records", [await _bodies(store, "a"), await _bodies(store, "c")], [[b"a"], [b"c"]])
        await store.create("b", "", [b"new"], Summary())
        _expect("records", await _bodies(store, "b"), [b"new"])


async def closing_twice_is_harmless(factory: StoreFactory) -> None:
    async with _opened(factory) as store:
        await store.create("run", "", [b"one"], Summary())
        await store.aclose()
        await store.aclose()


CHECKS: list[Check] = [
    a_new_run_has_its_first_records,
    an_id_is_used_once,
    a_restored_run_is_as_it_was,
    an_append_returns_the_last_seq,
    reading_starts_where_the_reader_was,
    an_append_of_nothing_renews_the_summary,
    any_bytes_are_kept,
    an_unknown_run_is_said_to_be_unknown,
    a_new_driver_fences_the_old_one,
    a_driven_run_is_not_taken,
    a_run_of_an_unknown_machine_is_left_alone,
    a_dead_driver_loses_its_run_at_once,
    a_released_run_can_be_taken,
    an_old_driver_releases_nothing,
    one_of_several_takers_wins,
    a_list_shows_the_last_touched_first,
    a_summary_comes_back_whole,
    a_stray_surrogate_breaks_nothing,
    an_id_is_found_by_its_beginning,
    runs_side_by_side_do_not_mix,
    a_stopped_caller_writes_to_the_end,
    a_driver_learns_that_it_is_asked_to_stop,
    a_deleted_run_is_gone_and_others_are_there,
    closing_twice_is_harmless,
]


@asynccontextmanager
async def _opened(factory: StoreFactory) -> AsyncIterator[Store]:
    store = factory()
    try:
        yield store
    finally:
        await finish(CLOSE_SECONDS, store.aclose)


async def _bodies(store: Store, run_id: str) -> list[bytes]:
    return [entry.body for entry in await store.read(run_id)]


async def _refused(kind: type[JournalError], fn: Callable[..., Awaitable[Any]], *args: Any) -> JournalError:
    try:
        result = await fn(*args)
    except kind as error:
        return error
    raise AssertionError(f"{fn.__name__}{args!r} should have raised {kind.__name__}, and returned {result!r}")


def _expect(what: str, got: object, wanted: object) -> None:
    if got != wanted:
        raise AssertionError(f"{what} should be {wanted!r}, and came as {got!r}")


def _owner_before_the_last_boot() -> str:
    host, _, *rest = this_process().split("/")
    return "/".join([host, "another-boot", *rest])
