"""The exchange over aiohttp: a fraction of httpx2's CPU (`make streams`), on asyncio alone. Its proxies and trusted
certificates are the environment's and OpenSSL's.

The rules of this file:
- Connections belong to a session, sessions to an event loop, and neither to the scope of whoever used it first.
- No time limits here: the scope around a call has them, with causes.
- A kept connection may have been closed by the server in the moment in which we use it. Then the request goes out once
  more on a new one, if no byte of an answer had come; aiohttp itself does so for GET alone.
- What stays on this machine goes through no proxy. aiohttp's `trust_env` is off: it would read ~/.netrc, whose entries
  clash with the key, and ask for proxies in a thread for each request.
- aiohttp's errors are told apart by class, never by text; the words are ours, by the table below.
"""

from __future__ import annotations

import asyncio
import functools
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from yarl import URL

from ..errors import ConfigError
from ..scopes import finish
from ..scopes.clock import on_trio
from .chunk_joining import ChunkJoiner
from .exchange import HTTPRequest, stays_here
from .network_problems import transport_failed
from .unpacking import PACKED, NotUnpacked, read_unpacked, unpacker_for

__all__ = ["AiohttpExchange"]

KEEP_ALIVE_SECONDS = 55.0  # tools run between two calls; common servers close an idle connection after 60 s
CLOSE_SECONDS = 2.0  # closing a socket does not wait for the other side
MAX_LINE_BYTES = 64 * 1024  # of an answer's head; as much as the other exchange takes, within its 100 KB for all
MAX_PLAIN_BYTES = 1024 * 1024  # aiohttp warns about larger bodies as bytes, and writes those from a file in pieces
KNOWN_ADDRESSES = 64  # whose proxies are remembered: each model has one, and the environment is slow to search

PROBLEMS: dict[type[Exception], str] = {  # the first that fits
    aiohttp.ClientProxyConnectionError: "no connection to the proxy",
    aiohttp.ClientHttpProxyError: "the proxy refused",
    aiohttp.ClientConnectorError: "no connection",
    aiohttp.ServerDisconnectedError: "the server closed the connection early or does not speak HTTP",
    aiohttp.ClientOSError: "the connection broke while the answer was waited for",
    aiohttp.ClientConnectionResetError: "the connection broke while the request went out",
    aiohttp.ClientPayloadError: "the server closed the connection early",
    aiohttp.ClientResponseError: "the server closed the connection early or does not speak HTTP",
    aiohttp.NonHttpUrlClientError: "the address is neither http nor https",
    aiohttp.ClientError: "the network failed",
}
STALE = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, aiohttp.ClientConnectionResetError)


class _Listening(ResponseHandler):
    """A connection that knows whether anything has come since the request began to go out, and joins chunks."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self.heard, self._joiner = False, ChunkJoiner()

    def set_response_params(self, **settings: Any) -> None:
        self.heard = False
        self._joiner.begin()
        super().set_response_params(**settings)

    def data_received(self, data: bytes) -> None:
        self.heard = True
        if joined := self._joiner.feed(data):
            super().data_received(joined)


class _Connector(aiohttp.TCPConnector):
    """Makes connections that listen."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=0, keepalive_timeout=KEEP_ALIVE_SECONDS)
        listening: type[ResponseHandler] = _Listening
        self._factory = functools.partial(listening, loop=loop)


class _Response(aiohttp.ClientResponse):
    """An answer that, when it breaks off after its first byte, is not taken for one that never began."""

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        protocol = connection.protocol
        try:
            return await super().start(connection)
        except STALE as error:
            if isinstance(protocol, _Listening) and protocol.heard:
                raise aiohttp.ClientPayloadError("the answer's head broke off") from error
            raise


class _Pool:
    """A session of one event loop, and how many of its requests are under way."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop, self.under_way, self.retired = loop, 0, False
        self.proxy_for = functools.lru_cache(KNOWN_ADDRESSES)(_proxy_for)
        self.session = aiohttp.ClientSession(
            connector=_Connector(loop),
            response_class=_Response,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None),
            trace_configs=[_tracing()],
            auto_decompress=False,  # it unpacks one member of gzip only, and takes what breaks off for whole
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_LINE_BYTES,
        )

    def leave(self) -> bool:
        """A request is over. Whether nobody will use the session again, so that it must be closed."""
        self.under_way -= 1
        return self.retired and not self.under_way


class _Trace:
    """Learns whether a request's connection is new, and when there is one."""

    def __init__(self, connected: Callable[[], None]) -> None:
        self.connected, self.new_connection = connected, False


def _tracing() -> aiohttp.TraceConfig:
    async def connecting(_: object, context: SimpleNamespace, __: object) -> None:
        context.trace_request_ctx.new_connection = True

    async def connected(_: object, context: SimpleNamespace, __: object) -> None:
        context.trace_request_ctx.connected()

    config = aiohttp.TraceConfig()
    config.on_connection_create_start.append(connecting)
    config.on_connection_create_end.append(connected)
    config.on_connection_reuseconn.append(connected)
    return config


