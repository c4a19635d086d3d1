"""What a call costs where the API does not say: the user's price, else the table of genai-prices, else unknown."""

from __future__ import annotations

import functools
from decimal import Decimal
from typing import Any

import msgspec

from ..errors import ConfigError
from ..messages import Usage, parse_usd

__all__ = ["Price", "listed_cost", "set_price"]

MILLION = Decimal(1_000_000)


class Price(msgspec.Struct, frozen=True):
    """Dollars for a million tokens. `cached_input` (read from the cache) and `cache_write` None: the same as `input`."""

    input: Decimal
    output: Decimal
    cached_input: Decimal | None = None
    cache_write: Decimal | None = None

    def cost(self, usage: Usage) -> Decimal:
        """Dollars for one call."""
        cached = self.input if self.cached_input is None else self.cached_input
        write = self.input if self.cache_write is None else self.cache_write
        fresh = usage.input_tokens - usage.cached_input_tokens - usage.cache_write_tokens
        dollars = fresh * self.input + usage.cached_input_tokens * cached + usage.cache_write_tokens * write
        return (dollars + usage.output_tokens * self.output) / MILLION


def set_price(price: Price | tuple[float | str, ...] | None) -> Price | None:
    """A price from what people write: `(3, 15)`, with the cached input `(3, 15, "0.30")`, with what is written to the
    cache `(3, 15, "0.30", "3.75")`.

    Raises:
        ConfigError: When it is no price.
    """
    if price is None or isinstance(price, Price):
        return price
    try:
        dollars = [parse_usd(each, "price") for each in price]
        return Price(*dollars)
    except (TypeError, ValueError) as error:
        raise ConfigError("price must be dollars for a million tokens", "like price=(3, 15)") from error


@functools.cache
def _table() -> Any:
    import genai_prices  # 0.3 s, and most calls are priced by the API

    return genai_prices


def listed_cost(usage: Usage, model: str, provider: str) -> Decimal | None:
    """Dollars for one call by the table; None for a model that it does not know.

    The first call loads the table, which takes a few tenths of a second.
    """
    prices = _table()
    read = min(usage.cached_input_tokens, usage.input_tokens)
    counted = prices.Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=read,
        cache_write_tokens=min(usage.cache_write_tokens, usage.input_tokens - read),
    )
    try:
        return Decimal(prices.calc_price(counted, model_ref=model, provider_id=provider).total_price)
    except LookupError:
        return None
