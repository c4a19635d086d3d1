"""What httpcore leaves undone where a stop comes: HTTP/2 has many requests on one connection, and a stop is of one of them.

The rules of this file:
- A stream that is given up is reset, whether its answer had begun or not, and the window of its unread bytes given back.
- A stop cuts no write: what httpcore had taken out to send would be lost, and with it the connection for all streams. A
  server that takes nothing for longer than a write may last is as good as gone.
- Nor does it cut the few awaits in which httpcore makes a new connection ready for its first request: its count of streams
  would be wrong from then on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import httpcore2
import httpx2

from ..causes import SaveTimeout
from ..scopes import finish

__all__ = ["MakingReady", "give_up", "speaks_http2", "uncut"]

WRITE_SECONDS = 5.0  # of one write, which is a frame or a few; httpx2's own default


def speaks_http2(stream: Any) -> bool:
    """Whether a connection's stream has agreed on HTTP/2."""
    tls = stream.get_extra_info("ssl_object")
    return tls is not None and tls.selected_alpn_protocol() == "h2"


def uncut(write: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """A stream's `write` that a stop does not cut."""

    async def writing(data: bytes, *_: Any, **__: Any) -> None:
        if not data:
            return
        try:
            await finish(WRITE_SECONDS, write, data)
        except SaveTimeout as error:
            raise httpcore2.WriteTimeout(f"{WRITE_SECONDS:.0f} s") from error

    return writing


class MakingReady:
    """A shield that begins and ends in two calls of httpcore's trace. Nothing in it waits for the server."""

    def __init__(self) -> None:
        self._shield: anyio.CancelScope | None = None

    def begin(self) -> None:
        self._shield = anyio.CancelScope(shield=True)  # heaveto: allow raw-scope it ends in another call, in a moment
        self._shield.__enter__()

    def end(self) -> None:
        """Also when it is over, or never began."""
        shield, self._shield = self._shield, None
        if shield is not None:
            shield.__exit__(None, None, None)


async def give_up(client: httpx2.AsyncClient, url: str, request: Any, number: int) -> None:
    """Tell the server that nobody waits for a stream any more, before httpcore forgets it and says nothing.

    Else the server works and sends on, and after 16 MB of it the connection is dead for every other stream.

    Args:
        url: Where the request went.
        request: The request as httpcore has it.
        number: The stream's.
    """
    from h2.errors import ErrorCodes  # loaded by whoever uses HTTP/2
    from h2.events import DataReceived
    from h2.exceptions import ProtocolError

    if (connection := _connection_of(client, url, request)) is None:
        return
    state = connection._h2_state
    try:
        for event in connection._events.get(number, ()):
            if isinstance(event, DataReceived):
                state.acknowledge_received_data(event.flow_controlled_length, number)
        if number in state.streams and not state.streams[number].closed:
            state.reset_stream(number, ErrorCodes.CANCEL)
        await connection._write_outgoing_data(request)
    except (ProtocolError, httpcore2.NetworkError, httpcore2.TimeoutException):
        pass  # the stream or the connection is gone, and its windows with it


def _connection_of(client: httpx2.AsyncClient, url: str, request: Any) -> Any:
    """The connection that a request is on. Before there is an answer, only httpcore's pool knows."""
    pool: Any = getattr(client._transport_for_url(httpx2.URL(url)), "_pool", None)
    held = next((each.connection for each in getattr(pool, "_requests", ()) if each.request is request), None)
    connection = getattr(held, "_connection", None)
    return connection if hasattr(connection, "_h2_state") else None
