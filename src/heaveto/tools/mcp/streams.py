"""What goes out to a server: a cancellation with our cause, and whether a call has left."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import anyio

from ...causes import StoppedFromOutside
from ...scopes import current_cause

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

__all__ = ["Departure", "Outgoing", "Streams", "departing"]

Streams: TypeAlias = Any  # the SDK's pair of a read and a write stream

CANCELLED = "notifications/cancelled"


class Departure:
    """Whether a call has left for its server.

    Attributes:
        sent: False while the server cannot have seen it.
    """

    def __init__(self) -> None:
        self.sent = False


_departure: ContextVar[Departure | None] = ContextVar("heaveto_mcp_departure", default=None)


@contextmanager
def departing() -> Iterator[Departure]:
    """A block in which this task sends one call."""
    token = _departure.set(departure := Departure())
    try:
        yield departure
    finally:
        _departure.reset(token)


class Outgoing:
    """The SDK's write stream around another one, or around a function. A call is sent by the task that makes it."""

    def __init__(self, send: Callable[[SessionMessage], Awaitable[None]], close: Callable[[], Awaitable[None]]) -> None:
        self._send, self._close = send, close

    async def send(self, item: SessionMessage, /) -> None:
        give_reason(item)
        departure = _departure.get()
        if departure is None:
            await self._send(item)
            return
        had_left, departure.sent = departure.sent, True
        try:
            await self._send(item)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            departure.sent = had_left  # nobody was there to take it
            raise

    async def aclose(self) -> None:
        await self._close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


def give_reason(item: SessionMessage) -> None:
    """Put the cause of the stop into a cancellation; the SDK only says that the caller cancelled."""
    message = item.message
    if getattr(message, "method", "") == CANCELLED and isinstance(params := getattr(message, "params", None), dict):
        params["reason"] = str(current_cause() or StoppedFromOutside())
