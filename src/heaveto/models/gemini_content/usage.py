"""What the API reports of tokens, as ours."""

from __future__ import annotations

from ...messages import Usage
from .wire import WireUsage

__all__ = ["to_usage"]


def to_usage(usage: WireUsage) -> Usage:
    """With the thoughts counted into the output, as they are paid for, and what the API's own tools read into the input."""
    thoughts = usage.thoughts_token_count or 0
    return Usage(
        input_tokens=(usage.prompt_token_count or 0) + (usage.tool_use_prompt_token_count or 0),
        output_tokens=(usage.candidates_token_count or 0) + thoughts,
        cached_input_tokens=usage.cached_content_token_count or 0,
        reasoning_tokens=thoughts,
    )
