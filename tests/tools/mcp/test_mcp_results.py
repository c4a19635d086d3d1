"""What comes back of a server's tool, as what the model reads."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from heaveto.messages import Image
from heaveto.tools.mcp.results import result_text
from heaveto.tools.results import WithMedia

pytest.importorskip("mcp", reason="no mcp")

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 30).decode()


def read(*content: dict[str, Any], structured: Any = None) -> str:
    from mcp_types import CallToolResult

    return result_text(CallToolResult.model_validate({"content": content, "structuredContent": structured}))


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


@pytest.mark.parametrize(
    ("content", "structured", "expected"),
    [
        ([], None, "done"),
        ([text("a"), text("b")], None, "a\nb"),
        ([text('{"n": 1}')], {"n": 1}, '{"n": 1}'),
        ([], {"n": 1}, '{"n":1}'),
        ([{"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}], None, "[audio, audio/wav, 3 bytes: not shown]"),
        ([{"type": "image", "data": "?", "mimeType": "image/png"}], None, "[image, image/png, 0 bytes: not shown]"),
        ([{"type": "resource_link", "uri": "file:///a", "name": "a"}], None, "[a: file:///a]"),
        ([{"type": "resource", "resource": {"uri": "file:///a", "text": "in it"}}], None, "[file:///a]\nin it"),
        ([{"type": "resource", "resource": {"uri": "x:y", "blob": "AA=="}}], None, "[x:y, binary, 1 bytes: not shown]"),
    ],
)
def test_each_kind_of_content_is_told(content: list[dict[str, Any]], structured: Any, expected: str) -> None:
    assert read(*content, structured=structured) == expected


def test_an_image_stays_one_among_its_texts() -> None:
    result = read(text("before"), text("it"), {"type": "image", "data": PIXEL, "mimeType": "image/png"}, text("after"))
    assert isinstance(result, WithMedia)
    first, image, last = result.parts
    assert (first, last) == ("before\nit", "after")
    assert isinstance(image, Image)
    assert image.media_type == "image/png"
