"""Models behind a real HTTP server that speaks Responses and generateContent: two turns, refusals, and what they cost."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from heaveto.errors import APIError, IncompleteStream
from heaveto.messages import TextDelta, ToolMessage, Transcript, Usage, UserMessage
from heaveto.models import RemoteModel, Request, gemini, openai_responses

pytestmark = pytest.mark.anyio

KEY = "sk-not-for-anyone"
SEALED = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA1"}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}", "status": "completed"}
USED = {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 90}, "output_tokens": 20}
ENDED = {"id": "resp_1", "model": "m", "status": "completed", "usage": USED}
SIGNED = {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "s1"}
COUNTED = {"promptTokenCount": 100, "cachedContentTokenCount": 90, "candidatesTokenCount": 15, "thoughtsTokenCount": 5}


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def chunk(part: dict[str, Any], **more: Any) -> bytes:
    candidate = {"content": {"role": "model", "parts": [part]}, **more}
    return b"data: " + json.dumps({"candidates": [candidate], "usageMetadata": COUNTED}).encode() + b"\r\n\r\n"


def model_at(server: Any, make: Any, **settings: Any) -> RemoteModel:
    return make("gemini-3-pro", key=KEY, base_url=server.url.removesuffix("/v1"), price=(1, 1, "0.1"), **settings)


async def ask(model: RemoteModel, transcript: Transcript) -> Any:
    try:
        async with model.stream(Request(transcript=transcript)) as stream:
            return [delta async for delta in stream], stream.reply
        raise AssertionError
    finally:
        await model.aclose()


async def test_responses_reasoning_goes_back_with_the_calls_result(server: Any, wire: Any) -> None:
    streamed = (
        event("response.output_item.done", output_index=0, item=SEALED),
        event("response.output_item.done", output_index=1, item=CALL),
        event("response.completed", response=ENDED),
    )
    server.answer(wire.chunks(*streamed))
    transcript = Transcript([UserMessage("hi")])
    _, reply = await ask(model_at(server, openai_responses), transcript)
    assert reply.finish == "tool_calls"
    cost = Decimal("0.000039")  # 10 fresh, 90 cached and 20 written
    assert reply.usage == Usage(input_tokens=100, output_tokens=20, cached_input_tokens=90, cost_usd=cost)
    transcript.append(reply.message, ToolMessage("c1", "f", "done"))
    await ask(model_at(server, openai_responses), transcript)
    first, second = server.received
    assert (first.path, first.headers["authorization"]) == ("/responses", f"Bearer {KEY}")
    assert first.json["store"] is False
    result = {"type": "function_call_output", "call_id": "c1", "output": "done"}
    assert second.json["input"] == [{"role": "user", "content": "hi"}, SEALED, CALL, result]


async def test_a_signature_of_gemini_goes_back_with_the_calls_result(server: Any, wire: Any) -> None:
    server.answer(wire.chunks(chunk({"text": "a"}), chunk(SIGNED, finishReason="STOP")))
    transcript = Transcript([UserMessage("hi")])
    deltas, reply = await ask(model_at(server, gemini), transcript)
    assert deltas[0] == TextDelta("a")
    assert (reply.usage.output_tokens, reply.usage.reasoning_tokens) == (20, 5)
    assert reply.usage.cost_usd == Decimal("0.000039")
    (call,) = reply.message.tool_calls
    transcript.append(reply.message, ToolMessage(call.id, "f", "done"))
    await ask(model_at(server, gemini), transcript)
    first, second = server.received
    assert first.path == "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse"
    assert first.headers["x-goog-api-key"] == KEY
    used = {"functionCall": {"id": call.id, "name": "f", "args": {}}, "thoughtSignature": "s1"}
    result = {"functionResponse": {"id": call.id, "name": "f", "response": {"output": "done"}}}
    assert second.json["contents"] == [
        {"role": "user", "parts": [{"text": "hi"}]},
        {"role": "model", "parts": [{"text": "a"}, used]},
        {"role": "user", "parts": [result]},
    ]


@pytest.mark.parametrize("make", [openai_responses, gemini])
async def test_what_is_not_streamed_has_one_deadline_and_comes_whole(make: Any, server: Any, wire: Any) -> None:
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]}
    candidate = {"content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"}
    server.answer(wire.whole(json.dumps({**ENDED, "output": [said], "candidates": [candidate], "usageMetadata": COUNTED})))
    deltas, reply = await ask(model_at(server, make, stream=False), Transcript([UserMessage("hi")]))
    assert (deltas, reply.finish) == ([TextDelta("a")], "answer")


async def test_gemini_says_how_long_to_wait_and_no_error_shows_the_key(server: Any, wire: Any) -> None:
    delay = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}
    error = {"error": {"code": 429, "message": f"quota of {KEY}", "status": "RESOURCE_EXHAUSTED", "details": [delay]}}
    server.answer(wire.whole(json.dumps(error), "429 Too Many Requests"))
    with pytest.raises(APIError) as caught:
        await ask(model_at(server, gemini), Transcript([UserMessage("hi")]))
    assert (caught.value.status, caught.value.retry_after) == (429, 34)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "begun"),
    [
        (openai_responses, event("response.output_text.delta", output_index=0, delta="a")),
        (gemini, chunk({"text": "a"})),
    ],
)
async def test_a_stream_that_breaks_off_is_incomplete_and_its_spend_an_estimate(
    make: Any, begun: bytes, server: Any, wire: Any
) -> None:
    server.answer([*wire.chunks(begun, end=False), wire.close])
    model = model_at(server, make)
    with pytest.raises(IncompleteStream):
        async with model.stream(Request(transcript=Transcript([UserMessage("hi")]))) as stream:
            async for _ in stream:
                pass
    assert stream.spent.estimated
    assert stream.spent.cost_usd is not None
    await model.aclose()
