"""Server-sent events from bytes, without I/O.

The rules of this file:
- An event ends at an empty line; what has no empty line yet is kept, and handed out by `close` as pending.
- CR, LF and CRLF end a line, also when a CRLF is split between two reads: a CR ends its line at once, and an LF that
  follows it first thing in the next read belongs to it.
- Nearly every event is one line of data, with a line for its name before it at most. A read that has no other is split by
  one regular expression; a read with anything else is looked at line by line.
- Pieces without an event's end are kept apart and joined once, so that a long event in many reads is not quadratic.
"""

from __future__ import annotations

import functools
import re
from itertools import repeat

import msgspec

from ..errors import BadReply

__all__ = ["Event", "SSESplitter"]

BOM = b"\xef\xbb\xbf"
PLAIN = re.compile(rb"^(?:event: ([^\n]{1,64}+)\n)?data: ([^\n]*+)\n\n", re.MULTILINE)
MAX_EVENT_BYTES = 16 * 1024 * 1024  # no API sends more at once; a stream without line ends must not fill the memory


class Event(msgspec.Struct, frozen=True, gc=False):
    """One event. `id` is the last id that the stream has given, None before the first."""

    event: str
    data: bytes
    id: str | None = None


@functools.lru_cache(256)
def _name(value: bytes | None) -> str:
    return value.decode("utf-8", "replace") if value else "message"


class SSESplitter:
    """Splits the bytes of a `text/event-stream`, however they are cut.

    Args:
        max_bytes: The largest event that is taken.

    Attributes:
        comments: How many comment lines (keep-alives) came.
        unknown_fields: How many lines with a field that the grammar does not know came.
    """

    def __init__(self, max_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._kept: list[bytes] = []
        self._kept_bytes = 0
        self._begun = False
        self._after_cr = False
        self._id: str | None = None
        self.comments = 0
        self.unknown_fields = 0

    def feed(self, data: bytes) -> list[Event]:
        """The events that end within `data`.

        Raises:
            BadReply: When an event is larger than `max_bytes`.
        """
        if not self._begun:
            data = self._without_bom(data)
        if self._after_cr or b"\r" in data:
            data = self._with_newlines(data)
        if not data:
            return []
        if b"\n\n" not in data and not (data[0] == 10 and self._kept and self._kept[-1][-1] == 10):
            self._keep(data)
            return []
        if self._kept:
            data = b"".join((*self._kept, data))
            self._kept, self._kept_bytes = [], 0
        return self._split(data)

    def close(self) -> Event | None:
        """The event that the stream's end cut off before its empty line; None where there is none."""
        block = b"".join(self._kept).removeprefix(BOM if not self._begun else b"")
        self._kept, self._kept_bytes = [], 0
        return self._event(block.rstrip(b"\n"))

    def _without_bom(self, data: bytes) -> bytes:
        data = b"".join((*self._kept, data))
        self._kept, self._kept_bytes = [], 0
        if len(data) < len(BOM) and BOM.startswith(data):
            self._keep(data) if data else None
            return b""
        self._begun = True
        return data.removeprefix(BOM)

    def _with_newlines(self, data: bytes) -> bytes:
        if not data:
            return data
        if self._after_cr and data[0] == 10:
            data = data[1:]
            self._after_cr = False
            if not data:
                return data
        self._after_cr = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _keep(self, data: bytes) -> None:
        self._kept.append(data)
        self._kept_bytes += len(data)
        self._check_size(self._kept_bytes)

    def _check_size(self, size: int) -> None:
        if size > self._max_bytes:
            raise BadReply(f"an event of more than {self._max_bytes:,} bytes")

    def _split(self, data: bytes) -> list[Event]:
        parts = PLAIN.split(data) if len(data) <= self._max_bytes else [data]
        rest = parts.pop()  # before it, for each event: what stands between it and the one before, its name, its data
        if parts and b"\n\n" not in rest and not any(parts[::3]):
            if rest:
                self._keep(rest)
            return list(map(Event, map(_name, parts[1::3]), parts[2::3], repeat(self._id)))
        *blocks, rest = data.split(b"\n\n")
        if rest:
            self._keep(rest)
        return [event for block in blocks if (event := self._event(block)) is not None]

    def _event(self, block: bytes) -> Event | None:
        self._check_size(len(block))
        name, data = "", []
        for line in block.split(b"\n"):
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if field == b"data":
                data.append(value)
            elif field == b"event":
                name = value.decode("utf-8", "replace")
            elif field == b"id":
                self._id = self._id if b"\0" in value else value.decode("utf-8", "replace")
            else:
                self._count(line, field)
        return Event(name or "message", b"\n".join(data), self._id) if data else None

    def _count(self, line: bytes, field: bytes) -> None:
        if line.startswith(b":"):
            self.comments += 1
        elif line and field != b"retry":
            self.unknown_fields += 1
