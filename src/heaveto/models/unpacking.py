"""Packed bodies (gzip, deflate), unpacked a part at a time, since a few bytes may stand for very many."""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable

import anyio.lowlevel

__all__ = ["PACKED", "NotUnpacked", "Unpacker", "read_unpacked", "unpacker_for"]

PACKED = "gzip, deflate"  # what can be unpacked, as `accept-encoding` says it

MAX_UNPACKED_BYTES = 1024 * 1024  # at once

_GZIP = b"\x1f\x8b"
_ZLIB_OR_GZIP = 32 + zlib.MAX_WBITS  # zlib finds out which of the two it is
_HEAD_BYTES = 2  # which tell zlib, gzip and neither apart


class NotUnpacked(Exception):
    """The body is not what its `content-encoding` says, or breaks off."""


def unpacker_for(coding: str) -> Unpacker | None:
    """What unpacks the body of an answer with this `content-encoding`; None where it came as it is."""
    coding = coding.strip().lower()
    return None if coding in ("", "identity") else Unpacker(coding)


async def read_unpacked(unpacker: Unpacker, read: Callable[[], Awaitable[bytes]]) -> bytes:
    """The next part of the content; empty at the end of the body.

    Args:
        read: Reads a piece of the packed body; empty at its end.

    Raises:
        NotUnpacked: When it is not what it is said to be, or breaks off.
    """
    if unpacked := unpacker.take():
        await anyio.lowlevel.checkpoint()
        return unpacked
    while piece := await read():
        unpacker.feed(piece)
        if unpacked := unpacker.take():
            return unpacked
    unpacker.end()
    return b""


class Unpacker:
    """The content of one packed body: feed what comes, take until nothing is left, and say when that was all.

    A gzip body may have several members (RFC 1952, 2.2); what follows the last and is none is ignored, as gzip does.
    "deflate" may be without its zlib wrapping, as some servers send it. Any other coding was not asked for.
    """

    def __init__(self, coding: str) -> None:
        self._coding = coding
        self._member = zlib.decompressobj(_ZLIB_OR_GZIP)
        self._begun = self._over = False
        self._more = False  # whether zlib may hold back some of what it has read
        self._packed = b""

    @property
    def waiting(self) -> bool:
        """Whether there may be something to take."""
        return self._more or bool(self._packed)

    def feed(self, packed: bytes) -> None:
        """Take in a piece of the body."""
        self._packed += packed

    def take(self) -> bytes:
        """A part of the content of what was fed, at most a megabyte; empty when more is needed.

        Raises:
            NotUnpacked: When it is not what it is said to be.
        """
        while self.waiting and self._begin():
            if unpacked := self._unpack():
                return unpacked
        return b""

    def end(self) -> None:
        """The body is at its end.

        Raises:
            NotUnpacked: When its content is not.
        """
        if bool(self._packed) if not self._begun else not self._member.eof:
            raise NotUnpacked(f"the {self._coding} body breaks off")

    def _begin(self) -> bool:
        """Make sure that there is a member to unpack; False when it takes more bytes to tell, or when there is none."""
        if self._over:
            self._packed = b""
            return False
        if self._begun and not self._member.eof:
            return True
        if len(self._packed) < _HEAD_BYTES and not self._is_padding():
            return False
        if self._begun and not self._packed.startswith(_GZIP):
            self._over, self._packed = True, b""
            return False
        self._member = zlib.decompressobj(self._window())
        self._begun = True
        return True

    def _is_padding(self) -> bool:
        return self._begun and not _GZIP.startswith(self._packed)

    def _window(self) -> int:
        if self._coding not in ("gzip", "x-gzip", "deflate"):
            raise NotUnpacked(f'the body is packed as "{self._coding}", which was not asked for')
        first, second = self._packed[:_HEAD_BYTES]
        wrapped = self._packed.startswith(_GZIP) or (first & 0x0F == zlib.DEFLATED and (first << 8 | second) % 31 == 0)
        return _ZLIB_OR_GZIP if wrapped or self._coding != "deflate" else -zlib.MAX_WBITS

    def _unpack(self) -> bytes:
        try:
            unpacked = self._member.decompress(self._packed, MAX_UNPACKED_BYTES)
        except zlib.error as error:
            raise NotUnpacked(f"the body is not {self._coding}, as it is said to be") from error
        self._packed = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
        self._more = len(unpacked) == MAX_UNPACKED_BYTES and not self._member.eof
        return unpacked
