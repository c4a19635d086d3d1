"""Each oddity of Anthropic's Messages in a small reply made by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from making import USAGE, Json, body, data, expect, reply
from replies import Reply

__all__ = ["messages_bodies", "messages_streams"]


def start(usage: Json | None = None, **more: Any) -> bytes:
    used = usage or {"input_tokens": 7, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": used, **more}
    return event("message_start", message=message)


def event(kind: str, **fields: Any) -> bytes:
    return data({"type": kind, **fields}, kind)


def block(index: int, **fields: Any) -> bytes:
    return event("content_block_start", index=index, content_block=fields)


def piece(index: int, kind: str, **fields: Any) -> bytes:
    return event("content_block_delta", index=index, delta={"type": kind, **fields})


def text(index: int, *pieces: str) -> bytes:
    return b"".join(
        (block(index, type="text", text=""), *(piece(index, "text_delta", text=each) for each in pieces), shut(index))
    )


def thinking(index: int, *pieces: str, signature: str) -> bytes:
    begin = block(index, type="thinking", thinking="", signature="")
    said = b"".join(piece(index, "thinking_delta", thinking=each) for each in pieces)
    return begin + said + piece(index, "signature_delta", signature=signature) + shut(index)


def use(index: int, call_id: str, name: str, *pieces: str) -> bytes:
    begin = block(index, type="tool_use", id=call_id, name=name, input={})
    return begin + b"".join(piece(index, "input_json_delta", partial_json=each) for each in pieces) + shut(index)


def shut(index: int) -> bytes:
    return event("content_block_stop", index=index)


def end(reason: str, usage: Json | None = None, **delta: Any) -> bytes:
    used = usage or {"output_tokens": 3}
    return event("message_delta", delta={"stop_reason": reason, **delta}, usage=used) + STOP


STOP = event("message_stop")
PING = event("ping")
FROM_MESSAGES = {"model": "m", "id": "msg_1"}


def messages(name: str, content: bytes, outcome: str, said: str = "", *calls: tuple[str, str, str], **more: Any) -> Reply:
    return reply(
        f"messages-{name}", "anthropic", content, expect(outcome, said, calls, **{**FROM_MESSAGES, "usage": USAGE, **more})
    )


def messages_streams() -> Iterator[Reply]:
    ended, called = {"stop_reason": "end_turn"}, {"stop_reason": "tool_use"}
    yield messages(
        "text-pings", start() + PING + text(0, "Olá ", "🌊") + PING + end("end_turn"), "answer", "Olá 🌊", **ended
    )
    yield messages("crlf", (start() + text(0, "a") + end("end_turn")).replace(b"\n", b"\r\n"), "answer", "a", **ended)
    stray = text(0, "a!").replace(b"!", b"\\ud83d")
    yield messages("half-a-character", start() + stray + end("end_turn"), "answer", "a\ufffd", **ended)
    yield messages("no-event-lines", without_event_lines(start() + text(0, "a") + end("end_turn")), "answer", "a", **ended)
    yield messages(
        "parallel-calls",
        start()
        + text(0, "Both.")
        + use(1, "t1", "f", "", '{"x": "', 'é"}')
        + use(2, "t2", "g", '{"y":', "[2]}")
        + end("tool_use"),
        "tool_calls",
        "Both.",
        ("t1", "f", '{"x": "é"}'),
        ("t2", "g", '{"y":[2]}'),
        **called,
        block_types=["text", "tool_use", "tool_use"],
    )
    yield messages(
        "call-without-arguments",
        start() + use(0, "t1", "f", "") + end("tool_use"),
        "tool_calls",
        "",
        ("t1", "f", ""),
        **called,
    )
    yield messages(
        "input-whole-in-the-start",
        start() + block(0, type="tool_use", id="t1", name="f", input={"x": 1}) + shut(0) + end("tool_use"),
        "tool_calls",
        "",
        ("t1", "f", '{"x":1}'),
        **called,
    )
    yield messages(
        "one-index-for-two-calls",
        start() + use(0, "t1", "f", '{"x":1}') + use(0, "t2", "f", '{"x":2}') + end("tool_use"),
        "tool_calls",
        "",
        ("t1", "f", '{"x":1}'),
        ("t2", "f", '{"x":2}'),
        **called,
    )
    yield messages(
        "thinking-signature-call",
        start()
        + thinking(0, "hm, ", "", "yes", signature="s1")
        + use(1, "t1", "f", "{}")
        + end("tool_use", {"output_tokens": 3, "output_tokens_details": {"thinking_tokens": 2}}),
        "tool_calls",
        "",
        ("t1", "f", "{}"),
        **called,
        reasoning="hm, yes",
        signatures=["s1"],
        usage={**USAGE, "reasoning_tokens": 2},
        block_types=["thinking", "tool_use"],
    )
    yield messages(
        "thinking-between-calls",
        start()
        + thinking(0, "a", signature="s1")
        + use(1, "t1", "f", "{}")
        + thinking(2, signature="s2")
        + use(3, "t2", "f", "{}")
        + end("tool_use"),
        "tool_calls",
        "",
        ("t1", "f", "{}"),
        ("t2", "f", "{}"),
        **called,
        reasoning="a",
        signatures=["s1", "s2"],
        block_types=["thinking", "tool_use", "thinking", "tool_use"],
    )
    yield messages(
        "redacted-thinking",
        start() + block(0, type="redacted_thinking", data="x1") + PING + shut(0) + text(1, "a") + end("end_turn"),
        "answer",
        "a",
        **ended,
        redacted_thinking=["x1"],
        block_types=["redacted_thinking", "text"],
    )
    yield messages(
        "the-apis-own-tools",
        start()
        + block(0, type="server_tool_use", id="srv1", name="web_search", input={})
        + piece(0, "input_json_delta", partial_json='{"query": "r')
        + piece(0, "input_json_delta", partial_json='uby"}')
        + shut(0)
        + block(1, type="web_search_tool_result", tool_use_id="srv1", content=[{"type": "web_search_result", "url": "u"}])
        + shut(1)
        + text(2, "It is ")
        + block(3, type="text", text="", citations=[])
        + piece(3, "citations_delta", citation={"type": "web_search_result_location", "url": "u"})
        + piece(3, "text_delta", text="4.")
        + shut(3)
        + end("end_turn", {"input_tokens": 70, "output_tokens": 3}),
        "answer",
        "It is 4.",
        **ended,
        citations=1,
        usage={"input_tokens": 70, "output_tokens": 3},
        block_types=["server_tool_use", "web_search_tool_result", "text", "text"],
    )
    yield messages(
        "kinds-that-are-new",
        start()
        + event("weather", sky="blue")
        + block(0, type="dream")
        + piece(0, "dream_delta", dream="x")
        + shut(0)
        + text(1, "a")
        + end("end_turn"),
        "answer",
        "a",
        **ended,
        block_types=["text"],
    )
    cached = {"input_tokens": 7, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 300, "output_tokens": 1}
    yield messages(
        "cached",
        start(cached) + text(0, "a") + end("end_turn"),
        "answer",
        "a",
        **ended,
        usage={"input_tokens": 327, "output_tokens": 3, "cached_input_tokens": 300, "cache_write_tokens": 20},
    )
    yield messages("truncated", start() + text(0, "a") + end("max_tokens"), "truncated", "a", stop_reason="max_tokens")
    yield messages(
        "truncated-in-a-call",
        start()
        + block(0, type="tool_use", id="t1", name="f", input={})
        + piece(0, "input_json_delta", partial_json='{"x": "half')
        + end("max_tokens"),
        "truncated",
        "",
        ("t1", "f", '{"x": "half'),
        stop_reason="max_tokens",
    )
    yield messages(
        "window-full",
        start() + text(0, "a") + end("model_context_window_exceeded"),
        "truncated",
        "a",
        stop_reason="model_context_window_exceeded",
    )
    yield messages(
        "stop-sequence",
        start() + text(0, "a") + end("stop_sequence", stop_sequence="```"),
        "answer",
        "a",
        stop_reason="stop_sequence",
    )
    yield messages(
        "refused",
        start()
        + text(0, "We")
        + end("refusal", stop_details={"type": "refusal", "category": "cyber", "explanation": "Not that."}),
        "refused",
        "We",
        stop_reason="refusal",
        refusal="Not that.",
    )
    yield messages("paused", start() + text(0, "a") + end("pause_turn"), "incomplete", "a", stop_reason="pause_turn")
    cut = {"input_tokens": 7, "output_tokens": 1}
    overloaded = {"type": "overloaded_error", "message": "Overloaded"}
    yield messages(
        "overloaded-midway",
        start() + text(0, "a") + event("error", error=overloaded),
        "stream_error",
        "a",
        usage=cut,
        error=overloaded,
        retryable=True,
    )
    limited = {"type": "rate_limit_error", "message": "slow down"}
    yield messages(
        "limited-midway", start() + event("error", error=limited), "stream_error", usage=cut, error=limited, retryable=True
    )
    blocked = {"type": "invalid_request_error", "message": "Output blocked by content filtering policy"}
    yield messages(
        "filtered-midway",
        start() + text(0, "a") + event("error", error=blocked),
        "stream_error",
        "a",
        usage=cut,
        error=blocked,
        retryable=None,
    )
    yield messages(
        "no-end",
        start() + text(0, "a") + use(1, "t1", "f", "{}"),
        "incomplete",
        "a",
        ("t1", "f", "{}"),
        usage=cut,
        retryable=True,
    )
    yield messages("no-message-stop", (start() + text(0, "a") + end("end_turn")).removesuffix(STOP), "answer", "a", **ended)
    nothing: Json = {"model": "", "id": "", "usage": None}
    yield messages("only-pings", PING + PING, "incomplete", **nothing, retryable=True)
    yield messages(
        "field-that-sse-does-not-know", b'error: {"type": "overloaded_error"}\n\n', "incomplete", **nothing, retryable=True
    )
    yield messages("a-page", b"<html><title>Bad gateway</title>", "bad_response", **nothing)


def without_event_lines(stream: bytes) -> bytes:
    return b"".join(line for line in stream.splitlines(keepends=True) if not line.startswith(b"event:"))


def messages_bodies() -> Iterator[Reply]:
    def whole(*content: Json, reason: str = "end_turn") -> Json:
        used = {"input_tokens": 7, "output_tokens": 3}
        return {
            "id": "msg_1",
            "type": "message",
            "model": "m",
            "content": list(content),
            "stop_reason": reason,
            "usage": used,
        }

    def made(name: str, content: Json | bytes, outcome: str, said: str = "", *calls: Any, **more: Any) -> Reply:
        expected = expect(outcome, said, calls, **{**FROM_MESSAGES, "usage": USAGE, **more})
        return body(f"messages-body-{name}", "anthropic", content, expected)

    thought = {"type": "thinking", "thinking": "hm", "signature": "s1"}
    calls = [{"type": "tool_use", "id": f"t{n}", "name": "f", "input": {"n": n} if n else {}} for n in (0, 1)]
    yield made("empty", whole(), "answer", stop_reason="end_turn", block_types=[])
    yield made(
        "thinking-and-calls",
        whole(thought, {"type": "text", "text": "a"}, *calls, reason="tool_use"),
        "tool_calls",
        "a",
        ("t0", "f", ""),
        ("t1", "f", '{"n":1}'),
        reasoning="hm",
        signatures=["s1"],
        stop_reason="tool_use",
        block_types=["thinking", "text", "tool_use", "tool_use"],
    )
    nothing: Json = {"model": "", "id": "", "usage": None}
    error = {"type": "overloaded_error", "message": "Overloaded"}
    yield made("error-in-a-200", {"type": "error", "error": error}, "error_in_200", **nothing, error=error, retryable=True)
    yield made("not-a-message", {"type": "other"}, "bad_response", **nothing)
    yield made("cut-off", b'{"type": "message", "content": [', "incomplete", **nothing)
    yield made("a-page", b"<html><title>Bad gateway</title>", "bad_response", **nothing)
    yield made("nothing", b"", "bad_response", **nothing)
