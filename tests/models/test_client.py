"""A model behind a real HTTP server: answers, errors, cuts, silence, spend, and connections that are used again."""

from __future__ import annotations

import json
import logging
from decimal import Decimal
from typing import Any

import anyio
import pytest

from heaveto.causes import Cancelled, StreamIdle, to_data
from heaveto.errors import APIError, BadReply, ConfigError, EmptyReply, IncompleteStream, TransportFailed
from heaveto.messages import AssistantMessage, CallDelta, ReasoningDelta, Reply, TextDelta, Transcript, Usage, UserMessage
from heaveto.models import CallLimits, HttpxExchange, Price, RemoteModel, Request, compatible
from heaveto.scopes import Scope, tasks

pytestmark = pytest.mark.anyio

KEY = "sk-not-for-anyone-to-see"
USAGE = {"prompt_tokens": 9, "completion_tokens": 2}


def model_at(server: Any, **settings: Any) -> RemoteModel:
    settings.setdefault("price", (1, 1))
    return compatible("m", base_url=server.url, key=KEY, provider="prov", **settings)


def asking(text: str = "hi") -> Request:
    return Request(transcript=Transcript([UserMessage(text)]))


async def ask(model: RemoteModel, text: str = "hi") -> Reply:
    async with model.stream(asking(text)) as stream:
        async for _ in stream:
            pass
        return stream.reply
    raise AssertionError


async def test_a_streamed_reply(server: Any, wire: Any) -> None:
    call = {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "f", "arguments": "{}"}}]}
    server.answer(
        wire.chunks(
            wire.event({"reasoning": "hm"}),
            wire.event({"content": "Olá"}),
            wire.event(call, "tool_calls", usage=USAGE),
            wire.done,
        )
    )
    model = model_at(server, options={"temperature": 0})
    async with model.stream(asking("é\ud800")) as stream:
        deltas = [delta async for delta in stream]
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
    await model.aclose()
    assert deltas == [ReasoningDelta("hm"), TextDelta("Olá"), CallDelta(0, "c1", "f", "{}")]
    assert stream.reply.finish == "tool_calls"
    assert stream.reply.usage == Usage(input_tokens=9, output_tokens=2, cost_usd=Decimal("0.000011")) == stream.spent
    (request,) = server.received
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.json == {
        "model": "m",
        "messages": [{"role": "user", "content": "é�"}],
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def test_a_reply_that_is_not_streamed(server: Any, wire: Any) -> None:
    message = {"role": "assistant", "content": "hello"}
    server.answer(
        wire.whole(json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": USAGE}))
    )
    model = model_at(server, stream=False)
    async with model.stream(asking()) as stream:
        assert [delta async for delta in stream] == [TextDelta("hello")]
    await model.aclose()
    assert stream.reply.message == AssistantMessage("hello")
    assert server.received[0].json["stream"] is False


async def test_a_provider_that_does_not_stream_is_understood_all_the_same(server: Any, wire: Any) -> None:
    message = {"role": "assistant", "content": "hello"}
    server.answer(wire.whole(json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})))
    model = model_at(server)
    assert (await ask(model)).message.content == "hello"
    await model.aclose()


async def test_the_body_is_read_to_its_end_and_the_connection_used_again(server: Any, wire: Any) -> None:
    server.answer(wire.chunks(wire.event({"content": "a"}, "stop"), wire.done))
    model = model_at(server)
    for _ in range(5):
        await ask(model)
    await model.aclose()
    assert [request.connection for request in server.received] == [1] * 5


