"""What a cut call cost, asked afterwards; and that nobody waits long for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import anyio
import pytest

from heaveto import Agent, MemoryStore, RetryPolicy
from heaveto.causes import Cancelled
from heaveto.errors import IncompleteStream, TransportFailed
from heaveto.journal.records import CallSpent, Retried
from heaveto.journal.seals import decode_entries
from heaveto.messages import Transcript, Usage, UserMessage
from heaveto.models import Answer, HTTPRequest, Request, openrouter
from heaveto.models.spend_afterwards import read_spend
from heaveto.scopes import Scope
from heaveto.testing import Answered, Cut, FaultyExchange, every_await
from heaveto.testing.clocks import FakeClock

pytestmark = pytest.mark.anyio

KEY = "not-a-real-key"
BEGUN = b'data: {"id": "gen-1/a", "choices": [{"index": 0, "delta": {"content": "some words"}}]}\n\n'
USAGE = b'data: {"id": "gen-1/a", "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2, "cost": 0.5}}\n\n'
END = b'data: {"id": "gen-1/a", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
TOLD = {"data": {"id": "gen-1/a", "total_cost": 0.0125, "native_tokens_prompt": 70, "native_tokens_completion": 9}}
REAL = Usage(input_tokens=70, output_tokens=9, cost_usd=Decimal("0.0125"))
JSON = {"content-type": "application/json"}
KNOWN, UNKNOWN = Answered(json.dumps(TOLD).encode(), headers=JSON), Answered(b'{"error": {"code": 404}}', 404, JSON)


@pytest.fixture
def anyio_backend(fake_clock: FakeClock) -> Any:
    return fake_clock.backend


class Network:
    """Streams to a POST, and answers a GET with the next of what it has; None never answers."""

    def __init__(self, stream: FaultyExchange, *told: Answered | TransportFailed | None) -> None:
        self.stream, self.told, self.asked = stream, list(told), list[HTTPRequest]()

    async def send(self, request: HTTPRequest, connected: Callable[[], None]) -> Answer:
        if request.method == "POST":
            return await self.stream.send(request, connected)
        self.asked.append(request)
        match self.told.pop(0):
            case None:
                await anyio.sleep_forever()
                raise AssertionError
            case TransportFailed() as error:
                raise error
            case Answered() as answer:
                return await FaultyExchange(answer).send(request, connected)

    async def aclose(self) -> None: ...


async def cut_call(network: Network, **settings: Any) -> Usage:
    """A call whose stream ends too early; what it spent."""
    model = openrouter("m", key=KEY, exchange=network, **settings)
    with pytest.raises(IncompleteStream):
        async with model.stream(Request(transcript=Transcript([UserMessage("hello")]))) as stream:
            async for _ in stream:
                pass
    return stream.spent


async def test_a_cut_call_is_asked_for_by_its_id(fake_clock: FakeClock) -> None:
    network = Network(FaultyExchange(BEGUN), KNOWN)
    assert await cut_call(network) == REAL
    (asked,) = network.asked
    assert (asked.method, asked.url) == ("GET", "https://openrouter.ai/api/v1/generation?id=gen-1%2Fa")
    assert (asked.headers["authorization"], asked.body) == (f"Bearer {KEY}", b"")
    assert "content-type" not in asked.headers
    assert fake_clock.now == 0


async def test_it_is_asked_once_more_and_then_the_estimate_stays(fake_clock: FakeClock) -> None:
    assert await cut_call(Network(FaultyExchange(BEGUN), UNKNOWN, KNOWN)) == REAL
    assert fake_clock.now == 1
    network = Network(FaultyExchange(BEGUN), UNKNOWN, UNKNOWN, KNOWN)
    spent = await cut_call(network)
    assert (spent.estimated, spent.output_tokens, len(network.asked)) == (True, 3, 2)
    broken = Network(FaultyExchange(BEGUN), TransportFailed("GET", "x", "no connection"), Answered(b"<html>", headers=JSON))
    assert (await cut_call(broken)).estimated


async def test_an_api_that_does_not_answer_costs_three_seconds(fake_clock: FakeClock) -> None:
    assert (await cut_call(Network(FaultyExchange(BEGUN), None))).estimated
    assert fake_clock.now == 3


@pytest.mark.parametrize("body", [BEGUN + USAGE, b": nothing\n\n", BEGUN.replace(b"gen-1/a", b"")])
async def test_nobody_is_asked_what_is_known_or_has_no_id(body: bytes) -> None:
    network = Network(FaultyExchange(body))
    await cut_call(network)
    assert network.asked == []


async def test_a_whole_reply_is_not_asked_for() -> None:
    network = Network(FaultyExchange(BEGUN + USAGE + END))
    model = openrouter("m", key=KEY, exchange=network)
    async with model.stream(Request(transcript=Transcript([UserMessage("hello")]))) as stream:
        async for _ in stream:
            pass
    assert (network.asked, stream.spent.cost_usd) == ([], Decimal("0.5"))


async def test_a_stop_waits_for_it_and_keeps_its_cause(fake_clock: FakeClock) -> None:
    network = Network(FaultyExchange(BEGUN + END, Cut("stalled", len(BEGUN))), UNKNOWN, KNOWN)
    model = openrouter("m", key=KEY, exchange=network)
    with pytest.raises(Cancelled, match="enough"), Scope(5, Cancelled("enough")):
        async with model.stream(Request(transcript=Transcript([UserMessage("hello")]))) as stream:
            async for _ in stream:
                pass
    assert (stream.spent, fake_clock.now) == (REAL, 6)


async def test_a_run_counts_and_keeps_what_was_told() -> None:
    """Of an attempt that was retried, and of the one that was given up."""
    network = Network(FaultyExchange(BEGUN), KNOWN, KNOWN)
    store = MemoryStore()
    agent = Agent(model=openrouter("m", key=KEY, exchange=network), store=store, retry=RetryPolicy(attempts=2))
    async with agent.start("hello", run_id="run") as run:
        outcome = await run.wait()
    assert (outcome.report.spend.cost_usd, outcome.report.spend.estimated_calls) == (Decimal("0.0250"), 0)
    records = decode_entries("run", await store.read("run"))
    kept = [(type(each), each.usage and each.usage.cost_usd) for each in records if isinstance(each, Retried | CallSpent)]
    assert kept == [(Retried, Decimal("0.0125")), (CallSpent, Decimal("0.0125"))]


def test_stopped_at_every_await_it_is_told_or_estimated() -> None:
    """The asking is in the part that finishes: once the id has come, no stop makes it an estimate."""
    spent: list[Usage] = []
    streams: list[Any] = []

    async def call() -> None:
        network = Network(FaultyExchange(BEGUN + END, Cut("stalled", len(BEGUN))), UNKNOWN, KNOWN)
        model = openrouter("m", key=KEY, exchange=network)
        with Scope(20, quiet=True):
            async with model.stream(Request(transcript=Transcript([UserMessage("hello")]))) as stream:
                streams.append(stream)
                async for _ in stream:
                    pass

    for run in every_await(call):
        if streams:
            stream = streams.pop()
            spent.append(stream.spent)
            assert stream.spent in (REAL, Usage(cost_usd=Decimal(0))) or stream.spent.estimated, run
            assert stream.spent == REAL or stream._decoder is None or not stream._decoder.id, run
        assert run.left_running == (), run
        assert run.error is None or type(run.error) is type(run.cause), run
    assert REAL in spent


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"data": {}}',
        b'{"data": {"total_cost": -1, "tokens_prompt": 2}}',
        b'{"data": {"total_cost": 1}}',
    ],
)
def test_an_answer_that_tells_too_little_is_none(body: bytes) -> None:
    assert read_spend(body) is None


def test_estimates_of_the_tokens_serve_where_the_model_gave_none() -> None:
    body = b'{"data": {"total_cost": 0.5, "tokens_prompt": 7, "tokens_completion": 3, "native_tokens_cached": null}}'
    assert read_spend(body) == Usage(input_tokens=7, output_tokens=3, cost_usd=Decimal("0.5"))
