"""Which errors of which HTTP library pass, by their real classes, alone and inside another error."""

from __future__ import annotations

import errno
import socket
import ssl
from types import SimpleNamespace
from typing import Any

import anyio
import httpx2
import pytest

from heaveto.retry import classify
from heaveto.testing.exchange_server import Peer, serving

aiohttp = pytest.importorskip("aiohttp", reason="no aiohttp")
h2 = pytest.importorskip("h2.exceptions", reason="no h2")
httpcore = pytest.importorskip("httpcore2", reason="no httpcore2")
trio = pytest.importorskip("trio", reason="no trio")

KEY: Any = SimpleNamespace(host="x", port=443, ssl=True, is_ssl=True)
UNKNOWN = socket.gaierror(socket.EAI_NONAME, "unknown")
LATER = socket.gaierror(socket.EAI_AGAIN, "try again")
UNTRUSTED = ssl.SSLCertVerificationError(1, "self-signed")

PASSES = [
    *(getattr(httpx2, name)("") for name in ("ConnectError", "ReadError", "WriteError", "CloseError")),
    *(getattr(httpx2, name)("") for name in ("ConnectTimeout", "ReadTimeout", "WriteTimeout", "PoolTimeout")),
    httpx2.RemoteProtocolError("<StreamReset stream_id:1, error_code:2, remote_reset:True>"),
    *(getattr(httpcore, name)("") for name in ("ConnectError", "ReadError", "WriteError", "ReadTimeout", "PoolTimeout")),
    httpcore.RemoteProtocolError("<ConnectionTerminated error_code:0>"),
    h2.StreamClosedError(1),
    h2.NoAvailableStreamIDError(),
    aiohttp.ClientConnectionError(),
    aiohttp.ClientConnectionResetError(),
    aiohttp.ClientOSError(errno.ECONNRESET, "reset"),
    aiohttp.ClientConnectorError(KEY, OSError(errno.ECONNREFUSED, "refused")),
    aiohttp.ClientPayloadError(),
    aiohttp.ServerDisconnectedError(),
    aiohttp.ServerTimeoutError(),
    aiohttp.SocketTimeoutError(),
    aiohttp.ConnectionTimeoutError(),
    anyio.BrokenResourceError(),
    anyio.EndOfStream(),
    ConnectionAbortedError(),
    ssl.SSLEOFError(),
    LATER,
]
STAYS = [
    *(getattr(httpx2, name)("") for name in ("UnsupportedProtocol", "LocalProtocolError", "DecodingError")),
    httpx2.TooManyRedirects("", request=httpx2.Request("GET", "http://x")),
    httpx2.InvalidURL(""),
    aiohttp.InvalidURL("x"),
    aiohttp.ClientConnectorCertificateError(KEY, UNTRUSTED),
    aiohttp.ServerFingerprintMismatch(b"", b"", "x", 443),
    h2.FrameTooLargeError(),
    anyio.ClosedResourceError(),
    UNKNOWN,
    UNTRUSTED,
    PermissionError(),
]


def named(error: BaseException) -> str:
    return f"{type(error).__module__.partition('.')[0]}.{type(error).__name__}"


def inside(error: BaseException) -> list[BaseException]:
    """The error, and what may be around it."""
    caused = RuntimeError("asking the model")
    caused.__cause__ = error
    context = RuntimeError("asking the model")
    context.__context__ = error
    return [error, caused, context, BaseExceptionGroup("both", [ValueError("a bug"), caused])]


@pytest.mark.parametrize("error", PASSES, ids=named)
def test_what_passes_is_tried_again(error: BaseException) -> None:
    assert [classify(each, scope_stopped=False).retry for each in inside(error)] == [True] * 4


@pytest.mark.parametrize("error", STAYS, ids=named)
def test_what_stays_is_not(error: BaseException) -> None:
    assert [classify(each, scope_stopped=False).retry for each in inside(error)] == [False] * 4


@pytest.mark.parametrize("below", [UNTRUSTED, UNKNOWN], ids=named)
def test_a_connection_that_failed_for_good_does_not_pass_though_its_class_does(below: BaseException) -> None:
    error = httpx2.ConnectError("")
    error.__cause__ = below
    assert not classify(error, scope_stopped=False).retry


async def broken_stream() -> BaseException:
    """What a connection that the other side reset raises on this back end."""

    async def reset(peer: Peer) -> None:
        await peer.receive()
        await peer.reset()

    async with serving(reset) as server:
        host, _, port = server.url.removeprefix("http://").partition(":")
        async with await anyio.connect_tcp(host, int(port)) as stream:
            await stream.send(b"x")
            with pytest.raises(Exception) as caught:
                await stream.receive()
        return caught.value


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_real_reset_passes_on_both_back_ends(backend: str) -> None:
    error = anyio.run(broken_stream, backend=backend)
    assert classify(error, scope_stopped=False).retry, repr(error)
