"""Tokens and dollars as APIs report them, read with care: what cannot be true is unknown, and no reply is lost over it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from ..messages import Usage

__all__ = ["Figures"]

MAX_TOKENS = 100_000_000  # of one call: ten times the largest context there is
MAX_USD = Decimal(10_000)  # of one call


class Figures:
    """A usage report as it came, whatever it is.

    Attributes:
        absurd: Whether a figure that was read cannot be true. Then nothing in the report is believed.
    """

    def __init__(self, report: Any) -> None:
        self._report: dict[str, Any] = report if isinstance(report, dict) else {}
        self.absurd = not isinstance(report, dict)
        self._says_something = False

    def tokens(self, *names: str) -> int:
        """The first of these figures that is there; 0 where none is."""
        value = next((found for name in names if (found := self._report.get(name)) is not None), None)
        if value is None:
            return 0
        self._says_something = True
        if (count := _as_count(value)) is None:
            self.absurd = True
        return count or 0

    def part(self, *names: str) -> int:
        """A part of another figure: "details.cached" is inside "details". What cannot be true is 0, and spoils nothing."""
        for name in names:
            outer, _, inner = name.partition(".")
            value = self._report.get(outer)
            if inner:
                value = value.get(inner) if isinstance(value, dict) else None
            if count := _as_count(value):
                return count
        return 0

    def dollars(self, name: str) -> Decimal | None:
        """The cost, a number or an object with a total; None where it is not known."""
        value = self._report.get(name)
        if isinstance(value, dict):  # Perplexity
            value = value.get("total_cost")
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        usd = Decimal(str(value))
        return usd if usd.is_finite() and 0 <= usd <= MAX_USD else None

    def usage(
        self, *, inputs: int, outputs: int, cached: int = 0, written: int = 0, reasoning: int = 0, usd: Decimal | None = None
    ) -> Usage | None:
        """The report in our words, no part larger than its whole; None where it says nothing or cannot be believed."""
        if self.absurd or not (self._says_something or usd is not None):
            return None
        read = min(cached, inputs)
        return Usage(
            input_tokens=inputs,
            output_tokens=outputs,
            cached_input_tokens=read,
            cache_write_tokens=min(written, inputs - read),
            reasoning_tokens=reasoning,
            cost_usd=usd,
        )


def _as_count(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None  # neither infinity nor NaN is between the bounds
    return int(value) if 0 <= value <= MAX_TOKENS and value == int(value) else None
