"""One HTTP exchange, as the clients see it: a request out, a status, headers and pieces of a body back."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from typing import Protocol
from urllib.parse import SplitResult, urlsplit, urlunsplit

import msgspec

from ..errors import ConfigError

__all__ = [
    "Answer",
    "Exchange",
    "HTTPRequest",
    "check_header",
    "exchange_named",
    "is_loopback",
    "shown_address",
    "stays_here",
]


class HTTPRequest(msgspec.Struct, frozen=True):
    """What goes out. `headers` may hold a key, so they are not shown."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def address(self) -> str:
        """The URL as errors may show it."""
        return shown_address(self.url)

    def __repr__(self) -> str:
        return f"HTTPRequest({self.method!r}, {self.address!r}, {len(self.body)} bytes)"


class Answer(Protocol):
    """What comes back. Read it to its end, or close it."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """With lower-case names."""
        ...

    async def read(self) -> bytes:
        """The next piece of the body; empty at its end, where the connection is given back to be used again.

        Raises:
            TransportFailed: The connection broke.
        """
        ...

    async def aclose(self) -> None:
        """Close the connection if the body is not at its end. A second call does nothing."""
        ...


class Exchange(Protocol):
    """Sends requests. It keeps connections, and nothing of the scope of whoever used it first."""

    async def send(self, request: HTTPRequest, connected: Callable[[], None]) -> Answer:
        """Send a request and wait for the answer's head. Redirects are not followed: the key would go along.

        Args:
            connected: Called when there is a connection and the request begins to go out.

        Raises:
            TransportFailed: The network failed.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections. A later `send` opens new ones."""
        ...


def exchange_named(name: str) -> Exchange:
    """An exchange by the library that it is over: "httpx2" or "aiohttp".

    Raises:
        ConfigError: When there is none of that name, or aiohttp is not installed.
    """
    if name == "httpx2":
        from .httpx_exchange import HttpxExchange

        return HttpxExchange()
    if name != "aiohttp":
        raise ConfigError(f'no exchange named "{name}"', 'it is "httpx2" or "aiohttp"')
    try:
        from .aiohttp_exchange import AiohttpExchange
    except ImportError as error:
        raise ConfigError("aiohttp is not installed", 'pip install "heaveto[fast]"') from error
    return AiohttpExchange()


def shown_address(url: str) -> str:
    """The URL without query and credentials."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(SplitResult(parts.scheme, host, parts.path, "", ""))


def is_loopback(host: str) -> bool:
    """Whether a host is this machine itself."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def stays_here(url: str) -> bool:
    """Whether a request goes to this machine itself: a proxy would look for the server on its own."""
    return is_loopback(urlsplit(url).hostname or "")


def check_header(what: str, value: str, remedy: str) -> str:
    """The value, if it can be sent as a header.

    Args:
        what: The value's name for the text; the value itself is never shown.

    Raises:
        ConfigError: When it has a line break, another control character, or one that is not ASCII.
    """
    if not (value.isascii() and value.isprintable()):
        raise ConfigError(f"{what} has a line break or a character that no header can hold", remedy)
    return value
