"""The used fields of chat completions on the wire, streamed chunks and whole bodies alike. All else is skipped unread.

`Any` stands where providers disagree about the type; `decode.py` looks at what came.
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["CallPart", "Choice", "Chunk", "Part", "chunk_decoder"]


class FunctionPart(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None  # an object from servers that are not quite compatible


class CallPart(msgspec.Struct, gc=False):
    """A piece of a tool call, or a whole one."""

    index: int | None = None
    id: str | int | None = None
    function: FunctionPart | None = None
    extra_content: Any = None  # Gemini: the thought's signature, wanted back


class Part(msgspec.Struct, gc=False):
    """A `delta` or a whole `message`."""

    content: str | list[Any] | None = None
    tool_calls: list[CallPart] | None = None
    reasoning: Any = None  # OpenRouter, Groq, vLLM
    reasoning_content: Any = None  # DeepSeek, Moonshot
    reasoning_details: Any = None  # OpenRouter: signed or encrypted, wanted back
    refusal: str | None = None
    extra_content: Any = None


class Choice(msgspec.Struct, gc=False):
    index: int | None = None
    delta: Part | None = None
    message: Part | None = None
    finish_reason: str | None = None
    native_finish_reason: str | None = None
    error: Any = None


class GroqPart(msgspec.Struct, gc=False):
    usage: Any = None
    error: Any = None


class Chunk(msgspec.Struct, gc=False):
    """One event of a stream, or a whole body."""

    id: str | int | None = None
    model: str | None = None
    choices: list[Choice] | None = None
    usage: Any = None
    error: Any = None
    x_groq: GroqPart | None = None


chunk_decoder = msgspec.json.Decoder(Chunk, strict=False)
