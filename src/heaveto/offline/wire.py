"""The API's forms as plain data: checking a request, a whole completion, the pieces of a streamed one, errors."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from .conversation import text_of
from .engine import MODEL

__all__ = ["RequestRefused", "check_request", "completion", "event_lines", "listing"]

PIECE = 12  # characters a delta, about what real APIs send
CHARACTERS_PER_TOKEN = 4
CREATED = 1_700_000_000  # a fixed time, so that the same request gets the same bytes


class RequestRefused(Exception):
    """A request that is answered with an error.

    Args:
        status: The HTTP status.
        code: The API's stable name for the problem.
    """

    def __init__(self, status: HTTPStatus, message: str, code: str = "invalid_request") -> None:
        super().__init__(status, message, code)
        self.status, self.message, self.code = status, message, code

    def body(self) -> dict[str, Any]:
        return {"error": {"message": self.message, "type": "invalid_request_error", "param": None, "code": self.code}}


def check_request(body: bytes, model: str) -> dict[str, Any]:
    """The request, when it is one that a real API would take.

    Raises:
        RequestRefused: With the reason.
    """
    try:
        request = json.loads(body)
    except ValueError as error:
        raise RequestRefused(HTTPStatus.BAD_REQUEST, f"the body is not valid JSON: {error}", "invalid_json") from error
    if not isinstance(request, dict) or not isinstance(request.get("messages"), list) or not request["messages"]:
        raise RequestRefused(HTTPStatus.BAD_REQUEST, "messages must be an array with at least one message")
    if request.get("model") != model:
        problem = f"the model `{request.get('model')}` does not exist; this server has `{model}`"
        raise RequestRefused(HTTPStatus.BAD_REQUEST, problem, "model_not_found")
    _check_messages(request["messages"])
    if not all(_is_tool(tool) for tool in request.get("tools") or ()):
        raise RequestRefused(HTTPStatus.BAD_REQUEST, "each of tools must have a function with a name")
    return request


def _is_tool(tool: Any) -> bool:
    return (
        isinstance(tool, dict) and isinstance(tool.get("function"), dict) and isinstance(tool["function"].get("name"), str)
    )


def _check_messages(messages: Sequence[Any]) -> None:
    waiting: list[str] = []
    for number, message in enumerate(messages):
        role = message.get("role") if isinstance(message, dict) else None
        if role not in ("system", "developer", "user", "assistant", "tool"):
            raise RequestRefused(HTTPStatus.BAD_REQUEST, f"messages[{number}] has the unknown role {role!r}")
        if role == "tool":
            _take_answer(waiting, message, number)
            continue
        _refuse_unanswered(waiting)
        waiting = [_call_id(call, number) for call in message.get("tool_calls") or ()] if role == "assistant" else []
    _refuse_unanswered(waiting)


def _take_answer(waiting: list[str], message: Mapping[str, Any], number: int) -> None:
    identity = message.get("tool_call_id")
    if identity not in waiting:
        problem = f"messages[{number}] with role 'tool' must answer a call of the preceding message's 'tool_calls'"
        raise RequestRefused(HTTPStatus.BAD_REQUEST, problem)
    waiting.remove(identity)


def _refuse_unanswered(waiting: Sequence[str]) -> None:
    if waiting:
        problem = (
            "an assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'; "
            f"these have no response: {', '.join(waiting)}"
        )
        raise RequestRefused(HTTPStatus.BAD_REQUEST, problem)


def _call_id(call: Any, number: int) -> str:
    function = call.get("function") if isinstance(call, dict) else None
    whole = (
        isinstance(function, dict) and isinstance(function.get("name"), str) and isinstance(function.get("arguments"), str)
    )
    if not whole or not isinstance(call.get("id"), str):
        raise RequestRefused(HTTPStatus.BAD_REQUEST, f"messages[{number}] has a tool call without id, name or arguments")
    identity: str = call["id"]
    return identity


def listing() -> dict[str, Any]:
    """The answer to `GET /v1/models`."""
    return {"object": "list", "data": [{"id": MODEL, "object": "model", "created": CREATED, "owned_by": "heaveto"}]}


def completion(request: Mapping[str, Any], message: Mapping[str, Any]) -> dict[str, Any]:
    """A whole reply, for a request that is not streamed."""
    choice = {"index": 0, "message": dict(message), "finish_reason": _finish(message)}
    return {**_envelope(request, message, "chat.completion"), "choices": [choice], "usage": _usage(request, message)}


def event_lines(request: Mapping[str, Any], message: Mapping[str, Any]) -> Iterator[str]:
    """The events of a streamed reply, each ready to send."""
    envelope = _envelope(request, message, "chat.completion.chunk")
    for delta in _deltas(message):
        yield _event({**envelope, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    yield _event({**envelope, "choices": [{"index": 0, "delta": {}, "finish_reason": _finish(message)}]})
    yield _event({**envelope, "choices": [], "usage": _usage(request, message)})
    yield "data: [DONE]\n\n"


def _deltas(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": ""}
    for piece in _pieces(message["content"]):
        yield {"content": piece}
    for index, call in enumerate(message.get("tool_calls", ())):
        function = {"name": call["function"]["name"], "arguments": ""}
        yield {"tool_calls": [{"index": index, "id": call["id"], "type": "function", "function": function}]}
        for piece in _pieces(call["function"]["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _pieces(text: str) -> list[str]:
    return [text[start : start + PIECE] for start in range(0, len(text), PIECE)]


def _event(data: Mapping[str, Any]) -> str:
    return f"data: {json.dumps(data)}\n\n"


def _envelope(request: Mapping[str, Any], message: Mapping[str, Any], kind: str) -> dict[str, Any]:
    identity = zlib.crc32(f"{len(request['messages'])}{json.dumps(message)}".encode())
    return {"id": f"chatcmpl-{identity:08x}", "object": kind, "created": CREATED, "model": request["model"]}


def _finish(message: Mapping[str, Any]) -> str:
    return "tool_calls" if message.get("tool_calls") else "stop"


def _usage(request: Mapping[str, Any], message: Mapping[str, Any]) -> dict[str, Any]:
    """Tokens counted as characters by four, which is near enough for a model that costs nothing."""
    read = sum(_length(each) for each in request["messages"]) + len(json.dumps(request.get("tools") or []))
    said = _length(message)
    prompt, answered = -(-read // CHARACTERS_PER_TOKEN), -(-said // CHARACTERS_PER_TOKEN)
    return {"prompt_tokens": prompt, "completion_tokens": answered, "total_tokens": prompt + answered, "cost": 0}


def _length(message: Mapping[str, Any]) -> int:
    calls = message.get("tool_calls") or ()
    return len(text_of(message.get("content"))) + sum(len(json.dumps(call["function"])) for call in calls)
