"""What httpcore leaves undone where HTTP/2 has many requests on one connection, and a stop or an error is of one of them.

The rules of this file:
- A stream that is given up is reset, whether its answer had begun or not, and the window of its unread bytes given back.
- A stop cuts no write: what httpcore had taken out to send would be lost, and with it the connection for all streams. A
  server that takes nothing for longer than a write may last is as good as gone.
- Nor does it cut the few awaits in which httpcore makes a new connection ready for its first request: its count of streams
  would be wrong from then on.
- A connection on which a time limit passed may be dead, which only its silence tells, so it gets no new requests. One that
  gets none is closed with its last stream.
- A server's good-bye (GOAWAY) without an error ends no stream that the server still answers, as h2 would have it. Those
  that it did not look at are refused, and it gets no new ones (RFC 9113, 6.8).
- A frame that is too long is an error when its head has come: h2 would wait for all of it, up to 16 MB.
- An answer without a status, which httpcore would take for a 200, is none.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

import anyio
import httpcore2
import httpx2

from ..causes import DeadlinePassed, SaveTimeout
from ..scopes import current_cause, finish

__all__ = [
    "MakingReady",
    "check_frames",
    "close_left",
    "give_up",
    "reset_of",
    "speaks_http2",
    "uncut",
    "was_looked_at",
    "was_refused",
]

HEAD_BYTES = 9  # of a frame: its length, kind, flags and stream (RFC 9113, 4.1)
RST_STREAM, GOAWAY = 3, 7
NO_ERROR, REFUSED_STREAM = 0, 7
STREAM_NUMBER = 0x7FFFFFFF  # without the reserved bit

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


class BrokenProtocol(httpcore2.RemoteProtocolError):
    """What came on a connection is no HTTP/2."""


class SaidGoodBye(httpcore2.RemoteProtocolError):
    """The server takes no more requests on a connection."""


def was_refused(error: Exception) -> bool:
    """Whether the server says that it did nothing for a request, so that it may be sent again (RFC 9113, 8.7)."""
    told = error.args[0] if error.args else None
    return isinstance(error, SaidGoodBye) or getattr(told, "error_code", None) == REFUSED_STREAM


def was_looked_at(error: Exception) -> bool:
    """Whether the server may have done something for a request: it named its stream, or the connection, or sent nonsense."""
    named = bool(error.args) and not isinstance(error.args[0], str)  # by an event of h2's: a stream reset, a good-bye
    return isinstance(error, BrokenProtocol) or (named and not was_refused(error))


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
    from h2.events import ConnectionTerminated, DataReceived
    from h2.exceptions import ProtocolError

    if (connection := _connection_of(client, url, request)) is None:
        return
    if isinstance(current_cause(), DeadlinePassed) or _is_forgotten(client, url, connection):
        connection._connection_error = True
    is_over = connection._connection_error and connection._events.keys() <= {number}
    if is_over:
        connection._connection_terminated = connection._connection_terminated or ConnectionTerminated()  # so it is closed
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
    if is_over:
        await finish(WRITE_SECONDS, connection._network_stream.aclose)  # httpcore's own closing a stop would cut


def check_frames(client: httpx2.AsyncClient, url: str, request: Any) -> None:
    """See to it that a connection's frames are looked at before h2 takes them in. Arguments as for `give_up`.

    Raises:
        SaidGoodBye: The request must not go out on this connection.
    """
    if (connection := _connection_of(client, url, request)) is None:
        return
    if not isinstance(frames := getattr(connection._h2_state.receive_data, "__self__", None), _Frames):
        frames = _Frames(connection)
        connection._h2_state.receive_data = frames.receive
    if connection._connection_error:  # it waited for its turn on it
        raise SaidGoodBye("the server takes no more requests on this connection")


def reset_of(client: httpx2.AsyncClient, url: str, request: Any, error: Exception) -> httpcore2.RemoteProtocolError | None:
    """The server's reset of a stream to which a request was still going out, when that is why h2 raised `error`."""
    from h2.events import StreamReset
    from h2.exceptions import StreamClosedError

    if not isinstance(error, StreamClosedError) or (connection := _connection_of(client, url, request)) is None:
        return None
    events = connection._events.get(error.stream_id, ())
    reset = next((each for each in events if isinstance(each, StreamReset)), None)
    return None if reset is None else httpcore2.RemoteProtocolError(reset)


