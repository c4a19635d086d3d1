"""A server that lies in HTTP/2: the right answer or an error of ours, soon, without a leak and without filling the memory.

What h2 would not send is put together by hand, as frames.
"""

from __future__ import annotations

import ssl
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import RequestReceived, StreamEnded
from h2.settings import SettingCodes

from heaveto.causes import DeadlinePassed
from heaveto.errors import TransportFailed
from heaveto.models import HTTPRequest, HttpxExchange
from heaveto.scopes import Scope, deadline, finish, tasks
from heaveto.testing import no_leaks
from heaveto.testing.exchange_server import Peer, serving

pytestmark = pytest.mark.anyio

WHOLE = "/whole"  # answered with BODY by every server here
LIE = "/lie"
BODY = b"abc"
HEADERS = [(":status", "200"), ("content-type", "text/plain")]
SECONDS = 20.0  # far more than any answer or error takes
STALL_SECONDS = 0.3  # that a silent server is waited for

DATA, HEADERS_FRAME, SETTINGS, PING, GOAWAY, CONTINUATION = 0, 1, 4, 6, 7, 9
END_STREAM, END_HEADERS = 1, 4


def frame(kind: int, stream: int, payload: bytes = b"", flags: int = 0) -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


@dataclass
class Asked:
    """A request that has come whole, and what it takes to answer it."""

    peer: Peer
    connection: H2Connection
    stream: int

    async def flush(self) -> None:
        await self.peer.send(self.connection.data_to_send())

    async def answer(self, *headers: tuple[str, str], body: bytes = BODY) -> None:
        self.connection.send_headers(self.stream, [*HEADERS, *headers])
        self.connection.send_data(self.stream, body, end_stream=True)
        await self.flush()

    async def begin(self, *headers: tuple[str, str]) -> None:
        self.connection.send_headers(self.stream, [*HEADERS, *headers])
        self.connection.send_data(self.stream, BODY)
        await self.flush()

    async def raw(self, *frames: bytes) -> None:
        await self.peer.send(b"".join(frames))

    async def over_and_over(self, frames: bytes) -> None:
        """Send frames until the client hangs up. What it says meanwhile is not read."""
        while not self.peer.gone.is_set():
            await self.peer.send(frames)


Lie = Callable[[Asked], Awaitable[None]]


@dataclass
class Lying:
    """Answers /whole as it should be, and /lie with the lie."""

    lie: Lie
    settings: dict[int, int] = field(default_factory=dict)
    first: bytes | None = None  # in the place of the settings that a server begins with
    paths: list[str] = field(default_factory=list)

    async def __call__(self, peer: Peer) -> None:
        connection = H2Connection(
            H2Configuration(client_side=False, header_encoding="utf-8", validate_outbound_headers=False)
        )
        connection.initiate_connection()
        connection.update_settings(self.settings)
        begin = connection.data_to_send()
        await peer.send(begin if self.first is None else self.first)
        path: dict[int, str] = {}
        while data := await peer.receive():
            for event in connection.receive_data(data):
                if isinstance(event, RequestReceived):
                    path[event.stream_id] = dict(event.headers)[":path"]
                if isinstance(event, StreamEnded):
                    await self._answer(Asked(peer, connection, event.stream_id), path[event.stream_id])
            await peer.send(connection.data_to_send())

    async def _answer(self, asked: Asked, path: str) -> None:
        self.paths.append(path)
        await (self.lie(asked) if path == LIE else asked.answer())


async def ask(exchange: HttpxExchange, url: str, body: bytes = b"{}") -> bytes:
    answer = await exchange.send(HTTPRequest("POST", url, {"content-type": "text/plain"}, body), lambda: None)
    try:
        body = b""
        while piece := await answer.read():
            body = (body + piece)[: 2 * len(BODY)]  # that it goes on is seen by that
        return body
    finally:
        await finish(5, answer.aclose)


