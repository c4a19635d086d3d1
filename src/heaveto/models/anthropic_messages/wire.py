"""The used fields of Messages on the wire, a stream's events and whole bodies alike. All else is skipped unread.

Content blocks are plain data, because those that the API wants back go back as they came, whatever is in them.
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["BlockDelta", "WireEvent", "event_decoder"]


class BlockDelta(msgspec.Struct, gc=False):
    """What `content_block_delta` adds to a block, or `message_delta` to the message."""

    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None
    citation: Any = None
    stop_reason: str | None = None
    stop_details: Any = None


class WireMessage(msgspec.Struct, gc=False):
    id: str | None = None
    model: str | None = None
    usage: Any = None


class WireEvent(msgspec.Struct, gc=False):
    """One event of a stream, or a whole body."""

    type: str | None = None
    message: WireMessage | None = None
    index: int | None = None
    content_block: dict[str, Any] | None = None
    delta: BlockDelta | None = None
    usage: Any = None
    error: Any = None
    # of a whole body
    id: str | None = None
    model: str | None = None
    content: list[dict[str, Any]] | None = None
    stop_reason: str | None = None
    stop_details: Any = None


event_decoder = msgspec.json.Decoder(WireEvent, strict=False)
