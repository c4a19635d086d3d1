"""A server on loopback that does to each connection what a check tells it, byte by byte, in the loop of the check."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

import anyio
import anyio.abc

from ..causes import Cancelled
from ..scopes import finish, tasks

__all__ = ["Handler", "LoopbackServer", "Peer", "serving"]

READ_BYTES = 64 * 1024
CLOSE_SECONDS = 5.0  # closing sockets does not wait for anybody


class Peer:
    """One connection, seen from the server.

    Attributes:
        number: From 1.
        gone: Set when the server has seen that the client hung up.
    """

    def __init__(self, stream: anyio.abc.ByteStream, number: int, requests: list[bytes]) -> None:
        self._stream, self.number, self._requests = stream, number, requests
        self._unread = b""
        self.gone = anyio.Event()

    async def request(self) -> bool:
        """Read one request to its end; it is then among the server's `requests`. False when the client hung up."""
        while (whole := _first_request(self._unread)) is None:
            if not (data := await self.receive()):
                return False
            self._unread += data
        self._requests.append(self._unread[:whole])
        self._unread = self._unread[whole:]
        return True

    async def send(self, *pieces: bytes) -> None:
        """Send bytes, each piece in a write of its own; what the client no longer wants is nobody's business."""
        try:
            for piece in pieces:
                await self._stream.send(piece)
        except (anyio.BrokenResourceError, ssl.SSLError):
            self.gone.set()

    async def reset(self) -> None:
        """Break the connection, so that the client's next read fails."""
        raw = self._stream.extra(anyio.abc.SocketAttribute.raw_socket)  # noqa: S610 - not Django's
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await self.close()

    async def close(self) -> None:
        await self._stream.aclose()

    async def wait_for_hang_up(self) -> None:
        """Return when the client has closed the connection."""
        while await self.receive():
            pass

    async def receive(self) -> bytes:
        """The next bytes, whatever they are; empty when the client hung up."""
        try:
            return await self._stream.receive(READ_BYTES)
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, ssl.SSLError):
            self.gone.set()
            return b""


Handler: TypeAlias = Callable[[Peer], Awaitable[None]]


class LoopbackServer:
    """What a check sees of the server.

    Attributes:
        requests: Every whole request, as bytes, in the order of their ends.
        peers: The connections so far.
    """

    def __init__(self, port: int, handler: Handler, *, https: bool) -> None:
        self.url = f"{'https' if https else 'http'}://127.0.0.1:{port}"
        self._handler = handler
        self.requests: list[bytes] = []
        self.peers: list[Peer] = []

    async def connected(self, stream: anyio.abc.ByteStream) -> None:
        peer = Peer(stream, len(self.peers) + 1, self.requests)
        self.peers.append(peer)
        await self._handler(peer)


@asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[LoopbackServer]:
    """A server for the time of a block. A connection is closed when the handler is done with it.

    Args:
        handler: What happens to each connection.
        tls: The server's certificate; None for plain HTTP.
    """
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - not Django's
    server = LoopbackServer(port, handler, https=tls is not None)

    async def connected(stream: anyio.abc.ByteStream) -> None:
        try:
            await server.connected(stream if tls is None else await _wrapped(stream, tls))
        except (anyio.BrokenResourceError, anyio.EndOfStream, ssl.SSLError):
            pass  # the client did not like the certificate
        finally:
            await finish(CLOSE_SECONDS, stream.aclose)

    try:
        async with tasks() as group:
            group.start_soon(listener.serve, connected)
            try:
                yield server
            finally:
                group.scope.cancel(Cancelled("the check is over"))
    finally:
        await finish(CLOSE_SECONDS, listener.aclose)


async def _wrapped(stream: anyio.abc.ByteStream, tls: ssl.SSLContext) -> anyio.abc.ByteStream:
    from anyio.streams.tls import TLSStream

    return await TLSStream.wrap(stream, server_side=True, ssl_context=tls, standard_compatible=False)


def _first_request(data: bytes) -> int | None:
    """Where the first request ends; None while it has not come whole."""
    head, blank, _ = data.partition(b"\r\n\r\n")
    if not blank:
        return None
    lines = (line.partition(b":") for line in head.lower().split(b"\r\n")[1:])
    size = next((int(value) for name, _, value in lines if name == b"content-length"), 0)
    whole = len(head) + 4 + size
    return whole if len(data) >= whole else None