async def came_of(lying: Lying, tls: ssl.SSLContext, *, warm: bool = True) -> bytes | TransportFailed:
    """What comes of the lie on a kept connection, or on a new one; a request after it is answered in any case."""
    exchange = HttpxExchange(http2=True)
    came: bytes | TransportFailed
    async with no_leaks(), serving(lying, tls) as server:
        with deadline(SECONDS):
            if warm:
                assert await ask(exchange, f"{server.url}{WHOLE}") == BODY
            try:
                came = await ask(exchange, f"{server.url}{LIE}")
            except TransportFailed as error:
                came = error
            assert await ask(exchange, f"{server.url}{WHOLE}") == BODY, "a connection that is broken was used again"
            await exchange.aclose()
    return came


# --- what ends well -------------------------------------------------------------------------------------------------


async def with_trailers(asked: Asked) -> None:
    asked.connection.send_headers(asked.stream, HEADERS)
    asked.connection.send_data(asked.stream, BODY)
    asked.connection.send_headers(asked.stream, [("x-checksum", "1")], end_stream=True)
    await asked.flush()


async def after_early_hints(asked: Asked) -> None:
    asked.connection.send_headers(asked.stream, [(":status", "103"), ("link", "</a>")])
    await asked.answer()


async def in_empty_pieces(asked: Asked) -> None:
    asked.connection.send_headers(asked.stream, HEADERS)
    await asked.flush()
    await asked.raw(*[frame(DATA, asked.stream)] * 1_000, frame(DATA, asked.stream, BODY, END_STREAM))


async def behind_pings(asked: Asked) -> None:
    await asked.raw(*(frame(PING, 0, struct.pack(">Q", number)) for number in range(2_000)))
    await asked.answer()


async def behind_settings(asked: Asked) -> None:
    await asked.raw(frame(SETTINGS, 0) * 2_000)
    await asked.answer()


async def behind_unknown_frames(asked: Asked) -> None:
    """What a client does not know, it ignores (RFC 9113, 5.5)."""
    await asked.raw(frame(0x77, 0, b"x" * 100) * 100, frame(0x77, asked.stream, b"x" * 100) * 100)
    await asked.answer()


async def and_no_more_is_wanted(asked: Asked) -> None:
    """The whole answer, and a reset that is no error behind it (RFC 9113, 8.1)."""
    asked.connection.send_headers(asked.stream, HEADERS)
    asked.connection.send_data(asked.stream, BODY, end_stream=True)
    await asked.flush()
    await asked.raw(frame(3, asked.stream, struct.pack(">I", ErrorCodes.NO_ERROR)))


async def before_a_good_bye(asked: Asked) -> None:
    """The server will take no more requests, and finishes this one (RFC 9113, 6.8)."""
    await asked.begin()
    await asked.raw(frame(GOAWAY, 0, struct.pack(">II", asked.stream, ErrorCodes.NO_ERROR)))
    await asked.raw(frame(DATA, asked.stream, b"", END_STREAM))


async def byte_by_byte(asked: Asked) -> None:
    """A good-bye in the middle of it."""
    good_bye = frame(GOAWAY, 0, struct.pack(">II", asked.stream, ErrorCodes.NO_ERROR) + b"so long")
    frames = _head(asked) + frame(DATA, asked.stream, BODY) + good_bye + frame(DATA, asked.stream, b"", END_STREAM)
    await asked.peer.send(*(bytes([each]) for each in frames))


WELL = [
    byte_by_byte,
    with_trailers,
    after_early_hints,
    in_empty_pieces,
    behind_pings,
    behind_settings,
    behind_unknown_frames,
    and_no_more_is_wanted,
    before_a_good_bye,
]


@pytest.mark.parametrize("lie", WELL, ids=lambda lie: lie.__name__)
async def test_an_odd_answer_is_an_answer(tls: ssl.SSLContext, lie: Lie) -> None:
    assert await came_of(Lying(lie), tls) == BODY


# --- what ends in an error ------------------------------------------------------------------------------------------


def reset_with(code: ErrorCodes) -> Lie:
    async def reset(asked: Asked) -> None:
        asked.connection.reset_stream(asked.stream, code)
        await asked.flush()

    reset.__name__ = f"reset_{code.name.lower()}"
    return reset


