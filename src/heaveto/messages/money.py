"""Tokens and dollars: what one call used, and what a run has spent."""

from __future__ import annotations

from decimal import Decimal

import msgspec

__all__ = ["Spend", "Usage", "parse_usd"]


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one model call used, as the API reported it.

    Attributes:
        cached_input_tokens: The part of `input_tokens` that came from the API's cache.
        cache_write_tokens: The part that was written to it, which some APIs charge more for.
        reasoning_tokens: The part of `output_tokens` that was reasoning.
        cost_usd: Dollars; None where nobody knows.
        estimated: Whether the figures are ours, because the call was cut before the API told.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: Decimal | None = None
    estimated: bool = False


class Spend(msgspec.Struct, frozen=True, kw_only=True):
    """The sum over a run's calls, those included that were cut, retried or failed.

    Attributes:
        cost_usd: The dollars that are known of.
        unpriced_calls: Calls whose cost nobody knows; with any, `cost_usd` is a lower bound.
        estimated_calls: Calls whose tokens are estimates.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: Decimal = Decimal(0)
    unpriced_calls: int = 0
    estimated_calls: int = 0

    def __add__(self, usage: Usage) -> Spend:
        return Spend(
            calls=self.calls + 1,
            input_tokens=self.input_tokens + usage.input_tokens,
            output_tokens=self.output_tokens + usage.output_tokens,
            cached_input_tokens=self.cached_input_tokens + usage.cached_input_tokens,
            reasoning_tokens=self.reasoning_tokens + usage.reasoning_tokens,
            cost_usd=self.cost_usd + (usage.cost_usd or 0),
            unpriced_calls=self.unpriced_calls + (usage.cost_usd is None),
            estimated_calls=self.estimated_calls + usage.estimated,
        )


def parse_usd(value: float | str | Decimal, name: str = "usd") -> Decimal:
    """Dollars from what people write: 0.5, "0.50", "$0.50".

    Raises:
        ValueError: When it is not a number, is negative, or is NaN.
    """
    try:
        usd = Decimal(str(value).strip().removeprefix("$"))
    except ArithmeticError as error:
        raise ValueError(f'{name} must be dollars like 0.50, not "{value}"') from error
    if not usd.is_finite() or usd < 0:
        raise ValueError(f"{name} must be 0 or more, not {value}")
    return usd
