"""Writing to standard output without holding up the loop: a reader who pauses must not keep a signal from being heard."""

from __future__ import annotations

import os
import select

from ..scopes import call_in_thread

__all__ = ["Output", "is_terminal"]


BESIDE = 2  # standard error


class Output:
    """One of the process's output descriptors.

    Args:
        descriptor: 1 or 2.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    async def write(self, text: str) -> None:
        """Write all of it.

        Raises:
            BrokenPipeError: The reader left.
        """
        if text:
            await call_in_thread(self.write_now, text)

    def write_now(self, text: str) -> None:
        """Write all of it, waiting for the reader in this thread."""
        rest = memoryview(text.encode("utf-8", "replace"))
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:  # somebody made the terminal or the pipe non-blocking
                select.select([], [self._descriptor], [])
            except OSError as error:
                if self._descriptor == BESIDE:
                    return  # what is said beside the answer may be lost; the work goes on
                raise BrokenPipeError(error.errno, "nobody reads any more") from error  # a full disk, a closed descriptor


def is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False
