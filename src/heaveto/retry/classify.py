"""Whether trying again can help. The rules, in order; the first that applies decides:

1. the caller's own scope is stopped: never, whatever the error says (an attempt's own limit is not that);
2. a fatal tool, an unknown outcome, a person who is waited for, or a budget is in the chain: never;
3. the outermost error that reports on itself is believed: `retryable` and `retry_delay`, attributes or methods;
4. something in the chain or group is a timeout: yes;
5. something in it is a network error that passes (an untrusted certificate and an unknown name do not): yes;
6. else no.
"""

from __future__ import annotations

import socket
import ssl
import sys
from collections.abc import Iterator
from typing import Any

import anyio
import msgspec

from ..errors import BudgetExhausted, OutcomeUnknown, ToolFatal, Waiting, walk
from ..scopes import pending_cause

__all__ = ["Decision", "classify"]

NEVER = (ToolFatal, OutcomeUnknown, Waiting, BudgetExhausted)
NETWORK = (
    ConnectionError,  # reset, refused, aborted, a broken pipe, http.client's RemoteDisconnected
    anyio.BrokenResourceError,
    anyio.EndOfStream,
    ssl.SSLEOFError,
    ssl.SSLZeroReturnError,
)
NETWORK_BY_NAME = frozenset(  # of packages that need not be there; a stream reset of HTTP/2 is a RemoteProtocolError
    (package, name)
    for packages, names in (
        (("httpx2", "httpx", "httpcore2", "httpcore"), ("NetworkError", "RemoteProtocolError", "TimeoutException")),
        (("aiohttp",), ("ClientConnectionError", "ClientPayloadError", "ServerDisconnectedError")),
        (("h2",), ("StreamClosedError", "NoAvailableStreamIDError")),
        (("http",), ("IncompleteRead",)),
        (("urllib3",), ("ProtocolError", "NewConnectionError")),
    )
    for package in packages
    for name in names
)


class Decision(msgspec.Struct, frozen=True):
    """What to do about an error.

    Attributes:
        why: In a few words, for people.
        after: The least wait in seconds that the error asks for; None where it asks for none.
    """

    retry: bool
    why: str
    after: float | None = None


def classify(error: BaseException | None, scope_stopped: bool | None = None) -> Decision:
    """Decide whether to try again after `error`.

    Args:
        scope_stopped: Whether the caller's own scope is stopped; None looks, and also sees a stop that a grace holds off.
    """
    if error is None:
        return Decision(False, "there is no error")
    if pending_cause() is not None if scope_stopped is None else scope_stopped:
        return Decision(False, "the run is being stopped")
    chain = list(walk(error))
    if any(isinstance(each, NEVER) for each in chain):
        return Decision(False, "trying again would do harm or nothing")
    if (said := next(_reports(chain), None)) is not None:
        return said
    if any(_is_timeout(each) for each in chain):
        return Decision(True, "it timed out")
    if any(_is_network(each) for each in chain) and not any(_stays(each) for each in chain):
        return Decision(True, "the network failed")
    return Decision(False, "nothing says that trying again can help")


def _reports(chain: list[BaseException]) -> Iterator[Decision]:
    for each in chain:
        retryable = _asked(each, "retryable")
        if isinstance(retryable, bool):
            why = "the error says that it may pass" if retryable else "the error says that trying again cannot help"
            delay = _asked(each, "retry_delay")
            yield Decision(retryable, why, float(delay) if _is_wait(delay) else None)


def _asked(error: BaseException, name: str) -> Any:
    """An attribute, or what a method without arguments returns; both are how errors report on themselves."""
    try:
        value = getattr(error, name, None)
        return value() if callable(value) else value
    except Exception:  # boundary: somebody's property, or a method that wants arguments, reports nothing
        return None


def _is_wait(delay: Any) -> bool:
    return isinstance(delay, (int, float)) and not isinstance(delay, bool) and 0 <= delay <= sys.float_info.max


def _is_timeout(error: BaseException) -> bool:
    # `is True`: in other people's exceptions `timeout` is often a number of seconds
    return isinstance(error, TimeoutError) or _asked_for_timeout(error) is True


def _asked_for_timeout(error: BaseException) -> Any:
    return _asked(error, "timeout")


def _stays(error: BaseException) -> bool:
    """Whether it is one of the failures of a connection that come again: HTTP libraries call them like those that pass."""
    if isinstance(error, socket.gaierror):
        return error.errno != socket.EAI_AGAIN
    return isinstance(error, ssl.SSLCertVerificationError) or type(error).__name__ == "ServerFingerprintMismatch"


def _is_network(error: BaseException) -> bool:
    if isinstance(error, NETWORK):
        return True
    if isinstance(error, socket.gaierror):
        return error.errno == socket.EAI_AGAIN  # the name server did not answer; an unknown name stays unknown
    return any((kind.__module__.partition(".")[0], kind.__name__) in NETWORK_BY_NAME for kind in type(error).__mro__)
