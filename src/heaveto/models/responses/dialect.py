"""Responses as the client uses them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..dialect import OutputBounds
from ..exchange import check_header
from ..protocol import AnswerSchema
from .decode import ResponsesDecoder
from .encode import TAKES, ResponsesEncoder
from .sampling import SAMPLING

__all__ = ["ResponsesDialect"]


class ResponsesDialect:
    """Responses with one model; see `Dialect`.

    Args:
        model: The model's name at the provider.
        provider: The provider's name, for errors.
        stream: Whether replies are streamed.
        options: Further fields of each request's body, such as `reasoning`; see `ResponsesEncoder`.
    """

    path = "/responses"
    takes = TAKES
    sampling = SAMPLING

    def __init__(
        self,
        model: str,
        *,
        provider: str = "openai-responses",
        stream: bool = True,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.model, self.provider, self.streamed = model, provider, stream
        self.output = OutputBounds.of(options or {})
        self.encode = ResponsesEncoder(provider=provider, model=model, stream=stream, options=options).encode

    def headers(self, key: str | None) -> dict[str, str]:
        """The key as a bearer token."""
        if key is None:
            return {}
        return {"authorization": "Bearer " + check_header(f"the key for {self.provider}", key, "copy it again")}

    def check_answer(self, answer: AnswerSchema, *, with_tools: bool) -> None:
        """It takes any schema, beside tools too; one that is not strict the model may miss."""

    def decoder(self, *, stream: bool) -> ResponsesDecoder:
        return ResponsesDecoder(stream=stream, provider=self.provider)
