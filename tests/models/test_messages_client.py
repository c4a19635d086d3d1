"""A model behind a real HTTP server that speaks Anthropic's Messages: answers, refusals, cuts, and what they cost."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from heaveto.errors import APIError, IncompleteStream, OutputFiltered, ProviderFailed
from heaveto.messages import (
    AssistantMessage,
    CallDelta,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolMessage,
    Transcript,
    Usage,
    UserMessage,
)
from heaveto.models import CallLimits, RemoteModel, Request, anthropic

pytestmark = pytest.mark.anyio

KEY = "sk-ant-not-for-anyone"
START = {"id": "msg_1", "model": "m", "usage": {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 1}}


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def block(index: int, data: dict[str, Any], **delta: Any) -> bytes:
    begin = event("content_block_start", index=index, content_block=data)
    return begin + event("content_block_delta", index=index, delta=delta) + event("content_block_stop", index=index)


BEGIN = event("message_start", message=START)
THINKING = block(0, {"type": "thinking", "thinking": "hm", "signature": ""}, type="signature_delta", signature="s1")
TEXT = block(1, {"type": "text", "text": ""}, type="text_delta", text="Let me see.")
USE = block(2, {"type": "tool_use", "id": "t1", "name": "f", "input": {}}, type="input_json_delta", partial_json="{}")
STOP = event("message_stop")


def end(reason: str) -> bytes:
    return event("message_delta", delta={"stop_reason": reason}, usage={"output_tokens": 20})


def model_at(server: Any, **settings: Any) -> RemoteModel:
    base_url = server.url.removesuffix("/v1")
    return anthropic("m", key=KEY, base_url=base_url, price=(1, 1, "0.1", "1.25"), **settings)


async def ask(model: RemoteModel, *more: Any) -> Any:
    async with model.stream(Request(transcript=Transcript([UserMessage("hi"), *more]))) as stream:
        return [delta async for delta in stream], stream.reply
    raise AssertionError


async def test_a_streamed_reply_with_a_call_and_the_next_request(server: Any, wire: Any) -> None:
    server.answer(wire.chunks(BEGIN, THINKING, TEXT, USE, end("tool_use"), STOP))
    model = model_at(server)
    deltas, reply = await ask(model)
    assert deltas == [ReasoningDelta("hm"), TextDelta("Let me see."), CallDelta(0, "t1", "f"), CallDelta(0, "", "", "{}")]
    assert (reply.finish, reply.id, reply.model) == ("tool_calls", "msg_1", "m")
    assert reply.message.tool_calls == (ToolCall("t1", "f", "{}"),)
    cost = Decimal(10 + 9 + 20) / 1_000_000
    assert reply.usage == Usage(input_tokens=100, cached_input_tokens=90, output_tokens=20, cost_usd=cost)
    await ask(model, reply.message, ToolMessage("t1", "f", "done"))
    await model.aclose()
    first, second = server.received
    assert first.path == "/v1/messages"
    assert (first.headers["x-api-key"], first.headers["anthropic-version"]) == (KEY, "2023-06-01")
    assert [message["role"] for message in second.json["messages"]] == ["user", "assistant", "user"]
    assert second.json["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "s1"},
        {"type": "text", "text": "Let me see."},
        {"type": "tool_use", "id": "t1", "name": "f", "input": {}},
    ]
    assert first.connection == second.connection


async def test_a_reply_that_is_not_streamed(server: Any, wire: Any) -> None:
    body = {**START, "content": [{"type": "text", "text": "hello"}], "stop_reason": "end_turn"}
    server.answer(wire.whole(json.dumps(body)))
    model = model_at(server, stream=False)
    _, reply = await ask(model)
    await model.aclose()
    assert reply.message == AssistantMessage("hello")
    assert not reply.usage.estimated
    assert server.received[0].json["stream"] is False


async def test_the_spend_of_a_cut_call_has_the_apis_input_and_an_estimate_of_the_output(server: Any, wire: Any) -> None:
    text = block(0, {"type": "text", "text": ""}, type="text_delta", text="x" * 400)
    server.answer([*wire.chunks(BEGIN, text, end=False), wire.close])
    model = model_at(server)
    async with model.stream(Request(transcript=Transcript([UserMessage("hi")]))) as stream:
        with pytest.raises(IncompleteStream):
            async for _ in stream:
                pass
    await model.aclose()
    cost = Decimal(10 + 9 + 100) / 1_000_000
    assert stream.spent == Usage(input_tokens=100, cached_input_tokens=90, output_tokens=100, cost_usd=cost, estimated=True)


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, ProviderFailed, True),
        ({"type": "rate_limit_error", "message": "slow"}, APIError, True),
        ({"type": "invalid_request_error", "message": "Output blocked by content filtering policy"}, OutputFiltered, None),
    ],
)
async def test_an_error_midway(server: Any, wire: Any, error: Any, kind: Any, retryable: bool | None) -> None:
    server.answer(wire.chunks(BEGIN, TEXT, event("error", error=error)))
    model = model_at(server)
    with pytest.raises(kind, match=error["message"]) as caught:
        await ask(model)
    await model.aclose()
    assert caught.value.retryable is retryable


async def test_a_refused_request_says_why_and_whether_to_try_again(server: Any, wire: Any) -> None:
    body = json.dumps({"type": "error", "error": {"type": "overloaded_error", "message": f"full, {KEY}"}})
    server.answer(wire.whole(body, "529 Overloaded", "application/json", "retry-after: 3"))
    model = model_at(server)
    with pytest.raises(APIError) as caught:
        await ask(model)
    await model.aclose()
    assert str(caught.value) == "anthropic: 529: full, ***"
    assert (caught.value.retry_after, caught.value.retryable) == (3, True)


async def test_a_reply_that_is_whole_counts_though_the_connection_stays_open(server: Any, wire: Any) -> None:
    """Also where the idle limit is shorter than the wait for the body's end."""
    server.answer([*wire.chunks(BEGIN, TEXT, end("end_turn"), STOP, end=False), wire.stall])
    model = model_at(server, limits=CallLimits(idle_seconds=0.3))
    _, reply = await ask(model)
    await model.aclose()
    assert (reply.finish, reply.message.content) == ("answer", "Let me see.")
