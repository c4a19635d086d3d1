"""Recorded traffic: the decoder comes to what a right client concludes, however the bytes are cut.

The recordings are not part of the repository; `HEAVETO_WIRE_DIR` says where they are.
"""

from __future__ import annotations

import itertools
import json
import os
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from heaveto.errors import AgentError, APIError, IncompleteStream, ProviderFailed
from heaveto.messages import CallDelta, Delta, ReasoningDelta, Reply, TextDelta
from heaveto.models.chat import ChatDecoder
from heaveto.models.error_bodies import api_error

FOLDER = Path(os.environ.get("HEAVETO_WIRE_DIR") or Path(__file__).parents[2].parent / "shared" / "wire")
OUTCOMES = {"answer": "answer", "empty": "answer", "tool_calls": "tool_calls", "truncated": "truncated"}
OUTCOMES |= {"filtered": "filtered", "refused": "refused"}


def entries(*, ok: bool) -> list[Any]:
    index = FOLDER / "index.json"
    if not index.exists():
        return [pytest.param("", {}, marks=pytest.mark.skip(reason="no recorded traffic"))]
    found = json.loads(index.read_text())["entries"]
    chat = {name: entry for name, entry in found.items() if entry["dialect"] == "chat"}
    assert len(chat) > 50
    return [pytest.param(name, entry, id=name) for name, entry in chat.items() if (entry["status"] == 200) == ok]


def body_of(name: str) -> bytes:
    return (FOLDER / f"{name}.response.txt").read_bytes()


class Decoded:
    """What came out of the decoder for one way of cutting the bytes."""

    def __init__(self, pieces: list[bytes], *, stream: bool) -> None:
        self.decoder = ChatDecoder(stream=stream, provider="p")
        deltas = [delta for piece in pieces for delta in self.decoder.feed(piece)]
        self.deltas = deltas + self.decoder.close()
        self.error: AgentError | None = None
        self.so_far = self.decoder.so_far()
        try:
            self.reply: Reply | None = self.decoder.finish()
        except AgentError as error:
            self.reply, self.error = None, error

    def facts(self) -> dict[str, Any]:
        """In the recordings' own words."""
        facts: dict[str, Any] = {
            "outcome": self._outcome(),
            "text": self.so_far.message.content,
            "reasoning": self.so_far.message.reasoning,
            "reasoning_details": self.so_far.message.extras.get("reasoning_details", []),
            "refusal": self.so_far.refusal,
            "tool_calls": [(call.name, call.arguments) for call in self.so_far.message.tool_calls],
            "ids": [call.id for call in self.so_far.message.tool_calls],
            "finish_reason": self.decoder.finish_reason,
            "native_finish_reason": self.decoder.native_finish_reason,
            "usage": self.decoder.usage,
            "model": self.so_far.model,
            "id": self.so_far.id,
        }
        if self.error is not None:
            facts |= {"error": str(self.error), "retryable": self.error.retryable}
        return facts

    def _outcome(self) -> str:
        if self.reply is not None:
            return OUTCOMES[self.reply.finish]
        if isinstance(self.error, IncompleteStream):
            return "incomplete"
        if isinstance(self.error, (APIError, ProviderFailed)):
            return "stream_error" if self.decoder.events else "error_in_200"
        return "bad_response"


def joined(deltas: list[Delta]) -> tuple[str, str, dict[int, tuple[str, str]]]:
    """Text, reasoning and calls as whoever only saw the deltas would put them together."""
    calls: dict[int, tuple[str, str]] = {}
    for delta in deltas:
        if isinstance(delta, CallDelta):
            name, arguments = calls.get(delta.index, ("", ""))
            calls[delta.index] = (name + delta.name, arguments + delta.arguments)
    text = "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))
    reasoning = "".join(delta.text for delta in deltas if isinstance(delta, ReasoningDelta))
    return text, reasoning, calls


def check(decoded: Decoded, expected: dict[str, Any]) -> None:
    facts = decoded.facts()
    for key in ("outcome", "text", "model", "id"):
        assert facts[key] == (expected.get(key) or ""), key
    for key in ("reasoning", "refusal", "finish_reason", "native_finish_reason"):
        assert facts[key] == (expected.get(key) or ""), key
    assert facts["reasoning_details"] == expected.get("reasoning_details", [])
    check_calls(decoded, expected["tool_calls"])
    check_usage(decoded, expected.get("usage"))
    check_error(decoded, expected)
    text, reasoning, calls = joined(decoded.deltas)
    assert (text, reasoning) == (facts["text"], facts["reasoning"])
    assert [(name, arguments or "{}") for name, arguments in calls.values()] == facts["tool_calls"]


