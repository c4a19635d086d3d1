"""Judges what the decoders make of a reply, for one way of cutting its bytes."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from replies import Reply

from heaveto.errors import (
    AgentError,
    APIError,
    BadReply,
    BadToolCall,
    IncompleteStream,
    OutputFiltered,
    ProviderFailed,
)
from heaveto.messages import AssistantMessage, CallDelta, Delta, ReasoningDelta, TextDelta
from heaveto.models.anthropic_messages import MessagesDecoder
from heaveto.models.chat import ChatDecoder
from heaveto.models.error_bodies import api_error
from heaveto.models.gemini_content import GeminiDecoder
from heaveto.models.responses import ResponsesDecoder

__all__ = ["DECODERS", "Decoded", "WrongConclusion", "cut", "judge", "judge_refusal", "splits"]

DECODERS: dict[str, Any] = {
    "chat": ChatDecoder,
    "anthropic": MessagesDecoder,
    "responses": ResponsesDecoder,
    "gemini": GeminiDecoder,
}
OUTCOMES = {"answer": "answer", "empty": "answer", "tool_calls": "tool_calls", "truncated": "truncated"}
OUTCOMES |= {"filtered": "filtered", "refused": "refused", "incomplete": "incomplete"}
NOW = 1_700_000_000.0  # seconds since 1970, before any date in a reply

# Where we hold an expectation of the recordings to be wrong: why, and what we expect instead.
OURS: dict[str, tuple[str, dict[str, Any]]] = {
    "anth-sse-thinking-tool": (
        "its last usage reports 53 thinking tokens, which the index leaves out",
        {"usage": {"input_tokens": 598, "output_tokens": 92, "reasoning_tokens": 53}},
    ),
}


class WrongConclusion(AssertionError):
    """A decoder came to something else than was expected."""

    def __init__(self, name: str, what: str, got: object, wanted: object) -> None:
        super().__init__(f"{name}: {what}: got {got!r}, wanted {wanted!r}")


class Decoded:
    """What came out of the decoder for one way of cutting the bytes."""

    def __init__(self, reply: Reply, pieces: list[bytes]) -> None:
        self.decoder = DECODERS[reply.dialect](stream=reply.stream, provider="p")
        deltas = [delta for piece in pieces for delta in self.decoder.feed(piece)]
        self.deltas = deltas + self.decoder.close()
        self.so_far = self.decoder.so_far()
        self.reply, self.error = None, None
        try:
            self.reply = self.decoder.finish()
        except AgentError as error:
            self.error = error

    @property
    def outcome(self) -> str:
        if self.reply is not None:
            return OUTCOMES[self.reply.finish]
        if isinstance(self.error, IncompleteStream):
            return "incomplete"
        if isinstance(self.error, (APIError, ProviderFailed, OutputFiltered, BadToolCall)):
            return "stream_error" if self.decoder.events else "error_in_200"
        return "bad_response"

    def facts(self) -> dict[str, Any]:
        """In the recordings' own words."""
        message, usage = self.so_far.message, self.decoder.usage
        blocks = message.extras.get("blocks", [])
        return {
            "outcome": self.outcome,
            "text": message.content,
            "reasoning": message.reasoning,
            "refusal": self.so_far.refusal,
            "model": self.so_far.model,
            "id": self.so_far.id,
            "reasoning_details": message.extras.get("reasoning_details", []),
            "finish_reason": getattr(self.decoder, "finish_reason", ""),
            "native_finish_reason": getattr(self.decoder, "native_finish_reason", ""),
            "stop_reason": getattr(self.decoder, "stop_reason", ""),
            "signatures": signatures(message),
            "redacted_thinking": [block["data"] for block in blocks if block["type"] == "redacted_thinking"],
            "citations": sum(len(block.get("citations") or ()) for block in blocks),
            "calls": [(call.id, call.name, call.arguments) for call in message.tool_calls],
            "usage": usage and {name: value for name, value in usage_facts(usage).items() if value},
            "error": self.error and (type(self.error), str(self.error), self.error.retryable),
            "deltas": joined(self.deltas),
        }


