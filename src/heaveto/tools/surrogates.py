"""Lone surrogates: half a character, from a model's cut escape or a file name that is no UTF-8. No encoder takes them."""

from __future__ import annotations

__all__ = ["replace_surrogates"]


def replace_surrogates(text: str) -> str:
    """The text with each lone surrogate replaced by U+FFFD; two halves that belong together are joined."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
