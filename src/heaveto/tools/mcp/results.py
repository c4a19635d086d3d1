"""What a server's tool returned, as the text that the model reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..results import to_text

if TYPE_CHECKING:
    from mcp_types import CallToolResult

__all__ = ["result_text"]


def result_text(result: CallToolResult) -> str:
    """The result's parts one below the other, within the limit of any result; structured content where there is no text."""
    shown = [_shown(block) for block in result.content]
    if result.structured_content is not None and not any(block.type == "text" for block in result.content):
        shown.append(to_text(result.structured_content))
    return to_text("\n".join(shown) if shown else None)


def _shown(block: Any) -> str:
    match block.type:
        case "text":
            return str(block.text)
        case "image" | "audio":
            return f"[{block.type}, {block.mime_type}, {_size(block.data)}: not shown]"
        case "resource_link":
            return f"[{block.name}: {block.uri}]"
        case "resource":
            return _resource(block.resource)
        case other:  # what a later protocol brings
            return f"[{other}: not shown]"


def _resource(resource: Any) -> str:
    if hasattr(resource, "text"):
        return f"[{resource.uri}]\n{resource.text}"
    return f"[{resource.uri}, {resource.mime_type or 'binary'}, {_size(resource.blob)}: not shown]"


def _size(base64: str) -> str:
    return f"{len(base64) * 3 // 4 - base64[-2:].count('='):,} bytes"
