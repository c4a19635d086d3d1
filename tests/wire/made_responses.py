"""Each oddity of OpenAI's Responses in a small reply made by hand, after the types of the official SDK."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from making import USAGE, Json, body, data, expect, reply
from replies import Reply

__all__ = ["responses_bodies", "responses_streams"]

USED = {
    "input_tokens": 7,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 3,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 10,
}


def event(kind: str, **fields: Any) -> bytes:
    return data({"type": kind, "sequence_number": 0, **fields}, kind)


def response(status: str, *output: Json, **more: Any) -> Json:
    usage = USED if status in ("completed", "incomplete") else None
    head = {"id": "resp_1", "object": "response", "model": "m", "status": status, "error": None}
    return {**head, "incomplete_details": None, "output": list(output), "usage": usage, **more}


START = event("response.created", response=response("in_progress")) + event(
    "response.in_progress", response=response("in_progress")
)


def end(status: str = "completed", *output: Json, **more: Any) -> bytes:
    return event(f"response.{status}", response=response(status, *output, **more))


def message(*parts: Json, **more: Any) -> Json:
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": list(parts), **more}


def said(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": []}


def begun(index: int, item: Json) -> bytes:
    return event("response.output_item.added", output_index=index, item=item)


def whole(index: int, item: Json) -> bytes:
    return event("response.output_item.done", output_index=index, item=item)


def text(index: int, *pieces: str, item_id: str = "msg_1", **more: Any) -> bytes:
    place = {"item_id": item_id, "output_index": index, "content_index": 0}
    joined = "".join(pieces)
    return b"".join(
        (
            begun(index, {**message(), "id": item_id, "status": "in_progress"}),
            event("response.content_part.added", **place, part=said("")),
            *(event("response.output_text.delta", **place, delta=piece, logprobs=[]) for piece in pieces),
            event("response.output_text.done", **place, text=joined),
            event("response.content_part.done", **place, part=said(joined)),
            whole(index, {**message(said(joined)), "id": item_id, **more}),
        )
    )


def function_call(call_id: str, name: str, arguments: str, item_id: str = "fc_1", status: str = "completed") -> Json:
    known = {"call_id": call_id, "name": name, "arguments": arguments, "status": status}
    return {"type": "function_call", "id": item_id, **known}


def call(index: int, call_id: str, name: str, *pieces: str) -> bytes:
    item_id = f"fc_{index}"
    place = {"item_id": item_id, "output_index": index}
    joined = "".join(pieces)
    return b"".join(
        (
            begun(index, function_call(call_id, name, "", item_id, "in_progress")),
            *(event("response.function_call_arguments.delta", **place, delta=piece) for piece in pieces),
            event("response.function_call_arguments.done", **place, arguments=joined),
            whole(index, function_call(call_id, name, joined, item_id)),
        )
    )


def thought(sealed: str | None, *summary: str, **more: Any) -> Json:
    parts = [{"type": "summary_text", "text": each} for each in summary]
    return {"type": "reasoning", "id": "rs_1", "summary": parts, "encrypted_content": sealed, **more}


def thinking(index: int, sealed: str, *summary: str) -> bytes:
    place = {"item_id": "rs_1", "output_index": index}
    said = []
    for number, each in enumerate(summary):
        half = len(each) // 2
        said += [
            event("response.reasoning_summary_text.delta", **place, summary_index=number, delta=piece)
            for piece in (each[:half], each[half:])
        ]
        said.append(event("response.reasoning_summary_text.done", **place, summary_index=number, text=each))
    return begun(index, thought("gAA")) + b"".join(said) + whole(index, thought(sealed, *summary))


FROM_RESPONSES = {"model": "m", "id": "resp_1", "stop_reason": "completed", "usage": USAGE}
CUT = {"usage": None, "stop_reason": ""}


def responses(name: str, content: bytes, outcome: str, said: str = "", *calls: tuple[str, str, str], **more: Any) -> Reply:
    return reply(f"responses-{name}", "responses", content, expect(outcome, said, calls, **{**FROM_RESPONSES, **more}))


def responses_streams() -> Iterator[Reply]:
    yield responses("text", START + text(0, "Olá ", "🌊") + end(), "answer", "Olá 🌊", block_types=["text"])
    yield responses("crlf", (START + text(0, "a") + end()).replace(b"\n", b"\r\n"), "answer", "a")
    yield responses("last-event-without-its-empty-line", (START + text(0, "a") + end())[:-2], "answer", "a")
    stray = text(0, "a!").replace(b"!", b"\\ud83d")
    yield responses("half-a-character", START + stray + end(), "answer", "a\ufffd")
    yield responses(
        "parallel-calls",
        START + text(0, "Both.") + call(1, "c1", "f", '{"x": "', 'é"}') + call(2, "c2", "g", '{"y":', "[2]}") + end(),
        "tool_calls",
        "Both.",
        ("c1", "f", '{"x": "é"}'),
        ("c2", "g", '{"y":[2]}'),
        block_types=["text", "tool_use", "tool_use"],
    )
    yield responses(
        "call-without-arguments", START + call(0, "c1", "f", "") + end(), "tool_calls", "", ("c1", "f", ""), usage=USAGE
    )
    yield responses(
        "sealed-reasoning-and-a-call",
        START
        + thinking(0, "gAAAA1", "**One**", "**Two**")
        + call(1, "c1", "f", "{}")
        + end(
            usage={**USED, "input_tokens_details": {"cached_tokens": 5}, "output_tokens_details": {"reasoning_tokens": 2}}
        ),
        "tool_calls",
        "",
        ("c1", "f", "{}"),
        reasoning="**One**\n\n**Two**",
        signatures=["gAAAA1"],
        usage={**USAGE, "cached_input_tokens": 5, "reasoning_tokens": 2},
        block_types=["reasoning", "function_call"],
    )
    place = {"item_id": "rs_1", "output_index": 0, "content_index": 0}
    yield responses(
        "open-reasoning",
        START
        + begun(0, thought(None))
        + event("response.reasoning_text.delta", **place, delta="hm")
        + whole(0, thought(None, content=[{"type": "reasoning_text", "text": "hm"}]))
        + text(1, "a")
        + end(),
        "answer",
        "a",
        reasoning="hm",
        block_types=["reasoning", "message"],
    )
    yield responses(
        "the-apis-own-tools",
        START
        + begun(0, {"type": "web_search_call", "id": "ws_1", "status": "in_progress"})
        + event("response.web_search_call.searching", item_id="ws_1", output_index=0)
        + whole(0, {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "q"}})
        + text(1, "4.")
        + end(),
        "answer",
        "4.",
        block_types=["web_search_call", "message"],
    )
    yield responses(
        "two-messages-with-phases",
        START + text(0, "Let me see. ", phase="commentary") + text(1, "4.", item_id="msg_2", phase="final_answer") + end(),
        "answer",
        "Let me see. 4.",
        block_types=["message", "message"],
    )
    yield responses(
        "ids-that-change-from-event-to-event",
        START
        + begun(0, function_call("c1", "f", "", "one"))
        + event("response.function_call_arguments.delta", item_id="two", output_index=0, delta='{"x":')
        + event("response.function_call_arguments.delta", item_id="three", output_index=0, delta="1}")
        + whole(0, function_call("c1", "f", '{"x":1}', "four"))
        + end(),
        "tool_calls",
        "",
        ("c1", "f", '{"x":1}'),
    )
    yield responses(
        "one-index-for-two-calls",
        START
        + begun(0, function_call("c1", "f", "", "one"))
        + begun(0, function_call("c2", "g", "", "two"))
        + event("response.function_call_arguments.delta", item_id="one", output_index=0, delta='{"x":1}')
        + event("response.function_call_arguments.delta", item_id="two", output_index=0, delta='{"x":2}')
        + end(),
        "tool_calls",
        "",
        ("c1", "f", '{"x":1}'),
        ("c2", "g", '{"x":2}'),
    )
    yield responses(
        "arguments-whole-without-pieces",
        START
        + begun(0, function_call("c1", "f", "", "fc_0"))
        + event("response.function_call_arguments.done", item_id="fc_0", output_index=0, arguments='{"x":1}')
        + whole(0, function_call("c1", "f", '{"x":1}', "fc_0"))
        + end(),
        "tool_calls",
        "",
        ("c1", "f", '{"x":1}'),
    )
    yield responses(
        "only-whole-items",
        START + whole(0, message(said("a"))) + whole(1, function_call("c1", "f", "{}")) + end(),
        "tool_calls",
        "a",
        ("c1", "f", "{}"),
    )
    yield responses("only-the-end", end("completed", message(said("a"))), "answer", "a")
    yield responses(
        "kinds-that-are-new",
        START
        + event("response.weather", sky="blue", delta={"clouds": 1}, item=3)
        + event("keepalive")
        + text(0, "a")
        + end(),
        "answer",
        "a",
    )
    yield responses("nothing-said", START + end(), "answer", "")
    refusal = {"type": "refusal", "refusal": "I cannot."}
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    yield responses(
        "refused",
        START
        + begun(0, message())
        + event("response.refusal.delta", **place, delta="I can")
        + event("response.refusal.delta", **place, delta="not.")
        + event("response.refusal.done", **place, refusal="I cannot.")
        + whole(0, message(refusal))
        + end(),
        "refused",
        refusal="I cannot.",
    )
    yield responses(
        "refused-after-text",
        START + text(0, "Well, ") + begun(1, message()) + whole(1, message(refusal)) + end(),
        "refused",
        "Well, ",
        refusal="I cannot.",
    )
    long = {"incomplete_details": {"reason": "max_output_tokens"}}
    yield responses(
        "truncated", START + text(0, "a") + end("incomplete", **long), "truncated", "a", stop_reason="max_output_tokens"
    )
    yield responses(
        "truncated-in-a-call",
        START
        + begun(0, function_call("c1", "f", "", "fc_0", "in_progress"))
        + event("response.function_call_arguments.delta", item_id="fc_0", output_index=0, delta='{"x": "half')
        + whole(0, function_call("c1", "f", '{"x": "half', "fc_0", "incomplete"))
        + end("incomplete", **long),
        "truncated",
        "",
        ("c1", "f", '{"x": "half'),
        stop_reason="max_output_tokens",
    )
    yield responses(
        "completed-with-a-cut-call",
        START + whole(0, function_call("c1", "f", '{"x": 1}', "fc_0", "incomplete")) + end(),
        "truncated",
        "",
        ("c1", "f", '{"x": 1}'),
    )
    yield responses(
        "filtered",
        START + text(0, "Well") + end("incomplete", incomplete_details={"reason": "content_filter"}),
        "filtered",
        "Well",
        stop_reason="content_filter",
    )
    yield responses(
        "incomplete-for-a-new-reason",
        START + call(0, "c1", "f", "{}") + end("incomplete", incomplete_details={"reason": "steered"}),
        "incomplete",
        "",
        ("c1", "f", "{}"),
        stop_reason="steered",
    )
    failed = {"code": "server_error", "message": "The server had an error"}
    yield responses(
        "failed",
        START + text(0, "a") + end("failed", error=failed, usage=USED),
        "stream_error",
        "a",
        error=failed,
        retryable=True,
        stop_reason="failed",
    )
    limited = {"code": "rate_limit_exceeded", "message": "slow down"}
    yield responses(
        "limited-midway",
        START + end("failed", error=limited),
        "stream_error",
        error={"code": 429, "message": "slow down"},
        retryable=True,
        stop_reason="failed",
        usage=None,
    )
    yield responses(
        "failed-without-a-reason",
        START + end("failed"),
        "stream_error",
        error={"message": "it gave no reason"},
        retryable=True,
        stop_reason="failed",
        usage=None,
    )
    yield responses(
        "error-event",
        START + text(0, "a") + event("error", code="invalid_prompt", message="flagged", param=None),
        "stream_error",
        "a",
        **CUT,
        error={"code": 400, "message": "flagged"},
        retryable=False,
    )
    yield responses(
        "error-event-without-a-code",
        START + event("error", code=None, message="boom", param=None),
        "stream_error",
        **CUT,
        error={"message": "boom"},
        retryable=True,
    )
    yield responses(
        "error-event-then-failed-with-usage",
        START + event("error", error={"type": "server_error", "message": "boom"}) + end("failed", error=failed, usage=USED),
        "stream_error",
        error={"message": "boom"},
        retryable=True,
        stop_reason="failed",
    )
    yield responses(
        "policy",
        START + end("failed", error={"code": "bio_policy", "message": "not that"}),
        "stream_error",
        error={"message": "not that"},
        retryable=None,
        stop_reason="failed",
        usage=None,
    )
    yield responses(
        "no-end",
        START + text(0, "a") + call(1, "c1", "f", "{}"),
        "incomplete",
        "a",
        ("c1", "f", "{}"),
        **CUT,
        retryable=True,
    )
    yield responses("done-mark-without-an-end", START + text(0, "a") + b"data: [DONE]\n\n", "incomplete", "a", **CUT)
    yield responses("done-mark-behind-the-end", START + text(0, "a") + end() + b"data: [DONE]\n\n", "answer", "a")
    nothing: Json = {"model": "", "id": "", **CUT}
    yield responses("only-keep-alives", b": ping\n\n: ping\n\n", "incomplete", **nothing, retryable=True)
    yield responses("a-page", b"<html><title>Bad gateway</title>", "bad_response", **nothing)


def responses_bodies() -> Iterator[Reply]:
    def made(name: str, content: Json | bytes, outcome: str, said: str = "", *calls: Any, **more: Any) -> Reply:
        return body(
            f"responses-body-{name}", "responses", content, expect(outcome, said, calls, **{**FROM_RESPONSES, **more})
        )

    yield made("text", response("completed", message(said("a"), said("b"))), "answer", "ab", block_types=["text"])
    yield made(
        "sealed-reasoning-and-calls",
        response(
            "completed",
            thought("gAAAA1", "hm"),
            function_call("c1", "f", ""),
            thought("gAAAA2", id="rs_2"),
            function_call("c2", "f", '{"n":1}', "fc_2"),
        ),
        "tool_calls",
        "",
        ("c1", "f", ""),
        ("c2", "f", '{"n":1}'),
        reasoning="hm",
        signatures=["gAAAA1", "gAAAA2"],
        block_types=["reasoning", "function_call", "reasoning", "function_call"],
    )
    cut = function_call("c1", "f", '{"x": "half', status="incomplete")
    yield made(
        "truncated-in-a-call",
        response("incomplete", cut, incomplete_details={"reason": "max_output_tokens"}),
        "truncated",
        "",
        ("c1", "f", '{"x": "half'),
        stop_reason="max_output_tokens",
    )
    refusal = message({"type": "refusal", "refusal": "No."})
    yield made("refused", response("completed", refusal), "refused", refusal="No.")
    nothing: Json = {"model": "", "id": "", **CUT}
    error = {"type": "server_error", "code": "server_error", "message": "boom"}
    yield made("error-in-a-200", {"error": error}, "error_in_200", **nothing, error={"message": "boom"}, retryable=True)
    yield made(
        "failed",
        response("failed", error={"code": "rate_limit_exceeded", "message": "slow"}),
        "error_in_200",
        stop_reason="failed",
        usage=None,
        error={"code": 429, "message": "slow"},
        retryable=True,
    )
    yield made("a-job-that-is-queued", response("queued"), "bad_response", stop_reason="queued", usage=None)
    yield made("not-a-response", {"object": "other"}, "bad_response", **nothing)
    yield made("cut-off", b'{"id": "resp_1", "output": [', "incomplete", **nothing)
    yield made("a-page", b"<html><title>Bad gateway</title>", "bad_response", **nothing)
    yield made("nothing", b"", "bad_response", **nothing)
