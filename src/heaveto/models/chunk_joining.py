"""HTTP/1.1's chunks, joined: an API sends each event of a stream as a chunk of its own, and the HTTP library below takes
each for itself, at several times what an event costs to decode.

The rules of this file:
- What one read brings is handed on with that read: nothing that could be an event waits for what comes next.
- Nothing is judged here. From the first byte on that is not plain chunked framing, bytes pass as they came, so that the
  library says what is wrong with them.
"""

from __future__ import annotations

import functools
import re
from typing import Literal

__all__ = ["ChunkJoiner"]

HEAD_END = re.compile(rb"\n\r?\n")
INFORMATIONAL = re.compile(rb"HTTP/1\.1 1\d\d\b")
CHUNKED = re.compile(rb"\ntransfer-encoding:[ \t]*chunked[ \t]*\r?\n", re.IGNORECASE)
SIZE = re.compile(rb"[0-9a-f]{1,16}", re.IGNORECASE)
BEGUN_SIZE = re.compile(rb"[0-9a-f]{0,16}\r?", re.IGNORECASE)
MAX_HEAD_BYTES = 100 * 1024  # of an answer's head; as much as the library takes


@functools.lru_cache(4096)
def _size_of(line: bytes) -> int:
    """What a chunk's first line says; 0 where it is the last one's, or not plain."""
    return int(line, 16) if SIZE.fullmatch(line) else 0


class ChunkJoiner:
    """One connection's incoming bytes, with all the chunks of a read made one. `begin` at each request."""

    def __init__(self) -> None:
        self._state: Literal["passing", "head", "size", "content"] = "passing"
        self._kept = b""  # of the head what came, though it was handed on; of the body framing that is not whole yet
        self._left = 0  # bytes of the chunk under way that are still to come

    def begin(self) -> None:
        """A request goes out: what comes next begins with an answer's head."""
        self._state, self._kept, self._left = "head", b"", 0

    def feed(self, data: bytes) -> bytes:
        """What to hand on of the next bytes; empty when they were only a part of the framing."""
        if self._state == "passing":
            return data
        return self._head(data) if self._state == "head" else self._body(data)

    def _head(self, data: bytes) -> bytes:
        head, handed_on, at = self._kept + data, len(self._kept), 0
        while (end := HEAD_END.search(head, at)) is not None:
            if not INFORMATIONAL.match(head, at):
                self._kept = b""
                if CHUNKED.search(head, at, end.end()) is None:
                    self._state = "passing"
                    return data
                self._state = "size"
                return head[handed_on : end.end()] + self._body(head[end.end() :])
            at = end.end()
        self._kept = head[at:]
        if len(self._kept) > MAX_HEAD_BYTES:
            self._state, self._kept = "passing", b""
        return data

    def _body(self, data: bytes) -> bytes:
        if self._kept:
            data, self._kept = self._kept + data, b""
        pieces: list[bytes] = []
        at, before = 0, -1
        while at != before and self._state != "passing":
            before = at
            if self._state == "content":
                at = self._content(data, at, pieces)
            else:
                at = self._size(data, self._whole_chunks(data, at, pieces))
        rest = data[at:]
        if self._state == "content" and not self._left and not b"\r\n".startswith(rest[:2]):
            self._state, rest = "passing", b"\r\n" + rest  # a chunk without its end must not get one by being joined
        elif self._state != "passing":
            self._kept, rest = rest, b""
        if not pieces:
            return rest
        content = b"".join(pieces)
        return b"%x\r\n%b\r\n%b" % (len(content), content, rest)

    def _whole_chunks(self, data: bytes, at: int, pieces: list[bytes]) -> int:
        """Take the chunks that are plain and there whole, quickly; returns where the first other one begins."""
        lines = data[at:].split(b"\r\n")  # sizes and contents in turn, unless a content has such line ends itself
        sizes = list(map(_size_of, lines[:-2:2]))
        if 0 in sizes:
            del sizes[sizes.index(0) :]
        contents = lines[1 : 2 * len(sizes) : 2]
        if sizes == list(map(len, contents)):
            pieces += contents
            return at + sum(map(len, lines[: 2 * len(sizes)])) + 4 * len(sizes)
        return self._chunk_by_chunk(data, at, pieces)

    @staticmethod
    def _chunk_by_chunk(data: bytes, at: int, pieces: list[bytes]) -> int:
        while (line := data.find(b"\r\n", at, at + 18)) > 0 and (size := _size_of(data[at:line])):
            end = line + 2 + size
            if data[end : end + 2] != b"\r\n":
                break
            pieces.append(data[line + 2 : end])
            at = end + 2
        return at

    def _size(self, data: bytes, at: int) -> int:
        """Read a chunk's first line; returns where its content begins."""
        line = data.find(b"\r\n", at, at + 18)
        if line > 0 and (size := _size_of(data[at:line])):
            self._state, self._left = "content", size
            return line + 2
        if BEGUN_SIZE.fullmatch(data, at) is None:
            self._state = "passing"  # the last chunk, or framing that is not plain
        return at

    def _content(self, data: bytes, at: int, pieces: list[bytes]) -> int:
        """Take what is there of a chunk's content; returns where it ends."""
        if self._left and (piece := data[at : at + self._left]):
            pieces.append(piece)
            at += len(piece)
            self._left -= len(piece)
        if not self._left and data.startswith(b"\r\n", at):
            self._state = "size"
            return at + 2
        return at
