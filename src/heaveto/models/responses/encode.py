"""Responses to bytes. Each message is encoded once; a request joins what is kept.

The rules of this file:
- The API keeps nothing (`store` is false), so that a conversation is ours alone: reasoning comes encrypted and goes back.
- Items that text and calls do not say go back to the provider that sent them, in their order and as they came, and to no
  other. Reasoning that nothing follows stays here: the API refuses it alone.
- No text breaks a request: ids and names are made to fit, arguments that are not a JSON object are wrapped into one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...messages import (
    PDF,
    AssistantMessage,
    File,
    Image,
    Message,
    Part,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from ..answer_schemas import KeptForm, strict_or_not
from ..call_ids import fitting_id, fitting_name
from ..inputs import IMAGES, Takes, as_data_url, words_for
from ..json_bytes import encode, is_object
from ..protocol import AnswerSchema, Request, ToolSpec
from ..sampling_rules import put
from .sampling import SAMPLING

__all__ = ["TAKES", "ResponsesEncoder"]

TAKES = Takes(in_results=IMAGES | {PDF})

ENCRYPTED = "reasoning.encrypted_content"
DO_NOT_REASON = ("gpt-3", "gpt-4", "chatgpt-4", "gpt-5-chat")  # these refuse a request that asks for it, or has some
LEAST_MAX_TOKENS = 16  # the API refuses less


class ResponsesEncoder:
    """Encodes requests to one model.

    Args:
        provider: Who is asked.
        model: The model's name there.
        stream: Whether the reply shall be streamed.
        options: Further fields of the body, as the API knows them. `tools` are the API's own, added to the request's, and
            `include` is added to ours.
    """

    def __init__(self, *, provider: str, model: str, stream: bool, options: Mapping[str, Any] | None = None) -> None:
        self._provider = provider
        self._reasons = not any(name in model for name in DO_NOT_REASON)
        self._kept_as = f"responses/{provider}/{'reasons' if self._reasons else 'does not'}"
        self._prefix = b'{"model":' + encode(model) + b',"input":['
        self._options = {"store": False, **(options or {}), "stream": stream}
        ours = [ENCRYPTED] if self._reasons else []
        if include := list(dict.fromkeys([*ours, *self._options.pop("include", ())])):
            self._options["include"] = include
        self._own_tools = list(self._options.pop("tools", ()))
        self._answers = KeptForm(_format)
        self._tools: tuple[ToolSpec, ...] | None = None
        self._tools_bytes = b""

    def encode(self, request: Request) -> bytes:
        """The body of a request."""
        pieces = request.transcript.encoded(self._kept_as, self.encode_message)
        tail = dict(self._options)
        if (limit := request.output_limit) is not None:
            tail["max_output_tokens"] = max(limit, LEAST_MAX_TOKENS)
        tools = self._encoded_tools(request.tools)
        SAMPLING.place(tail, request.sampling, with_tools=bool(tools))
        if request.answer is not None:
            put(tail, ("text", "format"), self._answers.of(request.answer))
        items = b",".join(filter(None, pieces))
        return b"".join((self._prefix, items, b"]", tools, b",", encode(tail)[1:]))

    def _encoded_tools(self, tools: Sequence[ToolSpec]) -> bytes:
        if (now := tuple(tools)) != self._tools:  # identical members are not looked into
            known = [*map(_tool, now), *self._own_tools]
            self._tools, self._tools_bytes = now, b',"tools":' + encode(known) if known else b""
        return self._tools_bytes

    def encode_message(self, message: Message) -> bytes:
        """One message as JSON: items joined by commas; nothing where it says nothing."""
        match message:
            case SystemMessage(content):
                return encode({"role": "system", "content": content})
            case UserMessage(content, ()):
                return encode({"role": "user", "content": content})
            case UserMessage(_, parts):
                TAKES.check(parts, self._provider)
                return encode({"role": "user", "content": _inputs(parts)})
            case ToolMessage(call_id):
                return encode({"type": "function_call_output", "call_id": fitting_id(call_id), "output": _output(message)})
            case AssistantMessage():
                return b",".join(encode(item) for item in self._assistant(message))

    def _assistant(self, message: AssistantMessage) -> list[dict[str, Any]]:
        came = message.extras.get("items", ()) if message.extras.get("provider") == self._provider else ()
        if not came or (not self._reasons and any(map(_is_reasoning, came))):
            return list(_plain_items(message))
        items = list(_as_they_came(message, came))
        while items and _is_reasoning(items[-1]):
            items.pop()
        return items


def _format(answer: AnswerSchema) -> dict[str, Any]:
    return {"type": "json_schema", **strict_or_not(answer)}


def _inputs(parts: Sequence[Part]) -> list[dict[str, Any]]:
    return [_input(part) for part in words_for(parts)]


def _input(part: str | Image | File) -> dict[str, Any]:
    match part:
        case str():
            return {"type": "input_text", "text": part}
        case Image():
            return {"type": "input_image", "detail": "auto", "image_url": as_data_url(part)}
        case File() if part.url:
            return {"type": "input_file", "file_url": part.url}
        case File():
            return {"type": "input_file", "filename": part.name or "file.pdf", "file_data": as_data_url(part)}


def _output(message: ToolMessage) -> str | list[dict[str, Any]]:
    if not message.parts:
        return message.content
    return _inputs(TAKES.in_result(message.parts))


def _is_reasoning(item: Mapping[str, Any]) -> bool:
    return item.get("type") == "reasoning"


def _as_they_came(message: AssistantMessage, items: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    calls = {call.id: call for call in message.tool_calls}
    for item in items:
        if item.get("type") == "function_call":
            if (call := calls.get(item.get("call_id", ""))) is not None:
                yield {**item, **_call(call)}
        elif not _is_reasoning(item) or item.get("encrypted_content") or item.get("content"):
            yield item  # other reasoning was kept nowhere, so the API would look for it in vain


def _plain_items(message: AssistantMessage) -> Iterator[dict[str, Any]]:
    if message.content.strip():
        yield {"type": "message", "role": "assistant", "content": message.content}
    yield from map(_call, message.tool_calls)


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = call.arguments or "{}"
    if not is_object(arguments):
        arguments = encode({"not_json": arguments}).decode()
    name = fitting_name(call.name)
    return {"type": "function_call", "call_id": fitting_id(call.id), "name": name, "arguments": arguments}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    told = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return {"type": "function", **told, "strict": False}  # strict takes only a part of JSON schema
