"""How long calls take, as a drive has seen it: what cannot end in the time left is not begun.

A tool's `seconds` is the most that a call may take, and no sign that it will; so what counts is what calls took. The
quickest of a few is told, which errs on the side of trying.
"""

from __future__ import annotations

from ..scopes import check_stop, need

__all__ = ["UsualTimes"]

ENOUGH = 2  # calls that tell something: one may have been slow for a reason of its own


class UsualTimes:
    """The times that calls took, by what was called."""

    def __init__(self) -> None:
        self._quickest: dict[str, float] = {}
        self._count: dict[str, int] = {}

    def took(self, what: str, seconds: float) -> None:
        """Count a call that came to its end."""
        self._quickest[what] = min(seconds, self._quickest.get(what, seconds))
        self._count[what] = self._count.get(what, 0) + 1

    def need(self, what: str) -> None:
        """Refuse a call when even the quickest so far took longer than the time left.

        Raises:
            NotEnoughTime: With both numbers. Nothing was begun.
            Stop: There is no time left because the code is being stopped.
        """
        check_stop()
        if self._count.get(what, 0) >= ENOUGH:
            need(self._quickest[what], what)
