"""The Postgres store when its caller is stopped, and when its process forks."""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import anyio
import pytest

pytest.importorskip("psycopg", reason="no psycopg")

import psycopg

from heaveto.causes import Cancelled, SaveTimeout
from heaveto.journal import Summary, this_process
from heaveto.journal.postgres import PostgresStore
from heaveto.scopes import Scope, finish, tasks
from heaveto.testing.stops import every_await

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # a fork beside threads is what is tested

BODY = b"x" * 500


def run(fn: Callable[..., Awaitable[Any]], *args: Any) -> Any:
    return anyio.run(fn, *args)


@contextmanager
def child(fn: Callable[[], Any]) -> Iterator[None]:
    """A forked process that runs `fn`; at the block's end it has ended by itself, with status 0."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            fn()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    yield
    assert os.waitpid(pid, 0)[1] == 0


def store_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if "postgresql://" in thread.name]


def test_a_stop_at_every_await(address: str) -> None:
    """Wherever the stop comes: what was acknowledged is in the database, and nothing else."""
    numbers, store = iter(range(10_000)), PostgresStore(address)

    async def use() -> None:
        run_id, acknowledged = f"run-{next(numbers)}", 0
        try:
            await store.create(run_id, this_process(), [BODY], Summary())
            acknowledged = 1
            acknowledged = await store.append(run_id, 1, [BODY, BODY], Summary())
            assert await store.asked_to_stop(run_id, 1) is None
            assert len(await store.read(run_id)) == 3
            await store.release(run_id, 1)
        finally:
            assert rows(run_id) == acknowledged

    with psycopg.connect(address, autocommit=True) as other:

        def rows(run_id: str) -> int:
            query = "SELECT count(*) FROM heaveto_entry JOIN heaveto_run ON number = run WHERE run_id = %s"
            found = other.execute(query, (run_id,)).fetchone()
            return 0 if found is None else int(found[0])

        run(store.runs)  # which makes the tables
        stopped = list(every_await(use, again_after=(1,)))
    run(store.aclose)
    assert {each.way for each in stopped} == {"cancel", "deadline", "shutdown"}
    for each in stopped:
        assert each.error is None or isinstance(each.error, type(each.cause)), each
        assert each.left_running == ()


@pytest.mark.anyio
async def test_closing_in_a_stop_writes_what_waits(address: str) -> None:
    """And leaves no thread."""
    store = PostgresStore(address)
    with Scope(quiet=True) as scope:
        scope.cancel(Cancelled("enough"))
        async with tasks() as group:
            group.start_soon(store.create, "run", "", [BODY], Summary())
            group.start_soon(store.aclose)
    await finish(5, store.aclose)
    assert store_threads() == []
    assert len(await store.read("run")) == 1
    await store.aclose()


@pytest.mark.anyio
async def test_a_save_that_takes_too_long_may_yet_be_written(address: str) -> None:
    store = PostgresStore(address)
    await store.create("run", "", [BODY], Summary())
    thread = store._writer._thread
    assert thread is not None
    store._save_seconds = 0.2
    thread.suspend()  # as a fork does
    try:
        with pytest.raises(SaveTimeout):
            await store.append("run", 1, [BODY], Summary())
    finally:
        thread.go_on()
    store._save_seconds = 10
    assert await store.append("run", 1, [BODY], Summary()) == 3
    await store.aclose()


def test_a_forked_child_opens_its_own(address: str) -> None:
    """While the parent goes on with its own."""
    store = PostgresStore(address)
    run(store.create, "run", "", [BODY], Summary())
    run(store.read, "run")

    async def drive() -> None:
        assert len(await store.read("run")) in (1, 2)
        assert await store.create("child", "", [BODY], Summary()) == 1
        await store.aclose()

    with child(lambda: run(drive)):
        assert run(store.append, "run", 1, [BODY], Summary()) == 2
    assert len(run(store.read, "child")) == 1
    run(store.aclose)
    assert store_threads() == []


def test_forks_in_the_middle_of_writing(address: str) -> None:
    """The store is never at work in the moment of a fork, so no connection is shared, and no lock is left locked."""
    store = PostgresStore(address)
    run(store.create, "run", "", [BODY], Summary())
    over = threading.Event()

    async def keep_writing() -> None:
        while not over.is_set():
            await store.append("run", 1, [BODY], Summary())

    writer = threading.Thread(target=run, args=(keep_writing,))
    writer.start()
    try:
        for number in range(5):
            with child(partial(run, store.create, f"child-{number}", "", [BODY], Summary())):
                pass
    finally:
        over.set()
        writer.join()
    assert len(run(store.runs)) == 6
    run(store.aclose)
