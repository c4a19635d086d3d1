"""Each oddity of chat completions in a small reply made by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from making import USAGE, Json, body, data, expect, reply
from replies import Reply

__all__ = ["chat_bodies", "chat_streams"]

USED = {"prompt_tokens": 7, "completion_tokens": 3}


def chunk(delta: Json | None = None, finish: str | None = None, index: int | None = 0, **more: Any) -> bytes:
    choice = {"index": index, "delta": delta if delta is not None else {}, "finish_reason": finish}
    return data({"id": "g1", "model": "m", "choices": [choice], **more})


def part(index: int | None, call_id: str | None = None, name: str | None = None, arguments: Any = None, **more: Any) -> Json:
    """A piece of a call; what is None is left out."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    call = {key: value for key, value in (("index", index), ("id", call_id)) if value is not None}
    return {"tool_calls": [{**call, "function": function, **more}]}


DONE = b"data: [DONE]\n\n"
FROM_CHAT = {"model": "m", "id": "g1"}


def chat(name: str, body: bytes, outcome: str, text: str = "", *calls: tuple[str, str, str], **more: Any) -> Reply:
    return reply(name, "chat", body, expect(outcome, text, calls, **{**FROM_CHAT, **more}))


def chat_streams() -> Iterator[Reply]:
    ended = {"finish_reason": "stop"}
    called = {"finish_reason": "tool_calls"}
    yield chat(
        "comments-cost-emoji",
        b": PROCESSING\n\n: PROCESSING\n\n"
        + chunk({"content": "Sim 🌊"})
        + chunk({}, "stop", usage={**USED, "cost": 0.25})
        + DONE,
        "answer",
        "Sim 🌊",
        **ended,
        usage={**USAGE, "cost": 0.25},
    )
    crlf = b"".join(chunk({"content": text}, usage={**USED, "completion_tokens": n}) for n, text in enumerate(("é", "ö"), 2))
    yield chat(
        "crlf-usage-in-every-chunk-no-done",
        (crlf + chunk({}, "stop", message={"content": "éö"})).replace(b"\n", b"\r\n"),
        "answer",
        "éö",
        **ended,
        usage=USAGE,
    )
    yield chat("cr-alone", (chunk({"content": "a"}) + chunk({}, "stop")).replace(b"\n", b"\r"), "answer", "a", **ended)
    yield chat("byte-order-mark", b"\xef\xbb\xbf" + chunk({"content": "a"}, "stop") + DONE, "answer", "a", **ended)
    yield chat(
        "data-over-several-lines",
        chunk({"content": "a"}).replace(b', "model"', b',\ndata: "model"') + chunk({}, "stop") + DONE,
        "answer",
        "a",
        **ended,
    )
    yield chat(
        "no-choices-first-and-usage-last",
        data({"id": "", "choices": [], "prompt_filter_results": []})
        + chunk({"content": "a"}, "stop")
        + data({"choices": [], "usage": USED})
        + DONE,
        "answer",
        "a",
        **ended,
        usage=USAGE,
    )
    yield chat("last-event-without-its-empty-line", chunk({"content": "a"}) + chunk({}, "stop")[:-2], "answer", "a", **ended)
    stray = chunk({"content": "a!"}).replace(b"!", b"\\ud83d")
    yield chat("half-a-character", stray + chunk({}, "stop"), "answer", "a\ufffd", **ended)
    yield chat("unknown-reason", chunk({"content": "a"}, "eos") + DONE, "answer", "a", finish_reason="eos")
    yield chat(
        "parallel-calls-in-pieces",
        chunk({"content": "Both."})
        + chunk(part(0, "a", "f", ""))
        + chunk(part(0, arguments='{"x": "\\u00e9'))
        + chunk(part(0, arguments='"}'))
        + chunk(part(1, "b", "g", '{"y":'))
        + chunk(part(1, arguments=" [2]}"))
        + chunk({}, "tool_calls")
        + DONE,
        "tool_calls",
        "Both.",
        ("a", "f", '{"x": "\\u00e9"}'),
        ("b", "g", '{"y": [2]}'),
        **called,
    )
    yield chat(
        "blank-ids-later",
        chunk(part(0, "a", "f", '{"x":')) + chunk(part(0, "", arguments="1}")) + chunk({}, "tool_calls"),
        "tool_calls",
        "",
        ("a", "f", '{"x":1}'),
        **called,
    )
    yield chat(
        "no-index-no-type",
        chunk(
            {"tool_calls": [*part(None, "a", "f", "{}")["tool_calls"], *part(None, "b", "g", "{}")["tool_calls"]]},
            "tool_calls",
        ),
        "tool_calls",
        "",
        ("a", "f", "{}"),
        ("b", "g", "{}"),
        **called,
    )
    yield chat(
        "one-index-for-two-calls",
        chunk(part(0, "a", "f", "{}")) + chunk(part(0, "b", "g", "{}")) + chunk({}, "tool_calls"),
        "tool_calls",
        "",
        ("a", "f", "{}"),
        ("b", "g", "{}"),
        **called,
    )
    yield chat(
        "no-arguments-and-an-empty-id",
        chunk(part(0, "", "f", "")) + chunk(part(0, "", arguments="")) + chunk({}, "tool_calls"),
        "tool_calls",
        "",
        ("", "f", ""),
        **called,
    )
    yield chat(
        "usage-twice",
        chunk(part(0, "a", "f", "{}"), "tool_calls", usage=USED, x_groq={"usage": USED})
        + data({"choices": [], "usage": USED})
        + DONE,
        "tool_calls",
        "",
        ("a", "f", "{}"),
        **called,
        usage=USAGE,
    )
    signed = [{"type": "reasoning.text", "index": 0, "text": "hm, yes", "signature": "s1"}]
    yield chat(
        "signature-after-its-reasoning",
        chunk({"reasoning": "hm, ", "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "hm, "}]})
        + chunk({"reasoning": "yes", "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "yes"}]})
        + chunk({"reasoning_details": [{"type": "reasoning.text", "index": 0, "signature": "s1"}]})
        + chunk(part(0, "a", "f", "{}"), "tool_calls"),
        "tool_calls",
        "",
        ("a", "f", "{}"),
        **called,
        reasoning="hm, yes",
        reasoning_details=signed,
    )
    sealed = [{"type": "reasoning.encrypted", "index": n, "id": f"c{n}", "data": f"x{n}"} for n in (0, 1)]
    yield chat(
        "encrypted-reasoning-of-each-call",
        b"".join(chunk({**part(n, f"c{n}", "f", "{}"), "reasoning_details": [sealed[n]]}) for n in (0, 1))
        + chunk({}, "tool_calls"),
        "tool_calls",
        "",
        ("c0", "f", "{}"),
        ("c1", "f", "{}"),
        **called,
        reasoning_details=sealed,
    )
    yield chat(
        "truncated-in-a-call",
        chunk(part(0, "a", "f", '{"x": "half')) + chunk({}, "length") + DONE,
        "truncated",
        "",
        ("a", "f", '{"x": "half'),
        finish_reason="length",
    )
    yield chat(
        "filtered",
        chunk({"content": "Well"}) + chunk({}, "content_filter") + DONE,
        "filtered",
        "Well",
        finish_reason="content_filter",
    )
    yield chat(
        "refused",
        chunk({"content": None, "refusal": "I can"}) + chunk({"refusal": "not."}) + chunk({}, "stop"),
        "refused",
        refusal="I cannot.",
        **ended,
    )
    yield chat(
        "refused-after-text",
        chunk({"content": "Well, "}) + chunk({"refusal": "I cannot."}) + chunk({}, "stop"),
        "refused",
        "Well, ",
        refusal="I cannot.",
        **ended,
    )
    yield chat(
        "two-choices",
        chunk({"content": "a"}) + chunk({"content": "B"}, index=1) + chunk({}, "stop", 1) + chunk({}, "stop"),
        "answer",
        "a",
        **ended,
    )
    yield chat(
        "error-midway",
        chunk({"content": "a"}) + chunk({}, "error", error={"code": 429, "message": "slow down"}),
        "stream_error",
        "a",
        finish_reason="error",
        error={"code": 429, "message": "slow down"},
        retryable=True,
    )
    yield chat(
        "error-event",
        chunk({"content": "a"})
        + data({"error": {"message": "bad call", "code": "tool_use_failed", "status_code": 400}}, "error"),
        "stream_error",
        "a",
        error={"message": "bad call", "status_code": 400},
        retryable=False,
    )
    yield chat(
        "provider-failed-midway",
        chunk({"content": "a"}) + data({"error": {"code": 502, "message": "upstream is gone"}}),
        "stream_error",
        "a",
        error={"message": "upstream is gone"},
        retryable=True,
    )
    yield chat(
        "no-end",
        chunk({"content": "a"}) + chunk(part(0, "c", "f", "{}")),
        "incomplete",
        "a",
        ("c", "f", "{}"),
        retryable=True,
    )
    nothing = {"model": "", "id": ""}
    yield chat("field-that-sse-does-not-know", b'error: {"message": "boom"}\n\n', "incomplete", **nothing, retryable=True)
    yield chat("only-keep-alives", b": ping\n\n: ping\n\n", "incomplete", **nothing, retryable=True)
    yield chat("a-page", b"<!doctype html><title>Sign in</title>\n\n<p>Please.", "bad_response", **nothing)


def chat_bodies() -> Iterator[Reply]:
    def whole(message: Json | None, finish: str = "stop", **more: Any) -> Json:
        choice = {"index": 0, "finish_reason": finish} | ({} if message is None else {"message": message})
        return {"id": "g1", "model": "m", "choices": [choice], **more}

    def made(name: str, content: Json | bytes, outcome: str, text: str = "", *calls: Any, **more: Any) -> Reply:
        return body(f"body-{name}", "chat", content, expect(outcome, text, calls, **{**FROM_CHAT, **more}))

    ended, nothing = {"finish_reason": "stop"}, {"model": "", "id": ""}
    spaced = (
        b"\n   \n"
        + json.dumps(whole({"content": "a"}, usage={**USED, "prompt_tokens_details": {"cached_tokens": 5}})).encode()
    )
    yield made("leading-space-cached", spaced, "answer", "a", **ended, usage={**USAGE, "cached_input_tokens": 5})
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "a"}]
    yield made("content-in-a-list", whole({"content": parts}), "answer", "a", **ended, reasoning="hm")
    calls = [{"id": "a", "function": {"name": "f"}}, {"id": "b", "function": {"name": "g", "arguments": "{}"}}]
    yield made(
        "no-arguments",
        whole({"content": None, "tool_calls": calls}, "tool_calls"),
        "tool_calls",
        "",
        ("a", "f", ""),
        ("b", "g", ""),
        finish_reason="tool_calls",
    )
    yield made("filtered-without-message", whole(None, "content_filter"), "filtered", finish_reason="content_filter")
    yield made("refused", whole({"content": None, "refusal": "No."}), "refused", refusal="No.", **ended)
    error = {"message": "no provider", "code": 503}
    yield made("error-in-a-200", {"error": error}, "error_in_200", **nothing, error=error, retryable=True)
    yield made(
        "error-and-null-fields",
        {"choices": None, "usage": None, "error": {"message": "no", "code": 402}},
        "error_in_200",
        **nothing,
        error={"message": "no", "code": 402},
        retryable=False,
    )
    yield made("nothing", b"", "bad_response", **nothing)
    yield made("cut-off", b'{"id": "g1", "choices": [{"ind', "incomplete", **nothing)
    yield made("a-page", b"<html><head><title>502</title>", "bad_response", **nothing)
