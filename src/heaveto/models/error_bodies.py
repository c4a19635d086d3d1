"""What the APIs say when they refuse: every provider's shape of an error, and the waits that they ask for.

Shapes seen: `{"error": {"message", "code", "status_code", "metadata"}}`, `{"error": "text"}`, `{"detail": "text" | [...]}`,
`{"message": "text"}`, `[{"error": {"code", "message", "status", "details"}}]`, plain text, an HTML page of a proxy, nothing.
"""

from __future__ import annotations

import email.utils
import html
import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from ..errors import APIError
from .json_bytes import read_json

__all__ = ["ErrorBody", "api_error", "asked_wait", "page_title", "read_error", "read_error_object", "should_retry"]

MAX_MESSAGE_CHARS = 1000  # a message is for people; a provider may put a whole request into it
HTML_PAGE = re.compile(rb"\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL)
TITLE = re.compile(rb"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)


class ErrorBody(msgspec.Struct, frozen=True):
    """An error as the API told it.

    Attributes:
        status: The HTTP status that the body itself gives; None where it gives none.
        code: The API's own code, a number or a word.
        wait_until: When it may be tried again (seconds since 1970), where the body says so.
        wait_seconds: After how many seconds it may be, where the body says that.
    """

    message: str
    status: int | None = None
    code: str | int | None = None
    wait_until: float | None = None
    wait_seconds: float | None = None


def read_error(body: bytes) -> ErrorBody:
    """The error in a body of any kind."""
    if not body.strip():
        return ErrorBody("an empty body")
    try:
        data = read_json(body)
    except ValueError:
        return ErrorBody(_short(page_title(body) or body.decode("utf-8", "replace")))
    return read_error_object(data)


def page_title(body: bytes) -> str | None:
    """A sentence about an HTML page; None when the bytes are none."""
    if not HTML_PAGE.match(body):
        return None
    match = TITLE.search(body)
    title = html.unescape(match[1].decode("utf-8", "replace")).strip() if match else ""
    return f"an HTML page where JSON was expected: {_short(title or 'it has no title')}"


def read_error_object(data: Any) -> ErrorBody:
    """The error in decoded JSON."""
    if isinstance(data, list):
        data = data[0] if data else {}
    if not isinstance(data, dict):
        return ErrorBody(_short(data if isinstance(data, str) else json.dumps(data)))
    inner = data.get("error") or data
    if isinstance(inner, str):
        return ErrorBody(_short(inner), _status(data.get("status_code")), _code(data.get("code")))
    if not isinstance(inner, dict):
        return ErrorBody(_short(json.dumps(inner)))
    code = _code(inner.get("code"))
    if code is None:
        code = _code(inner.get("type"))
    metadata = inner.get("metadata") if isinstance(inner.get("metadata"), dict) else {}
    return ErrorBody(
        _message(inner, metadata or {}),
        _status(inner.get("status_code")) or _status(inner.get("status")) or _status(code),
        code,
        _reset_time(metadata or {}),
        _retry_delay(inner.get("details")),
    )


def _message(inner: Mapping[str, Any], metadata: Mapping[str, Any]) -> str:
    said = next((inner[key] for key in ("message", "detail", "msg", "error_description") if inner.get(key)), None)
    text = said if isinstance(said, str) else json.dumps(said if said is not None else dict(inner), ensure_ascii=False)
    raw = metadata.get("raw")  # OpenRouter: what the provider behind it said
    if not raw:
        return _short(text)
    upstream = raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False)
    who = metadata.get("provider_name")
    return _short(f"{text} ({f'{who}: ' if who else ''}{_upstream_message(upstream)})")


def _upstream_message(text: str) -> str:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return read_error_object(data).message if isinstance(data, dict) else text


def _code(value: Any) -> str | int | None:
    return value if isinstance(value, (str, int)) else None


def _status(value: Any) -> int | None:
    if isinstance(value, str) and len(value) == 3 and value.isdecimal():  # int() refuses thousands of digits
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 100 <= value < 600 else None


def _reset_time(metadata: Mapping[str, Any]) -> float | None:
    headers = metadata.get("headers")
    reset = headers.get("X-RateLimit-Reset") if isinstance(headers, dict) else None
    try:
        return float(reset) / 1000 if reset else None  # OpenRouter: milliseconds since 1970
    except (TypeError, ValueError, OverflowError):
        return None


def _retry_delay(details: Any) -> float | None:
    """Google's RetryInfo, such as "34.5s"."""
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str) and (seconds := _number(delay.removesuffix("s"), 1)):
            return seconds
    return None


def _short(text: str) -> str:
    """One line without control characters, which a terminal would obey."""
    text = "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in " ".join(text.split()))
    text = text or "no message"
    return text if len(text) <= MAX_MESSAGE_CHARS else text[: MAX_MESSAGE_CHARS - 3] + "..."


def api_error(provider: str, status: int, headers: Mapping[str, str], body: bytes, now: float) -> APIError:
    """The error of an answer that is not a 2xx.

    Args:
        headers: With lower-case names.
        now: Seconds since 1970, for waits that are given as a date.
    """
    error = read_error(body)
    wait = asked_wait(headers, now)
    if wait is None:
        wait = error.wait_seconds
    if wait is None and error.wait_until is not None and now < error.wait_until < float("inf"):
        wait = error.wait_until - now
    return APIError(provider, status, error.message, wait, should_retry(headers))


def asked_wait(headers: Mapping[str, str], now: float) -> float | None:
    """The wait that the server asked for, in seconds.

    A wait of nothing is not one: Azure sends `retry-after-ms: 0` beside `retry-after: 1`.
    """
    waits = (_number(headers.get("retry-after-ms"), 1000), _retry_after(headers.get("retry-after"), now))
    return next((wait for wait in waits if wait is not None and wait > 0), None)


def _retry_after(value: str | None, now: float) -> float | None:
    seconds = _number(value, 1)
    if seconds is not None or value is None:
        return seconds
    try:
        return email.utils.parsedate_to_datetime(value).timestamp() - now
    except (ValueError, TypeError, OverflowError):
        return None


def _number(value: str | None, unit: float) -> float | None:
    try:
        number = float(value or "") / unit
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def should_retry(headers: Mapping[str, str]) -> bool | None:
    """What `x-should-retry` says; None where it says nothing."""
    return {"true": True, "false": False}.get(headers.get("x-should-retry", "").strip().lower())