async def close_left(client: httpx2.AsyncClient, url: str, streams: list[Any]) -> None:
    """Close the connections that no request is on and that the pool has forgotten, which a stop brings about.

    Args:
        streams: Of every HTTP/2 connection that the client has made; those that are closed are taken out.
    """
    pool = _pool_of(client, url)
    held = [*pool._connections, *(each.connection for each in pool._requests)]
    used = [getattr(getattr(each, "_connection", None), "_network_stream", None) for each in held]
    left = [each for each in streams if all(each is not other for other in used)]
    streams[:] = [each for each in streams if all(each is not other for other in left)]  # before anybody else comes by
    for stream in left:
        await stream.aclose()


class _Frames:
    """The frames that come on a connection.

    Attributes:
        said_good_bye: Whether the server takes no more requests on it.
    """

    def __init__(self, connection: Any) -> None:
        self._connection, self._h2_receive = connection, connection._h2_state.receive_data
        self._unread = b""  # a frame's head that has not all come, or a good-bye that has not
        self._payload = 0  # bytes that are still to come of the frame that is passed on
        self.said_good_bye = False

    def receive(self, data: bytes) -> Any:
        """h2's events of these bytes.

        Raises:
            BrokenProtocol: They break the protocol. Then nothing more is read from the connection.
        """
        from h2.exceptions import ProtocolError

        try:
            events = self._h2_receive(b"".join(self._pass_on(self._unread + data)))
            _check_statuses(events)
            return events
        except ProtocolError as error:
            self._connection._connection_error = True
            self._connection._read_exception = broken = BrokenProtocol(str(error))
            raise broken from error

    def _pass_on(self, data: bytes) -> Iterator[bytes]:
        at, self._unread = 0, b""
        while at < len(data):
            if self._payload:
                piece = data[at : at + self._payload]
                self._payload -= len(piece)
                at += len(piece)
                yield piece
                continue
            size = HEAD_BYTES + self._check_length(data[at : at + 3])
            if len(data) < at + HEAD_BYTES or (data[at + 3] == GOAWAY and len(data) < at + size):
                self._unread = data[at:]
                return
            if data[at + 3] == GOAWAY:
                yield self._good_bye(data[at : at + size])
                at += size
            else:
                self._payload = size

    def _check_length(self, head: bytes) -> int:
        from h2.exceptions import FrameTooLargeError

        length, most = int.from_bytes(head), self._connection._h2_state.max_inbound_frame_size
        if length > most and len(head) == 3:
            raise FrameTooLargeError(f"a frame of {length:,} bytes, and {most:,} are the most")
        return length

    def _good_bye(self, frame: bytes) -> bytes:
        """What h2 gets in the place of a good-bye."""
        if len(frame) < HEAD_BYTES + 8:
            return frame
        last, code = struct.unpack_from(">II", frame, HEAD_BYTES)
        self.said_good_bye = self._connection._connection_error = True
        refused = sorted(each for each in self._connection._events if each > last & STREAM_NUMBER)
        return b"".join([*map(_refusal_of, refused), b"" if code == NO_ERROR else frame])


def _check_statuses(events: Iterable[Any]) -> None:
    from h2.events import ResponseReceived
    from h2.exceptions import ProtocolError

    for event in events:
        if isinstance(event, ResponseReceived):
            status = next((value for name, value in event.headers or () if name == b":status"), b"")
            if len(status) != 3 or not status.isdigit():
                raise ProtocolError("an answer without a status")


def _refusal_of(stream: int) -> bytes:
    return struct.pack(">IBII", 4 << 8 | RST_STREAM, 0, stream, REFUSED_STREAM)


def _connection_of(client: httpx2.AsyncClient, url: str, request: Any) -> Any:
    """The connection that a request is on. Before there is an answer, only httpcore's pool knows."""
    held = next((each.connection for each in _pool_of(client, url)._requests if each.request is request), None)
    connection = getattr(held, "_connection", None)
    return connection if hasattr(connection, "_h2_state") else None


def _is_forgotten(client: httpx2.AsyncClient, url: str, connection: Any) -> bool:
    """Whether the pool will never close it: a stop of who began to make it had it forgotten, and others went on with it."""
    return all(getattr(held, "_connection", None) is not connection for held in _pool_of(client, url)._connections)


def _pool_of(client: httpx2.AsyncClient, url: str) -> Any:
    transport: Any = client._transport_for_url(httpx2.URL(url))
    return transport._pool
