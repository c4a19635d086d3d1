"""Chat completions to bytes. Each message is encoded once; a request joins what is kept.

The rules of this file:
- What an API wants back (signed reasoning, say) goes back to the provider that sent it, as it came, and to no other.
- An answer's schema is strict where it can be.
- No text breaks a request: lone surrogates become U+FFFD, names are made to fit, arguments that are not a JSON object are
  wrapped into one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...messages import AssistantMessage, File, Image, Message, SystemMessage, ToolCall, ToolMessage, UserMessage
from ..answer_schemas import KeptForm, strict_or_not
from ..call_ids import fitting_name
from ..inputs import Takes, as_data_url, words_for
from ..json_bytes import encode, is_object
from ..protocol import AnswerSchema, Request, ToolSpec
from ..sampling_rules import SamplingRules
from .sampling import SAMPLING

__all__ = ["TAKES", "ChatEncoder"]

TAKES = Takes(file_urls=False)


class ChatEncoder:
    """Encodes requests to one model.

    Args:
        provider: Who is asked.
        model: The model's name there.
        stream: Whether the reply shall be streamed.
        max_tokens_field: The API's name for the most output tokens.
        options: Further fields of the body, as the API knows them.
        takes: Which images and files the API takes.
        sampling: Which settings it has.
    """

    def __init__(
        self,
        *,
        provider: str,
        model: str,
        stream: bool,
        max_tokens_field: str = "max_tokens",
        options: Mapping[str, Any] | None = None,
        takes: Takes = TAKES,
        sampling: SamplingRules = SAMPLING,
    ) -> None:
        self._provider, self._max_tokens_field, self._takes = provider, max_tokens_field, takes
        self._sampling, self._answers = sampling, KeptForm(_response_format)
        self._prefix = b'{"model":' + encode(model) + b',"messages":['
        self._options = {**(options or {}), "stream": stream}
        self._tools: tuple[ToolSpec, ...] = ()
        self._tools_bytes = b""

    def encode(self, request: Request) -> bytes:
        """The body of a request."""
        pieces = request.transcript.encoded(f"chat/{self._provider}", self.encode_message)
        tail = dict(self._options)
        self._sampling.place(tail, request.sampling, with_tools=bool(request.tools))
        if (limit := request.output_limit) is not None:
            tail[self._max_tokens_field] = limit
        if request.answer is not None:
            tail["response_format"] = self._answers.of(request.answer)
        return b"".join((self._prefix, b",".join(pieces), b"]", self._encoded_tools(request.tools), b",", encode(tail)[1:]))

    def _encoded_tools(self, tools: Sequence[ToolSpec]) -> bytes:
        if (now := tuple(tools)) != self._tools:  # identical members are not looked into
            self._tools, self._tools_bytes = now, b',"tools":' + encode([_tool(tool) for tool in now]) if now else b""
        return self._tools_bytes

    def encode_message(self, message: Message) -> bytes:
        """One message as JSON."""
        match message:
            case SystemMessage(content):
                return encode({"role": "system", "content": content})
            case UserMessage(content, ()):
                return encode({"role": "user", "content": content})
            case UserMessage(_, parts):
                self._takes.check(parts, self._provider)
                return encode({"role": "user", "content": [_part(part) for part in words_for(parts)]})
            case ToolMessage():
                return encode({"role": "tool", "tool_call_id": message.call_id, "content": self._takes.words_of(message)})
            case AssistantMessage():
                return encode(self._assistant(message))

    def _assistant(self, message: AssistantMessage) -> dict[str, Any]:
        extras = dict(message.extras) if message.extras.get("provider") == self._provider else {}
        extras.pop("provider", None)
        call_extras = extras.pop("calls", {})
        data: dict[str, Any] = {"role": "assistant", "content": message.content, **extras}
        if message.tool_calls:
            data["content"] = message.content or None
            data["tool_calls"] = [_call(call, call_extras.get(call.id)) for call in message.tool_calls]
        return data


def _response_format(answer: AnswerSchema) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": strict_or_not(answer)}


def _part(part: str | Image | File) -> dict[str, Any]:
    match part:
        case str():
            return {"type": "text", "text": part}
        case Image():
            return {"type": "image_url", "image_url": {"url": as_data_url(part)}}
        case File():
            return {"type": "file", "file": {"filename": part.name or "file.pdf", "file_data": as_data_url(part)}}


def _call(call: ToolCall, extra: Any) -> dict[str, Any]:
    arguments = call.arguments or "{}"
    if not is_object(arguments):  # some APIs parse them and refuse the whole conversation
        arguments = encode({"not_json": arguments}).decode()
    data = {"id": call.id, "type": "function", "function": {"name": fitting_name(call.name), "arguments": arguments}}
    return data if extra is None else {**data, "extra_content": extra}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return {"type": "function", "function": function}
