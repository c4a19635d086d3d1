"""What a call that was cut really cost, where the API tells it afterwards. OpenRouter does: `GET /generation?id=...`.

Nothing here raises: who has no answer keeps the estimate.
"""

from __future__ import annotations

from decimal import Decimal

import anyio
import msgspec

from ..errors import TransportFailed
from ..messages import Usage
from ..scopes import Scope, finish
from .exchange import Exchange, HTTPRequest
from .json_bytes import decode

__all__ = ["ASK_SECONDS", "ask_spend", "read_spend"]

ASK_SECONDS = 3.0  # for all of it: whoever was stopped waits for this
AGAIN_SECONDS = 1.0  # the API books a call a moment after it ends, and knows nothing of it until then
CLOSE_SECONDS = 2.0  # closing a connection does not wait for the other side
MAX_BYTES = 256 * 1024


class _Told(msgspec.Struct):
    """The used fields. The native figures are the model's own, as `usage` in a stream has them; the others are estimates."""

    total_cost: Decimal | None = None
    native_tokens_prompt: int | None = None
    native_tokens_completion: int | None = None
    native_tokens_reasoning: int | None = None
    native_tokens_cached: int | None = None
    tokens_prompt: int | None = None
    tokens_completion: int | None = None


class _Body(msgspec.Struct):
    data: _Told


_decoder = msgspec.json.Decoder(_Body, strict=False)


def read_spend(body: bytes) -> Usage | None:
    """The call's usage from the API's answer; None where it does not tell the cost and the tokens."""
    try:
        told = decode(_decoder, body).data
    except ValueError:
        return None
    asked, said = told.native_tokens_prompt or told.tokens_prompt, told.native_tokens_completion or told.tokens_completion
    cost = told.total_cost
    if cost is None or not cost.is_finite() or cost < 0 or asked is None or min(asked, said or 0) < 0:
        return None
    return Usage(
        input_tokens=asked,
        output_tokens=said or 0,
        cached_input_tokens=max(0, told.native_tokens_cached or 0),
        reasoning_tokens=max(0, told.native_tokens_reasoning or 0),
        cost_usd=cost,
    )


async def ask_spend(exchange: Exchange, request: HTTPRequest) -> Usage | None:
    """Ask, and once more a moment later. For a shielded place: it takes at most `ASK_SECONDS` and a moment to close.

    Returns:
        What the API told; None when it told nothing in time.
    """
    with Scope(ASK_SECONDS, quiet=True):
        for wait in (0, AGAIN_SECONDS):
            await anyio.sleep(wait)
            if (told := await _ask(exchange, request)) is not None:
                return told
    return None


async def _ask(exchange: Exchange, request: HTTPRequest) -> Usage | None:
    pieces, size = [], 0
    try:
        answer = await exchange.send(request, lambda: None)
        try:
            while size < MAX_BYTES and (piece := await answer.read()):
                pieces.append(piece)
                size += len(piece)
        finally:
            await finish(CLOSE_SECONDS, answer.aclose)
    except TransportFailed:
        return None
    return read_spend(b"".join(pieces)) if answer.status == 200 else None
