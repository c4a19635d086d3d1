"""The exchange over httpx2: both back ends, proxies, the system's certificates.

The rules of this file:
- httpx2's pool looks at every connection twice a request, which is quadratic in the requests under way; so there is a
  client for each `requests_per_client` of them, and the first that has room is taken.
- No time limits here: the scope around a call has them, with causes.
- A kept connection may have been closed by the server in the moment in which we use it. Then the request goes out once
  more on a new one, as no byte of an answer had come.
- httpx2's errors are told apart by class, never by text; the words are ours, by the table below.
"""

from __future__ import annotations

import functools
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import anyio.lowlevel
import httpx2

from ..errors import TransportFailed
from ..scopes import finish
from .exchange import HTTPRequest

__all__ = ["HttpxExchange"]

REQUESTS_PER_CLIENT = 32  # measured: 1,000 runs cost 18 s of CPU in one client and 4.8 s with one for each few
KEEP_ALIVE_SECONDS = 55.0  # tools run between two calls; common servers close an idle connection after 60 s
CLOSE_SECONDS = 2.0  # closing a socket does not wait for the other side

PROBLEMS: dict[type[Exception], str] = {  # the first that fits
    httpx2.ConnectError: "no connection",
    httpx2.ProxyError: "the proxy refused",
    httpx2.ReadError: "the connection broke while the answer was waited for",
    httpx2.WriteError: "the connection broke while the request went out",
    httpx2.RemoteProtocolError: "the server closed the connection early or does not speak HTTP",
    httpx2.LocalProtocolError: "the request is not valid HTTP",
    httpx2.DecodingError: "the body cannot be decompressed",
    httpx2.UnsupportedProtocol: "the address is neither http nor https",
    httpx2.HTTPError: "the network failed",
}
REASONS: dict[type[BaseException], str] = {  # what lies below "no connection", where a person can use it
    ssl.SSLCertVerificationError: "the server's certificate is not trusted",
    ssl.SSLError: "TLS failed",
    socket.gaierror: "the host name is not known",
    ConnectionRefusedError: "refused",
}
STALE = (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError, httpx2.CloseError)


@functools.cache
def _trusting(https: bool) -> ssl.SSLContext:
    """One TLS context for the whole process: it takes 30 ms to make, and plain http needs none with certificates."""
    return httpx2.create_ssl_context() if https else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class _Shard:
    """A client and how many of its requests are under way."""

    def __init__(self, *, https: bool, http2: bool) -> None:
        self.https, self.under_way, self.retired = https, 0, False
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=KEEP_ALIVE_SECONDS)
        self.client = httpx2.AsyncClient(
            verify=_trusting(https), http2=http2, timeout=None, limits=limits, follow_redirects=False
        )


class _Trace:
    """Learns from httpcore's trace whether the connection is new, and when the request begins to go out."""

    def __init__(self, connected: Callable[[], None]) -> None:
        self._connected, self.new_connection = connected, False

    async def __call__(self, name: str, info: Mapping[str, Any]) -> None:
        if name.endswith(("connect_tcp.started", "connect_unix_socket.started")):
            self.new_connection = True
        elif name.endswith("send_request_headers.started") and info["request"].method != b"CONNECT":
            self._connected()


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
        with _mapped(request):
            shard = self._take(https=request.url.startswith("https:"))
            try:
                return await self._once(shard, request, trace)
            except STALE:
                if trace.new_connection:
                    raise
            return await self._once(self._replace(shard), request, trace)

    async def aclose(self) -> None:
        """Close the connections. A later `send` opens new ones."""
        shards, self._shards = self._shards, []
        for shard in shards:
            await shard.client.aclose()

    async def _once(self, shard: _Shard, request: HTTPRequest, trace: _Trace) -> HttpxAnswer:
        shard.under_way += 1
        try:
            built = shard.client.build_request(
                request.method,
                request.url,
                content=request.body,
                headers=dict(request.headers),
                extensions={"trace": trace},
            )
            response = await shard.client.send(built, stream=True)
        except BaseException:
            shard.under_way -= 1
            raise
        return HttpxAnswer(response, request, lambda: self._give_back(shard))

    def _take(self, *, https: bool) -> _Shard:
        if self._loop != (loop := anyio.lowlevel.current_token()):
            self._loop, self._shards = loop, []  # connections of a loop that is gone are of no use to anybody
        for shard in self._shards:
            if shard.https == https and shard.under_way < self._requests_per_client:
                return shard
        return self._open(https=https)

    def _open(self, *, https: bool) -> _Shard:
        shard = _Shard(https=https, http2=self._http2)
        self._shards.append(shard)
        return shard

    def _replace(self, shard: _Shard) -> _Shard:
        if shard in self._shards:
            self._shards.remove(shard)
        shard.retired = True
        return self._open(https=shard.https)

    async def _give_back(self, shard: _Shard) -> None:
        shard.under_way -= 1
        if shard.retired and not shard.under_way:
            await finish(CLOSE_SECONDS, shard.client.aclose)


class HttpxAnswer:
    """The answer's head, and its body in pieces."""

    def __init__(self, response: httpx2.Response, request: HTTPRequest, give_back: Callable[[], Any]) -> None:
        self.status, self.headers = response.status_code, response.headers
        self._response, self._request, self._give_back = response, request, give_back
        packed = "content-encoding" in response.headers
        self._pieces = response.aiter_bytes() if packed else response.aiter_raw()  # one layer less for each piece
        self._over = False

    async def read(self) -> bytes:
        """The next piece of the body; empty at its end."""
        try:
            async for piece in self._pieces:
                if piece:
                    return piece
        except httpx2.HTTPError as error:
            raise _failed(error, self._request) from error
        await self._end()
        return b""

    async def aclose(self) -> None:
        """Close the connection if the body is not at its end."""
        if not self._over:
            with _mapped(self._request):
                await self._response.aclose()
            await self._close_generators()
            await self._end()

    async def _close_generators(self) -> None:
        """httpx2 leaves a generator below its own ones open, which Trio reports and asyncio closes in a task of nobody's.

        On a closed HTTP/1.1 connection all of them end by being run on, at once; on HTTP/2 that would wait for others.
        """
        if self._response.http_version.startswith("HTTP/1"):
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
        raise _failed(error, request) from error


def _failed(error: httpx2.HTTPError, request: HTTPRequest) -> TransportFailed:
    problem = next(words for kind, words in PROBLEMS.items() if isinstance(error, kind))
    if reason := _reason(error):
        problem = f"{problem}: {reason}"
    return TransportFailed(request.method, request.address, problem)


def _reason(error: BaseException) -> str | None:
    below = list(_all_below(error))
    return next((words for kind, words in REASONS.items() if any(isinstance(each, kind) for each in below)), None)


def _all_below(error: BaseException) -> Iterator[BaseException]:
    """Also what `from None` hides, as httpcore does with the OSError: for the words, never for a decision."""
    inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    for each in (error.__cause__ or error.__context__, *inner):
        if each is not None:
            yield each
            yield from _all_below(each)
