"""Each oddity of Gemini's generateContent in a small reply made by hand, after the types of the official SDK."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from making import USAGE, Json, body, data, expect, reply
from replies import Reply

__all__ = ["gemini_bodies", "gemini_refusals", "gemini_streams"]

USED = {"promptTokenCount": 7, "candidatesTokenCount": 3, "totalTokenCount": 10}
SO_FAR = {"promptTokenCount": 7, "candidatesTokenCount": 1, "totalTokenCount": 8}


def whole(*parts: Json, finish: str | None = None, usage: Json | None = None, **more: Any) -> Json:
    candidate: Json = {"index": 0}
    if parts:
        candidate["content"] = {"role": "model", "parts": list(parts)}
    if finish is not None:
        candidate["finishReason"] = finish
    used = usage or (USED if finish else SO_FAR)
    return {"candidates": [candidate], "usageMetadata": used, "modelVersion": "m", "responseId": "r1", **more}


def chunk(*parts: Json, finish: str | None = None, **more: Any) -> bytes:
    return data(whole(*parts, finish=finish, **more))


def said(text: str, **more: Any) -> Json:
    return {"text": text, **more}


def function_call(name: str, args: Json | None = None, call_id: str | None = None, **more: Any) -> Json:
    fields = {"id": call_id, "name": name, "args": args}
    return {"functionCall": {key: value for key, value in fields.items() if value is not None}, **more}


FROM_GEMINI = {"model": "m", "id": "r1", "stop_reason": "STOP", "usage": USAGE}
CUT = {"usage": {"input_tokens": 7, "output_tokens": 1}, "stop_reason": ""}
NOTHING: Json = {"model": "", "id": "", "usage": None, "stop_reason": ""}


def gemini(name: str, content: bytes, outcome: str, text: str = "", *calls: tuple[str, str, str], **more: Any) -> Reply:
    return reply(f"gemini-{name}", "gemini", content, expect(outcome, text, calls, **{**FROM_GEMINI, **more}))


def gemini_streams() -> Iterator[Reply]:
    yield gemini("text", chunk(said("Olá ")) + chunk(said("🌊"), finish="STOP"), "answer", "Olá 🌊", block_types=["text"])
    crlf = (chunk(said("a")) + chunk(said("b"), finish="STOP")).replace(b"\n", b"\r\n")
    yield gemini("crlf", crlf, "answer", "ab")
    yield gemini("last-event-without-its-empty-line", (chunk(said("a")) + chunk(finish="STOP"))[:-2], "answer", "a")
    stray = chunk(said("a!")).replace(b"!", b"\\ud83d")
    yield gemini("half-a-character", stray + chunk(finish="STOP"), "answer", "a\ufffd")
    yield gemini("no-content-at-the-end", chunk(said("a")) + chunk(finish="STOP"), "answer", "a")
    yield gemini(
        "no-parts",
        chunk(said("a")) + data({"candidates": [{"content": {"role": "model"}, "finishReason": "STOP"}]}),
        "answer",
        "a",
        usage=CUT["usage"],
    )
    yield gemini(
        "parallel-calls-without-ids",
        chunk(said("Both.")) + chunk(function_call("f", {"x": "é"}), function_call("f", {"x": "é"})) + chunk(finish="STOP"),
        "tool_calls",
        "Both.",
        ("", "f", '{"x":"é"}'),
        ("", "f", '{"x":"é"}'),
        block_types=["text", "tool_use", "tool_use"],
    )
    yield gemini("call-with-an-id", chunk(function_call("f", {}, "c1"), finish="STOP"), "tool_calls", "", ("c1", "f", "{}"))
    yield gemini("call-without-arguments", chunk(function_call("f"), finish="STOP"), "tool_calls", "", ("", "f", ""))
    yield gemini(
        "signed-call-and-thoughts",
        chunk(said("hm, ", thought=True))
        + chunk(said("yes", thought=True))
        + chunk(function_call("f", {"x": 1}, "c1", thoughtSignature="s1"), function_call("g", {}, "c2"))
        + chunk(finish="STOP", usage={**USED, "thoughtsTokenCount": 2, "cachedContentTokenCount": 5}),
        "tool_calls",
        "",
        ("c1", "f", '{"x":1}'),
        ("c2", "g", "{}"),
        reasoning="hm, yes",
        signatures=["s1"],
        usage={"input_tokens": 7, "output_tokens": 5, "cached_input_tokens": 5, "reasoning_tokens": 2},
        block_types=["text+thought", "functionCall+thoughtSignature", "functionCall"],
    )
    yield gemini(
        "signature-in-an-empty-text",
        chunk(said("a")) + chunk(said("b")) + chunk(said("", thoughtSignature="s1"), finish="STOP"),
        "answer",
        "ab",
        signatures=["s1"],
        block_types=["text", "text+thoughtSignature"],
    )
    yield gemini(
        "the-apis-own-tools",
        chunk({"executableCode": {"language": "PYTHON", "code": "2+2"}})
        + chunk({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "4"}})
        + chunk(said("4."), finish="STOP", usage={**USED, "toolUsePromptTokenCount": 20}),
        "answer",
        "4.",
        usage={"input_tokens": 27, "output_tokens": 3},
        block_types=["executableCode", "codeExecutionResult", "text"],
    )
    two = {"candidates": [{"index": 1, "content": {"parts": [said("B")]}, "finishReason": "STOP"}]}
    yield gemini("two-candidates", chunk(said("a")) + data(two) + chunk(finish="STOP"), "answer", "a")
    yield gemini("nothing-said", chunk(said("")) + chunk(finish="STOP"), "answer", "")
    yield gemini("truncated", chunk(said("a")) + chunk(finish="MAX_TOKENS"), "truncated", "a", stop_reason="MAX_TOKENS")
    yield gemini(
        "truncated-behind-a-call",
        chunk(function_call("f", {}, "c1")) + chunk(finish="MAX_TOKENS"),
        "truncated",
        "",
        ("c1", "f", "{}"),
        stop_reason="MAX_TOKENS",
    )
    for reason in ("SAFETY", "RECITATION", "PROHIBITED_CONTENT"):
        yield gemini(
            f"filtered-{reason.lower()}", chunk(said("Well")) + chunk(finish=reason), "filtered", "Well", stop_reason=reason
        )
    yield gemini(
        "prompt-blocked",
        data({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": USED, "modelVersion": "m", "responseId": "r1"}),
        "filtered",
        stop_reason="SAFETY",
    )
    yield gemini(
        "a-reason-that-is-new",
        chunk(function_call("f", {}, "c1")) + chunk(finish="TIDE"),
        "incomplete",
        "",
        ("c1", "f", "{}"),
        stop_reason="TIDE",
    )
    bad = {"index": 0, "finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "Malformed function call: f(x="}
    yield gemini(
        "malformed-call",
        chunk(said("a")) + data({"candidates": [bad], "usageMetadata": USED}),
        "stream_error",
        "a",
        stop_reason="MALFORMED_FUNCTION_CALL",
        refusal=bad["finishMessage"],
        error={"message": "Malformed function call: f(x="},
        retryable=None,
    )
    yield gemini(
        "failed-for-another-reason",
        chunk(said("a")) + chunk(finish="OTHER"),
        "stream_error",
        "a",
        stop_reason="OTHER",
        error={"message": "OTHER"},
        retryable=True,
    )
    yield gemini(
        "unsigned",
        chunk(finish="MISSING_THOUGHT_SIGNATURE"),
        "stream_error",
        stop_reason="MISSING_THOUGHT_SIGNATURE",
        error={"message": "MISSING_THOUGHT_SIGNATURE", "code": 400},
        retryable=False,
    )
    full = {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}
    yield gemini(
        "overloaded-midway",
        chunk(said("a")) + data({"error": full}),
        "stream_error",
        "a",
        **CUT,
        error={"message": "overloaded"},
        retryable=True,
    )
    limited = {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}
    yield gemini(
        "limited-midway",
        chunk(said("a")) + data({"error": limited}),
        "stream_error",
        "a",
        **CUT,
        error=limited,
        retryable=True,
    )
    yield gemini(
        "no-end",
        chunk(said("a")) + chunk(function_call("f", {}, "c1")),
        "incomplete",
        "a",
        ("c1", "f", "{}"),
        **CUT,
        retryable=True,
    )
    yield gemini("only-keep-alives", b": ping\n\n: ping\n\n", "incomplete", **NOTHING, retryable=True)
    yield gemini("a-page", b"<html><title>Bad gateway</title>", "bad_response", **NOTHING)


def gemini_bodies() -> Iterator[Reply]:
    def made(name: str, content: Json | bytes, outcome: str, text: str = "", *calls: Any, **more: Any) -> Reply:
        return body(f"gemini-body-{name}", "gemini", content, expect(outcome, text, calls, **{**FROM_GEMINI, **more}))

    yield made("text", whole(said("a"), said("b"), finish="STOP"), "answer", "ab")
    yield made(
        "signed-calls",
        whole(
            function_call("f", {}, "c1", thoughtSignature="s1"),
            function_call("f", {"n": 1}, "c1"),
            said("and so", thoughtSignature="s2"),
            finish="STOP",
        ),
        "tool_calls",
        "and so",
        ("c1", "f", "{}"),
        ("", "f", '{"n":1}'),
        signatures=["s1", "s2"],
        block_types=["functionCall+thoughtSignature", "functionCall", "text+thoughtSignature"],
    )
    yield made("without-a-reason", whole(said("a")), "answer", "a", stop_reason="", usage=CUT["usage"])
    yield made("truncated", whole(said("a"), finish="MAX_TOKENS"), "truncated", "a", stop_reason="MAX_TOKENS")
    blocked = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "modelVersion": "m"}
    yield made("prompt-blocked", blocked, "filtered", stop_reason="PROHIBITED_CONTENT", id="", usage=None)
    yield made(
        "no-candidates", {"usageMetadata": USED, "modelVersion": "m", "responseId": "r1"}, "bad_response", stop_reason=""
    )
    error = {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}
    yield made("error-in-a-200", {"error": error}, "error_in_200", **NOTHING, error=error, retryable=True)
    yield made("not-a-reply", {"kind": "other"}, "bad_response", **NOTHING)
    yield made("cut-off", b'{"candidates": [{"ind', "incomplete", **NOTHING)
    yield made("a-page", b"<html><title>Bad gateway</title>", "bad_response", **NOTHING)
    yield made("nothing", b"", "bad_response", **NOTHING)


def gemini_refusals() -> Iterator[Reply]:
    def made(name: str, status: int, content: Any, **expected: Any) -> Reply:
        conclusion = {"outcome": "http_error", "http_status": status, **expected}
        raw = json.dumps(content).encode()
        return Reply(
            name=f"made-gemini-{name}", dialect="gemini", stream=False, body=raw, expected=conclusion, status=status
        )

    key = {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT"}
    yield made("400-key", 400, {"error": key}, retryable=False, error={"message": "API key not valid."})
    delay = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
    quota = {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED", "details": [{"@type": "other"}, delay]}
    for name, content in (("429-wait-in-the-details", {"error": quota}), ("429-in-a-list", [{"error": quota}])):
        yield made(name, 429, content, retryable=True, error={"message": "quota"}, retry_after_header="34.5")
