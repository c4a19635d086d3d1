"""What every exchange must do, as checks that can be run on an exchange of one's own.

    import pytest
    from heaveto.testing.exchange_conformance import EXCHANGE_CHECKS

    @pytest.mark.anyio
    @pytest.mark.parametrize("check", EXCHANGE_CHECKS, ids=lambda check: check.__name__)
    async def test_my_exchange(check):
        await check(MyExchange)

A check calls the factory once and closes the exchange; its server is on loopback. It raises AssertionError with what it
expected and what came. Certificates and proxies are left to the exchange's author.
"""

from __future__ import annotations

import gzip
import socket
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import anyio
import anyio.lowlevel

from ..causes import Cancelled, DeadlinePassed
from ..errors import TransportFailed
from ..models.exchange import Answer, Exchange, HTTPRequest
from ..scopes import Scope, deadline, finish, tasks
from .exchange_server import Handler, LoopbackServer, Peer, serving

__all__ = ["EXCHANGE_CHECKS", "ExchangeCheck", "ExchangeFactory"]

ExchangeFactory: TypeAlias = Callable[[], Exchange]
ExchangeCheck: TypeAlias = Callable[[ExchangeFactory], Awaitable[None]]

CHECK_SECONDS = 20.0  # far more than a check takes, less than a test that hangs
MANY = 300  # more than the hundred connections to which some libraries keep
LARGE_BYTES = 2 * 1024 * 1024
UNSENDABLE_BYTES = 64 * 1024 * 1024  # more than the buffers of both ends hold
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


# --- what goes out and comes back ---------------------------------------------------------------------------------------


async def a_request_goes_out_as_it_is(factory: ExchangeFactory) -> None:
    body = bytes(range(256)) * 8
    async with _between(factory, _answering(OK)) as (exchange, server):
        url = f"{server.url}/v1/a%2Fb?alt=sse&x=%20y"
        await _ask(exchange, HTTPRequest("POST", url, {"authorization": "Bearer k", "x-odd": "a: b"}, body))
        head, _, sent = server.requests[0].partition(b"\r\n\r\n")
        _expect("request line", head.split(b"\r\n")[0], b"POST /v1/a%2Fb?alt=sse&x=%20y HTTP/1.1")
        headers = [line.lower() for line in head.split(b"\r\n")[1:]]
        for wanted in (b"authorization: bearer k", b"x-odd: a: b", b"content-length: %d" % len(body)):
            _expect(f"number of headers {wanted!r}", headers.count(wanted), 1)
        _expect("expect and cookie headers", [each for each in headers if each.startswith((b"expect", b"cookie"))], [])
        _expect("body", sent, body)


async def a_large_body_goes_out_whole(factory: ExchangeFactory) -> None:
    async with _between(factory, _answering(OK)) as (exchange, server):
        _expect("answer", await _ask(exchange, _post(server, b"x" * LARGE_BYTES)), (200, b"ok"))
        _expect("size of the body", server.requests[0].count(b"x", server.requests[0].find(b"\r\n\r\n")), LARGE_BYTES)


async def an_answer_has_its_status_and_headers(factory: ExchangeFactory) -> None:
    raw = b"HTTP/1.1 429 Slow\r\nRetry-After: 7\r\nX-Twice: a\r\nX-Twice: b\r\n"
    raw += b"Set-Cookie: c=d\r\nContent-Length: 4\r\n\r\nwait"
    async with _between(factory, _answering(raw)) as (exchange, server):
        answer = await exchange.send(_post(server), _nothing)
        _expect("status", answer.status, 429)
        _expect("retry-after", answer.headers["retry-after"], "7")
        _expect("a header that came twice", answer.headers["x-twice"], "a, b")
        _expect("names that are not lower-case", [name for name in answer.headers if name != name.lower()], [])
        _expect("a header that is not there", answer.headers.get("x-none"), None)
        _expect("body", await _body(answer), b"wait")
        await _ask(exchange, _post(server))
        _expect("cookies sent back", b"c=d" in server.requests[1], False)


