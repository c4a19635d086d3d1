"""A server that lies, through each exchange: an error of ours, soon, without the key and without filling the memory."""

from __future__ import annotations

import gzip
import json
import traceback
from typing import Any

import pytest

from heaveto.errors import AgentError, APIError, BadReply, IncompleteStream, ProviderFailed, TransportFailed
from heaveto.messages import Reply, Transcript, UserMessage
from heaveto.models import CallLimits, RemoteModel, Request
from heaveto.models.chat import ChatDialect
from heaveto.models.exchange import exchange_named
from heaveto.testing import no_leaks
from heaveto.testing.exchange_server import Peer, serving

pytestmark = pytest.mark.anyio

KEY = "sk-very-secret-key-123"
SPELLED = KEY[:-3] + "\\u0031\\u0032\\u0033"  # the same in JSON
TEXT = b'data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
LIMITS = CallLimits(connect_seconds=20, first_byte_seconds=20, idle_seconds=20, content_idle_seconds=20)


def answer(body: bytes, *headers: str, status: str = "200 OK", kind: str = "text/event-stream") -> bytes:
    lines = (f"HTTP/1.1 {status}", f"content-type: {kind}", f"content-length: {len(body)}", *headers, "", "")
    return "\r\n".join(lines).encode() + body


def said_of_the_key(body: str, kind: str = "application/json", status: str = "200 OK", *headers: str) -> bytes:
    return answer(body.encode(), *headers, kind=kind, status=status)


@pytest.fixture(params=[("asyncio", "httpx2"), ("trio", "httpx2"), ("asyncio", "aiohttp")], ids="-".join)
def case(request: pytest.FixtureRequest) -> tuple[str, str]:
    """A back end and an exchange that runs on it."""
    if request.param[1] == "aiohttp":
        pytest.importorskip("aiohttp", reason="no aiohttp")
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def anyio_backend(case: tuple[str, str]) -> str:
    return case[0]


@pytest.fixture
def exchange(case: tuple[str, str]) -> Any:
    return exchange_named(case[1])


async def called(exchange: Any, sent: bytes, again: bytes = b"") -> Reply | AgentError:
    """What comes of a call that is answered so; `again` follows until the client hangs up."""

    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(sent)
        while again and not peer.gone.is_set():
            await peer.send(again)

    async with no_leaks(), serving(handler) as server:
        model = RemoteModel(ChatDialect("m", provider="p"), base_url=server.url, key=KEY, limits=LIMITS, exchange=exchange)
        try:
            async with model.stream(Request(transcript=Transcript([UserMessage("hi")]))) as stream:
                async for _ in stream:
                    pass
                return stream.reply
        except AgentError as error:
            return error
        finally:
            await model.aclose()


REPEATED = {
    "inside a 200": said_of_the_key(json.dumps({"error": {"message": f"bad key {KEY}", "code": 401}})),
    "as JSON spells it": said_of_the_key(f'{{"error":{{"message":"bad key {SPELLED}"}}}}', status="401 No"),
    "in an event": said_of_the_key(f'data: {{"error":{{"message":"{KEY}"}}}}\n\n', "text/event-stream"),
    "in no event": said_of_the_key(f"data: {KEY}\n\n", "text/event-stream"),
    "cut off": said_of_the_key(f"data: {'x' * 66}{KEY}\n\n", "text/event-stream"),
    "in a page": said_of_the_key(f"<title>{KEY}</title>", "text/html"),
    "in a redirect": said_of_the_key("", "text/html", "302 Found", f"location: https://u:{KEY}@host/{KEY}"),
}


@pytest.mark.parametrize("sent", REPEATED.values(), ids=REPEATED)
async def test_a_key_that_is_repeated_is_in_no_error(exchange: Any, sent: bytes) -> None:
    error = await called(exchange, sent)
    assert isinstance(error, APIError | BadReply | ProviderFailed)
    shown = "".join(traceback.format_exception(error)) + repr(error)
    assert KEY[:12] not in shown
    assert "***" in shown


LIES: dict[str, tuple[bytes, bytes, tuple[type, ...]]] = {
    "headers without an end": (b"HTTP/1.1 200 OK\r\n", b"x: " + b"a" * 1000 + b"\r\n", (TransportFailed,)),
    "a status without an end": (b"HTTP/1.1 200 ", b"a" * 10_000, (TransportFailed,)),
    "an event without an end": (b"HTTP/1.1 200 OK\r\n\r\n", b"a" * 60_000, (BadReply,)),
    "an error without an end": (b"HTTP/1.1 500 No\r\n\r\n", b"a" * 60_000, (APIError,)),
    "packed air": (answer(gzip.compress(b"x" * 40_000_000), "content-encoding: gzip"), b"", (BadReply, IncompleteStream)),
    "an error of packed air": (
        answer(gzip.compress(b"x" * 40_000_000), "content-encoding: gzip", status="500 No"),
        b"",
        (APIError,),
    ),
    "packed as it is": (answer(TEXT, "content-encoding: identity"), b"", (Reply,)),
    "not packed": (answer(TEXT, "content-encoding: gzip"), b"", (IncompleteStream, TransportFailed)),
    "two lengths": (answer(TEXT, "content-length: 3"), b"", (TransportFailed,)),
    "another protocol": (b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n", b"", (APIError, TransportFailed)),
    "a redirect to nowhere": (answer(b"", "location: http://[::bad", status="302 Found"), b"", (APIError,)),
    "brackets": (answer(b'{"choices":' + b"[" * 200_000, kind="application/json"), b"", (IncompleteStream, BadReply)),
}


@pytest.mark.parametrize(("sent", "again", "kinds"), LIES.values(), ids=LIES)
async def test_a_lie_is_an_error_of_ours(exchange: Any, sent: bytes, again: bytes, kinds: tuple[type, ...]) -> None:
    came = await called(exchange, sent, again)
    assert isinstance(came, kinds), came
    assert len(str(came)) < 1500


async def test_figures_that_lie_spoil_no_reply(exchange: Any) -> None:
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":-5,"completion_tokens":NaN,"cost":-3}}\n\n'
    came = await called(exchange, answer(usage + TEXT))
    assert isinstance(came, Reply)
    assert came.usage.estimated
    assert came.usage.input_tokens > 0
    assert came.usage.cost_usd is None
