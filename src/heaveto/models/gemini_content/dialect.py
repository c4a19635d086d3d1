"""generateContent as the client uses it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from ..dialect import OutputBounds
from ..exchange import check_header
from .decode import GeminiDecoder
from .encode import TAKES, GeminiEncoder

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
        self.encode = GeminiEncoder(provider=provider, model=model, options=options).encode

    def headers(self, key: str | None) -> dict[str, str]:
        """The key in a header of its own; never in the address, which logs and proxies keep."""
        if key is None:
            return {}
        return {"x-goog-api-key": check_header(f"the key for {self.provider}", key, "copy it again")}

    def decoder(self, *, stream: bool) -> GeminiDecoder:
        return GeminiDecoder(stream=stream, provider=self.provider)
