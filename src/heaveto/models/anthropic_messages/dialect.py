"""Messages as the client uses them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..dialect import OutputBounds
from ..exchange import check_header
from ..protocol import AnswerSchema
from .answers import check_answer
from .decode import MessagesDecoder
from .encode import TAKES, MessagesEncoder, max_tokens_of
from .sampling import SAMPLING

__all__ = ["MessagesDialect"]

VERSION = "2023-06-01"  # of the API; it has had no other since


class MessagesDialect:
    """Messages with one model; see `Dialect`.

    Args:
        model: The model's name at the provider.
        provider: The provider's name, for errors.
        stream: Whether replies are streamed.
        cache: Whether the API shall cache the conversation; see `MessagesEncoder`.
        options: Further fields of each request's body, such as `temperature` or `thinking`.
    """

    path = "/v1/messages"
    takes = TAKES
    sampling = SAMPLING

    def __init__(
        self,
        model: str,
        *,
        provider: str = "anthropic",
        stream: bool = True,
        cache: bool = True,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.model, self.provider, self.streamed = model, provider, stream
        self.output = OutputBounds.of({"max_tokens": max_tokens_of(model), **(options or {})})
        self.encode = MessagesEncoder(provider=provider, model=model, stream=stream, cache=cache, options=options).encode

    def headers(self, key: str | None) -> dict[str, str]:
        """The API's version, and the key in a header of its own."""
        headers = {"anthropic-version": VERSION}
        if key is not None:
            headers["x-api-key"] = check_header(f"the key for {self.provider}", key, "copy it again")
        return headers

    def check_answer(self, answer: AnswerSchema, *, with_tools: bool) -> None:
        """Refuse a schema that the API does not take; tools are no hindrance."""
        check_answer(answer, self.provider)

    def decoder(self, *, stream: bool) -> MessagesDecoder:
        return MessagesDecoder(stream=stream, provider=self.provider)
