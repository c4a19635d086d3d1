"""A part of `make model`: a few thousand states, and a bug of each sort that must be found."""

from __future__ import annotations

import pytest
from model_bugs import BUGS, TABLE_BUGS, Bug, changed_table
from model_check import explore
from model_world import Scenario

from heaveto.journal.transitions import CALL_TRANSITIONS

FOUND_SOON = [bug for bug in BUGS if bug.name in ("marker after effect", "epoch not checked", "the model is told unasked")]


def test_what_must_hold_holds_in_every_state_of_a_small_run() -> None:
    explored = explore(Scenario(("shout",), crashes=0, epochs=2))
    assert (explored.broken, explored.trace) == ("", [])
    assert explored.states >= 300


@pytest.mark.parametrize("bug", FOUND_SOON, ids=lambda bug: bug.name)
def test_a_seeded_bug_is_found_with_the_way_to_it(bug: Bug) -> None:
    explored = explore(bug.scenario, bug.moves)
    assert bug.broken in explored.broken
    assert explored.trace
    assert explored.trace[0].startswith("driver A")


def test_a_changed_table_is_found_and_put_back() -> None:
    before = dict(CALL_TRANSITIONS)
    scenario, step, after = TABLE_BUGS[-1]
    with changed_table(CALL_TRANSITIONS, {step: after}):
        assert explore(scenario).broken
    assert before == CALL_TRANSITIONS
