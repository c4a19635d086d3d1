"""Models that share a rate limit take turns: attempts and retries, with tokens that are corrected afterwards."""

from __future__ import annotations

import json
import traceback
from typing import Any

import anyio
import pytest

from heaveto.causes import Cancelled, ConnectTimeout, Shutdown
from heaveto.errors import APIError
from heaveto.messages import Reply, Transcript, UserMessage
from heaveto.models import CallLimits, RemoteModel, Request, compatible
from heaveto.retry import Attempt, RetryPolicy, retrying
from heaveto.scopes import RateLimit, Scope, deadline, graced, tasks
from heaveto.testing import Answered, FakeClock, FaultyExchange, every_await

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend(fake_clock: FakeClock) -> Any:
    return fake_clock.backend


JSON = {"content-type": "application/json"}


def answer(tokens: int = 10) -> Answered:
    message = {"role": "assistant", "content": "hello"}
    usage = {"prompt_tokens": tokens - 1, "completion_tokens": 1}
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}
    return Answered(json.dumps(body).encode(), headers=JSON)


def model_with(rate: RateLimit, exchange: Any = None, **settings: Any) -> RemoteModel:
    exchange = exchange or FaultyExchange(answer())
    return compatible("m", base_url="http://localhost:1", stream=False, rate=rate, exchange=exchange, **settings)


async def ask(model: RemoteModel, attempt: Attempt | None = None, **settings: Any) -> Reply:
    async with model.stream(Request(transcript=Transcript([UserMessage("hi")]), **settings)) as stream:
        async for _ in stream:
            pass
        return stream.reply
    raise AssertionError


async def test_models_that_share_a_limit_take_turns(fake_clock: FakeClock) -> None:
    rate = RateLimit(requests=60)
    models = [model_with(rate), model_with(rate)]
    began = []

    async def once(model: RemoteModel) -> None:
        await ask(model)
        began.append(fake_clock.now)

    async with tasks() as group:
        for model in models * 2:
            group.start_soon(once, model)
    assert began == [0, 1, 2, 3]


async def test_a_retry_takes_its_turn_too(fake_clock: FakeClock) -> None:
    exchange = FaultyExchange(answer(), Answered(b"{}", 500, JSON), Answered(b"{}", 500, JSON))
    model = model_with(RateLimit(requests=60, per_seconds=6000), exchange)
    policy = RetryPolicy(base_seconds=0)
    await retrying(lambda attempt: ask(model, attempt), policy)
    assert len(exchange.requests) == 3
    assert fake_clock.now == 200


async def test_the_wait_is_no_part_of_the_calls_limits(fake_clock: FakeClock) -> None:
    model = model_with(RateLimit(requests=1, per_seconds=3600), limits=CallLimits(connect_seconds=5, call_seconds=5))
    await ask(model)
    await ask(model)
    assert fake_clock.now == 3600


async def test_tokens_are_estimated_and_then_corrected(fake_clock: FakeClock) -> None:
    exchange = FaultyExchange(answer(tokens=600))
    rate = RateLimit(tokens=6000, token_burst=1000)
    model = model_with(rate, exchange)
    await ask(model, max_output_tokens=900)
    estimate = -(-len(exchange.requests[0].body) // 3) + 900
    assert estimate < 1000
    assert rate.statistics().tokens_left == pytest.approx(400)
    await ask(model, max_output_tokens=900)  # the estimate must come in before it is sent
    assert fake_clock.now == pytest.approx((estimate - 400) / 100)


async def test_a_call_that_was_refused_gives_its_tokens_back(fake_clock: FakeClock) -> None:
    rate = RateLimit(tokens=6000, token_burst=1000)
    model = model_with(rate, FaultyExchange(Answered(b"{}", 400, JSON)))
    with pytest.raises(APIError):
        await ask(model)
    assert rate.statistics().tokens_left == 1000


async def test_a_stopped_waiter_says_what_it_waited_for(fake_clock: FakeClock) -> None:
    exchange = FaultyExchange(answer())
    model = model_with(RateLimit(requests=1, per_seconds=600, name="shared quota"), exchange)
    await ask(model)
    with pytest.raises(Cancelled) as caught, deadline(5, Cancelled("enough")):
        await ask(model)
    assert fake_clock.now == 5
    assert len(exchange.requests) == 1
    assert "while waiting for the shared quota (600 s)" in "".join(traceback.format_exception(caught.value))


async def test_a_turn_that_comes_within_a_grace_is_not_used(fake_clock: FakeClock) -> None:
    exchange = FaultyExchange(answer())
    model = model_with(RateLimit(requests=1, per_seconds=5), exchange)
    await ask(model)
    with pytest.raises(Shutdown), Scope() as scope:
        async with graced(20, Shutdown), tasks() as group:
            group.start_soon(ask, model)
            await anyio.sleep(1)
            scope.cancel(Shutdown("SIGTERM"))
    assert fake_clock.now == 5
    assert len(exchange.requests) == 1


async def test_the_limits_of_a_call_begin_after_the_wait(fake_clock: FakeClock) -> None:
    class Stuck(FaultyExchange):
        async def send(self, request: Any, connected: Any) -> Any:
            await anyio.sleep_forever()

    rate = RateLimit(requests=60)
    await rate.wait()
    with pytest.raises(ConnectTimeout):
        await ask(model_with(rate, Stuck(b""), limits=CallLimits(connect_seconds=7)))
    assert fake_clock.now == 8


def test_a_stop_at_any_await_leaves_no_waiter() -> None:
    async def feature() -> None:
        rate = RateLimit(requests=6000)
        model = model_with(rate)
        try:
            await ask(model)
            await ask(model)
        finally:
            waiting.append(rate.statistics().waiting)

    waiting: list[int] = []
    points = sum(1 for _ in every_await(feature))
    assert waiting == [0] * len(waiting)
    assert len(waiting) >= points > 6
