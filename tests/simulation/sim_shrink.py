"""A failing scenario made small: parts are taken away, one after the other, as long as it still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from sim_scenario import Asked, Life, Scenario, Turn

__all__ = ["shrink"]


def shrink(scenario: Scenario, fails: Callable[[Scenario], bool], *, most: int = 400) -> Scenario:
    """The smallest scenario that still fails, of those that one step after the other leads to.

    Args:
        most: How many scenarios are tried.
    """
    tries = iter(range(most))
    smaller: Scenario | None = scenario
    while smaller is not None:
        scenario = smaller
        smaller = next((each for each in _smaller(scenario) if next(tries, None) is not None and fails(each)), None)
    return scenario


def _smaller(scenario: Scenario) -> Iterator[Scenario]:
    """The scenario with one thing less, the largest things first."""
    for turns in _without_one(scenario.turns[:-1]):
        yield replace(scenario, turns=(*turns, scenario.turns[-1]))
    for lives in _without_one(scenario.lives):
        yield replace(scenario, lives=lives)
    for index, turn in enumerate(scenario.turns):
        for less in _turns(turn):
            yield replace(scenario, turns=_with(scenario.turns, index, less))
    for index, life in enumerate(scenario.lives):
        for smaller in _as_usual(life, Life()):
            yield replace(scenario, lives=_with(scenario.lives, index, smaller))
    yield from _as_usual(scenario, replace(Scenario(scenario.turns, scenario.lives), seed=scenario.seed))


def _turns(turn: Turn) -> Iterator[Turn]:
    if len(turn.calls) > 1:
        for calls in _without_one(turn.calls):
            yield replace(turn, calls=calls)
    for faults in _without_one(turn.faults):
        yield replace(turn, faults=faults)
    yield from _as_usual(turn, replace(Turn(), calls=turn.calls, faults=turn.faults))
    for index, call in enumerate(turn.calls):
        for smaller in _as_usual(call, Asked(call.tool, call.what)):
            yield replace(turn, calls=_with(turn.calls, index, smaller))


def _without_one(parts: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    for index in range(len(parts)):
        yield (*parts[:index], *parts[index + 1 :])


def _with(parts: Sequence[Any], index: int, part: Any) -> tuple[Any, ...]:
    return (*parts[:index], part, *parts[index + 1 :])


def _as_usual(part: Any, usual: Any) -> Iterator[Any]:
    """The part with one of its words as it usually is."""
    for name in type(part).__dataclass_fields__:
        if getattr(part, name) != getattr(usual, name):
            yield replace(part, **{name: getattr(usual, name)})
