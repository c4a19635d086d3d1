"""Usage that cannot be true, in each dialect, streamed and not: the reply is kept, the figures are unknown and flagged."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaveto.messages import Reply, Transcript, UserMessage
from heaveto.models import Request, anthropic, compatible, gemini, openai_responses
from heaveto.models.figures import Figures
from heaveto.testing import Answered, FaultyExchange
from heaveto.testing.clocks import FakeClock

ABSURD: list[Any] = [
    [],
    "many",
    7,
    True,
    {"in": -1},
    {"in": 1e300},
    {"in": float("nan")},
    {"in": "12"},
    {"in": 2.5},
    {"in": []},
]


def sse(*events: Any) -> bytes:
    return b"".join(f"data: {json.dumps(each)}\n\n".encode() for each in events)


DIGITS = [400, 5_000]  # of numbers that no float holds, and that Python does not read
LONG = '"a very long number"'


def named(usage: Any, name: str) -> Any:
    return {name: usage["in"]} if isinstance(usage, dict) and "in" in usage else usage


def chat(usage: Any, streamed: bool) -> bytes:
    usage = named(usage, "prompt_tokens")
    if not streamed:
        return json.dumps({"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}], "usage": usage}).encode()
    return sse({"choices": [{"delta": {"content": "yes"}, "finish_reason": "stop"}]}, {"choices": [], "usage": usage})


def messages(usage: Any, streamed: bool) -> bytes:
    usage = named(usage, "input_tokens")
    text = {"type": "text", "text": "yes"}
    if not streamed:
        return json.dumps({"content": [text], "stop_reason": "end_turn", "usage": usage}).encode()
    return sse(
        {"type": "message_start", "message": {"id": "m", "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": text},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
        {"type": "message_stop"},
    )


def responses(usage: Any, streamed: bool) -> bytes:
    item = {"type": "message", "content": [{"type": "output_text", "text": "yes"}]}
    whole = {"status": "completed", "output": [item], "usage": named(usage, "input_tokens")}
    return sse({"type": "response.completed", "response": whole}) if streamed else json.dumps(whole).encode()


def content(usage: Any, streamed: bool) -> bytes:
    candidate = {"content": {"parts": [{"text": "yes"}]}, "finishReason": "STOP"}
    whole = {"candidates": [candidate], "usageMetadata": named(usage, "promptTokenCount")}
    return sse(whole) if streamed else json.dumps(whole).encode()


DIALECTS: dict[str, Any] = {
    "chat": (chat, lambda **more: compatible("m", base_url="http://localhost:1/v1", price=(3, 15), **more)),
    "messages": (messages, lambda **more: anthropic("m", key="k", price=(3, 15), **more)),
    "responses": (responses, lambda **more: openai_responses("m", key="k", price=(3, 15), **more)),
    "gemini": (content, lambda **more: gemini("m", key="k", price=(3, 15), **more)),
}


def asked(dialect: str, usage: Any, streamed: bool, digits: int = 0) -> Reply:
    bytes_of, make = DIALECTS[dialect]
    kind = "text/event-stream" if streamed else "application/json"
    body = bytes_of(usage, streamed).replace(LONG.encode(), b"9" * digits)
    exchange = FaultyExchange(Answered(body, headers={"content-type": kind}))
    model = make(exchange=exchange, stream=streamed)

    async def ask() -> Reply:
        async with model.stream(Request(transcript=Transcript([UserMessage("is it?")]))) as stream:
            async for _ in stream:
                pass
            reply: Reply = stream.reply
            return reply

    return FakeClock("asyncio").run(ask)


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_figures_that_cannot_be_true_are_unknown_and_the_reply_is_kept(dialect: str, streamed: bool) -> None:
    for usage in ABSURD:
        reply = asked(dialect, usage, streamed)
        assert (reply.message.content, reply.finish) == ("yes", "answer"), usage
        assert reply.usage.estimated, usage
        assert 0 < reply.usage.input_tokens < 1_000, usage
        assert reply.usage.cost_usd is not None
        assert 0 < reply.usage.cost_usd < 1, usage
    reply = asked(dialect, {"in": 12}, streamed)
    assert (reply.usage.input_tokens, reply.usage.estimated) == (12, False)


@pytest.mark.parametrize("digits", DIGITS)
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_figure_of_thousands_of_digits_loses_no_reply(dialect: str, streamed: bool, digits: int) -> None:
    reply = asked(dialect, {"in": json.loads(LONG)}, streamed, digits)
    assert (reply.message.content, reply.finish) == ("yes", "answer")
    assert reply.usage.estimated
    assert 0 < reply.usage.input_tokens < 1_000


@pytest.mark.parametrize("digits", DIGITS)
def test_a_cost_of_thousands_of_digits_is_unknown(digits: int) -> None:
    reply = asked("chat", {"prompt_tokens": 1_000_000, "cost": json.loads(LONG)}, True, digits)
    assert (reply.usage.cost_usd, reply.usage.estimated) == (Decimal(3), False)


@pytest.mark.parametrize("cost", [-1, 1e300, float("nan"), float("inf"), "0.5", True, [], {"total_cost": -2}, 10_001])
def test_a_cost_that_cannot_be_true_is_unknown_and_the_tokens_are_believed(cost: Any) -> None:
    reply = asked("chat", {"prompt_tokens": 1_000_000, "cost": cost}, True)
    assert (reply.usage.cost_usd, reply.usage.estimated) == (Decimal(3), False)  # by the price that was given


def test_a_part_is_never_more_than_its_whole() -> None:
    """Else what is left of the input would have a price below zero."""
    usage = {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 900, "cache_write_tokens": -3}}
    reply = asked("chat", usage, True)
    assert (reply.usage.cached_input_tokens, reply.usage.cache_write_tokens) == (10, 0)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
    max_leaves=6,
)


@given(anything)
def test_no_report_raises_or_gives_a_figure_out_of_bounds(report: Any) -> None:
    figures = Figures(report)
    inputs, cached, usd = figures.tokens("a"), figures.part("b.a", "a"), figures.dollars("b")
    usage = figures.usage(inputs=inputs, outputs=0, cached=cached, usd=usd)
    assert usage is None or 0 <= usage.cached_input_tokens <= usage.input_tokens <= 100_000_000
    assert usd is None or 0 <= usd <= 10_000
