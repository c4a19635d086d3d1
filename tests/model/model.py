"""`make model`: every state of a run with two drivers, kills, faults, stops and a person, and what must hold in each.

The last line is the figure. Exit status 1 when an invariant does not hold, a seeded bug is not found, or there were too few
states.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from model_bugs import BUGS, TABLE_BUGS, changed_table
from model_check import Explored, explore, steps
from model_world import SCENARIOS

from heaveto.journal.transitions import CALL_TRANSITIONS

LEAST_STATES = 100_000
LEAST_BUGS = 10


def main() -> int:
    began = time.monotonic()
    explored = [_told(explore(scenario)) for scenario in SCENARIOS]
    states = sum(each.states for each in explored)
    missed = [*_missed_bugs(), *_missed_changes()]
    wrong = [each for each in explored if each.broken]
    bugs = len(BUGS) + len(TABLE_BUGS)
    few = f", fewer than {LEAST_STATES:,}" if states < LEAST_STATES else ""
    print(
        f"model: {states:,} states{few}, {len(wrong) if wrong else 'nothing'} wrong, "
        f"{bugs - len(missed)} of {bugs} seeded bugs found, in {time.monotonic() - began:.0f} s"
    )
    return 1 if wrong or missed or few or bugs < LEAST_BUGS else 0


def _told(explored: Explored) -> Explored:
    print(f"{explored.scenario}: {explored.states:,} states", flush=True)
    _tell_broken(explored)
    return explored


def _tell_broken(explored: Explored) -> None:
    if explored.broken:
        print("\n".join([f"  broken: {explored.broken}, after", *steps(explored.trace)]), flush=True)


def _missed_bugs() -> Sequence[str]:
    missed = []
    for bug in BUGS:
        print(f"bug: {bug.name}")
        found = explore(bug.scenario, bug.moves)
        _tell_broken(found)
        if bug.broken not in found.broken or not found.broken:
            missed.append(bug.name)
            print(f"  missed: wanted {bug.broken!r}")
    return missed


def _missed_changes() -> Sequence[str]:
    missed = []
    for scenario, step, after in TABLE_BUGS:
        name = f"the table has {step} lead to {after}"
        print(f"bug: {name}")
        with changed_table(CALL_TRANSITIONS, {step: after}):
            found = explore(scenario)
        _tell_broken(found)
        if not found.broken:
            missed.append(name)
            print("  missed")
    return missed


if __name__ == "__main__":
    sys.exit(main())
