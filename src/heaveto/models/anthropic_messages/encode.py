"""Messages to bytes. Each message is encoded once; a request joins what is kept.

The rules of this file:
- User and assistant take turns: what follows in the same role goes into one message, as the API asks of the results of
  one reply's calls. So a kept piece begins with what closes the turn before it, and pieces are joined as they are.
- Thinking, its signatures and what the API's own tools did go back to the provider that sent them, in their order and
  as they came, and to no other.
- No text breaks a request: blank text, which the API refuses, is left out or named; ids and names are made to fit.
- The conversation is cached: one mark behind the tools and the system prompt, one at the end of this request, and one at
  the end of the request before, since the API looks back no further than twenty blocks from a mark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

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
    Transcript,
    UserMessage,
)
from ..answer_schemas import KeptForm
from ..call_ids import fitting_id, fitting_name
from ..inputs import IMAGES, Takes, as_base64, words_for
from ..json_bytes import as_object, encode
from ..protocol import Request, ToolSpec
from ..sampling_rules import put
from .answers import output_format
from .sampling import SAMPLING

__all__ = ["TAKES", "MessagesEncoder", "max_tokens_of"]

TAKES = Takes(image_bytes=5_000_000, in_results=IMAGES | {PDF})

MAX_TOKENS = 32_000  # the API demands a number: long enough for any reply, and allowed by every model but these
MAX_TOKENS_OF_OLD = {"claude-3-5": 8192, "claude-3-haiku": 4096, "claude-3-sonnet": 4096, "claude-3-opus": 4096}
NO_TEXT = "(no text)"  # where the API demands a text and there is none
CACHE_MARK = {"type": "ephemeral"}  # five minutes, from the last use
MARK_BYTES = b',"cache_control":{"type":"ephemeral"}}'  # in the place of a block's last brace


class MessagesEncoder:
    """Encodes requests to one model.

    Args:
        provider: Who is asked.
        model: The model's name there.
        stream: Whether the reply shall be streamed.
        cache: Whether the API shall cache the conversation. It makes what is read again ten times cheaper and what is
            new a quarter dearer, so it pays from the second turn.
        options: Further fields of the body, as the API knows them. `tools` are the API's own, added to the request's.
    """

    def __init__(
        self, *, provider: str, model: str, stream: bool, cache: bool = True, options: Mapping[str, Any] | None = None
    ) -> None:
        self._provider, self._cache = provider, cache
        self._prefix = b'{"model":' + encode(model) + b',"messages":['
        self._options = {"max_tokens": max_tokens_of(model), **(options or {}), "stream": stream}
        self._own_tools = list(self._options.pop("tools", ()))
        self._answers = KeptForm(output_format)
        self._tools: tuple[ToolSpec, ...] | None = None
        self._tools_bytes = b""
        self._conversations: WeakKeyDictionary[Transcript, _Conversation] = WeakKeyDictionary()

    def encode(self, request: Request) -> bytes:
        """The body of a request."""
        if (conversation := self._conversations.get(request.transcript)) is None:
            conversation = self._conversations[request.transcript] = _Conversation()
        conversation.take(request.transcript, self.encode_blocks)
        tail = dict(self._options)
        if (limit := request.output_limit) is not None:
            tail["max_tokens"] = limit
        if conversation.system:
            tail["system"] = conversation.encoded_system(marked=self._cache)
        tools = self._encoded_tools(request.tools, mark=self._cache and not conversation.system)
        SAMPLING.place(tail, request.sampling, with_tools=bool(tools))
        if request.answer is not None:
            put(tail, ("output_config", "format"), self._answers.of(request.answer))
        return b"".join((self._prefix, *conversation.pieces(marked=self._cache), b"]", tools, b",", encode(tail)[1:]))

    def _encoded_tools(self, tools: Sequence[ToolSpec], *, mark: bool) -> bytes:
        if (now := tuple(tools)) != self._tools:  # identical members are not looked into
            blocks = [*map(_tool, now), *self._own_tools]
            self._tools, self._tools_bytes = now, b',"tools":' + encode(blocks) if blocks else b""
        return self._tools_bytes[:-2] + MARK_BYTES + b"]" if mark and self._tools_bytes else self._tools_bytes

    def encode_blocks(self, message: Message) -> list[bytes]:
        """The content blocks of one message as JSON."""
        match message:
            case UserMessage(content, ()):
                return [encode({"type": "text", "text": content if content.strip() else NO_TEXT})]
            case UserMessage(_, parts):
                TAKES.check(parts, self._provider)
                return [encode(block) for block in _input_blocks(parts)]
            case ToolMessage():
                return [encode(_result(message))]
            case AssistantMessage():
                return [encode(block) for block in self._assistant(message)]
            case _:
                return []

    def _assistant(self, message: AssistantMessage) -> Iterator[dict[str, Any]]:
        calls = {call.id: call for call in message.tool_calls}
        ours = message.extras.get("provider") == self._provider
        for block in message.extras.get("blocks", ()) if ours else _plain_blocks(message):
            if block.get("type") != "tool_use":
                if _may_go_back(block):
                    yield block
            elif (call := calls.get(block.get("id", ""))) is not None:
                yield _call(call)


class _Conversation:
    """One transcript's messages in bytes, as far as they were sent."""

    def __init__(self) -> None:
        self.system: list[str] = []
        self._system_bytes = msgspec.Raw()
        self._seen = 0
        self._role = ""
        self._pieces: list[bytes] = []
        self._end = self._end_before = -1  # the last pieces of the user's last turn, and of the one before

    def take(self, transcript: Transcript, encode_blocks: Callable[[Message], list[bytes]]) -> None:
        """Encode what is new."""
        for position in range(self._seen, len(transcript)):
            message = transcript[position]
            if isinstance(message, SystemMessage):
                if message.content.strip():
                    self.system.append(message.content)
                    self._system_bytes = msgspec.Raw()
                continue
            role = "assistant" if isinstance(message, AssistantMessage) else "user"
            for block in encode_blocks(message):
                self._add(role, block)
        self._seen = len(transcript)

    def encoded_system(self, *, marked: bool) -> msgspec.Raw:
        """What the system says, as blocks in JSON."""
        if not self._system_bytes:
            blocks: list[dict[str, Any]] = [{"type": "text", "text": text} for text in self.system]
            if marked:
                blocks[-1]["cache_control"] = CACHE_MARK
            self._system_bytes = msgspec.Raw(encode(blocks))
        return self._system_bytes

    def _add(self, role: str, block: bytes) -> None:
        if role == self._role:
            block = b"," + block
        else:
            begin = b'{"role":"' + role.encode() + b'","content":[' + block
            block = b"]}," + begin if self._role else begin
            if role == "user":
                self._end_before = self._end
        self._role = role
        self._pieces.append(block)
        if role == "user":
            self._end = len(self._pieces) - 1

    def pieces(self, *, marked: bool) -> list[bytes]:
        """What stands in the list of messages."""
        pieces = [*self._pieces, b"]}"] if self._pieces else []
        if marked:
            for end in {self._end, self._end_before} - {-1}:
                pieces[end] = pieces[end][:-1] + MARK_BYTES
        return pieces


