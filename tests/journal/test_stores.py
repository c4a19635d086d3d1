"""Both stores against the checks that every store has to pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from heaveto.errors import RunTaken
from heaveto.journal.memory import MemoryStore
from heaveto.journal.sqlite import SqliteStore
from heaveto.journal.store import Store, Summary
from heaveto.testing import store_conformance
from heaveto.testing.store_conformance import CHECKS, Check

pytestmark = pytest.mark.anyio

KINDS = ["memory", "sqlite"]


def make_store(kind: str, folder: Path, lease_seconds: float = 60.0) -> Store:
    if kind == "memory":
        return MemoryStore(lease_seconds=lease_seconds)
    return SqliteStore(folder / "state" / "journal.db", lease_seconds=lease_seconds)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_conformance(check: Check, kind: str, tmp_path: Path) -> None:
    await check(lambda: make_store(kind, tmp_path))


@pytest.mark.parametrize("kind", KINDS)
async def test_a_quiet_run_of_an_unknown_machine_is_taken(kind: str, tmp_path: Path) -> None:
    """Where nobody can look, the lease decides; here it is over at once."""
    store = make_store(kind, tmp_path, lease_seconds=-1.0)
    await store.create("run", "somewhere else", [], Summary())
    assert await store.take("run", "nearer, but unknown too") == 2
    await store.aclose()


@pytest.mark.parametrize("kind", KINDS)
async def test_the_holder_is_named_in_words(kind: str, tmp_path: Path) -> None:
    store = make_store(kind, tmp_path)
    await store.create("run", "far/boot/1/4711/99/aa", [], Summary())
    with pytest.raises(RunTaken, match=r"^run run is being driven by process 4711 on host far$"):
        await store.take("run", "x")
    await store.aclose()


async def test_a_store_that_breaks_a_rule_is_found_out(tmp_path: Path) -> None:
    """The checks can fail: each of these stores passes all but the checks of the rule that it breaks."""

    class NoFence(MemoryStore):
        async def append(self, run_id, epoch, bodies, summary):  # type: ignore[no-untyped-def]
            return await super().append(run_id, self._find(run_id).epoch, bodies, summary)

    class NeverTaken(MemoryStore):
        async def take(self, run_id, owner):  # type: ignore[no-untyped-def]
            self._find(run_id).owner = ""
            return await super().take(run_id, owner)

    class OldestFirst(MemoryStore):
        async def runs(self, limit=50):  # type: ignore[no-untyped-def]
            return (await super().runs(10_000))[::-1][:limit]

    found = {}
    for store in (NoFence, NeverTaken, OldestFirst):
        found[store.__name__] = set()
        for check in CHECKS:
            try:
                await check(store)
            except AssertionError:
                found[store.__name__].add(check.__name__)
    assert found == {
        "NoFence": {"a_new_driver_fences_the_old_one"},
        "NeverTaken": {
            "a_driven_run_is_not_taken",
            "a_run_of_an_unknown_machine_is_left_alone",
            "a_dead_driver_loses_its_run_at_once",
            "an_old_driver_releases_nothing",
            "one_of_several_takers_wins",
        },
        "OldestFirst": {"a_list_shows_the_last_touched_first", "a_restored_run_is_as_it_was"},
    }


def test_no_check_is_forgotten() -> None:
    """Every public coroutine function of the module is in the list."""
    checks = {
        name
        for name, value in vars(store_conformance).items()
        if getattr(value, "__module__", "") == store_conformance.__name__ and callable(value) and not name.startswith("_")
    }
    assert {check.__name__ for check in CHECKS} == checks
