"""What people give as a prompt, as a message; what the journal could not read again is refused."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import ConfigError
from ..messages import MAX_PARTS_BYTES, File, Image, UserMessage

__all__ = ["message_of"]

RIGHT = 'give a string, such as "make the tests pass", or a list of strings, Image and File'


def message_of(prompt: object, what: str) -> UserMessage:
    """The message.

    Args:
        what: What the prompt is, for the error.

    Raises:
        ConfigError: When it is no text, image or file, or is too large.
    """
    if isinstance(prompt, str):
        return UserMessage(prompt)
    if isinstance(prompt, Image | File):
        return UserMessage.of(prompt)
    if not isinstance(prompt, Sequence) or isinstance(prompt, bytes | bytearray):
        raise ConfigError(f"{what} must be text, not {type(prompt).__name__}", RIGHT)
    if not prompt:
        raise ConfigError(f"{what} is empty", RIGHT)
    for part in prompt:
        if not isinstance(part, str | Image | File):
            raise ConfigError(f"{what} has a part that is {type(part).__name__}", RIGHT)
    size = sum(len(part.data) for part in prompt if not isinstance(part, str))
    if size > MAX_PARTS_BYTES:
        raise ConfigError(f"{what} has {size:,} bytes of images and files", f"{MAX_PARTS_BYTES:,} is the most at once")
    return UserMessage.of(*prompt)