def signatures(message: AssistantMessage) -> list[str]:
    """What signs or seals the reasoning that goes back, in each API's own place."""
    extras = message.extras
    thinking = [block["signature"] for block in extras.get("blocks", ()) if block["type"] == "thinking"]
    sealed = [item["encrypted_content"] for item in extras.get("items", ()) if "encrypted_content" in item]
    return thinking + sealed + [part["thoughtSignature"] for part in extras.get("parts", ()) if "thoughtSignature" in part]


SAME_WORDS = ("text", "reasoning", "refusal", "model", "id", "finish_reason", "native_finish_reason", "stop_reason")


def judge(reply: Reply, pieces: list[bytes]) -> Decoded:
    """Decode and compare with what is expected.

    Raises:
        WrongConclusion: With the first difference.
    """
    decoded = Decoded(reply, pieces)
    _, ours = OURS.get(reply.name, ("", {}))
    expected = {**reply.expected, **ours}
    facts = decoded.facts()

    def same(what: str, got: object, wanted: object) -> None:
        if got != wanted:
            raise WrongConclusion(reply.name, what, got, wanted)

    same("outcome", facts["outcome"], expected["outcome"])
    for what in SAME_WORDS:
        same(what, facts[what], expected.get(what) or "")
    for what in ("reasoning_details", "signatures", "redacted_thinking"):
        same(what, facts[what], expected.get(what) or [])
    same("citations", facts["citations"], expected.get("citations", 0))
    same("usage", facts["usage"], expected_usage(expected.get("usage")))
    calls = [call[1:] for call in facts["calls"]]
    same("deltas", facts["deltas"], (facts["text"], facts["reasoning"], calls))
    for what, got, wanted in itertools.chain(
        compare_calls(decoded, expected.get("tool_calls", [])),
        compare_blocks(decoded, expected),
        compare_errors(decoded, expected),
        compare_stream(decoded, expected.get("stream")),
    ):
        same(what, got, wanted)
    return decoded


Comparisons = Iterator[tuple[str, object, object]]


def compare_calls(decoded: Decoded, expected: list[dict[str, Any]]) -> Comparisons:
    calls = decoded.so_far.message.tool_calls
    yield "number of calls", len({call.id for call in calls}), len(expected)
    for call, wanted in zip(calls, expected, strict=True):
        yield "id", call.id, wanted["id"] or call.id or "an id"
        yield "name", call.name, wanted["name"]
        yield "arguments", parsed(call.arguments), wanted["arguments"]
        yield "arguments_raw", call.arguments, call.arguments if (raw := wanted["arguments_raw"]) is None else raw or "{}"
        yield "arguments_valid_json", parsed(call.arguments) is not None, wanted["arguments_valid_json"]
    if decoded.reply is not None:
        may_run = len(expected) if decoded.reply.finish == "tool_calls" else 0
        yield "calls that may be run", len(decoded.reply.message.tool_calls), may_run


def compare_blocks(decoded: Decoded, expected: dict[str, Any]) -> Comparisons:
    """What goes back to the API has the kinds and the order in which it came."""
    if "block_types" in expected:
        message = decoded.so_far.message
        plain = ["text"] * bool(message.content) + ["tool_use"] * len(message.tool_calls)
        yield "block_types", kinds(message.extras) or plain, expected["block_types"]


def kinds(extras: dict[str, Any]) -> list[str]:
    """The kinds of what goes back: types, or the names of the fields where an API has no types."""
    typed = [each["type"] for each in extras.get("blocks") or extras.get("items") or ()]
    return typed or ["+".join(sorted(part)) for part in extras.get("parts", ())]


