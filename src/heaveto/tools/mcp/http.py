"""A server behind an URL: the SDK's streamable HTTP, over a client that says of each failure what it means.

Left to itself the SDK ends the whole session when one request cannot connect, and reads a gateway's 502 like an error of
the tool. Here a failed request becomes a JSON-RPC error for that request alone, with its meaning in `data`.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ...models.exchange import shown_address, stays_here
from .config import HttpServer
from .streams import MAX_LINE_BYTES, Outgoing, Streams, mended

if TYPE_CHECKING:
    import httpx2

__all__ = ["Meaning", "http_transport", "meaning_of"]

Meaning: TypeAlias = Literal["not_sent", "session_gone", "refused", "lost"]

_MARK = f"heaveto-{secrets.token_hex(8)}"  # so that no server's own error is taken for one of these
_TRANSPORT_FAILED = -32000
_MAX_SHOWN_CHARS = 300
_LEAST_SECRET_CHARS = 8
_NO_PROOF = frozenset({"accept", "user-agent"})  # headers that say nothing of who asks
_METADATA = "resource_metadata"  # where a server that speaks OAuth tells about it (RFC 9728)
TOO_LONG = f"it sent a message of more than {MAX_LINE_BYTES:,} bytes"
_EXAMPLE = '{"Authorization": "Bearer ${TOKEN}"}'


@asynccontextmanager
async def http_transport(server: HttpServer) -> AsyncIterator[Streams]:
    """The server as the SDK's transport."""
    from mcp.client.streamable_http import streamable_http_client

    async with (
        _client(server) as client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=MAX_LINE_BYTES) as (read, write),
    ):
        yield read, Outgoing(write.send, write.aclose)


def meaning_of(data: Any) -> Meaning | None:
    """What an error's `data` says of the request, when the error was made here."""
    return data.get(_MARK) if isinstance(data, dict) else None


def _client(server: HttpServer) -> httpx2.AsyncClient:
    import httpx2

    class Client(httpx2.AsyncClient):
        async def send(self, request: httpx2.Request, **settings: Any) -> httpx2.Response:
            try:
                response = await super().send(request, **settings)
            except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError) as error:
                return _failure(request, 502, "not_sent", _what(error))
            except httpx2.TransportError as error:
                return _failure(request, 502, "lost", _what(error))
            if (meaning := _meaning_of_status(request, response)) is None:
                return _readable(response)
            await response.aclose()
            return _failure(request, response.status_code, meaning, _refusal(server, response))

    limit = server.options.connect_seconds
    return Client(
        headers=dict(server.headers),
        timeout=httpx2.Timeout(None, connect=limit),  # what may take how long is said by scopes
        trust_env=not stays_here(server.url),
    )


def _readable(response: httpx2.Response) -> httpx2.Response:
    """The response with its messages as the SDK can read them, and none that is longer than any message."""
    import httpx2

    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in ("application/json", "text/event-stream"):
        return response

    class Body(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for part in _events(response) if kind == "text/event-stream" else _message(response):
                yield part

        async def aclose(self) -> None:
            await response.aclose()

    headers = [
        (name, value) for name, value in response.headers.multi_items() if name not in ("content-encoding", "content-length")
    ]
    return httpx2.Response(response.status_code, headers=headers, stream=Body(), request=response.request)


async def _message(response: httpx2.Response) -> AsyncIterator[bytes]:
    """A body that is one message. Of one that breaks off the SDK would end the whole session, with every call in it."""
    import httpx2

    body = bytearray()
    try:
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > MAX_LINE_BYTES:
                yield _lost(response, TOO_LONG)
                return
    except httpx2.TransportError as error:
        yield _lost(response, _what(error))
        return
    yield mended(bytes(body))


async def _events(response: httpx2.Response) -> AsyncIterator[bytes]:
    """A stream of events, each message of which is in one line, as all servers write them."""
    rest = bytearray()
    async for chunk in response.aiter_bytes():
        *lines, tail = chunk.split(b"\n")
        for line in lines:
            yield _event_line(bytes(rest) + line) + b"\n"
            rest.clear()
        rest += tail
        if len(rest) > MAX_LINE_BYTES:
            yield b"data: " + _lost(response, TOO_LONG) + b"\n\n"
            return
    yield _event_line(bytes(rest))


def _event_line(line: bytes) -> bytes:
    name, colon, value = line.partition(b":")
    return name + colon + mended(value) if name == b"data" and value.strip() else line


def _meaning_of_status(request: httpx2.Request, response: httpx2.Response) -> Meaning | None:
    """What a status means that brings no JSON-RPC answer; None for one that does."""
    if response.status_code < 400:
        return None
    if response.status_code == 404 and "mcp-session-id" in request.headers:
        return "session_gone"
    if response.status_code == 401:
        return "refused"  # whatever its body is: it says less than the headers
    if response.headers.get("content-type", "").lower().startswith("application/json"):
        return None
    return "refused" if response.status_code < 500 else "lost"


def _failure(request: httpx2.Request, status: int, meaning: Meaning, problem: str) -> httpx2.Response:
    import httpx2

    text = f"{request.method} {shown_address(str(request.url))}: {problem}"
    error = {"code": _TRANSPORT_FAILED, "message": text, "data": {_MARK: meaning}}
    return httpx2.Response(status, json={"jsonrpc": "2.0", "id": None, "error": error}, request=request)


def _refusal(server: HttpServer, response: httpx2.Response) -> str:
    """The status, and of a server that wants to know who asks, what it wants and where that is given."""
    said = f"{response.status_code} {response.reason_phrase}".rstrip()
    challenge = response.headers.get("www-authenticate", "")
    if response.status_code != 401 and not (response.status_code == 403 and challenge):
        return said
    wants = f"it asks for {_shown(server, challenge)}" if challenge else "it does not say what it asks for"
    given = ", ".join(name for name in server.headers if name.lower() not in _NO_PROOF)
    remedy = (
        f"it does not take what mcpServers gives it in {given}: see whether that is right, and still valid"
        if given
        else f'give it that in mcpServers: "headers": {_EXAMPLE}'
    )
    oauth = "; heaveto does not go through OAuth itself, so get a token from elsewhere" if _METADATA in challenge else ""
    return f"{said}; {wants}; {remedy}{oauth}"


def _shown(server: HttpServer, challenge: str) -> str:
    """What a server asks for, within bounds, without control characters and without what it was given."""
    text = "".join(each if each.isprintable() else "?" for each in challenge)
    secrets_given = {part for value in server.headers.values() for part in (value, *value.split())}
    for each in sorted(secrets_given, key=len, reverse=True):
        if len(each) >= _LEAST_SECRET_CHARS:
            text = text.replace(each, "...")
    return text if len(text) <= _MAX_SHOWN_CHARS else f"{text[:_MAX_SHOWN_CHARS]}..."


def _what(error: Exception) -> str:
    return str(error).rstrip(".").lower() or type(error).__name__


def _lost(response: httpx2.Response, problem: str) -> bytes:
    """The answer to a request whose own never came."""
    request = json.loads(response.request.content or b"{}")
    error = {"code": _TRANSPORT_FAILED, "message": problem, "data": {_MARK: "lost"}}
    return json.dumps({"jsonrpc": "2.0", "id": request.get("id"), "error": error}).encode()
