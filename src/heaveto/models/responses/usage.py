"""What the API reports of tokens, as ours."""

from __future__ import annotations

from ...messages import Usage
from .wire import WireUsage

__all__ = ["to_usage"]


def to_usage(usage: WireUsage) -> Usage:
    """The API's figures as they are."""
    inputs, outputs = usage.input_tokens_details, usage.output_tokens_details
    return Usage(
        input_tokens=usage.input_tokens or 0,
        output_tokens=usage.output_tokens or 0,
        cached_input_tokens=(inputs and inputs.cached_tokens) or 0,
        cache_write_tokens=(inputs and inputs.cache_write_tokens) or 0,
        reasoning_tokens=(outputs and outputs.reasoning_tokens) or 0,
    )
