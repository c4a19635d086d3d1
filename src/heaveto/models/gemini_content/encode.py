"""generateContent to bytes. Each message is encoded once; a request joins what is kept.

The rules of this file:
- The results of one reply's calls are one content, as the API asks; every other message is a content of its own.
- Parts with signatures, and what the API's own tools did, go back to the provider that sent them, in their order and as
  they came, and to no other. Unsigned thoughts stay here: the API has no use for them.
- From Gemini 3 on the first call of a content needs a signature. A conversation that began elsewhere has none, and the
  API has a word for that.
- No text breaks a request: blank text, which the API refuses, is left out or named; ids and names are made to fit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

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
from ..call_ids import fitting_id
from ..inputs import Takes, as_base64, words_for
from ..json_bytes import as_object, encode
from ..protocol import Request, ToolSpec
from ..sampling_rules import put
from .sampling import SAMPLING, SAMPLING_BEFORE_3

__all__ = ["TAKES", "GeminiEncoder"]

TAKES = Takes(
    images=frozenset({"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"}),
    image_bytes=14_000_000,  # a request has room for 20 MB, and base64 makes four of three
    file_bytes=14_000_000,
    in_results=frozenset({"image/png", "image/jpeg", "image/webp", PDF}),
)

NO_TEXT = "(no text)"  # where the API demands a text and there is none
NO_SIGNATURE = "skip_thought_signature_validator"  # documented for calls that another model made
SIGNS_CALLS = re.compile(r"gemini-(?![12][.-])")
NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_.:-]")
MAX_NAME = 128
TAKES_BEFORE_3 = msgspec.structs.replace(TAKES, in_results=frozenset())


class GeminiEncoder:
    """Encodes requests to one model.

    Args:
        provider: Who is asked.
        model: The model's name there.
        options: Further fields of the body, as the API knows them. `tools` are the API's own, added to the request's.
    """

    def __init__(self, *, provider: str, model: str, options: Mapping[str, Any] | None = None) -> None:
        self._provider, self._signs_calls = provider, SIGNS_CALLS.search(model) is not None
        self.sampling = SAMPLING if self._signs_calls else SAMPLING_BEFORE_3
        self._kept_as = f"gemini/{provider}/{'signed' if self._signs_calls else 'plain'}"
        self._options = dict(options or {})
        self._own_tools = list(self._options.pop("tools", ()))
        self._tools: tuple[ToolSpec, ...] | None = None
        self._tools_bytes = b""

    def encode(self, request: Request) -> bytes:
        """The body of a request."""
        pieces = request.transcript.encoded(self._kept_as, self.encode_parts)
        tail = dict(self._options)
        if (limit := request.output_limit) is not None:
            put(tail, ("generationConfig", "maxOutputTokens"), limit)
        tools = self._encoded_tools(request.tools)
        self.sampling.place(tail, request.sampling, with_tools=bool(tools))
        if request.answer is not None:
            put(tail, ("generationConfig", "responseMimeType"), "application/json")
            put(tail, ("generationConfig", "responseJsonSchema"), request.answer.schema)
        if system := _system(request.transcript):
            tail["systemInstruction"] = {"parts": system}
        contents = b",".join(_contents(request.transcript, pieces))
        rest = b"," + encode(tail)[1:] if tail else b"}"
        return b"".join((b'{"contents":[', contents, b"]", tools, rest))

    def _encoded_tools(self, tools: Sequence[ToolSpec]) -> bytes:
        if (now := tuple(tools)) != self._tools:  # identical members are not looked into
            ours = [{"functionDeclarations": [_tool(tool) for tool in now]}] if now else []
            known = [*ours, *self._own_tools]
            self._tools, self._tools_bytes = now, b',"tools":' + encode(known) if known else b""
        return self._tools_bytes

    def encode_parts(self, message: Message) -> bytes:
        """The parts of one message as JSON, joined by commas; nothing where it says nothing."""
        match message:
            case UserMessage(content, ()):
                return encode({"text": content if content.strip() else NO_TEXT})
            case UserMessage(_, parts):
                TAKES.check(parts, self._provider)
                return b",".join(encode(part) for part in _inputs(parts))
            case ToolMessage():
                return encode(self._result(message))
            case AssistantMessage():
                return b",".join(encode(part) for part in self._assistant(message))
            case _:
                return b""

    def _assistant(self, message: AssistantMessage) -> Iterator[dict[str, Any]]:
        ours = message.extras.get("provider") == self._provider and "parts" in message.extras
        needs_signature = self._signs_calls
        for part in _as_they_came(message) if ours else _plain_parts(message):
            if needs_signature and "functionCall" in part:
                needs_signature = False
                yield {"thoughtSignature": NO_SIGNATURE, **part}
            else:
                yield part

    def _result(self, message: ToolMessage) -> dict[str, Any]:
        takes = TAKES if self._signs_calls else TAKES_BEFORE_3
        response = {"error" if message.is_error else "output": takes.words_of(message)}
        result: dict[str, Any] = {"id": fitting_id(message.call_id), "name": _name(message.name), "response": response}
        if parts := list(_inputs([part for part in takes.in_result(message.parts) if not isinstance(part, str)])):
            result["parts"] = parts
        return {"functionResponse": result}


def _system(transcript: Transcript) -> list[dict[str, str]]:
    return [{"text": each.content} for each in transcript if isinstance(each, SystemMessage) and each.content.strip()]


def _contents(transcript: Transcript, pieces: Sequence[bytes]) -> Iterator[bytes]:
    """Each message's parts as a content; results that stand side by side as one."""
    results: list[bytes] = []
    for message, piece in zip(transcript, pieces, strict=True):
        if isinstance(message, ToolMessage):
            results.append(piece)
            continue
        if results:
            yield _content(b"user", b",".join(results))
            results = []
        if piece:
            yield _content(b"model" if isinstance(message, AssistantMessage) else b"user", piece)
    if results:
        yield _content(b"user", b",".join(results))


def _content(role: bytes, parts: bytes) -> bytes:
    return b'{"role":"' + role + b'","parts":[' + parts + b"]}"


def _as_they_came(message: AssistantMessage) -> Iterator[dict[str, Any]]:
    calls = {call.id: call for call in message.tool_calls}
    for part in message.extras["parts"]:
        if "functionCall" in part:
            if (call := calls.get(part["functionCall"].get("id", ""))) is not None:
                yield {**part, **_call(call)}
        elif "thoughtSignature" in part or not (part.get("thought") or part.get("text") == ""):
            yield part


def _plain_parts(message: AssistantMessage) -> Iterator[dict[str, Any]]:
    if message.content.strip():
        yield {"text": message.content}
    yield from map(_call, message.tool_calls)


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = as_object(call.arguments or "{}")
    return {"functionCall": {"id": fitting_id(call.id), "name": _name(call.name), "args": arguments}}


def _inputs(parts: Sequence[Part]) -> Iterator[dict[str, Any]]:
    for part in words_for(parts):
        match part:
            case str():
                if part.strip():
                    yield {"text": part}
            case Image() | File() if part.url:
                kind = {"mimeType": part.media_type} if part.media_type else {}
                yield {"fileData": {**kind, "fileUri": part.url}}
            case Image() | File():
                yield {"inlineData": {"mimeType": part.media_type, "data": as_base64(part)}}


def _name(name: str) -> str:
    name = NOT_IN_NAMES.sub("_", name)[:MAX_NAME]
    return name if name[:1].isalpha() or name[:1] == "_" else ("_" + name)[:MAX_NAME]


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.schema}
