"""Keys blotted out of what an API says: some repeat them in their errors, whole or cut off, as JSON spells them or plain."""

from __future__ import annotations

from typing import TypeVar

from ..errors import AgentError

__all__ = ["blotted", "blotted_text"]

E = TypeVar("E", bound=AgentError)

BLOT = "***"
SHOWN = 8  # characters of a key that may be seen: with their common beginnings, no less tells one from another


def blotted_text(text: str, secret: str | None) -> str:
    """The text without the secret, nor a beginning of it where a text was cut off."""
    if not secret:
        return text
    text = text.replace(secret, BLOT)
    if secret[:SHOWN] in text:
        for length in range(len(secret) - 1, SHOWN, -1):
            text = text.replace(secret[:length], BLOT)
    return text


def blotted(error: E, secret: str | None) -> E:
    """The error, or one like it without the secret; its fields are its arguments."""
    arguments = [blotted_text(each, secret) if isinstance(each, str) else each for each in error.args]
    return error if arguments == list(error.args) else type(error)(*arguments)