def _plain_blocks(message: AssistantMessage) -> Iterator[dict[str, Any]]:
    yield {"type": "text", "text": message.content}
    for call in message.tool_calls:
        yield {"type": "tool_use", "id": call.id}


def _may_go_back(block: Mapping[str, Any]) -> bool:
    match block.get("type"):
        case "text":
            return bool(block.get("text", "").strip())
        case "thinking":
            return bool(block.get("signature"))  # one that was cut off has none
        case _:
            return True


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = as_object(call.arguments or "{}")
    return {"type": "tool_use", "id": fitting_id(call.id), "name": fitting_name(call.name), "input": arguments}


def _result(message: ToolMessage) -> dict[str, Any]:
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": fitting_id(message.call_id)}
    result["content"] = _content(message)
    if message.is_error:  # with anything but text, or without one, it is refused
        result |= {"is_error": True, "content": message.content if message.content.strip() else NO_TEXT}
    return result


def _content(message: ToolMessage) -> str | list[dict[str, Any]]:
    if not message.parts:
        return message.content
    return list(_input_blocks(TAKES.in_result(message.parts)))


def _input_blocks(parts: Sequence[Part]) -> Iterator[dict[str, Any]]:
    for part in words_for(parts):
        match part:
            case str():
                if part.strip():
                    yield {"type": "text", "text": part}
            case Image():
                yield {"type": "image", "source": _source(part)}
            case File():
                yield {"type": "document", "source": _source(part)} | ({"title": part.name} if part.name else {})


def _source(part: Image | File) -> dict[str, Any]:
    if part.url:
        return {"type": "url", "url": part.url}
    return {"type": "base64", "media_type": part.media_type, "data": as_base64(part)}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.schema}


def max_tokens_of(model: str) -> int:
    """The output tokens that are asked for where nobody says how many; the API wants a number."""
    return next((number for name, number in MAX_TOKENS_OF_OLD.items() if name in model), MAX_TOKENS)
