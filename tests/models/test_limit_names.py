"""Each limit of a call: its name, its default, what it limits, and the cause that gives all three; over both exchanges."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import anyio
import pytest

from heaveto import why
from heaveto.causes import CallTimeout, ConnectTimeout, DeadlinePassed, StreamIdle, to_data
from heaveto.messages import Transcript, UserMessage
from heaveto.models import CallLimits, Exchange, HttpxExchange, RemoteModel, Request
from heaveto.models.chat import ChatDialect
from heaveto.testing import no_leaks
from heaveto.testing.exchange_server import Peer, serving

pytestmark = pytest.mark.anyio

SECONDS = 0.2
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
PING = b"8\r\n: ping\n\n\r\n"
PIECE = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
CHUNK = b"%x\r\n%b\r\n" % (len(PIECE), PIECE)


async def silent(peer: Peer) -> None:
    await peer.wait_for_hang_up()


async def silent_after_the_head(peer: Peer) -> None:
    await peer.request()
    await peer.send(HEAD, CHUNK)
    await peer.wait_for_hang_up()


async def pinging(peer: Peer) -> None:
    await peer.request()
    await peer.send(HEAD)
    await _again_and_again(peer, PING)


async def talking(peer: Peer) -> None:
    await peer.request()
    await peer.send(HEAD)
    await _again_and_again(peer, CHUNK)


async def _again_and_again(peer: Peer, data: bytes) -> None:
    while not peer.gone.is_set():
        await peer.send(data)
        await anyio.sleep(0.01)


TABLE: list[tuple[str, float | None, type[DeadlinePassed], Any, bool]] = [  # name, default, cause, server, streamed
    ("connect_seconds", 10, ConnectTimeout, silent, True),
    ("first_byte_seconds", 120, StreamIdle, silent, True),
    ("idle_seconds", 60, StreamIdle, silent_after_the_head, True),
    ("content_idle_seconds", 120, StreamIdle, pinging, True),
    ("call_seconds", 120, CallTimeout, silent, False),
    ("stream_seconds", None, CallTimeout, talking, True),
]


@pytest.fixture(params=["asyncio-httpx2", "trio-httpx2", "asyncio-aiohttp"])
def case(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def anyio_backend(case: str) -> str:
    return case.partition("-")[0]


def exchange_of(case: str) -> Exchange:
    if case.endswith("httpx2"):
        return HttpxExchange()
    pytest.importorskip("aiohttp", reason="no aiohttp")
    from heaveto.models import AiohttpExchange

    return AiohttpExchange()


def test_the_table_has_every_limit_and_its_default() -> None:
    assert [(name, default) for name, default, *_ in TABLE] == [
        (each.name, getattr(CallLimits(), each.name)) for each in fields(CallLimits) if each.name.endswith("_seconds")
    ]


@pytest.mark.parametrize(("name", "default", "kind", "handler", "streamed"), TABLE, ids=[row[0] for row in TABLE])
async def test_a_limit_that_passes_says_which_it_was_and_how_long(
    case: str, name: str, default: float | None, kind: type[DeadlinePassed], handler: Any, streamed: bool
) -> None:
    limits = CallLimits(**{name: SECONDS})
    async with no_leaks(), serving(handler) as server:
        exchange = exchange_of(case)
        # a connection is made when TLS is spoken, which this server never does
        url = server.url.replace("http:", "https:") if name == "connect_seconds" else server.url
        dialect = ChatDialect("m", provider="p", stream=streamed)
        model = RemoteModel(dialect, base_url=url, exchange=exchange, limits=limits)
        with pytest.raises(kind) as caught:
            async with model.stream(Request(transcript=Transcript([UserMessage("hello")]))) as stream:
                async for _ in stream:
                    pass
        await exchange.aclose()
    error = caught.value
    assert type(error) is kind
    assert error.args == (SECONDS, name)
    assert isinstance(error, TimeoutError)
    assert "0.2 s" in why(error)
    assert name in str(error)
    assert to_data(error)["fields"] == [SECONDS, name]