async def test_leaving_early_closes_the_connection_and_counts_what_came(server: Any, wire: Any) -> None:
    server.answer([*wire.chunks(wire.event({"content": "x" * 41}), end=False), wire.stall])
    model = model_at(server)
    async with model.stream(asking()) as stream:
        assert stream.spent == Usage(cost_usd=Decimal(0))
        await anext(stream)
        with pytest.raises(RuntimeError):
            _ = stream.reply
    assert await anyio.to_thread.run_sync(server.hung_up.wait, 5)
    await model.aclose()
    assert stream.spent.estimated
    assert stream.spent.output_tokens == 11
    assert stream.spent.input_tokens == -(-len(server.received[0].body) // 3)
    assert stream.spent.cost_usd == Decimal(stream.spent.input_tokens + 11) / 1_000_000


async def test_a_stop_cuts_the_call_and_hangs_up(server: Any, wire: Any) -> None:
    server.answer([*wire.chunks(wire.event({"content": "a"}), end=False), wire.stall])
    model = model_at(server)
    with pytest.raises(Cancelled, match="enough"), Scope() as scope:
        async with model.stream(asking()) as stream:
            async for _ in stream:
                scope.cancel(Cancelled("enough"))
    assert await anyio.to_thread.run_sync(server.hung_up.wait, 5)
    assert stream.spent.estimated
    server.answer(wire.chunks(wire.event({"content": "b"}, "stop"), wire.done))
    assert (await ask(model)).message.content == "b"  # the next run is unharmed
    await model.aclose()


@pytest.mark.parametrize("stream", [True, False])
async def test_silence_is_cut_at_its_limit(server: Any, wire: Any, stream: bool) -> None:
    server.answer([wire.head("200 OK", "text/event-stream", "content-length: 900"), wire.stall])
    limits = CallLimits(idle_seconds=0.2, call_seconds=0.2)
    model = model_at(server, stream=stream, limits=limits)
    with pytest.raises(TimeoutError) as caught:
        await ask(model)
    assert caught.value.args == ((0.2, "idle_seconds") if stream else (0.2, "call_seconds"))
    assert isinstance(caught.value, StreamIdle) == stream
    assert await anyio.to_thread.run_sync(server.hung_up.wait, 5)
    await model.aclose()


@pytest.mark.parametrize("how", ["close", "reset", "close-delimited", "end"])
async def test_a_cut_stream_is_incomplete_however_the_server_frames_it(server: Any, wire: Any, how: str) -> None:
    piece = wire.event({"content": "abc"})
    server.answer(
        {
            "close": [*wire.chunks(piece, end=False), wire.close],
            "reset": [*wire.chunks(piece, end=False), wire.reset],
            "close-delimited": [wire.head("200 OK", "text/event-stream", "connection: close") + piece, wire.close],
            "end": wire.chunks(piece),
        }[how]
    )
    model = model_at(server)
    async with model.stream(asking()) as stream:
        with pytest.raises(IncompleteStream) as caught:
            async for _ in stream:
                pass
    await model.aclose()
    assert caught.value.retryable
    assert stream.spent.estimated
    assert (how == "reset") or stream.spent.output_tokens == 1


async def test_a_connection_that_breaks_after_the_end_does_not_matter(server: Any, wire: Any) -> None:
    server.answer([*wire.chunks(wire.event({"content": "a"}, "stop"), end=False), wire.close])
    model = model_at(server)
    reply = await ask(model)
    await model.aclose()
    assert (reply.message.content, reply.usage.estimated) == ("a", True)


@pytest.mark.parametrize(
    ("answer", "text", "wait", "retryable"),
    [
        (
            ("401 Unauthorized", "application/json", b'{"error": {"message": "no such key"}}'),
            "401 Unauthorized: no such key",
            None,
            False,
        ),
        (
            ("429 Too Many Requests", "application/json", b'{"detail": "slow"}', "retry-after: 7"),
            "429 Too Many Requests: slow",
            7,
            True,
        ),
        (("500 Internal Server Error", "text/plain", b""), "500 Internal Server Error: an empty body", None, True),
        (("529 ", "application/json", b'{"message": "full"}'), "529: full", None, True),
        (("500 No", "text/plain", b"never", "x-should-retry: false"), "500 Internal Server Error: never", None, False),
        (
            ("502 Bad Gateway", "text/html", b"<html><title>502 Bad Gateway</title>"),
            "502 Bad Gateway: an HTML page where JSON was expected: 502 Bad Gateway",
            None,
            True,
        ),
        (
            ("307 Temporary Redirect", "text/plain", b"", "location: https://u:p@elsewhere.example/v1?key=1"),
            "307 Temporary Redirect: redirected to https://elsewhere.example/v1; give the API's own address as base_url",
            None,
            False,
        ),
    ],
)
async def test_a_refusal_costs_nothing_and_says_why(
    server: Any, wire: Any, answer: tuple[Any, ...], text: str, wait: float | None, retryable: bool
) -> None:
    status, kind, body, *headers = answer
    server.answer(wire.whole(body, status, kind, *headers))
    model = model_at(server)
    async with model.stream(asking()) as stream:
        with pytest.raises(APIError) as caught:
            await anext(stream)
    await model.aclose()
    assert str(caught.value) == f"prov: {text}"
    assert (caught.value.retry_after, caught.value.retryable) == (wait, retryable)
    assert stream.spent == Usage(cost_usd=Decimal(0))
    assert len(server.received) == 1


async def test_a_page_or_nothing_inside_a_200(server: Any, wire: Any) -> None:
    model = model_at(server)
    server.answer(wire.whole("<!doctype html><title>Sign in</title>", "200 OK", "text/html"))
    with pytest.raises(BadReply, match="an HTML page where JSON was expected: Sign in"):
        await ask(model)
    server.answer(wire.whole(""))
    with pytest.raises(EmptyReply):
        await ask(model)
    await model.aclose()


async def test_no_connection_says_method_and_address_without_secrets() -> None:
    model = compatible("m", base_url="http://127.0.0.1:1/v1?api-key=secret", key=KEY)
    async with model.stream(asking()) as stream:
        with pytest.raises(TransportFailed) as caught:
            await anext(stream)
    assert str(caught.value) == "POST http://127.0.0.1:1/v1/chat/completions: no connection: refused"
    assert caught.value.__cause__ is not None
    assert stream.spent == Usage(cost_usd=Decimal(0))
    await model.aclose()


async def test_a_kept_connection_that_is_dead_is_replaced_silently(server: Any, wire: Any) -> None:
    """The server closes a kept connection at the moment in which the next request arrives on it."""
    good = wire.chunks(wire.event({"content": "a"}, "stop"), wire.done)
    model = model_at(server)
    server.answer(good, [wire.close], good)
    assert [(await ask(model)).message.content for _ in range(2)] == ["a", "a"]
    assert [request.connection for request in server.received] == [1, 1, 2]
    await model.aclose()


async def test_a_new_connection_that_dies_is_not_tried_again(server: Any, wire: Any) -> None:
    server.answer([wire.close])
    model = model_at(server)
    with pytest.raises(TransportFailed, match="closed the connection early"):
        await ask(model)
    assert len(server.received) == 1
    await model.aclose()


async def test_many_calls_at_once_are_spread_over_clients(server: Any, wire: Any) -> None:
    server.answer(wire.chunks(wire.event({"content": "a"}, "stop"), wire.done))
    exchange = HttpxExchange(requests_per_client=4)
    model = model_at(server, exchange=exchange)
    for _ in range(2):
        async with tasks() as group:
            for _ in range(10):
                group.start_soon(ask, model)
    assert 1 <= exchange.clients <= 3
    assert len({request.connection for request in server.received}) <= 10
    await model.aclose()
    assert exchange.clients == 0
    await ask(model)  # a closed model opens again
    await model.aclose()


async def test_a_key_is_nowhere_to_be_seen(server: Any, wire: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server.answer(wire.whole(json.dumps({"error": {"message": f"bad key {KEY}"}}), "401 Unauthorized"))
    model = model_at(server, headers={"api-key": KEY})
    with pytest.raises(APIError) as caught:
        await ask(model)
    assert str(caught.value) == "prov: 401 Unauthorized: bad key ***"
    everything = (repr(model), repr(model.http_request(b"")), repr(caught.value), str(to_data(caught.value)), caplog.text)
    assert all(KEY not in text for text in everything)
    await model.aclose()


@pytest.mark.parametrize("key", ["sk-1\n", "sk-é", "a\rb", "\x00"])
async def test_a_key_that_no_header_can_hold_is_refused_before_anything_is_sent(key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compatible("m", base_url="https://x.example", key=key, provider="prov")
    assert str(caught.value).startswith("the key for prov has a line break")
    assert key not in str(caught.value)


async def test_cost_is_the_apis_own_else_the_price_else_unknown(server: Any, wire: Any) -> None:
    hidden = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 30}  # 15 of reasoning, billed and not counted
    server.answer(
        wire.chunks(wire.event({"content": "a"}, "stop", usage={**USAGE, "cost": 0.5}), wire.done),
        wire.chunks(wire.event({"content": "a"}, "stop", usage=hidden), wire.done),
        wire.chunks(wire.event({"content": "a"}, "stop", usage=USAGE), wire.done),
    )
    priced = model_at(server, price=Price(Decimal(1), Decimal(2)))
    assert (await ask(priced)).usage.cost_usd == Decimal("0.5")
    assert (await ask(priced)).usage.cost_usd == Decimal(10 + 2 * 20) / 1_000_000
    unknown = model_at(server, price=None)
    assert (await ask(unknown)).usage.cost_usd is None
    assert (priced.reports_cost, unknown.reports_cost) == (True, False)
    await priced.aclose()
    await unknown.aclose()


def test_a_model_may_be_used_in_one_event_loop_after_another(server: Any, wire: Any) -> None:
    """As a script does that calls `run_sync` twice."""
    server.answer(wire.chunks(wire.event({"content": "a"}, "stop"), wire.done))
    model = model_at(server)

    async def once() -> str:
        try:
            return (await ask(model)).message.content
        finally:
            await model.aclose()

    assert [anyio.run(once, backend=backend) for backend in ("asyncio", "asyncio", "trio")] == ["a", "a", "a"]


async def test_an_error_midway_is_raised_after_what_came_and_usage_after_it_counts(server: Any, wire: Any) -> None:
    server.answer(
        wire.chunks(
            wire.event({"content": "a"}),
            b'data: {"error": {"code": 429, "message": "slow"}}\n\n',
            b'data: {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}\n\n',
        )
    )
    model = model_at(server)
    deltas = []
    async with model.stream(asking()) as stream:
        with pytest.raises(APIError, match="429 Too Many Requests: slow"):
            async for delta in stream:
                deltas.append(delta)  # noqa: PERF401 - the error comes in the middle
    await model.aclose()
    assert deltas == [TextDelta("a")]
    assert stream.spent == Usage(input_tokens=1, output_tokens=1, cost_usd=Decimal("0.000002"))


class Endless:
    """A server that never ends its reply: an answer in memory, and the exchange that gives it."""

    status = 200
    headers = {"content-type": "text/event-stream"}  # noqa: RUF012

    async def send(self, request: Any, connected: Any) -> Endless:
        connected()
        return self

    async def read(self) -> bytes:
        await anyio.lowlevel.checkpoint()
        return b'data: {"choices": [{"index": 0, "delta": {"content": "%s"}}]}\n\n' % (b"x" * 100_000)

    async def aclose(self) -> None:
        pass


async def test_a_reply_without_end_is_cut_and_counted() -> None:
    model = compatible("m", base_url="http://127.0.0.1/v1", exchange=Endless())
    with pytest.raises(BadReply, match="longer than 8,000,000 characters"):
        async with model.stream(Request(transcript=Transcript([UserMessage("hi")]))) as stream:
            async for _ in stream:
                pass
    assert stream.spent.estimated
    assert stream.spent.output_tokens >= 2_000_000
