"""What the API reports of tokens, as ours."""

from __future__ import annotations

from typing import Any

from ...messages import Usage
from ..figures import Figures

__all__ = ["to_usage"]


def to_usage(report: Any) -> Usage | None:
    """With the thoughts counted into the output, as they are paid for, and what the API's own tools read into the input.

    The prompt has the cached tokens in it. None where the figures cannot be true.
    """
    figures = Figures(report)
    thoughts = figures.tokens("thoughtsTokenCount")
    return figures.usage(
        inputs=figures.tokens("promptTokenCount") + figures.tokens("toolUsePromptTokenCount"),
        outputs=figures.tokens("candidatesTokenCount") + thoughts,
        cached=figures.part("cachedContentTokenCount"),
        reasoning=thoughts,
    )