async def longer_than_said(asked: Asked) -> None:
    await asked.raw(_head(asked, ("content-length", "2")), frame(DATA, asked.stream, BODY, END_STREAM))


async def shorter_than_said(asked: Asked) -> None:
    await asked.raw(_head(asked, ("content-length", "5")), frame(DATA, asked.stream, BODY, END_STREAM))


async def hung_up_midway(asked: Asked) -> None:
    await asked.begin()
    await asked.peer.close()


async def good_bye_midway(asked: Asked) -> None:
    await asked.begin()
    await asked.raw(frame(GOAWAY, 0, struct.pack(">II", asked.stream, ErrorCodes.NO_ERROR)))
    await asked.peer.close()


async def another_protocol(asked: Asked) -> None:
    await asked.raw(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc" + b"x" * 100_000)


async def noise(asked: Asked) -> None:
    await asked.raw(bytes(range(256)) * 1_000)


async def a_body_without_a_head(asked: Asked) -> None:
    await asked.raw(frame(DATA, asked.stream, BODY, END_STREAM))


async def a_head_without_a_status(asked: Asked) -> None:
    encoder = asked.connection.encoder
    await asked.raw(frame(HEADERS_FRAME, asked.stream, encoder.encode([("x", "y")]), END_HEADERS | END_STREAM))


async def a_status_that_is_no_number(asked: Asked) -> None:
    block = asked.connection.encoder.encode([(":status", "fine")])
    await asked.raw(frame(HEADERS_FRAME, asked.stream, block, END_HEADERS), frame(DATA, asked.stream, BODY, END_STREAM))


async def a_head_that_is_noise(asked: Asked) -> None:
    await asked.raw(frame(HEADERS_FRAME, asked.stream, b"\xff" * 100, END_HEADERS))


async def a_head_of_a_megabyte(asked: Asked) -> None:
    block = asked.connection.encoder.encode(
        [*HEADERS, *((f"x-{number}", "y" * 8_000) for number in range(128))], huffman=False
    )
    first, *more = [block[at : at + 16_000] for at in range(0, len(block), 16_000)]
    await asked.raw(frame(HEADERS_FRAME, asked.stream, first))
    await asked.raw(*(frame(CONTINUATION, asked.stream, piece) for piece in more[:-1]))
    await asked.raw(frame(CONTINUATION, asked.stream, more[-1], END_HEADERS))
    await asked.raw(frame(DATA, asked.stream, BODY, END_STREAM))


async def a_head_without_end(asked: Asked) -> None:
    await asked.raw(frame(HEADERS_FRAME, asked.stream, asked.connection.encoder.encode(HEADERS)))
    await asked.over_and_over(frame(CONTINUATION, asked.stream, b"\x00\x01a\x01b" * 3_000))


async def a_small_head_that_is_large(asked: Asked) -> None:
    """One long header in the table, named two thousand times: a few bytes for eight megabytes."""
    block = asked.connection.encoder.encode([*HEADERS, ("x", "y" * 4_000)]) + b"\xbe" * 2_000
    await asked.raw(frame(HEADERS_FRAME, asked.stream, block, END_HEADERS | END_STREAM))


async def a_frame_larger_than_allowed(asked: Asked) -> None:
    await asked.raw(_head(asked), frame(DATA, asked.stream, b"x" * 1_000_000, END_STREAM))


async def a_promise_that_nobody_wants(asked: Asked) -> None:
    block = asked.connection.encoder.encode([(":method", "GET"), (":path", "/x"), (":scheme", "https"), (":authority", "a")])
    await asked.raw(frame(5, asked.stream, struct.pack(">I", 2) + block, END_HEADERS))


async def an_answer_on_a_stream_of_nobody(asked: Asked) -> None:
    await asked.raw(_head(asked, stream=asked.stream + 100))


async def a_window_that_is_too_large(asked: Asked) -> None:
    await asked.raw(*[frame(8, 0, struct.pack(">I", 0x7FFFFFFF))] * 2)


def _head(asked: Asked, *headers: tuple[str, str], stream: int = 0) -> bytes:
    block = asked.connection.encoder.encode([*HEADERS, *headers])
    return frame(HEADERS_FRAME, stream or asked.stream, block, END_HEADERS)


BADLY = [
    *map(reset_with, (ErrorCodes.INTERNAL_ERROR, ErrorCodes.CANCEL, ErrorCodes.NO_ERROR, ErrorCodes.ENHANCE_YOUR_CALM)),
    longer_than_said,
    shorter_than_said,
    hung_up_midway,
    good_bye_midway,
    another_protocol,
    noise,
    a_body_without_a_head,
    a_head_without_a_status,
    a_status_that_is_no_number,
    a_head_that_is_noise,
    a_head_of_a_megabyte,
    a_head_without_end,
    a_small_head_that_is_large,
    a_frame_larger_than_allowed,
    a_promise_that_nobody_wants,
    an_answer_on_a_stream_of_nobody,
    a_window_that_is_too_large,
]


@pytest.mark.parametrize("warm", [True, False], ids=["kept", "new"])
@pytest.mark.parametrize("lie", BADLY, ids=lambda lie: lie.__name__)
async def test_a_lie_is_an_error_that_may_be_tried_again(tls: ssl.SSLContext, lie: Lie, warm: bool) -> None:
    lying = Lying(lie)
    came = await came_of(lying, tls, warm=warm)
    assert isinstance(came, TransportFailed), came
    assert came.retryable
    assert lying.paths.count(LIE) == 1, "it was sent again, though the server may have acted on it"


# --- requests that the server did not look at -----------------------------------------------------------------------


async def refused(asked: Asked) -> None:
    asked.connection.reset_stream(asked.stream, ErrorCodes.REFUSED_STREAM)
    await asked.flush()


async def told_to_go(asked: Asked) -> None:
    await asked.raw(frame(GOAWAY, 0, struct.pack(">II", 0, ErrorCodes.NO_ERROR)))
    await asked.peer.close()


async def told_to_go_with_an_error(asked: Asked) -> None:
    await asked.raw(frame(GOAWAY, 0, struct.pack(">II", 0, ErrorCodes.ENHANCE_YOUR_CALM)))
    await asked.peer.close()


@pytest.mark.parametrize("warm", [True, False], ids=["kept", "new"])
@pytest.mark.parametrize("once", [refused, told_to_go, told_to_go_with_an_error], ids=lambda lie: lie.__name__)
async def test_a_request_that_was_not_looked_at_is_sent_again(tls: ssl.SSLContext, once: Lie, warm: bool) -> None:
    """For the server says that it did nothing (RFC 9113, 8.7). Once, and on a new connection."""
    lies = iter([once])

    async def lie(asked: Asked) -> None:
        await (next(lies, Asked.answer))(asked)

    lying = Lying(lie)
    assert await came_of(lying, tls, warm=warm) == BODY
    assert lying.paths.count(LIE) == 2


# --- servers that take their time -----------------------------------------------------------------------------------


async def say_nothing(_: Asked) -> None: ...


async def ping_forever(asked: Asked) -> None:
    await asked.over_and_over(frame(PING, 0, b"12345678") * 100)


async def set_forever(asked: Asked) -> None:
    await asked.over_and_over(frame(SETTINGS, 0) * 100)


async def send_nothing_forever(asked: Asked) -> None:
    await asked.raw(_head(asked))
    await asked.over_and_over(frame(DATA, asked.stream) * 100)


async def send_forever(asked: Asked) -> None:
    await asked.raw(_head(asked))
    await asked.over_and_over(frame(DATA, asked.stream, b"x" * 16_000) * 64)


async def hint_forever(asked: Asked) -> None:
    block = asked.connection.encoder.encode([(":status", "103")])
    await asked.over_and_over(frame(HEADERS_FRAME, asked.stream, block, END_HEADERS) * 10)


@pytest.mark.parametrize(
    "lie",
    [say_nothing, ping_forever, set_forever, send_nothing_forever, send_forever, hint_forever],
    ids=lambda lie: lie.__name__,
)
async def test_a_limit_ends_what_the_server_does_not(tls: ssl.SSLContext, lie: Lie) -> None:
    exchange = HttpxExchange(http2=True)
    async with no_leaks(), serving(Lying(lie), tls) as server:
        with deadline(SECONDS):
            with (
                pytest.raises((DeadlinePassed, TransportFailed)) as caught,
                Scope(STALL_SECONDS, DeadlinePassed(STALL_SECONDS)),
            ):
                await ask(exchange, f"{server.url}{LIE}")
            if lie is say_nothing:
                assert isinstance(caught.value, DeadlinePassed)
            assert await ask(exchange, f"{server.url}{WHOLE}") == BODY
            await exchange.aclose()


async def test_a_window_that_stays_closed_is_waited_for_no_longer_than_the_limit(tls: ssl.SSLContext) -> None:
    lying = Lying(say_nothing, {SettingCodes.INITIAL_WINDOW_SIZE: 0})
    exchange = HttpxExchange(http2=True)
    async with no_leaks(), serving(lying, tls) as server:
        with deadline(SECONDS):
            with pytest.raises(DeadlinePassed), Scope(STALL_SECONDS, DeadlinePassed(STALL_SECONDS)):
                await ask(exchange, f"{server.url}{LIE}", b"x" * 100_000)
            await exchange.aclose()


async def test_a_good_bye_ends_no_stream_that_the_server_still_answers(tls: ssl.SSLContext) -> None:
    """Of three streams it names the second as the last: that one and the first come whole, the third is sent again."""
    under_way: list[Asked] = []

    async def lie(asked: Asked) -> None:
        under_way.append(asked)
        if len(under_way) != 3:
            return await asked.answer() if len(under_way) > 3 else None
        for each in under_way[:2]:
            await each.begin()
        await asked.raw(frame(GOAWAY, 0, struct.pack(">II", under_way[1].stream, ErrorCodes.NO_ERROR)))
        for each in under_way[:2]:
            await each.raw(frame(DATA, each.stream, b"", END_STREAM))
        return None

    lying, exchange, came = Lying(lie), HttpxExchange(http2=True), list[bytes]()

    async def one(url: str) -> None:
        came.append(await ask(exchange, url))

    async with no_leaks(), serving(lying, tls) as server:
        with deadline(SECONDS):
            assert await ask(exchange, f"{server.url}{WHOLE}") == BODY
            async with tasks() as group:
                for _ in range(3):
                    group.start_soon(one, f"{server.url}{LIE}")
            await exchange.aclose()
    assert came == [BODY] * 3
    assert len(under_way) == 4
    assert len(server.peers) == 2


async def test_where_one_stream_is_allowed_at_a_time_requests_take_turns_or_connections(tls: ssl.SSLContext) -> None:
    lying = Lying(say_nothing, {SettingCodes.MAX_CONCURRENT_STREAMS: 1})
    exchange = HttpxExchange(http2=True)
    came: list[bytes] = []

    async def one(url: str) -> None:
        came.append(await ask(exchange, url))

    async with no_leaks(), serving(lying, tls) as server:
        with deadline(SECONDS):
            async with tasks() as group:
                for _ in range(10):
                    group.start_soon(one, f"{server.url}{WHOLE}")
            await exchange.aclose()
    assert came == [BODY] * 10


@pytest.mark.parametrize("first", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0" * 9, b"\xff" * 100], ids=repr)
async def test_a_server_that_does_not_begin_as_it_should(tls: ssl.SSLContext, first: bytes) -> None:
    exchange = HttpxExchange(http2=True)
    async with no_leaks(), serving(Lying(say_nothing, first=first), tls) as server:
        with deadline(SECONDS):
            with suppress(TransportFailed):
                assert await ask(exchange, f"{server.url}{WHOLE}") == BODY
            await exchange.aclose()
