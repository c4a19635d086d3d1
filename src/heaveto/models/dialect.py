"""What the client needs to know of an API: where requests go, and their bytes there and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from .decoder import ReplyDecoder
from .protocol import Request

__all__ = ["Dialect"]


class Dialect(Protocol):
    """One model's API. Pure: the client does the I/O.

    Attributes:
        model: The model's name at the provider.
        provider: The provider's name, for errors.
        streamed: Whether replies are asked for as streams.
        path: What is added to the API's address.
    """

    @property
    def model(self) -> str: ...

    @property
    def provider(self) -> str: ...

    @property
    def streamed(self) -> bool: ...

    @property
    def path(self) -> str: ...

    def headers(self, key: str | None) -> Mapping[str, str]:
        """The headers that the API asks for, the key among them; None sends none.

        Raises:
            ConfigError: When no header can hold the key.
        """
        ...

    def encode(self, request: Request) -> bytes:
        """The body of a request."""
        ...

    def decoder(self, *, stream: bool) -> ReplyDecoder:
        """The decoder of one reply; `stream`: whether its body is an event stream."""
        ...
