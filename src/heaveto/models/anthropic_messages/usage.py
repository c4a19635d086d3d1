"""What the API reports of tokens, as ours."""

from __future__ import annotations

from typing import Any

from ...messages import Usage
from ..figures import Figures

__all__ = ["merge_usage", "to_usage"]


def merge_usage(before: dict[str, Any], now: Any) -> dict[str, Any] | None:
    """What was reported first, overwritten by what came later: the figures are totals, never to be added. None for no
    report at all."""
    if not isinstance(now, dict):
        return None
    return {**before, **{name: value for name, value in now.items() if value is not None}}


def to_usage(report: Any) -> Usage | None:
    """With the cached tokens counted into the input, where the API leaves them out; None where they cannot be true."""
    figures = Figures(report)
    read, written = figures.tokens("cache_read_input_tokens"), figures.tokens("cache_creation_input_tokens")
    return figures.usage(
        inputs=figures.tokens("input_tokens") + read + written,
        outputs=figures.tokens("output_tokens"),
        cached=read,
        written=written,
        reasoning=figures.part("output_tokens_details.thinking_tokens"),
    )
