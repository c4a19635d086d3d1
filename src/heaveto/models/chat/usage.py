"""The many ways of reporting usage, as ours."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from ...messages import Usage
from .wire import WireUsage

__all__ = ["billed_output_tokens", "to_usage"]


def to_usage(usage: WireUsage) -> Usage:
    """The API's figures as they are."""
    inputs, outputs = usage.prompt_tokens_details, usage.completion_tokens_details
    cached = inputs.cached_tokens if inputs else None
    return Usage(
        input_tokens=usage.prompt_tokens or 0,
        output_tokens=usage.completion_tokens or 0,
        cached_input_tokens=cached or usage.prompt_cache_hit_tokens or usage.cached_tokens or 0,
        cache_write_tokens=(inputs and inputs.cache_write_tokens) or 0,
        reasoning_tokens=(outputs and outputs.reasoning_tokens) or 0,
        cost_usd=_dollars(usage.cost),
    )


def billed_output_tokens(usage: WireUsage) -> int:
    """Output tokens with the reasoning that xAI and Gemini leave out of `completion_tokens`, but not out of the total."""
    output = usage.completion_tokens or 0
    return max(output, (usage.total_tokens or 0) - (usage.prompt_tokens or 0))


def _dollars(cost: Decimal | dict[str, Any] | None) -> Decimal | None:
    if isinstance(cost, dict):  # Perplexity
        total = cost.get("total_cost")
        cost = Decimal(str(total)) if isinstance(total, (int, float)) else None
    return cost if cost is not None and cost.is_finite() and cost >= 0 else None