def compare_errors(decoded: Decoded, expected: dict[str, Any]) -> Comparisons:
    error, wanted = decoded.error, expected.get("error")
    if decoded.reply is not None and decoded.reply.finish == "incomplete":  # the API paused it, and said so
        return
    if expected["outcome"] in ("incomplete", "bad_response"):  # the words are ours
        wanted = wanted or {"message": ""}
        expected = {"retryable": error.retryable if error else None, **expected}
    yield "an error", error is not None, wanted is not None
    if error is None or wanted is None:
        return
    yield "message", wanted["message"] in str(error) or str(error), True
    yield "retryable", error.retryable, expected["retryable"]
    yield "an agent's error", isinstance(error, (APIError, BadReply)), True
    status = next((wanted[key] for key in ("status_code", "code") if isinstance(wanted.get(key), int)), None)
    if isinstance(error, APIError) and status is not None:
        yield "status", error.status, status


def compare_stream(decoded: Decoded, expected: dict[str, Any] | None) -> Comparisons:
    if expected is not None:
        yield "comments", decoded.decoder.splitter.comments, expected["comments"]
        yield "unknown fields", decoded.decoder.splitter.unknown_fields, len(expected["unknown_fields"])
        pending = expected["pending_at_eof"]  # a last event without its empty line, which counts when it is whole
        yield "events", decoded.decoder.events, expected["events"] + pending
        yield "done", decoded.decoder.done, expected.get("done", expected.get("message_stop")) or pending


def usage_facts(usage: Any) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_input_tokens": usage.cached_input_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "cost": usage.cost_usd,
    }


def expected_usage(usage: dict[str, Any] | None) -> dict[str, Any] | None:
    """Ours has the cached tokens within the input, where Anthropic's leaves them out; the recordings have none cached."""
    if usage is None:
        return None
    known = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_tokens", "reasoning_tokens")
    cost = {"cost": Decimal(repr(usage["cost"]))} if usage.get("cost") else {}
    return {name: usage[name] for name in known if usage.get(name)} | cost


def judge_refusal(reply: Reply) -> None:
    """Compare an answer that is not a 2xx.

    Raises:
        WrongConclusion: With the first difference.
    """
    expected = reply.expected
    error = api_error("p", reply.status, reply.headers, reply.body, NOW)
    wait = expected.get("retry_after_header")
    for what, got, wanted in (
        ("status", error.status, expected["http_status"]),
        ("message", error.message, expected["error"].get("message", "an empty body")),
        ("retryable", error.retryable, expected["retryable"]),
        ("wait", error.retry_after if wait else None, float(wait) if wait else None),
    ):
        if got != wanted:
            raise WrongConclusion(reply.name, what, got, wanted)


def joined(deltas: list[Delta]) -> tuple[str, str, list[tuple[str, str]]]:
    """Text, reasoning and calls as whoever only saw the deltas would put them together."""
    calls: dict[int, tuple[str, str]] = {}
    for delta in deltas:
        if isinstance(delta, CallDelta):
            name, arguments = calls.get(delta.index, ("", ""))
            calls[delta.index] = (name + delta.name, arguments + delta.arguments)
    text = "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))
    reasoning = "".join(delta.text for delta in deltas if isinstance(delta, ReasoningDelta))
    return text, reasoning, [(name, arguments or "{}") for name, arguments in calls.values()]


def parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return None


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """The bytes in pieces."""
    edges = sorted({0, len(data), *places})
    return [data[a:b] for a, b in itertools.pairwise(edges)]


def splits(reply: Reply, random_ones: int) -> Iterator[list[bytes]]:
    """Whole; byte by byte; at the nasty offsets, each alone and all at once; and at random places, the same each time."""
    data, numbers = reply.body, random.Random(reply.name)
    yield [data]
    yield [data[i : i + 1] for i in range(len(data))]
    yield cut(data, list(reply.nasty))
    for offset in reply.nasty:
        yield cut(data, [offset])
    for _ in range(random_ones):
        yield cut(data, [numbers.randrange(len(data) + 1) for _ in range(numbers.randrange(1, 30))])
