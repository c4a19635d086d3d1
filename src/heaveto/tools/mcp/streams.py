"""Messages as lines, and what goes out to a server: a cancellation with our cause, and whether a call has left."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import anyio

from ...causes import StoppedFromOutside
from ...errors import ToolError
from ...scopes import current_cause
from ..processes.launched import read_some
from ..surrogates import replace_surrogates

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectSendStream
    from mcp.shared.message import SessionMessage
    from mcp_types import JSONRPCMessage

__all__ = [
    "Departure",
    "Outgoing",
    "Streams",
    "TakeLine",
    "deliver",
    "departing",
    "encode",
    "mended",
    "read_lines",
]

Streams: TypeAlias = Any  # the SDK's pair of a read and a write stream
TakeLine: TypeAlias = Callable[[bytes], Awaitable[None]]

MAX_LINE_BYTES = 32_000_000  # of one message; who sends more than that without a line break is broken

CANCELLED = "notifications/cancelled"
UNREADABLE = "the server answered in a way that cannot be read"
_GOING = "Connection closed"  # what a server on the SDK says of the calls that it has given up, since it ends
_ODD = re.compile(rb"-32000|\\u[dD][89a-fA-F]")  # the SDK's code for a lost connection; perhaps half a character


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


def encode(item: SessionMessage) -> bytes:
    """A message as a line."""
    return item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"


async def deliver(
    incoming: MemoryObjectSendStream[SessionMessage | Exception], stray: Callable[[bytes], object], line: bytes
) -> None:
    """Hand a line to the SDK as a message; to `stray` what is none, since many a program prints on its standard output."""
    from mcp.shared.message import SessionMessage

    if not line.strip():
        return
    if (message := _message(line)) is None:
        stray(line + b"\n")
        return
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # nobody listens any more
        await incoming.send(SessionMessage(message))


def _message(line: bytes) -> JSONRPCMessage | None:
    from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, JSONRPCError, jsonrpc_message_adapter

    try:
        message: JSONRPCMessage | None = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        message = _mended(line)
    if isinstance(message, JSONRPCError) and message.error.code == CONNECTION_CLOSED and message.error.message != _GOING:
        message.error.code = INTERNAL_ERROR  # many a server's code for any error is the SDK's for a lost connection
    return message


def _mended(line: bytes) -> JSONRPCMessage | None:
    """A message with signs for what is no text in it; for an answer that is none all the same an error.

    Dropped, its call would wait for it until a limit passes. None for what is no message.
    """
    from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter

    try:
        parsed = json.loads(line.decode(errors="replace"))
        if not isinstance(parsed, dict) or parsed.get("jsonrpc") != "2.0":
            return None
        text = replace_surrogates(json.dumps(parsed, ensure_ascii=False))
    except (ValueError, RecursionError):
        return None
    with suppress(ValueError):
        return jsonrpc_message_adapter.validate_json(text, by_name=False)
    if "method" in parsed or type(parsed.get("id")) not in (int, str):
        return None
    return JSONRPCError(jsonrpc="2.0", id=parsed["id"], error=ErrorData(code=INTERNAL_ERROR, message=UNREADABLE))


def mended(message: bytes) -> bytes:
    """A message as it came, or as the SDK can read it: see `_message`."""
    if _ODD.search(message) is None and is_utf8(message):
        return message
    read = _message(message)
    return message if read is None else read.model_dump_json(by_alias=True, exclude_unset=True).encode()


def is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


async def read_lines(descriptor: int, take: TakeLine) -> None:
    """Give each line to `take`, until there are no more.

    Raises:
        ToolError: A line is longer than any message.
    """
    rest = bytearray()
    while chunk := await read_some(descriptor):
        *lines, tail = chunk.split(b"\n")
        for line in lines:
            await take(bytes(rest) + line)
            rest.clear()
        rest += tail
        if len(rest) > MAX_LINE_BYTES:
            raise ToolError(f"it sent a line of more than {MAX_LINE_BYTES:,} bytes")
