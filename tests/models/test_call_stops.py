"""A call over real sockets, stopped at every await: each exchange, streamed and whole, on new and on kept connections."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from heaveto.messages import Transcript, Usage, UserMessage
from heaveto.models import Exchange, HTTPRequest, HttpxExchange, RemoteModel, Request
from heaveto.models.chat import ChatDialect
from heaveto.models.prices import Price
from heaveto.scopes import finish
from heaveto.scopes.clock import outside_the_loop
from heaveto.testing import every_await

USAGE = {"prompt_tokens": 9, "completion_tokens": 2}
PRICE = Price(Decimal(1), Decimal(1))
CASES = [("asyncio", "httpx2"), ("trio", "httpx2"), ("asyncio", "aiohttp")]


@pytest.fixture(params=CASES, ids="-".join)
def case(request: pytest.FixtureRequest) -> tuple[Any, str]:
    """A back end and an exchange that runs on it."""
    if request.param[1] == "aiohttp":
        pytest.importorskip("aiohttp", reason="no aiohttp")
    return request.param


def exchange_of(name: str) -> Exchange:
    if name == "httpx2":
        return HttpxExchange()
    from heaveto.models import AiohttpExchange

    return AiohttpExchange()


def held(exchange: Any) -> int:
    """How many connections somebody still has: neither given back nor closed."""
    if isinstance(exchange, HttpxExchange):
        pools = [shard.client._transport._pool for shard in exchange._shards]
        busy = [each for pool in pools for each in pool.connections if not (each.is_idle() or each.is_closed())]
        return len(busy) + sum(shard.under_way for shard in exchange._shards)
    return len(exchange._pool.session.connector._acquired) + exchange._pool.under_way if exchange._pool else 0


def stream_bytes(wire: Any) -> list[bytes]:
    return wire.chunks(wire.event({"content": "some words"}), wire.event({}, "stop", usage=USAGE), wire.done)


def whole_bytes(wire: Any) -> list[bytes]:
    choice = {"index": 0, "message": {"content": "some words"}, "finish_reason": "stop"}
    return wire.whole(json.dumps({"choices": [choice], "usage": USAGE}))


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_a_stopped_call_leaves_no_connection_and_counts_what_it_cost(
    case: tuple[Any, str], streamed: bool, server: Any, wire: Any, second_stops: tuple[int, ...], seeds: tuple[int, ...]
) -> None:
    server.answer(stream_bytes(wire) if streamed else whole_bytes(wire))
    dialect = ChatDialect("m", provider="p", stream=streamed)
    left_held: list[int] = []
    streams: list[Any] = []

    async def call_twice() -> None:
        streams.clear()
        exchange = exchange_of(case[1])
        model = RemoteModel(dialect, base_url=server.url, exchange=exchange, price=PRICE)
        with outside_the_loop():  # the server is a thread of its own
            try:
                for _ in range(2):  # on a new connection, and on a kept one
                    async with model.stream(Request(transcript=Transcript([UserMessage("hello")]))) as stream:
                        streams.append(stream)
                        async for _ in stream:
                            pass
            finally:
                left_held.append(held(exchange))
                await finish(5, exchange.aclose)

    points = 0
    for run in every_await(call_twice, backends=case[:1], again_after=second_stops, seeds=seeds):
        points += 1
        assert left_held.pop() == 0, run
        assert run.left_running == (), run
        assert run.error is None or type(run.error) is type(run.cause), run
        for stream in streams:
            check_spent(stream, run)
    assert points > 20


def check_spent(stream: Any, run: object) -> None:
    """Nothing where nothing was sent; the API's figures where they came; else an estimate, flagged as one."""
    decoder = stream._decoder
    if decoder is not None and decoder.usage is not None:
        assert stream.spent == Usage(input_tokens=9, output_tokens=2, cost_usd=Decimal("0.000011")), run
    elif stream._sent:
        assert stream.spent.estimated, run
        assert stream.spent.input_tokens > 0, run
    else:
        assert stream.spent == Usage(cost_usd=Decimal(0)), run


def test_an_exchange_that_is_stopped_can_be_used_again(
    case: tuple[Any, str], server: Any, wire: Any, second_stops: tuple[int, ...]
) -> None:
    """What is stopped is the request; whoever comes next, in the same exchange, is served."""
    server.answer(whole_bytes(wire))
    came: list[int] = []

    async def ask(exchange: Exchange) -> int:
        answer = await exchange.send(HTTPRequest("POST", server.url, {}, b"{}"), lambda: None)
        try:
            while await answer.read():
                pass
        finally:
            await finish(5, answer.aclose)
        return answer.status

    async def stopped_then_used() -> None:
        exchange = exchange_of(case[1])

        async def use() -> None:
            assert held(exchange) == 0
            came.append(await ask(exchange))
            await exchange.aclose()

        with outside_the_loop():
            try:
                await ask(exchange)
            finally:
                await finish(5, use)

    points = 0
    for run in every_await(stopped_then_used, backends=case[:1], again_after=second_stops):
        points += 1
        assert came.pop() == 200, run
        assert run.left_running == (), run
        assert run.error is None or type(run.error) is type(run.cause), run
    assert points > 15
