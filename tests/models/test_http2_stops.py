"""A request over HTTP/2, stopped at every await: the server is told, and the connection serves the others."""

from __future__ import annotations

import itertools
import ssl
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass, field
from typing import Any

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded, StreamReset
from h2.exceptions import ProtocolError

from heaveto.causes import Cancelled
from heaveto.models import HTTPRequest, HttpxExchange
from heaveto.models.httpx_exchange import HttpxAnswer
from heaveto.scopes import Scope, finish
from heaveto.testing import no_leaks
from heaveto.testing.exchange_server import Peer, serving

HEADERS = [(":status", "200"), ("content-type", "text/plain")]
BODY = b"x" * 40_000  # three frames


@dataclass
class Streams:
    """Answers /whole, begins /held, which the next /release ends, and never answers /silent.

    Attributes:
        silent: The streams of /silent, each with its connection's number.
        reset: Those that the client gave up.
        whole_came: Called when a request for /silent has come whole.
        broken: What the server could not make sense of.
    """

    silent: set[tuple[int, int]] = field(default_factory=set)
    reset: set[tuple[int, int]] = field(default_factory=set)
    broken: list[ProtocolError] = field(default_factory=list)
    whole_came: Callable[[], None] = lambda: None

    async def __call__(self, peer: Peer) -> None:
        connection = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        connection.initiate_connection()
        paths: dict[int, str] = {}
        await peer.send(connection.data_to_send())
        try:
            while data := await peer.receive():
                events = connection.receive_data(data)
                self.reset |= {(peer.number, event.stream_id) for event in events if isinstance(event, StreamReset)}
                for event in events:
                    self._take(connection, peer.number, paths, event)
                await peer.send(connection.data_to_send())
        except ProtocolError as error:
            self.broken.append(error)

    def _take(self, connection: H2Connection, peer: int, paths: dict[int, str], event: object) -> None:
        match event:
            case RequestReceived():
                paths[event.stream_id] = path = dict(event.headers)[":path"]
                if path == "/silent":
                    self.silent.add((peer, event.stream_id))
            case DataReceived():
                connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case StreamEnded() if (peer, event.stream_id) in self.reset:
                pass  # by what came with it
            case StreamEnded() if paths[event.stream_id] == "/held":
                connection.send_headers(event.stream_id, HEADERS)
                connection.send_data(event.stream_id, b"abc")
            case StreamEnded() if paths[event.stream_id] == "/silent":
                self.whole_came()
            case StreamEnded():
                connection.send_headers(event.stream_id, HEADERS)
                connection.send_data(event.stream_id, b"abc", end_stream=True)
                if paths[event.stream_id] == "/release":
                    held = next(stream for stream, path in paths.items() if path == "/held")
                    connection.send_data(held, b"def", end_stream=True)


async def begin(exchange: HttpxExchange, url: str) -> HttpxAnswer:
    return await exchange.send(HTTPRequest("POST", url, {"content-type": "text/plain"}, BODY), lambda: None)


async def rest_of(answer: HttpxAnswer) -> bytes:
    pieces = []
    try:
        while piece := await answer.read():
            pieces.append(piece)
    finally:
        await finish(5, answer.aclose)
    return b"".join(pieces)


class StoppedAt:
    """Awaits something, and cancels a scope at its await of that number, counted from 1."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], at: int, scope: Scope) -> None:
        self._coroutine, self._at, self._scope = coroutine, at, scope
        self.awaits = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        step, argument = self._coroutine.send, None
        while True:
            try:
                waits_for = step(argument)
            except StopIteration as end:
                return end.value
            self.awaits += 1
            if self.awaits == self._at:
                self._scope.cancel(Cancelled("enough"))
            try:
                step, argument = self._coroutine.send, (yield waits_for)
            except BaseException as error:
                step, argument = self._coroutine.throw, error


@pytest.mark.anyio
async def test_a_stop_before_the_answer_resets_the_stream_and_leaves_the_connection(tls: ssl.SSLContext) -> None:
    streams, exchange = Streams(), HttpxExchange(http2=True)
    async with no_leaks(), serving(streams, tls) as server:
        held = await begin(exchange, f"{server.url}/held")
        for at in itertools.count(1):
            with Scope(quiet=True) as scope:
                streams.whole_came = lambda: scope.cancel(Cancelled("there is no answer to wait for"))
                stopped = StoppedAt(begin(exchange, f"{server.url}/silent"), at, scope)
                await stopped
            assert await rest_of(await begin(exchange, f"{server.url}/whole")) == b"abc", at
            if stopped.awaits < at:
                break
        assert await rest_of(await begin(exchange, f"{server.url}/release")) == b"abc"
        assert await rest_of(held) == b"abcdef"
        await exchange.aclose()
    assert at > 5
    assert len(server.peers) == 1
    assert streams.broken == []
    assert len(streams.silent) > 2
    assert streams.silent <= streams.reset


@pytest.mark.anyio
async def test_a_stop_while_a_connection_is_made_leaves_who_comes_next_alone(tls: ssl.SSLContext) -> None:
    streams = Streams()
    async with no_leaks(), serving(streams, tls) as server:
        for at in itertools.chain(range(1, 20), itertools.count(20, 9)):  # on Trio most of them are counting streams
            exchange = HttpxExchange(http2=True)
            with Scope(quiet=True) as scope:
                stopped = StoppedAt(begin(exchange, f"{server.url}/silent"), at, scope)
                streams.whole_came = lambda: scope.cancel(Cancelled("there is no answer to wait for"))
                await stopped
            assert await rest_of(await begin(exchange, f"{server.url}/whole")) == b"abc", at
            await exchange.aclose()
            if stopped.awaits < at:
                break
    assert at > 10
    assert streams.broken == []
    assert streams.silent <= streams.reset
