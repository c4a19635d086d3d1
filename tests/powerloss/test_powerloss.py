"""A part of `make powerloss`, and that its judge sees what is lost."""

from __future__ import annotations

import random

import pytest
from power_disk import Op
from power_states import SECTOR, after_each

from powerloss import try_out


def test_what_was_acknowledged_is_there_after_a_power_loss_at_any_write() -> None:
    losses = try_out("FULL", each=5, every=11)
    assert losses.words == []
    assert losses.states > 60


@pytest.mark.parametrize(("synchronous", "kind"), [("NORMAL", "lost"), ("OFF", "damaged")])
def test_a_store_that_syncs_less_is_found_out(synchronous: str, kind: str) -> None:
    assert try_out(synchronous, each=5, every=11).kinds[kind] > 0


def test_what_was_synced_stays_and_what_was_not_may_be_there_by_the_sector() -> None:
    ops = [Op("mark"), Op("write", "f", 0, b"a" * 3 * SECTOR), Op("sync", "f"), Op("write", "f", 100, b"b" * 2 * SECTOR)]
    seen = {after.files["f"] for after in after_each(ops, seed=1, each=200) if after.op == 4}
    whole = b"a" * 100 + b"b" * 2 * SECTOR + b"a" * (SECTOR - 100)
    assert b"a" * 3 * SECTOR in seen
    assert whole in seen
    assert len(seen) == 8, "each of three sectors may be as it was or as it is to be"
    assert all(content[:100] == b"a" * 100 for content in seen)


def test_a_file_that_was_deleted_may_be_back_and_a_new_one_may_be_missing() -> None:
    ops = [Op("mark"), Op("write", "f", 0, b"old"), Op("sync", "f"), Op("delete", "f"), Op("write", "f", 0, b"new")]
    states = list(after_each(ops, seed=random.Random(3).randint(1, 9), each=60))
    assert {after.files.get("f") for after in states if after.op == 4} == {None, b"old"}
    assert {after.files.get("f") for after in states if after.op == 5} == {None, b"old", b"new", b""}
