"""Models that stand in for one another: when the next one is asked, what is handed on, and what is counted."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from heaveto.causes import Cancelled, Stop, StreamIdle
from heaveto.errors import APIError, ConfigError, GaveUp, NoneAnswered, TransportFailed
from heaveto.journal import MemoryStore
from heaveto.loop import TextPiece
from heaveto.messages import Image, Reply, Transcript, UserMessage
from heaveto.models import Request, by_name, fallback
from heaveto.models.providers import compatible
from heaveto.retry import RetryPolicy
from heaveto.runs import Agent
from heaveto.scopes import Scope
from heaveto.testing import Cut, FaultyExchange
from heaveto.testing.clocks import FakeClock
from heaveto.testing.scripted_model import scripted
from heaveto.testing.stops import every_await

pytestmark = pytest.mark.anyio

BUSY = APIError("first", 503, "busy")
WRONG = APIError("first", 400, "too long")
BODY = (
    b'data: {"choices":[{"index":0,"delta":{"content":"Hel"}}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":7,"completion_tokens":2}}\n\ndata: [DONE]\n\n'
)
HEL = BODY.index(b'data: {"choices":[{"index":0,"delta":{"content":"lo"')


@pytest.fixture
def anyio_backend(fake_clock: FakeClock) -> Any:
    return fake_clock.backend


def remote(name: str, *faults: Any) -> Any:
    return compatible(
        name, base_url="http://localhost/v1", provider=name, price=(1, 1), exchange=FaultyExchange(BODY, *faults)
    )


async def ask(model: Any) -> tuple[list[str], Reply]:
    async with model.stream(Request(transcript=Transcript([UserMessage("hello")]))) as stream:
        said = [delta.text async for delta in stream]
        return said, stream.reply


@pytest.mark.parametrize(
    "error",
    [
        BUSY,
        APIError("first", 429, "slow down", 7200.0),
        APIError("first", 429, "no quota left", None, False),
        APIError("first", 402, "no credit left"),
        TransportFailed("POST", "http://first", "no connection: refused"),
        StreamIdle(60),
        GaveUp(4, BUSY),
        ConnectionResetError("reset by peer"),
    ],
    ids=repr,
)
async def test_what_another_model_could_do_better_goes_to_it(error: Exception) -> None:
    first, second = scripted(error, name="first"), scripted("fine", name="second")
    said, reply = await ask(fallback(first, second))
    assert (said, reply.message.content) == (["fine"], "fine")
    assert len(first.requests) == len(second.requests) == 1


@pytest.mark.parametrize(
    "error", [WRONG, APIError("first", 401, "no such key"), KeyError("choices"), GaveUp(2, WRONG)], ids=repr
)
async def test_what_is_wrong_with_the_request_comes_bare(error: Exception) -> None:
    second = scripted("fine", name="second")
    with pytest.raises(type(error)) as caught:
        await ask(fallback(scripted(error, name="first"), second))
    assert caught.value is error
    assert not second.requests


async def test_a_stop_is_never_gone_around() -> None:
    first, second = scripted("slow", name="first", pause_seconds=60), scripted("fine", name="second")
    with pytest.raises(Cancelled, match="enough"), Scope() as scope:
        async with fallback(first, second).stream(Request(transcript=Transcript([UserMessage("hello")]))) as stream:
            scope.cancel(Cancelled("enough"))
            await anext(stream)
    assert not second.requests


async def test_none_answered_names_what_each_said() -> None:
    models = [scripted(BUSY, name="first:a"), scripted(APIError("second", 429, "later", 30.0), name="second:b")]
    with pytest.raises(NoneAnswered) as caught:
        await ask(fallback(*models))
    error = caught.value
    assert str(error) == "no model answered: first:a: 503 Service Unavailable: busy; second:b: 429 Too Many Requests: later"
    assert (error.retryable, error.retry_delay) == (True, None), "the first one asked for no wait"
    only_waits = NoneAnswered(["a", "b"], [APIError("a", 429, "", 90.0), APIError("b", 429, "", 30.0)])
    assert only_waits.retry_delay == 30.0
    assert NoneAnswered(["a", "b"], [APIError("a", 402, ""), APIError("b", 402, "")]).retryable is False


async def test_limits_of_each_call_are_its_own_and_all_spend_is_counted(fake_clock: FakeClock) -> None:
    """The first stalls before anything was handed on, for its whole limit; the second answers."""
    first, second = remote("first", Cut("stalled", 0)), remote("second")
    said, reply = await ask(fallback(first, second))
    assert said == ["Hel", "lo"]
    assert fake_clock.now == first.limits.idle_seconds
    alone = (await ask(remote("second")))[1].usage
    assert reply.usage.input_tokens > alone.input_tokens
    assert reply.usage.estimated
    assert not alone.estimated
    assert reply.usage.cost_usd is not None
    assert reply.usage.cost_usd > (alone.cost_usd or Decimal(0))


async def test_a_run_voids_what_was_handed_on_and_goes_on_with_the_next_model() -> None:
    model = fallback(remote("first", Cut("reset", HEL)), remote("second"))
    agent = Agent(model=model, store=MemoryStore(), retry=RetryPolicy(base_seconds=0))
    async with agent.start("hello") as run:
        events = run.events()
        outcome = await run.wait()
    seen = [event.body async for event in events]
    assert outcome.text == "Hello"
    assert [each.text for each in seen if isinstance(each, TextPiece) and each.attempt == 2] == ["Hel", "lo"]
    (retry,) = [each for each in seen if type(each).__name__ == "Retried"]
    assert retry.error["code"] == "incomplete_stream"
    assert len(model.models[0].exchange.requests) == len(model.models[1].exchange.requests) == 1
    assert outcome.report.spend.calls == 2


async def test_a_consumer_that_leaves_closes_the_call() -> None:
    with Scope(5):
        async with fallback(remote("first"), remote("second")).stream(
            Request(transcript=Transcript([UserMessage("hello")]))
        ) as stream:
            assert (await anext(stream)).text == "Hel"


def test_a_fallback_has_models_each_once() -> None:
    one = scripted(name="one")
    for models in ((), (one, one)):
        with pytest.raises(ConfigError, match="as in fallback"):
            fallback(*models)
    assert fallback(one, scripted(name="two")).name == "one, else two"


def test_an_image_must_be_one_that_each_model_takes() -> None:
    image = Image(b"GIF89a")
    fallback(scripted(name="one"), by_name("openai:m", key="k")).check_inputs([image])
    with pytest.raises(ConfigError, match="xai does not take image/gif"):
        fallback(by_name("openai:m", key="k"), by_name("xai:m", key="k")).check_inputs([image])


def test_stopped_at_every_await() -> None:
    async def whole() -> str:
        model = fallback(remote("first", Cut("refused")), remote("second"))
        return "".join((await ask(model))[0])

    for run in every_await(whole):
        assert run.left_running == (), run
        assert run.value == "Hello" or (isinstance(run.error, Stop) and run.error.code == run.cause.code), run
