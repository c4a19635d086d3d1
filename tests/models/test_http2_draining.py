"""Two hundred calls at once over HTTP/2, some of them stopped, on a server that says good-bye again and again."""

from __future__ import annotations

import random
import ssl
import struct
from collections.abc import Awaitable

import anyio
import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import StreamEnded
from h2.exceptions import ProtocolError

from heaveto.causes import Cancelled
from heaveto.messages import Transcript, UserMessage
from heaveto.models import HttpxExchange, RemoteModel, Request
from heaveto.models.chat import ChatDialect
from heaveto.scopes import Scope, deadline, tasks
from heaveto.testing import no_leaks
from heaveto.testing.exchange_server import Peer, serving

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

CALLS, STOPPED_EACH = 200, 4
STREAM = b'data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
HEADERS = [(":status", "200"), ("content-type", "text/event-stream")]


class Draining:
    """Says good-bye with every twentieth answer, finishes what it had begun, and looks at nothing new."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.answers, self.good_byes = chance, 0, 0

    async def __call__(self, peer: Peer) -> None:
        await _Connection(self, peer).serve()


class _Connection:
    def __init__(self, server: Draining, peer: Peer) -> None:
        self._server, self._peer = server, peer
        self._h2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self._one_writes = anyio.Lock()
        self._last, self._drains = 0, False

    async def serve(self) -> None:
        self._h2.initiate_connection()
        await self._flush()
        async with tasks() as answers:
            while data := await self._peer.receive():
                for event in self._h2.receive_data(data):
                    if isinstance(event, StreamEnded) and not self._drains:
                        self._last = max(self._last, event.stream_id)
                        answers.start_soon(self._answer, event.stream_id)
                await self._flush()
            answers.scope.cancel(Cancelled("the client is gone"))

    async def _answer(self, stream: int) -> None:
        try:
            await self._pause()
            self._h2.send_headers(stream, HEADERS)
            await self._flush()
            await self._pause()
            self._server.answers += 1
            if not self._drains and self._server.answers % 20 == 0:
                await self._say_good_bye()
            self._h2.send_data(stream, STREAM, end_stream=True)
            await self._flush()
        except (ProtocolError, KeyError):  # the client gave the stream up
            pass

    async def _say_good_bye(self) -> None:
        self._drains, self._server.good_byes = True, self._server.good_byes + 1
        async with self._one_writes:
            await self._peer.send(b"\0\0\x08\x07\0\0\0\0\0" + struct.pack(">II", self._last, 0))

    def _pause(self) -> Awaitable[None]:
        return anyio.sleep(self._server.chance.random() * 0.05)

    async def _flush(self) -> None:
        async with self._one_writes:
            await self._peer.send(self._h2.data_to_send())


@pytest.mark.parametrize("seed", range(3))
async def test_no_call_is_lost_and_no_connection_is_left(tls: ssl.SSLContext, seed: int) -> None:
    chance = random.Random(seed)
    server, exchange, came = Draining(chance), HttpxExchange(http2=True), list[str]()

    async def one(model: RemoteModel, is_stopped: bool) -> None:
        await anyio.sleep(chance.random() * 0.7)
        with Scope(chance.random() * 0.1 if is_stopped else 30, Cancelled("enough"), quiet=True):
            async with model.stream(Request(transcript=Transcript([UserMessage("hi")]))) as stream:
                async for _ in stream:
                    pass
                if not is_stopped:
                    came.append(stream.reply.message.content)

    async with no_leaks(), serving(server, tls) as where:
        model = RemoteModel(ChatDialect("m", provider="p"), base_url=where.url, key="k", exchange=exchange)
        with deadline(60):
            async with tasks() as group:
                for number in range(CALLS):
                    group.start_soon(one, model, number % STOPPED_EACH == 0)
            await model.aclose()
            await exchange.aclose()
    assert came == ["hi"] * (CALLS - CALLS // STOPPED_EACH)
    assert server.good_byes > 0
    assert len(where.peers) < CALLS // 4, "requests share connections all the same"
