"""The exchange over httpx2: both back ends, proxies, the system's certificates.

The rules of this file:
- httpx2's pool looks at every connection twice a request, which is quadratic in the requests under way; so there is a
  client for each `requests_per_client` of them, and the first that has room is taken.
- No time limits here: the scope around a call has them, with causes.
- A kept connection may have been closed by the server in the moment in which we use it. Then the request goes out once
  more on a new one, as no byte of an answer had come.
- What stays on this machine goes through no proxy, whatever the environment says.
- A request is put together here and not by the client, which would read its address and mix its headers anew each time.
- Each chunk of a body would cost a dozen of h11's and httpx2's calls; so those that one read brings are made one.
- httpx2's errors are told apart by class, never by text; the words are ours, by the table below.
"""

from __future__ import annotations

import functools
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, NamedTuple

import anyio.lowlevel
import httpx2

from ..causes import Cancelled
from ..scopes import Scope, finish
from .chunk_joining import ChunkJoiner
from .exchange import HTTPRequest, stays_here
from .http2_streams import (
    MakingReady,
    check_frames,
    close_left,
    give_up,
    reset_of,
    speaks_http2,
    uncut,
    was_looked_at,
    was_refused,
)
from .network_problems import transport_failed
from .unpacking import PACKED, NotUnpacked, read_unpacked, unpacker_for

__all__ = ["HttpxExchange"]

REQUESTS_PER_CLIENT = 32  # measured: 1,000 runs cost 18 s of CPU in one client and 4.8 s with one for each few
KEEP_ALIVE_SECONDS = 55.0  # tools run between two calls; common servers close an idle connection after 60 s
MOST_REFUSALS = 5  # of one request, by connections that the server is draining, before it is an error
CLOSE_SECONDS = 2.0  # closing a socket does not wait for the other side

KNOWN_ADDRESSES = 64  # that need not be read again: each model has one
HEADERS = {"connection": "keep-alive", "accept": "*/*", "accept-encoding": PACKED}  # if it has no others

PROBLEMS: dict[type[Exception], str] = {  # the first that fits
    httpx2.ConnectError: "no connection",
    httpx2.ProxyError: "the proxy refused",
    httpx2.ReadError: "the connection broke while the answer was waited for",
    httpx2.WriteError: "the connection broke while the request went out",
    httpx2.WriteTimeout: "the server takes nothing of the request",
    httpx2.RemoteProtocolError: "the server closed the connection early or does not speak HTTP",
    httpx2.LocalProtocolError: "the request is not valid HTTP",
    httpx2.UnsupportedProtocol: "the address is neither http nor https",
    httpx2.HTTPError: "the network failed",
}
FAILED = tuple(f"http2.{part}.failed" for part in ("send_request_headers", "send_request_body", "receive_response_headers"))
STALE = (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError, httpx2.CloseError)

_reader: ContextVar[_Trace | None] = ContextVar("heaveto_reader", default=None)  # whose request a task is busy with


@functools.cache
def _trusting(https: bool) -> ssl.SSLContext:
    """One TLS context for the whole process: it takes 30 ms to make, and plain http needs none with certificates."""
    return httpx2.create_ssl_context() if https else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@functools.lru_cache(KNOWN_ADDRESSES)
def _parsed(url: str) -> httpx2.URL:
    return httpx2.URL(url)


class _Kind(NamedTuple):
    """What a client must fit: the TLS context is the client's, and so are its proxies."""

    https: bool
    direct: bool

    @classmethod
    @functools.lru_cache(KNOWN_ADDRESSES)
    def of(cls, url: str) -> _Kind:
        return cls(url.startswith("https:"), stays_here(url))


class _Shard:
    """A client and how many of its requests are under way."""

    def __init__(self, kind: _Kind, *, http2: bool) -> None:
        self.kind, self.under_way, self.retired = kind, 0, False
        self.streams: list[Any] = []  # of its HTTP/2 connections
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=KEEP_ALIVE_SECONDS)
        self.client = httpx2.AsyncClient(
            verify=_trusting(kind.https),
            http2=http2,
            timeout=None,
            limits=limits,
            follow_redirects=False,
            trust_env=not kind.direct,
            cookies=CookieJar(
                DefaultCookiePolicy(allowed_domains=[])
            ),  # else what one run was given goes out with another's
        )

    def leave(self) -> bool:
        """A request is over. Whether nobody will use the client again, so that it must be closed."""
        self.under_way -= 1
        return self.retired and not self.under_way

    async def aclose(self) -> None:
        await self.client.aclose()
        streams, self.streams = self.streams, []
        for stream in streams:  # also what the client has forgotten
            await stream.aclose()


