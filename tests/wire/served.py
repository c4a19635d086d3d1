"""A real server on loopback that answers each request as a point says: closed, reset, stalled or split at a byte."""

from __future__ import annotations

import re
import socket
import struct
import threading
import time
from collections.abc import Sequence
from typing import Self

from points import Point

__all__ = ["PointServer"]

PAUSE_SECONDS = 0.005  # between two pieces, so that they come in two reads; and before a reset, which drops what is unread
STALL_SECONDS = 30.0  # longer than any test waits; the client hangs up before
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class PointServer:
    """Serves points by their number, the first part of the path."""

    def __init__(self, points: Sequence[Point]) -> None:
        self._points = points
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for thread in self._threads:
            thread.join(STALL_SECONDS)

    def url(self, number: int) -> str:
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}/{number}"

    @staticmethod
    def framed(point: Point) -> bool:
        """Whether HTTP says where the body ends; else the close does."""
        return point.place % 2 == 0

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._socket.accept()
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._serve, args=(peer,), daemon=True))
            self._threads[-1].start()

    def _serve(self, peer: socket.socket) -> None:
        with peer:
            peer.settimeout(STALL_SECONDS)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                self._answer(peer, self._points[read_number(peer)])
            except OSError:
                return  # the client hung up, which it may

    def _answer(self, peer: socket.socket, point: Point) -> None:
        body = point.reply.body
        before, after = body[: point.place], body[point.place :]
        framed = self.framed(point)
        peer.sendall(
            HEAD + (b"content-length: %d\r\n" % len(body) if framed else b"") + b"connection: close\r\n\r\n" + before
        )
        match point.how:
            case "split":
                time.sleep(PAUSE_SECONDS)
                peer.sendall(after)
            case "stalled":
                peer.recv(1)
            case "reset":
                time.sleep(PAUSE_SECONDS)
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)


def read_number(peer: socket.socket) -> int:
    """Read one request to its end; the number in its path."""
    data = b""
    while (found := LENGTH.search(data)) is None or len(data.partition(b"\r\n\r\n")[2]) < int(found[1]):
        if not (more := peer.recv(65536)):
            raise ConnectionError("the client left")
        data += more
    return int(data.split(b"/", 2)[1])
