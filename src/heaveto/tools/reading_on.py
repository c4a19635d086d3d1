"""`read_result`: a part of a result that was too long for the conversation."""

from __future__ import annotations

from ..errors import ToolError
from .decorator import tool
from .protocol import Call
from .results import READ_RESULT

__all__ = ["read_result"]

MAX_CHARS = 40_000  # at once: less than a result may have


@tool(effect="read", name=READ_RESULT)
async def read_result(call: Call, call_id: str, first_char: int = 1, max_chars: int = 20_000) -> str:
    """Read a part of a result that was cut in the middle.

    Args:
        call_id: The call's, as the cut result names it.
        first_char: Where to begin; the first is 1.
        max_chars: How many, up to 40000.
    """
    whole = call.whole_result(call_id)
    if whole is None:
        raise ToolError(
            f'nothing is kept of "{call_id}": only results that were cut are, and only while the run goes on; '
            "make the call again, for less at once"
        )
    if not 1 <= first_char <= len(whole):
        raise ToolError(
            f"{call_id} has {len(whole)} characters; first_char must be from 1 to {len(whole)}, not {first_char}"
        )
    if not 1 <= max_chars <= MAX_CHARS:
        raise ToolError(f"max_chars must be from 1 to {MAX_CHARS}, not {max_chars}")
    piece = whole[first_char - 1 : first_char - 1 + max_chars]
    return f"characters {first_char} to {first_char + len(piece) - 1} of {len(whole)}:\n{piece}"
