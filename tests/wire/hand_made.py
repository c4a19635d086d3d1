"""Each oddity that was seen in an API's replies, in a small reply made by hand."""

from __future__ import annotations

from collections.abc import Iterator

from made_chat import chat_bodies, chat_streams
from made_gemini import gemini_bodies, gemini_refusals, gemini_streams
from made_messages import messages_bodies, messages_streams
from made_responses import responses_bodies, responses_streams
from making import Json
from replies import Reply

__all__ = ["hand_made"]


def hand_made() -> list[Reply]:
    """All of them, in every dialect."""
    return [
        *chat_streams(),
        *chat_bodies(),
        *messages_streams(),
        *messages_bodies(),
        *responses_streams(),
        *responses_bodies(),
        *gemini_streams(),
        *gemini_bodies(),
        *gemini_refusals(),
        *refusals(),
    ]


def refusals() -> Iterator[Reply]:
    def made(
        name: str,
        status: int,
        content: bytes,
        message: str | None,
        *,
        retryable: bool,
        wait: float | None = None,
        **headers: str,
    ) -> Reply:
        expected: Json = {"outcome": "http_error", "http_status": status, "retryable": retryable, "error": {}}
        if message is not None:
            expected["error"]["message"] = message
        if wait is not None:
            expected["retry_after_header"] = str(wait)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return Reply(
            name=f"made-{name}", dialect="chat", stream=False, body=content, expected=expected, status=status, headers=named
        )

    yield made(
        "429-wait-of-nothing",
        429,
        b'{"error": {"message": "slow"}}',
        "slow",
        retryable=True,
        wait=1,
        retry_after="1",
        retry_after_ms="0",
    )
    yield made(
        "429-wait-in-ms", 429, b'{"error": {"message": "slow"}}', "slow", retryable=True, wait=0.25, retry_after_ms="250"
    )
    reset = b'{"error": {"message": "daily", "code": 429, "metadata": {"headers": {"X-RateLimit-Reset": "1700000060000"}}}}'
    yield made("429-wait-in-the-body", 429, reset, "daily", retryable=True, wait=60)
    yield made("401-detail", 401, b'{"detail": "Unauthorized"}', "Unauthorized", retryable=False)
    yield made("500-nothing", 500, b"", None, retryable=True)
    yield made(
        "502-page",
        502,
        b"<html><title>Bad gateway</title>",
        "an HTML page where JSON was expected: Bad gateway",
        retryable=True,
    )
    yield made("500-do-not-retry", 500, b'{"error": {"message": "no"}}', "no", retryable=False, x_should_retry="false")
    yield made(
        "529-overloaded",
        529,
        b'{"type": "error", "error": {"type": "overloaded_error", "message": "full"}}',
        "full",
        retryable=True,
    )
