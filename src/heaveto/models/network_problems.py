"""What a failed exchange is called: words of ours for the errors of any HTTP library, told apart by class, never by text."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Mapping

from ..errors import TransportFailed
from .exchange import HTTPRequest
from .unpacking import NotUnpacked

__all__ = ["transport_failed"]

REASONS: dict[type[BaseException], str] = {  # what lies below "no connection", where a person can use it
    ssl.SSLCertVerificationError: "the server's certificate is not trusted",
    ssl.SSLError: "TLS failed",
    socket.gaierror: "the host name is not known",
    ConnectionRefusedError: "refused",
}


def transport_failed(error: Exception, request: HTTPRequest, problems: Mapping[type[Exception], str]) -> TransportFailed:
    """The error to raise from a library's own.

    Args:
        problems: The library's classes, the first that fits; the last fits all. `NotUnpacked` has words of its own.
    """
    if isinstance(error, NotUnpacked):
        return TransportFailed(request.method, request.address, str(error), True)
    problem = next(words for kind, words in problems.items() if isinstance(error, kind))
    if reason := _reason(error):
        problem = f"{problem}: {reason}"
    stays = any(isinstance(each, ssl.SSLCertVerificationError) for each in (error, *_all_below(error)))
    return TransportFailed(request.method, request.address, problem, not stays)


def _reason(error: BaseException) -> str | None:
    below = list(_all_below(error))
    return next((words for kind, words in REASONS.items() if any(isinstance(each, kind) for each in below)), None)


def _all_below(error: BaseException) -> Iterator[BaseException]:
    """Also what `from None` hides, as httpcore does with the OSError: for the words, never for a decision."""
    inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    for each in (error.__cause__ or error.__context__, *inner):
        if each is not None:
            yield each
            yield from _all_below(each)