def check_calls(decoded: Decoded, expected: list[dict[str, Any]]) -> None:
    calls = decoded.so_far.message.tool_calls
    assert len({call.id for call in calls}) == len(expected) == len(calls)
    for call, wanted in zip(calls, expected, strict=True):
        assert call.id == wanted["id"] or (wanted["id"] is None and call.id)
        assert call.name == wanted["name"]
        assert wanted["arguments_valid_json"]
        assert json.loads(call.arguments) == wanted["arguments"]
        if wanted["arguments_raw"] is not None:
            assert call.arguments == wanted["arguments_raw"]
    if decoded.reply is not None:
        may_run = decoded.reply.finish == "tool_calls"
        assert len(decoded.reply.message.tool_calls) == (len(expected) if may_run else 0)


def check_usage(decoded: Decoded, expected: dict[str, Any] | None) -> None:
    usage = decoded.decoder.usage
    if expected is None:
        assert usage is None
        return
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens) == (expected["input_tokens"], expected["output_tokens"])
    assert usage.cached_input_tokens == expected.get("cached_input_tokens", 0)
    assert usage.reasoning_tokens == expected.get("reasoning_tokens", 0)
    assert usage.cost_usd == (Decimal(repr(expected["cost"])) if "cost" in expected else None)


def check_error(decoded: Decoded, expected: dict[str, Any]) -> None:
    wanted = expected.get("error")
    assert (decoded.error is None) == (wanted is None)
    if decoded.error is None or wanted is None:
        return
    assert wanted["message"] in str(decoded.error)
    assert decoded.error.retryable == expected["retryable"]
    status = next((wanted[key] for key in ("status_code", "code") if isinstance(wanted.get(key), int)), None)
    if isinstance(decoded.error, APIError):
        assert decoded.error.status == status


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *places})
    return [data[a:b] for a, b in itertools.pairwise(edges)]


@pytest.mark.parametrize(("name", "entry"), entries(ok=True))
def test_whole(name: str, entry: dict[str, Any]) -> None:
    decoded = Decoded([body_of(name)], stream=entry["stream"])
    check(decoded, entry["expected"])
    if (stream := entry["expected"].get("stream")) is not None:
        splitter = decoded.decoder.splitter
        assert splitter.comments == stream["comments"]
        assert decoded.decoder.events == stream["events"]
        assert decoded.decoder.done == stream["done"]


@pytest.mark.parametrize(("name", "entry"), entries(ok=True))
def test_any_split_gives_the_same(name: str, entry: dict[str, Any]) -> None:
    """At the nasty offsets, each alone and all at once; byte by byte; and at random places."""
    data, stream, nasty = body_of(name), entry["stream"], entry.get("nasty_split_offsets", [])
    numbers = random.Random(name)
    splits = [cut(data, nasty), [data[i : i + 1] for i in range(len(data))]]
    splits += [cut(data, [offset]) for offset in nasty]
    splits += [cut(data, [numbers.randrange(len(data) + 1) for _ in range(numbers.randrange(1, 30))]) for _ in range(10)]
    wanted = Decoded([data], stream=stream)
    for pieces in splits:
        decoded = Decoded(pieces, stream=stream)
        check(decoded, entry["expected"])
        facts, wanted_facts = decoded.facts(), wanted.facts()
        if any(call["id"] is None for call in entry["expected"]["tool_calls"]):
            del facts["ids"], wanted_facts["ids"]  # made by us
        assert facts == wanted_facts
        assert joined(decoded.deltas) == joined(wanted.deltas)


@pytest.mark.parametrize(("name", "entry"), entries(ok=True))
def test_a_reply_cut_anywhere_is_right_or_an_error(name: str, entry: dict[str, Any]) -> None:
    """Closed at some 300 places, the nasty ones among them: never an answer or calls that differ from the whole one's."""
    data = body_of(name)
    whole = Decoded([data], stream=entry["stream"])
    for end in {*range(0, len(data), max(1, len(data) // 300)), *range(max(0, len(data) - 40), len(data))}:
        decoded = Decoded([data[:end]], stream=entry["stream"])
        if decoded.reply is None:
            assert decoded.error is not None
            continue
        assert whole.decoder.ended
        if whole.reply is not None:
            assert decoded.reply.finish == whole.reply.finish
            assert decoded.reply.message.content == whole.reply.message.content
            assert [(c.name, c.arguments) for c in decoded.reply.message.tool_calls] == [
                (c.name, c.arguments) for c in whole.reply.message.tool_calls
            ]


@pytest.mark.parametrize(("name", "entry"), entries(ok=False))
def test_http_errors(name: str, entry: dict[str, Any]) -> None:
    expected = entry["expected"]
    error = api_error("p", entry["status"], entry["headers"], body_of(name), now=1_700_000_000)
    assert error.status == expected["http_status"]
    assert error.message == expected["error"].get("message", "an empty body")
    assert error.retryable == expected["retryable"]
    if "retry_after_header" in expected:
        assert error.retry_after == float(expected["retry_after_header"])
