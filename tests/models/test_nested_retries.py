"""Layers of retry around one another, and a real server that counts requests: no more than the innermost policy makes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from heaveto.errors import APIError, GaveUp
from heaveto.journal import MemoryStore
from heaveto.messages import Reply, Transcript, UserMessage
from heaveto.models import Request, compatible
from heaveto.retry import Attempt, RetryPolicy, retrying
from heaveto.runs import Agent
from heaveto.testing.exchange_server import LoopbackServer, Peer, serving

POLICIES = [RetryPolicy(attempts=n, base_seconds=0) for n in (2, 3, 5)]  # the innermost first


def answering(status: str, *headers: str) -> Any:
    async def handler(peer: Peer) -> None:
        while await peer.request():
            head = "\r\n".join([f"HTTP/1.1 {status}", "content-length: 2", *headers])
            await peer.send(f"{head}\r\n\r\n{{}}".encode())

    return handler


@asynccontextmanager
async def model_at(server: LoopbackServer) -> AsyncIterator[Any]:
    model = compatible("m", base_url=server.url, exchange="httpx2")
    try:
        yield model
    finally:
        await model.aclose()


async def ask(model: Any) -> Reply:
    async with model.stream(Request(transcript=Transcript([UserMessage("hi")]))) as stream:
        async for _ in stream:
            pass
        reply: Reply = stream.reply
        return reply


async def nested(model: Any, policies: list[RetryPolicy]) -> Any:
    if not policies:
        return await ask(model)

    async def once(_: Attempt) -> Any:
        return await nested(model, policies[:-1])

    return await retrying(once, policies[-1])


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(
    ("status", "headers", "requests", "error"),
    [
        ("503 Service Unavailable", [], 2, GaveUp),
        ("429 Too Many Requests", ["retry-after-ms: 1"], 2, GaveUp),
        ("429 Too Many Requests", ["retry-after: 100000"], 1, GaveUp),
        ("503 Service Unavailable", ["x-should-retry: false"], 1, APIError),
        ("400 Bad Request", ["x-should-retry: true"], 2, GaveUp),
        ("401 Unauthorized", [], 1, APIError),
    ],
)
def test_three_layers_make_no_more_requests_than_the_innermost(
    backend: str, status: str, headers: list[str], requests: int, error: type[Exception]
) -> None:
    seen = []

    async def main() -> None:
        async with serving(answering(status, *headers)) as server, model_at(server) as model:
            with pytest.raises(error) as caught:
                await nested(model, POLICIES)
            seen.append((len(server.requests), caught.value))

    anyio.run(main, backend=backend)
    ((made, raised),) = seen
    assert (made, type(raised)) == (requests, error)
    if isinstance(raised, GaveUp):
        assert raised.attempts == requests
        assert isinstance(raised.last, APIError), "and not a GaveUp in a GaveUp"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_run_under_two_outer_layers_asks_as_often_as_its_own_policy(backend: str) -> None:
    seen = []

    async def main() -> None:
        async with serving(answering("503 Service Unavailable")) as server, model_at(server) as model:
            agent = Agent(model=model, store=MemoryStore(), retry=POLICIES[1])

            async def once(_: Attempt) -> Any:
                return await agent.run("hi")

            async def outer(_: Attempt) -> Any:
                return await retrying(once, POLICIES[2])

            with pytest.raises(GaveUp) as caught:
                await retrying(outer, POLICIES[2])
            seen.append((len(server.requests), caught.value.attempts))

    anyio.run(main, backend=backend)
    assert seen == [(3, 3)]