class AiohttpExchange:
    """Sends requests over aiohttp. Use it from one event loop of asyncio's at a time."""

    def __init__(self) -> None:
        self._pool: _Pool | None = None

    async def send(self, request: HTTPRequest, connected: Callable[[], None]) -> AiohttpAnswer:
        """Send a request and wait for the answer's head; see `Exchange.send`.

        Raises:
            ConfigError: On Trio.
        """
        if on_trio():
            raise ConfigError("aiohttp runs on asyncio only", 'leave exchange="aiohttp" out, or run under asyncio')
        trace = _Trace(connected)
        with _mapped(request):
            pool = self._take()
            try:
                return await self._once(pool, request, trace)
            except STALE:
                if trace.new_connection:
                    raise
            return await self._once(await self._replace(pool), request, trace)

    async def aclose(self) -> None:
        """Close the connections. A later `send` opens new ones."""
        pool, self._pool = self._pool, None
        if pool is not None and pool.loop is _loop():
            await pool.session.close()

    async def _once(self, pool: _Pool, request: HTTPRequest, trace: _Trace) -> AiohttpAnswer:
        pool.under_way += 1
        try:
            response = await pool.session.request(
                request.method,
                URL(request.url, encoded=True),
                data=request.body if len(request.body) <= MAX_PLAIN_BYTES else io.BytesIO(request.body),
                allow_redirects=False,
                trace_request_ctx=trace,
                **_headers(request, pool.proxy_for),
            )
        except BaseException:
            if pool.leave():
                await finish(CLOSE_SECONDS, pool.session.close)
            raise
        return AiohttpAnswer(response, request, lambda: self._give_back(pool))

    def _take(self) -> _Pool:
        if self._pool is None or self._pool.loop is not _loop():
            self._pool = _Pool(asyncio.get_running_loop())  # connections of a loop that is gone are of no use to anybody
        return self._pool

    async def _replace(self, pool: _Pool) -> _Pool:
        """A pool without kept connections, since the server may have closed all of them at once."""
        if self._pool is pool:
            self._pool, pool.retired = None, True
            if not pool.under_way:
                await finish(CLOSE_SECONDS, pool.session.close)
        return self._take()

    async def _give_back(self, pool: _Pool) -> None:
        if pool.leave():
            await finish(CLOSE_SECONDS, pool.session.close)


class AiohttpAnswer:
    """The answer's head, and its body in pieces."""

    def __init__(self, response: aiohttp.ClientResponse, request: HTTPRequest, give_back: Callable[[], Any]) -> None:
        self.status = response.status
        self.headers = {name.lower(): ", ".join(response.headers.getall(name)) for name in response.headers}
        self._response, self._request, self._give_back = response, request, give_back
        self._unpacker = unpacker_for(self.headers.get("content-encoding", ""))
        self._over = False

    async def read(self) -> bytes:
        """The next piece of the body; empty at its end."""
        body = self._response.content
        try:
            piece = await (body.readany() if self._unpacker is None else read_unpacked(self._unpacker, body.readany))
        except (aiohttp.ClientError, NotUnpacked) as error:  # not `_mapped`: a block costs as much as decoding a chunk
            raise transport_failed(error, self._request, PROBLEMS) from error
        if not piece:
            if self._response.connection is not None:  # aiohttp lets go of one only at an ordinary end
                self._response.close()
            await self._end()
        return piece

    @property
    def at_end(self) -> bool:
        """Whether all of the body has come and was read, so that the next read does not wait."""
        return self._response.content.at_eof() and self._unpacker is None

    async def aclose(self) -> None:
        """Close the connection if the body is not at its end."""
        if not self._over:
            self._response.close()
            await self._end()

    async def _end(self) -> None:
        if not self._over:
            self._over = True
            await self._give_back()


def _loop() -> asyncio.AbstractEventLoop | None:
    return None if on_trio() else asyncio.get_running_loop()


def _headers(request: HTTPRequest, proxy_for: Callable[[str], URL | None]) -> dict[str, Any]:
    """The headers and the proxy of a request, as aiohttp takes them."""
    headers = {"accept-encoding": PACKED, **request.headers}
    if (proxy := proxy_for(request.url)) is None:
        return {"headers": headers}
    sent: dict[str, Any] = {"headers": headers, "proxy": proxy.with_user(None), "proxy_headers": {}}
    if proxy.user is not None:
        credentials = aiohttp.encode_basic_auth(proxy.user, proxy.password or "")
        to_the_proxy = sent["proxy_headers"] if request.url.startswith("https:") else headers
        to_the_proxy["Proxy-Authorization"] = credentials
    return sent


def _proxy_for(url: str) -> URL | None:
    """The proxy that the environment names for a URL."""
    from urllib.request import getproxies, proxy_bypass  # it loads much, and only whoever sends a request needs it

    if stays_here(url):
        return None
    parts, proxies = urlsplit(url), getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    return URL(proxy if "://" in proxy else f"http://{proxy}")


@contextmanager
def _mapped(request: HTTPRequest) -> Iterator[None]:
    try:
        yield
    except aiohttp.ClientError as error:
        raise transport_failed(error, request, PROBLEMS) from error