class _Trace:
    """Learns from httpcore's trace whether the connection is new, and when the request begins to go out."""

    def __init__(self, connected: Callable[[], None]) -> None:
        self._connected, self.new_connection = connected, False
        self.heard = False  # bytes came
        self.streams: list[Any] | None = None  # where an HTTP/2 connection that is made goes
        self.beginning: Callable[[Any], None] | None = None  # called before an HTTP/2 request goes out
        self.ending: Callable[[Any, Exception], Exception | None] | None = None  # called when one fails
        self.leaving: Callable[[Any, int], Awaitable[None]] | None = None  # called before an HTTP/2 stream is forgotten
        self._http2 = self._looked_at = self.was_refused = False
        self._stream: Any = None
        self._request: Any = None
        self.making_ready = MakingReady()

    @property
    def is_stale(self) -> bool:
        """Whether a kept connection was dead: nothing had come for this request, so that it may go out once more.

        With HTTP/2 something always comes; what counts there is what the server said of the stream or the connection.
        """
        return self.was_refused or (not self.new_connection and not (self._looked_at if self._http2 else self.heard))

    async def __call__(self, name: str, info: Mapping[str, Any]) -> None:
        if name.endswith("connect_tcp.started"):
            self.new_connection = True
        elif name.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._stream = info["return_value"]
            _listen(self._stream)
            if self.streams is not None and speaks_http2(self._stream):
                self.streams.append(self._stream)
        elif name.endswith("start_tls.failed"):
            await finish(CLOSE_SECONDS, self._stream.aclose)  # httpcore leaves it open when a stop cuts the handshake
        elif name == "http2.send_connection_init.complete":
            self.making_ready.begin()
        elif name.endswith("send_request_headers.started") and info["request"].method != b"CONNECT":
            self._http2, self._request = name.startswith("http2."), info["request"]
            self.making_ready.end()
            if self._http2 and self.beginning is not None:
                self.beginning(self._request)
            self._connected()
        elif name == "http2.response_closed.started" and self.leaving is not None:
            await self.leaving(self._request, info["stream_id"])
        elif name in FAILED:
            self._take_failure(info["exception"])

    def _take_failure(self, error: Exception) -> None:
        """Note what the server said of the stream. A reset while the request goes out is raised as one."""
        reset = None if self.ending is None else self.ending(self._request, error)
        told = reset or error
        self._looked_at, self.was_refused = was_looked_at(told), was_refused(told)
        if reset is not None:
            raise reset from error


def _listen(stream: Any) -> None:
    """Tell whoever reads from a connection's stream that something came; with HTTP/1.1 that is its own request.

    The chunks of a read are joined there too; with HTTP/1.1 each answer follows on a write.
    """
    read, write, joiner = stream.read, stream.write, ChunkJoiner()

    async def listening(*args: Any, **settings: Any) -> bytes:
        while data := await read(*args, **settings):
            if (trace := _reader.get()) is not None:
                trace.heard = True
            if joined := joiner.feed(data):
                return joined
        return b""

    async def writing(*args: Any, **settings: Any) -> None:
        joiner.begin()
        await write(*args, **settings)

    stream.read = listening
    stream.write = uncut(write) if speaks_http2(stream) else writing


