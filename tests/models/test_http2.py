"""The exchange over HTTP/2, against a small server of h2's."""

from __future__ import annotations

import ssl

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import RequestReceived, StreamEnded, StreamReset

from heaveto.causes import Cancelled
from heaveto.errors import TransportFailed
from heaveto.models import HTTPRequest, HttpxExchange
from heaveto.scopes import Scope, deadline, finish, tasks
from heaveto.testing import no_leaks
from heaveto.testing.exchange_server import Peer, serving

pytestmark = pytest.mark.anyio

HEADERS = [(":status", "200"), ("content-type", "text/plain")]


class Server:
    """Answers by the path: /whole, /refused before an answer, /midway in it, /endless."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    async def __call__(self, peer: Peer) -> None:
        connection = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        connection.initiate_connection()
        path: dict[int, str] = {}
        await peer.send(connection.data_to_send())
        while data := await peer.receive():
            for event in connection.receive_data(data):
                if isinstance(event, RequestReceived):
                    path[event.stream_id] = dict(event.headers)[":path"]
                if isinstance(event, StreamEnded):
                    self._answer(connection, event.stream_id, path[event.stream_id])
            await peer.send(connection.data_to_send())

    def _answer(self, connection: H2Connection, stream: int, path: str) -> None:
        self.paths.append(path)
        if path == "/refused":
            connection.reset_stream(stream, ErrorCodes.INTERNAL_ERROR)
            return
        connection.send_headers(stream, HEADERS)
        connection.send_data(stream, b"abc", end_stream=path == "/whole")
        if path == "/midway":
            connection.reset_stream(stream, ErrorCodes.INTERNAL_ERROR)


async def ask(exchange: HttpxExchange, url: str) -> bytes:
    answer = await exchange.send(HTTPRequest("POST", url, {"content-type": "text/plain"}, b"{}"), lambda: None)
    try:
        pieces = []
        while piece := await answer.read():
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        await finish(5, answer.aclose)


async def test_requests_share_one_connection(tls: ssl.SSLContext) -> None:
    handler = Server()
    exchange = HttpxExchange(http2=True)
    async with no_leaks(), serving(handler, tls) as server:
        assert await ask(exchange, f"{server.url}/whole") == b"abc"
        async with tasks() as group:
            for _ in range(10):
                group.start_soon(ask, exchange, f"{server.url}/whole")
        await exchange.aclose()
    assert handler.paths == ["/whole"] * 11
    assert len(server.peers) == 1


@pytest.mark.parametrize("path", ["/refused", "/midway"])
async def test_a_stream_that_is_reset_can_be_tried_again_and_is_not_silently(tls: ssl.SSLContext, path: str) -> None:
    handler = Server()
    exchange = HttpxExchange(http2=True)
    async with no_leaks(), serving(handler, tls) as server:
        assert await ask(exchange, f"{server.url}/whole") == b"abc"
        with pytest.raises(TransportFailed) as caught:
            await ask(exchange, f"{server.url}{path}")
        assert await ask(exchange, f"{server.url}/whole") == b"abc"
        await exchange.aclose()
    assert caught.value.retryable
    assert handler.paths == ["/whole", path, "/whole"]


async def test_leaving_early_leaves_the_others_alone(tls: ssl.SSLContext) -> None:
    exchange = HttpxExchange(http2=True)
    async with no_leaks(), serving(Server(), tls) as server:
        answer = await exchange.send(HTTPRequest("POST", f"{server.url}/endless", {}, b"{}"), lambda: None)
        assert await answer.read() == b"abc"
        await answer.aclose()
        assert await ask(exchange, f"{server.url}/whole") == b"abc"
        await exchange.aclose()


async def test_a_stop_cuts_one_request_and_no_other(tls: ssl.SSLContext) -> None:
    exchange = HttpxExchange(http2=True)
    async with no_leaks(), serving(Server(), tls) as server:
        assert await ask(exchange, f"{server.url}/whole") == b"abc"
        with pytest.raises(Cancelled), Scope(0.05, Cancelled("enough")):
            await ask(exchange, f"{server.url}/endless")
        assert await ask(exchange, f"{server.url}/whole") == b"abc"
        await exchange.aclose()


class Flood:
    """Sends as much as the flow windows let it on each stream, and notes which streams were given up.

    /long ends after so many bytes that it can only end when others' windows were given back.
    """

    LONG = 2_000_000  # bytes
    ENDLESS = 10**9

    def __init__(self, most: int = ENDLESS) -> None:
        self._most = most  # bytes of a stream that is not /long
        self.given_up: list[int] = []
        self.left: dict[int, int] = {}
        self.long: set[int] = set()  # which end, and are not only silent, when all was sent

    async def __call__(self, peer: Peer) -> None:
        connection = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        connection.initiate_connection()
        await peer.send(connection.data_to_send())
        while data := await peer.receive():
            for event in connection.receive_data(data):
                if isinstance(event, RequestReceived):
                    if long := dict(event.headers)[":path"] == "/long":
                        self.long.add(event.stream_id)
                    connection.send_headers(event.stream_id, HEADERS)
                    self.left[event.stream_id] = self.LONG if long else self._most
                if isinstance(event, StreamReset):
                    self.given_up.append(event.stream_id)
                    self.left.pop(event.stream_id, None)
            self._send_what_fits(connection)
            await peer.send(connection.data_to_send())

    def _send_what_fits(self, connection: H2Connection) -> None:
        for stream in list(self.left):
            while size := min(
                connection.local_flow_control_window(stream), connection.max_outbound_frame_size, self.left[stream]
            ):
                self.left[stream] -= size
                connection.send_data(stream, b"x" * size)
            if not self.left[stream] and stream in self.long:
                connection.end_stream(stream)
                del self.left[stream]


async def test_fifty_streams_that_are_left_do_not_use_up_the_connection(tls: ssl.SSLContext) -> None:
    """Together they have more bytes under way when they are left than the connection's window of 16 MB."""
    handler = Flood(400_000)
    exchange = HttpxExchange(http2=True)
    async with no_leaks(), serving(handler, tls) as server:
        for _ in range(50):
            answer = await exchange.send(HTTPRequest("POST", f"{server.url}/endless", {}, b"{}"), lambda: None)
            assert await answer.read()
            await answer.aclose()
        with deadline(60):
            assert len(await ask(exchange, f"{server.url}/long")) == Flood.LONG
        await exchange.aclose()
    assert len(server.peers) == 1
    assert len(set(handler.given_up)) == 50


async def test_a_stream_that_is_left_takes_nothing_from_one_beside_it(tls: ssl.SSLContext) -> None:
    handler = Flood()
    exchange = HttpxExchange(http2=True)
    sizes: list[int] = []

    async def long(url: str) -> None:
        sizes.append(len(await ask(exchange, f"{url}/long")))

    async with no_leaks(), serving(handler, tls) as server:
        answer = await exchange.send(HTTPRequest("POST", f"{server.url}/endless", {}, b"{}"), lambda: None)
        with deadline(60):
            async with tasks() as group:
                group.start_soon(long, server.url)
                assert await answer.read()
                await answer.aclose()
        await exchange.aclose()
    assert sizes == [Flood.LONG]
    assert len(server.peers) == 1