async def a_body_may_be_framed_in_any_way(factory: ExchangeFactory) -> None:
    framed = {
        b"abc": b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc",
        b"": b"HTTP/1.1 204 No Content\r\n\r\n",
        b"hello": CHUNKED + b"2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
        b"until the end": b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nuntil the end",
        b"from long ago": b"HTTP/1.0 200 OK\r\n\r\nfrom long ago",
    }
    for body, raw in framed.items():

        async def answer(peer: Peer, raw: bytes = raw) -> None:
            if await peer.request():
                await peer.send(raw)

        async with _between(factory, answer) as (exchange, server):
            _expect(f"body of {raw!r}", (await _ask(exchange, _post(server)))[1], body)


async def a_piece_is_read_when_it_comes(factory: ExchangeFactory) -> None:
    read = anyio.Event()

    async def in_two(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED, b"3\r\none\r\n")
        await read.wait()
        await peer.send(b"3\r\ntwo\r\n0\r\n\r\n")

    async with _between(factory, in_two) as (exchange, server):
        answer = await exchange.send(_post(server), _nothing)
        _expect("first piece", await answer.read(), b"one")
        read.set()
        _expect("rest", await _body(answer), b"two")
        _expect("a read after the end", await answer.read(), b"")


async def a_packed_body_is_unpacked(factory: ExchangeFactory) -> None:
    content = b"much " * 1000
    async with _between(factory, _answering(_packed("gzip", gzip.compress(content)))) as (exchange, server):
        request = HTTPRequest("POST", server.url, {"accept-encoding": "gzip"}, b"{}")
        _expect("body", (await _ask(exchange, request))[1], content)
        _expect("accept-encoding", server.requests[0].lower().count(b"accept-encoding: gzip\r\n"), 1)


async def a_packed_body_may_have_any_shape_of_its_coding(factory: ExchangeFactory) -> None:
    content, member, wrapped = b"much " * 1000, gzip.compress(b"much " * 500), zlib.compress(b"much " * 1000)
    shapes = {
        "two members": ("gzip", member + member),
        "followed by zeros": ("gzip", member + member + bytes(512)),
        "an old name": ("x-gzip", member + member),
        "in capitals": ("GZIP", member + member),
        "zlib": ("deflate", wrapped),
        "zlib without its wrapping": ("deflate", wrapped[2:-4]),
        "not packed": ("identity", content),
    }
    async with _between(factory, _answering(*(_packed(*shape) for shape in shapes.values()))) as (exchange, server):
        for shape in shapes:
            _expect(f"body, {shape}", (await _ask(exchange, _post(server)))[1], content)


async def a_packed_body_that_breaks_off_is_an_error(factory: ExchangeFactory) -> None:
    member, wrapped = gzip.compress(b"much " * 1000), zlib.compress(b"much " * 1000)
    broken = [
        _packed("gzip", b"x" * len(member)),
        _packed("gzip", member[:-1]),
        _packed("gzip", member + member[:-9]),
        _packed("gzip", member[:1]),
        _packed("deflate", wrapped[:-5]),
        _packed("deflate", wrapped[2:-8]),
    ]
    async with _between(factory, _answering(*broken, OK)) as (exchange, server):
        for _ in broken:
            await _fails(exchange, _post(server))
        _expect("the request behind them", (await _ask(exchange, _post(server)))[0], 200)


