"""Output that may be endless, kept within a bound: its beginning and its end."""

from __future__ import annotations

import codecs

__all__ = ["BoundedOutput"]


class BoundedOutput:
    """Bytes as they come; the first and the last half of `max_bytes` are kept.

    Args:
        max_bytes: How much to keep at most.
    """

    def __init__(self, max_bytes: int) -> None:
        if max_bytes < 0:
            raise ValueError(f"max_bytes must be 0 or more, not {max_bytes}")
        self._room = max_bytes - max_bytes // 2
        self._tail_room = max_bytes // 2
        self._head, self._tail = bytearray(), bytearray()
        self._total = 0

    def add(self, chunk: bytes) -> None:
        self._total += len(chunk)
        fits = self._room - len(self._head)
        self._head += chunk[:fits]
        self._tail += chunk[fits:]
        if len(self._tail) > 2 * self._tail_room + 65536:  # cut now and then, not for each chunk
            self._cut()

    @property
    def left_out(self) -> int:
        """How many bytes were not kept."""
        return max(0, self._total - self._room - self._tail_room)

    def text(self) -> str:
        """What was kept, as UTF-8 with replacements, and a line in the gap that says how much is missing."""
        self._cut()
        if not self.left_out:
            return (self._head + self._tail).decode(errors="replace")
        head = codecs.getincrementaldecoder("utf-8")("replace").decode(bytes(self._head))  # a cut character is dropped
        tail = _from_a_whole_character(bytes(self._tail)).decode(errors="replace")
        return f"{head}\n... {self.left_out:,} bytes left out ...\n{tail}"

    def _cut(self) -> None:
        del self._tail[: max(0, len(self._tail) - self._tail_room)]


def _from_a_whole_character(tail: bytes) -> bytes:
    cut = next((at for at, byte in enumerate(tail[:4]) if byte & 0xC0 != 0x80), len(tail))
    return tail[cut:] if cut < 4 else tail  # else it is not UTF-8 anyway
