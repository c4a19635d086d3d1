"""What a server's tool returned, as what the model reads."""

from __future__ import annotations

import base64
import binascii
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...messages import Image, Part
from ..results import to_text

if TYPE_CHECKING:
    from mcp_types import CallToolResult

__all__ = ["result_text"]


def result_text(result: CallToolResult) -> str:
    """The result's parts in their order, within the limits of any result; structured content where there is no text."""
    parts = [_part(block) for block in result.content]
    if result.structured_content is not None and not any(block.type == "text" for block in result.content):
        parts.append(to_text(result.structured_content, sys.maxsize))  # it is cut once, below
    joined = list(_joined(parts))
    if not joined:
        return to_text(None)
    return to_text(joined if any(isinstance(each, Image) for each in joined) else joined[0])


def _joined(parts: Iterable[Part]) -> Iterable[Part]:
    """The parts with neighbouring texts made one, a line each."""
    texts: list[str] = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
            continue
        if texts:
            yield "\n".join(texts)
            texts = []
        yield part
    if texts:
        yield "\n".join(texts)


def _part(block: Any) -> Part:
    match block.type:
        case "text":
            return str(block.text)
        case "image":
            return _image(block.data, block.mime_type)
        case "audio":
            return _named("audio", block.mime_type, block.data)
        case "resource_link":
            return f"[{block.name}: {block.uri}]"
        case "resource" if hasattr(block.resource, "text"):
            return f"[{block.resource.uri}]\n{block.resource.text}"
        case "resource":
            return _named(block.resource.uri, block.resource.mime_type or "binary", block.resource.blob)
        case other:  # what a later protocol brings
            return f"[{other}: not shown]"


def _image(data: str, media_type: str) -> Part:
    """The picture; its name only, when it is none that the model APIs take."""
    try:
        return Image(base64.b64decode(data, validate=True))  # its bytes say what it is, not the server
    except (ValueError, binascii.Error):
        return _named("image", media_type, data)


def _named(what: str, media_type: str, data: str) -> str:
    size = len(data) * 3 // 4 - data[-2:].count("=")
    return f"[{what}, {media_type}, {size:,} bytes: not shown]"
