"""The many ways of reporting usage, as ours."""

from __future__ import annotations

from typing import Any

from ...messages import Usage
from ..figures import Figures

__all__ = ["billed_output_tokens", "to_usage"]


def to_usage(report: Any) -> Usage | None:
    """The API's figures as they are; None where they cannot be true."""
    figures = Figures(report)
    return figures.usage(
        inputs=figures.tokens("prompt_tokens"),
        outputs=figures.tokens("completion_tokens"),
        # DeepSeek has the second, Moonshot the third
        cached=figures.part("prompt_tokens_details.cached_tokens", "prompt_cache_hit_tokens", "cached_tokens"),
        written=figures.part("prompt_tokens_details.cache_write_tokens"),  # OpenRouter
        reasoning=figures.part("completion_tokens_details.reasoning_tokens"),
        usd=figures.dollars("cost"),  # OpenRouter, Perplexity
    )


def billed_output_tokens(report: Any) -> int:
    """Output tokens with the reasoning that xAI and Gemini leave out of `completion_tokens`, but not out of the total."""
    figures = Figures(report)
    return max(figures.tokens("completion_tokens"), figures.part("total_tokens") - figures.tokens("prompt_tokens"))