def _packed(coding: str, body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-encoding: %s\r\ncontent-length: %d\r\n\r\n%s" % (coding.encode(), len(body), body)


async def a_redirect_is_not_followed(factory: ExchangeFactory) -> None:
    raw = b"HTTP/1.1 307 Elsewhere\r\nlocation: /other\r\ncontent-length: 0\r\n\r\n"
    async with _between(factory, _answering(raw, OK)) as (exchange, server):
        _expect("answer", await _ask(exchange, _post(server)), (307, b""))
        _expect("number of requests", len(server.requests), 1)


async def a_head_may_be_large_but_not_endless(factory: ExchangeFactory) -> None:
    async def endless(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nx-large: " + b"x" * 40_000 + b"\r\ncontent-length: 0\r\n\r\n")
        if await peer.request():
            await peer.send(b"HTTP/1.1 200 OK\r\nx-endless: ")
            while not peer.gone.is_set():
                await peer.send(b"x" * 16_000)

    async with _between(factory, endless) as (exchange, server):
        _expect("answer", (await _ask(exchange, _post(server)))[0], 200)
        await _fails(exchange, _post(server))


# --- connections --------------------------------------------------------------------------------------------------------


async def a_connection_is_used_again(factory: ExchangeFactory) -> None:
    async with _between(factory, _answering(OK)) as (exchange, server):
        told: list[str] = []
        for _ in range(5):
            await _body(await exchange.send(_post(server), lambda: told.append("connected")))
        _expect("number of connections", len(server.peers), 1)
        _expect("calls of `connected`", len(told), 5)


async def many_requests_are_under_way_at_once(factory: ExchangeFactory) -> None:
    arrived = 0
    all_here = anyio.Event()

    async def together(peer: Peer) -> None:
        nonlocal arrived
        while await peer.request():
            arrived += 1
            if arrived == MANY:
                all_here.set()
            await all_here.wait()
            await peer.send(OK)

    async with _between(factory, together) as (exchange, server):
        async with tasks() as group:
            for _ in range(MANY):
                group.start_soon(_ask, exchange, _post(server))
        _expect("number of connections", len(server.peers), MANY)
        await _ask(exchange, _post(server))
        _expect("number of connections, used again", len(server.peers), MANY)


async def a_closed_exchange_opens_again(factory: ExchangeFactory) -> None:
    async with _between(factory, _answering(OK)) as (exchange, server):
        await exchange.aclose()  # nothing was open
        await _ask(exchange, _post(server))
        await exchange.aclose()
        await _gone(server.peers[0])
        _expect("answer", await _ask(exchange, _post(server)), (200, b"ok"))
        _expect("number of connections", len(server.peers), 2)


async def a_kept_connection_that_the_server_closed_is_replaced(factory: ExchangeFactory) -> None:
    """At the moment in which the next request arrives on it, by an end and by a reset, and long before."""

    async def closing(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        if peer.number <= 2 and await peer.request():
            await (peer.close() if peer.number == 1 else peer.reset())

    async with _between(factory, closing) as (exchange, server):
        for requests in (1, 3, 5, 6):
            _expect("answer", await _ask(exchange, _post(server)), (200, b"ok"))
            _expect("number of requests that arrived", len(server.requests), requests)


async def it_is_replaced_once(factory: ExchangeFactory) -> None:
    async def once(peer: Peer) -> None:
        if await peer.request() and peer.number == 1:
            await peer.send(OK)
            await peer.request()

    async with _between(factory, once) as (exchange, server):
        await _ask(exchange, _post(server))
        await _fails(exchange, _post(server))
        _expect("number of requests that arrived", len(server.requests), 3)


async def nothing_is_sent_again_after_a_byte_of_the_answer(factory: ExchangeFactory) -> None:
    for begun in (b"H", b"HTTP/1.1 200 OK\r\nx: y\r\n", b"no HTTP at all\r\n\r\n"):
        for reset in (False, True):

            async def breaking(peer: Peer, begun: bytes = begun, reset: bool = reset) -> None:
                await peer.request()
                await peer.send(OK)
                if await peer.request():
                    await peer.send(begun)
                    await anyio.sleep(0.02)  # a reset throws away what was not yet read
                    await (peer.reset() if reset else peer.close())

            async with _between(factory, breaking) as (exchange, server):
                await _ask(exchange, _post(server))
                await _fails(exchange, _post(server))
                _expect(f"number of requests, the answer being {begun!r}", len(server.requests), 2)


async def a_new_connection_that_dies_is_an_error(factory: ExchangeFactory) -> None:
    async def dying(peer: Peer) -> None:
        await peer.request()

    async with _between(factory, dying) as (exchange, server):
        await _fails(exchange, _post(server))
        _expect("number of requests that arrived", len(server.requests), 1)


# --- errors -------------------------------------------------------------------------------------------------------------


async def a_body_that_breaks_off_is_an_error(factory: ExchangeFactory) -> None:
    cut = (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc", CHUNKED + b"3\r\nabc\r\n", CHUNKED + b"9\r\nabc")
    for raw in cut:
        for reset in (False, True):
            read = anyio.Event()

            async def cutting(peer: Peer, raw: bytes = raw, reset: bool = reset, read: anyio.Event = read) -> None:
                await peer.request()
                await peer.send(raw)
                await read.wait()
                await (peer.reset() if reset else peer.close())

            async with _between(factory, cutting) as (exchange, server):
                answer = await exchange.send(_post(server), _nothing)
                _expect("what came before the cut", await answer.read(), b"abc")
                read.set()
                error = await _raises(answer.read)
                _expect("method and address", (error.method, error.address), ("POST", f"{server.url}/v1"))
                await answer.aclose()


async def nobody_there_is_told_as_refused(factory: ExchangeFactory) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with _made(factory) as exchange:
        error = await _fails(exchange, HTTPRequest("POST", f"http://127.0.0.1:{port}/v1?key=secret", {}, b""))
    _expect("text", str(error), f"POST http://127.0.0.1:{port}/v1: no connection: refused")


async def an_unknown_name_is_told_as_unknown(factory: ExchangeFactory) -> None:
    async with _made(factory) as exchange:
        error = await _fails(exchange, HTTPRequest("POST", "http://nobody.invalid/v1", {}, b""))
    _expect("text", str(error), "POST http://nobody.invalid/v1: no connection: the host name is not known")


# --- stops --------------------------------------------------------------------------------------------------------------


async def a_request_can_be_left_early(factory: ExchangeFactory) -> None:
    async def endless(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED, b"3\r\nabc\r\n")
        await (peer.wait_for_hang_up() if peer.number == 1 else peer.send(b"0\r\n\r\n"))

    async with _between(factory, endless) as (exchange, server):
        answer = await exchange.send(_post(server), _nothing)
        await answer.read()
        await answer.aclose()
        await answer.aclose()
        await _gone(server.peers[0])
        _expect("answer", await _ask(exchange, _post(server)), (200, b"abc"))


async def a_stop_cuts_it_while_it_connects(factory: ExchangeFactory) -> None:
    """A server that never answers TLS's first words holds a connection there."""
    await _stopped(factory, b"", "https:")


async def a_stop_cuts_it_while_it_sends(factory: ExchangeFactory) -> None:
    await _stopped(factory, b"x" * UNSENDABLE_BYTES)


async def a_stop_cuts_it_while_it_waits(factory: ExchangeFactory) -> None:
    await _stopped(factory, b"{}", reads=True)


async def a_stop_cuts_it_while_it_reads(factory: ExchangeFactory) -> None:
    await _stopped(factory, b"{}", reads=True, answers=CHUNKED + b"3\r\nabc\r\n")


async def a_stop_of_its_first_user_harms_nobody_else(factory: ExchangeFactory) -> None:
    async def waiting(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED, b"3\r\nabc\r\n")
        if peer.number == 1:
            await peer.wait_for_hang_up()
        await peer.send(b"0\r\n\r\n")

    async with _between(factory, waiting) as (exchange, server):
        with Scope(quiet=True) as first:
            answer = await exchange.send(_post(server), _nothing)  # whatever the exchange keeps is made in here
            first.cancel(Cancelled("the first"))
            try:
                await answer.read()
                await anyio.sleep_forever()
            finally:
                await finish(CHECK_SECONDS, answer.aclose)
        await _gone(server.peers[0])
        _expect("answer", await _ask(exchange, _post(server)), (200, b"abc"))


async def _stopped(
    factory: ExchangeFactory, body: bytes, scheme: str = "http:", *, reads: bool = False, answers: bytes = b""
) -> None:
    arrived, over = anyio.Event(), anyio.Event()

    async def holding(peer: Peer) -> None:
        if over.is_set():
            await _answering(OK)(peer)
        if reads:
            await peer.request()
        if answers:
            await peer.send(answers)
        arrived.set()
        await over.wait()
        await peer.wait_for_hang_up()

    async with _between(factory, holding) as (exchange, server):
        request = HTTPRequest("POST", server.url.replace("http:", scheme), {}, body)

        async def stop(scope: Scope) -> None:
            await arrived.wait()
            for _ in range(20):  # so that the request is where it stays
                await anyio.lowlevel.checkpoint()
            scope.cancel(Cancelled("enough"))

        async with tasks() as group:
            with Scope(quiet=True) as scope:
                group.start_soon(stop, scope)
                answer = await exchange.send(request, _nothing)
                try:
                    await _body(answer)
                finally:
                    await finish(CHECK_SECONDS, answer.aclose)
        _expect("whether the stop was needed", scope.cause is not None, True)
        over.set()
        await _gone(server.peers[0])
        _expect("the next answer", await _ask(exchange, _post(server)), (200, b"ok"))


EXCHANGE_CHECKS: list[ExchangeCheck] = [
    a_request_goes_out_as_it_is,
    a_large_body_goes_out_whole,
    an_answer_has_its_status_and_headers,
    a_body_may_be_framed_in_any_way,
    a_piece_is_read_when_it_comes,
    a_packed_body_is_unpacked,
    a_packed_body_may_have_any_shape_of_its_coding,
    a_packed_body_that_breaks_off_is_an_error,
    a_redirect_is_not_followed,
    a_head_may_be_large_but_not_endless,
    a_connection_is_used_again,
    many_requests_are_under_way_at_once,
    a_closed_exchange_opens_again,
    a_kept_connection_that_the_server_closed_is_replaced,
    it_is_replaced_once,
    nothing_is_sent_again_after_a_byte_of_the_answer,
    a_new_connection_that_dies_is_an_error,
    a_body_that_breaks_off_is_an_error,
    nobody_there_is_told_as_refused,
    an_unknown_name_is_told_as_unknown,
    a_request_can_be_left_early,
    a_stop_cuts_it_while_it_connects,
    a_stop_cuts_it_while_it_sends,
    a_stop_cuts_it_while_it_waits,
    a_stop_cuts_it_while_it_reads,
    a_stop_of_its_first_user_harms_nobody_else,
]


@asynccontextmanager
async def _made(factory: ExchangeFactory) -> AsyncIterator[Exchange]:
    with deadline(CHECK_SECONDS, DeadlinePassed(CHECK_SECONDS)):
        exchange = factory()
        try:
            yield exchange
        finally:
            await finish(CHECK_SECONDS, exchange.aclose)


@asynccontextmanager
async def _between(factory: ExchangeFactory, handler: Handler) -> AsyncIterator[tuple[Exchange, LoopbackServer]]:
    async with serving(handler) as server, _made(factory) as exchange:
        yield exchange, server


def _answering(*answers: bytes) -> Handler:
    """A server that gives each request of all connections the next answer; the last one again and again."""
    left = list(answers)

    async def handler(peer: Peer) -> None:
        while await peer.request():
            await peer.send(left.pop(0) if len(left) > 1 else left[0])

    return handler


def _post(server: LoopbackServer, body: bytes = b"{}") -> HTTPRequest:
    return HTTPRequest("POST", f"{server.url}/v1", {"content-type": "application/json"}, body)


def _nothing() -> None: ...


async def _body(answer: Answer) -> bytes:
    pieces = []
    while piece := await answer.read():
        pieces.append(piece)
    return b"".join(pieces)


async def _ask(exchange: Exchange, request: HTTPRequest) -> tuple[int, bytes]:
    answer = await exchange.send(request, _nothing)
    try:
        return answer.status, await _body(answer)
    finally:
        await finish(CHECK_SECONDS, answer.aclose)


async def _fails(exchange: Exchange, request: HTTPRequest) -> TransportFailed:
    return await _raises(_ask, exchange, request)


async def _raises(fn: Callable[..., Awaitable[Any]], *args: Any) -> TransportFailed:
    try:
        result = await fn(*args)
    except TransportFailed as error:
        return error
    raise AssertionError(f"it should have raised TransportFailed, and returned {result!r}")


async def _gone(peer: Peer) -> None:
    """Wait until the server has seen the client hang up."""
    await peer.gone.wait()


def _expect(what: str, got: object, wanted: object) -> None:
    if got != wanted:
        raise AssertionError(f"{what} should be {wanted!r}, and came as {got!r}")
