"""The used fields of generateContent on the wire, a stream's chunks and whole bodies alike. All else is skipped unread.

Parts are plain data, because those that the API wants back go back as they came, whatever is in them.
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["Candidate", "Chunk", "PromptFeedback", "chunk_decoder"]


class Content(msgspec.Struct, gc=False):
    parts: list[dict[str, Any]] | None = None


class Candidate(msgspec.Struct, gc=False, rename="camel"):
    index: int | None = None
    content: Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None


class PromptFeedback(msgspec.Struct, gc=False, rename="camel"):
    block_reason: str | None = None
    block_reason_message: str | None = None


class Chunk(msgspec.Struct, gc=False, rename="camel"):
    """One event of a stream, or a whole body."""

    candidates: list[Candidate] | None = None
    prompt_feedback: PromptFeedback | None = None
    usage_metadata: Any = None
    model_version: str | None = None
    response_id: str | None = None
    error: Any = None


chunk_decoder = msgspec.json.Decoder(Chunk, strict=False)
