"""generateContent as the client uses it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from ..answer_schemas import StructuredOutput, check_structured
from ..dialect import OutputBounds
from ..exchange import check_header
from ..protocol import AnswerSchema
from .decode import GeminiDecoder
from .encode import SIGNS_CALLS, TAKES, GeminiEncoder

__all__ = ["GeminiDialect"]


class GeminiDialect:
    """Gemini with one model; see `Dialect`.

    Args:
        model: The model's name at the provider; one with a slash, such as "tunedModels/mine", is taken as it is.
        provider: The provider's name, for errors.
        stream: Whether replies are streamed.
        options: Further fields of each request's body, such as `generationConfig`; see `GeminiEncoder`.
    """

    takes = TAKES

    def __init__(
        self,
        model: str,
        *,
        provider: str = "gemini",
        stream: bool = True,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.model, self.provider, self.streamed = model, provider, stream
        self.output = OutputBounds.of(options or {})
        resource = quote(model if "/" in model else f"models/{model}")
        self.path = f"/v1beta/{resource}:" + ("streamGenerateContent?alt=sse" if stream else "generateContent")
        encoder = GeminiEncoder(provider=provider, model=model, options=options)
        self.encode, self.sampling = encoder.encode, encoder.sampling
        self._structured: StructuredOutput = "beside tools" if SIGNS_CALLS.search(model) else "alone"

    def headers(self, key: str | None) -> dict[str, str]:
        """The key in a header of its own; never in the address, which logs and proxies keep."""
        if key is None:
            return {}
        return {"x-goog-api-key": check_header(f"the key for {self.provider}", key, "copy it again")}

    def check_answer(self, answer: AnswerSchema, *, with_tools: bool) -> None:
        """Refuse what the model does not take: before Gemini 3 an answer's schema beside tools."""
        check_structured(self._structured, f"{self.provider}:{self.model}", with_tools=with_tools, streamed=self.streamed)

    def decoder(self, *, stream: bool) -> GeminiDecoder:
        return GeminiDecoder(stream=stream, provider=self.provider)
