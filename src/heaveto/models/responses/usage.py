"""What the API reports of tokens, as ours."""

from __future__ import annotations

from typing import Any

from ...messages import Usage
from ..figures import Figures

__all__ = ["to_usage"]


def to_usage(report: Any) -> Usage | None:
    """The API's figures as they are, the cached ones in the input and the reasoning in the output; None for absurd ones."""
    figures = Figures(report)
    return figures.usage(
        inputs=figures.tokens("input_tokens"),
        outputs=figures.tokens("output_tokens"),
        cached=figures.part("input_tokens_details.cached_tokens"),
        written=figures.part("input_tokens_details.cache_write_tokens"),
        reasoning=figures.part("output_tokens_details.reasoning_tokens"),
    )
