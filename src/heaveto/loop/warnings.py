"""How much of each limit is used, and the warnings when one is nearly used up. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ..journal.records import LimitName, LimitNear, LimitUse
from ..journal.state import RunState
from ..messages import Limits
from .forecast import Amount, total_of
from .shared_budget import Budget

__all__ = ["WARN_AT", "limit_uses", "warnings_due"]

WARN_AT = (95, 80)  # percent; of several that are passed at once only the first is told


def limit_uses(state: RunState, seconds: float, budget: Budget | None = None) -> Iterator[LimitUse]:
    """Each limit of a run, its own and the shared ones, and how much of it is used.

    Args:
        seconds: The time driven, over all resumes.
    """
    yield from _uses(state.limits, total_of(state), seconds)
    if budget is not None:
        yield from _uses(budget.limits, budget.spent, budget.seconds)


def _uses(limits: Limits, used: Amount, seconds: float) -> Iterator[LimitUse]:
    figures: list[tuple[LimitName, float]] = [
        ("turns", used.turns),
        ("usd", float(used.usd)),
        ("tokens", used.tokens),
        ("seconds", round(seconds, 3)),
    ]
    for name, figure in figures:
        if (of := getattr(limits, name)) is not None:
            yield LimitUse(limit=name, used=float(figure), of=float(of), setting=limits.setting(name))


def warnings_due(state: RunState, seconds: float, budget: Budget | None = None) -> list[LimitNear]:
    """The warnings that there have not been. A limit that is used up needs none: it speaks for itself."""
    return [
        LimitNear(limit=use.limit, percent=percent, used=use.used, of=use.of, setting=use.setting)
        for use in limit_uses(state, seconds, budget)
        if use.used < use.of
        and (percent := next((each for each in WARN_AT if 100 * use.used >= each * use.of), 0))
        and not any(_is_about(warning, use, percent) for warning in (*state.warned, *(budget.warned if budget else ())))
    ]


def _is_about(warning: LimitNear, use: LimitUse, percent: int) -> bool:
    same = (warning.limit, warning.of, warning.setting) == (use.limit, use.of, use.setting)
    return same and warning.percent >= percent
