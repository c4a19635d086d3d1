"""Lone surrogates: half a character, from a model's cut escape or a file name that is no UTF-8. No encoder takes them."""

from __future__ import annotations

__all__ = ["one_line", "replace_surrogates"]


def replace_surrogates(text: str) -> str:
    """The text with each lone surrogate replaced by U+FFFD; two halves that belong together are joined."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def one_line(name: str) -> str:
    """A name as it is read: on one line, and with a sign for bytes that are no text."""
    name = replace_surrogates(name)
    return name if name.isprintable() else "".join(each if each.isprintable() else "\ufffd" for each in name)