class HttpxExchange:
    """Sends requests over httpx2. Use it from one event loop at a time.

    Args:
        http2: Whether HTTP/2 may be used.
        requests_per_client: How many requests are under way in one httpx2 client before there is another.
    """

    def __init__(self, *, http2: bool = False, requests_per_client: int = REQUESTS_PER_CLIENT) -> None:
        self._http2, self._requests_per_client = http2, requests_per_client
        self._shards: list[_Shard] = []
        self._loop: object = None

    @property
    def clients(self) -> int:
        """How many httpx2 clients are open."""
        return len(self._shards)

    async def send(self, request: HTTPRequest, connected: Callable[[], None]) -> HttpxAnswer:
        """Send a request and wait for the answer's head; see `Exchange.send`."""
        trace = _Trace(connected)
        _reader.set(trace)
        with _mapped(request):
            shard = self._take(_Kind.of(request.url))
            for _ in range(MOST_REFUSALS):
                try:
                    return await self._once(shard, request, trace)
                except STALE:
                    if not trace.is_stale:
                        raise
                if not trace.was_refused:
                    shard = await self._replace(shard)
                    break
                shard = self._take(shard.kind)  # another connection of it, or another one
            return await self._once(shard, request, trace)

    async def aclose(self) -> None:
        """Close the connections. A later `send` opens new ones."""
        shards, self._shards = self._shards, []
        for shard in shards:
            await shard.aclose()

    async def _once(self, shard: _Shard, request: HTTPRequest, trace: _Trace) -> HttpxAnswer:
        shard.under_way += 1
        trace.streams = shard.streams
        trace.beginning = functools.partial(check_frames, shard.client, request.url)
        trace.ending = functools.partial(reset_of, shard.client, request.url)
        trace.leaving = functools.partial(give_up, shard.client, request.url)
        try:
            built = httpx2.Request(
                request.method,
                _parsed(request.url),
                content=request.body,
                headers=HEADERS | {name.lower(): value for name, value in request.headers.items()},
                extensions={"trace": trace},
            )
            response = await shard.client.send(built, stream=True)
        except BaseException as error:
            trace.making_ready.end()
            if shard.streams:
                await finish(CLOSE_SECONDS, close_left, shard.client, request.url, shard.streams)
            if shard.leave():
                await finish(CLOSE_SECONDS, shard.aclose)
            if type(error).__module__ == "h2.exceptions":  # who made the connection was stopped, and it was closed for all
                trace.was_refused = True
                raise httpx2.RemoteProtocolError("the connection was closed before the request went out") from error
            raise
        return HttpxAnswer(response, request, lambda: self._give_back(shard))

    def _take(self, kind: _Kind) -> _Shard:
        if self._loop != (loop := anyio.lowlevel.current_token()):
            self._loop, self._shards = loop, []  # connections of a loop that is gone are of no use to anybody
        for shard in self._shards:
            if shard.kind == kind and shard.under_way < self._requests_per_client:
                return shard
        return self._open(kind)

    def _open(self, kind: _Kind) -> _Shard:
        shard = _Shard(kind, http2=self._http2)
        self._shards.append(shard)
        return shard

    async def _replace(self, shard: _Shard) -> _Shard:
        if shard in self._shards:
            self._shards.remove(shard)
        shard.retired = True
        if not shard.under_way:
            await finish(CLOSE_SECONDS, shard.aclose)
        return self._open(shard.kind)

    async def _give_back(self, shard: _Shard) -> None:
        if shard.leave():
            await finish(CLOSE_SECONDS, shard.aclose)


class HttpxAnswer:
    """The answer's head, and its body in pieces."""

    def __init__(self, response: httpx2.Response, request: HTTPRequest, give_back: Callable[[], Any]) -> None:
        self.status, self.headers = response.status_code, response.headers
        self._response, self._request, self._give_back = response, request, give_back
        self._pieces = response.aiter_raw()  # httpx2's unpacking would leave its generators open when it fails
        self._unpacker = unpacker_for(response.headers.get("content-encoding", ""))
        self._over = False

    async def read(self) -> bytes:
        """The next piece of the body; empty at its end."""
        try:
            if self._unpacker is None:
                async for piece in self._pieces:
                    return piece
            elif unpacked := await read_unpacked(self._unpacker, self._read_packed):
                return unpacked
        except (httpx2.HTTPError, NotUnpacked) as error:
            raise transport_failed(error, self._request, PROBLEMS) from error
        await self._end()
        return b""

    async def _read_packed(self) -> bytes:
        async for piece in self._pieces:
            return piece
        return b""

    async def aclose(self) -> None:
        """Close the connection if the body is not at its end."""
        if not self._over:
            with _mapped(self._request):
                await self._response.aclose()
            await self._close_generators()
            await self._end()

    async def _close_generators(self) -> None:
        """httpx2 leaves generators below its own one open, which Trio reports and asyncio closes in a task of nobody's.

        All of them end by being run on: at once on a closed HTTP/1.1 connection. One of HTTP/2 stays open for others, and
        there it would wait for them, if it were not stopped.
        """
        with Scope(quiet=True) as scope:
            if not self._response.http_version.startswith("HTTP/1"):
                scope.cancel(Cancelled("the answer was left"))
            try:
                async for _ in self._pieces:
                    pass
            except httpx2.HTTPError:  # the connection is closed, as it should be
                pass
        await self._pieces.aclose()

    async def _end(self) -> None:
        if not self._over:
            self._over = True
            await self._give_back()


@contextmanager
def _mapped(request: HTTPRequest) -> Iterator[None]:
    try:
        yield
    except httpx2.HTTPError as error:
        raise transport_failed(error, request, PROBLEMS) from error
