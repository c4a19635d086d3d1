"""The search over states of the project: which to try next, decided only from what was tried.

A state is the original, or a base, with one candidate applied. When none of the likeliest candidates mends everything, the
one that mended most becomes the base of a second search, so that two slips in two places can be found one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .knowledge import Knowledge, State
from .ranking import Candidate, rank
from .reports import Report

__all__ = ["MOST_TRIES", "Target", "next_targets", "passing_state"]

MOST_TRIES = 150  # states tested before giving up: minutes of a small project's tests
BEFORE_A_STEP = 60  # candidates of one base before an improvement becomes the next base
LEVELS = 3  # slips mended one after the other
ORIGINAL: State = frozenset()


@dataclass(frozen=True, slots=True)
class Target:
    """A state to bring about and test."""

    state: State
    candidate: Candidate


def next_targets(known: Knowledge) -> list[Target]:
    """The states to test in the next reply; empty when the search is over."""
    tries = len(known.reports) - 1
    wanted = min(_batch(tries), MOST_TRIES - tries)
    base, report = ORIGINAL, known.reports[ORIGINAL]
    for _ in range(LEVELS):
        targets = _targets(known, base, report)
        better = _best(known, targets, report)
        fresh = [target for target in targets[: BEFORE_A_STEP if better else None] if target.state not in known.reports]
        if fresh and wanted > 0:
            return fresh[:wanted]
        if better is None:
            return []
        base, report = better, known.reports[better]
    return []


def passing_state(known: Knowledge) -> State | None:
    """A state in which every test passed that there was at the start."""
    first = known.reports.get(ORIGINAL)
    least = first.failed + first.passed if first and first.passed else 1  # files that cannot be imported count otherwise
    return next((state for state, report in known.reports.items() if report.good and report.passed >= least), None)


def _batch(tries: int) -> int:
    """One at a time at first, so that a person can follow; then more, because each reply costs a round trip."""
    return 1 if tries < 2 else 2 if tries < 8 else 4


def _targets(known: Knowledge, base: State, report: Report) -> list[Target]:
    texts = {**known.sources, **dict(base)}
    candidates = rank(tuple(sorted(texts.items())), tuple(sorted(known.tests.items())), report)
    return [Target(_state(known.originals, {**dict(base), each.path: each.text}), each) for each in candidates]


def _state(originals: Mapping[str, str], texts: Mapping[str, str]) -> State:
    return frozenset((path, text) for path, text in texts.items() if text != originals[path])


def _best(known: Knowledge, targets: list[Target], report: Report) -> State | None:
    """The tested state that mended most without breaking or losing a test."""
    better = []
    for order, target in enumerate(targets):
        new = known.reports.get(target.state)
        if new is not None and _improves(new, report):
            better.append((new.passed, -order, target.state))
    return max(better, key=lambda each: each[:2])[2] if better else None


def _improves(new: Report, old: Report) -> bool:
    could_not_start = old.passed == 0 and old.failed <= 2  # then mending the import shows tests that were never seen
    whole = new.failed + new.passed >= old.failed + old.passed
    return whole and not new.hung and new.passed > old.passed and (new.failed < old.failed or could_not_start)
