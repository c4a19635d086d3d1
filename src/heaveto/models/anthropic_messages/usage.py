"""What the API reports of tokens, as ours."""

from __future__ import annotations

import msgspec

from ...messages import Usage
from .wire import WireUsage

__all__ = ["merge_usage", "to_usage"]


def merge_usage(before: WireUsage | None, now: WireUsage) -> WireUsage:
    """What was reported first, overwritten by what came later: the figures are totals, never to be added."""
    if before is None:
        return now
    news = {name: value for name, value in msgspec.structs.asdict(now).items() if value is not None}
    return msgspec.structs.replace(before, **news)


def to_usage(usage: WireUsage) -> Usage:
    """With the cached tokens counted into the input, where the API leaves them out."""
    read, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    thinking = (usage.output_tokens_details or {}).get("thinking_tokens")
    return Usage(
        input_tokens=(usage.input_tokens or 0) + read + written,
        output_tokens=usage.output_tokens or 0,
        cached_input_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=thinking if isinstance(thinking, int) else 0,
    )
