"""The used fields of Responses on the wire, a stream's events and whole bodies alike. All else is skipped unread.

Items are plain data, because those that the API wants back go back as they came, whatever is in them. `Any` stands where
events of other kinds use the same name for something else.
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["WireEvent", "WireResponse", "body_decoder", "event_decoder"]


class IncompleteDetails(msgspec.Struct, gc=False):
    reason: str | None = None


class WireResponse(msgspec.Struct, gc=False):
    """The response in an event, or a whole body."""

    id: str | None = None
    model: str | None = None
    status: str | None = None
    output: list[dict[str, Any]] | None = None
    usage: Any = None
    error: Any = None
    incomplete_details: IncompleteDetails | None = None


class WireEvent(msgspec.Struct, gc=False):
    """One event of a stream."""

    type: str | None = None
    response: WireResponse | None = None
    output_index: int | None = None
    item_id: str | None = None
    item: Any = None
    delta: Any = None
    arguments: Any = None
    summary_index: int | None = None
    content_index: int | None = None
    error: Any = None


event_decoder = msgspec.json.Decoder(WireEvent, strict=False)
body_decoder = msgspec.json.Decoder(WireResponse, strict=False)
