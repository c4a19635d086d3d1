"""Chat completions as the client uses them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..answer_schemas import StructuredOutput, check_structured
from ..dialect import OutputBounds
from ..exchange import check_header
from ..inputs import Takes
from ..protocol import AnswerSchema
from ..sampling_rules import SamplingRules
from .decode import ChatDecoder
from .encode import TAKES, ChatEncoder
from .sampling import SAMPLING

__all__ = ["ChatDialect"]


class ChatDialect:
    """Chat completions with one model; see `Dialect`.

    Args:
        model: The model's name at the provider.
        provider: The provider's name, for errors.
        stream: Whether replies are streamed.
        max_tokens_field: The API's name for the most output tokens.
        options: Further fields of each request's body, such as `temperature`.
        takes: Which images and files the API takes.
        key_header: The header of the key, where it is no bearer token.
        sampling: Which settings it has.
        structured: Whether it holds answers to a schema.
    """

    path = "/chat/completions"

    def __init__(
        self,
        model: str,
        *,
        provider: str,
        stream: bool = True,
        max_tokens_field: str = "max_tokens",
        options: Mapping[str, Any] | None = None,
        takes: Takes = TAKES,
        key_header: str = "",
        sampling: SamplingRules = SAMPLING,
        structured: StructuredOutput = "none",
    ) -> None:
        self._key_header, self._structured = key_header, structured
        self.sampling = sampling
        self.model, self.provider, self.streamed, self.takes = model, provider, stream, takes
        self.output = OutputBounds.of(options or {})
        self.encode = ChatEncoder(
            provider=provider,
            model=model,
            stream=stream,
            max_tokens_field=max_tokens_field,
            options=options,
            takes=takes,
            sampling=sampling,
        ).encode

    def headers(self, key: str | None) -> dict[str, str]:
        """The key as a bearer token, or in the API's own header."""
        if key is None:
            return {}
        checked = check_header(f"the key for {self.provider}", key, "copy it again")
        return {self._key_header: checked} if self._key_header else {"authorization": "Bearer " + checked}

    def check_answer(self, answer: AnswerSchema, *, with_tools: bool) -> None:
        """Refuse where the provider holds no answer to a schema."""
        check_structured(self._structured, self.provider, with_tools=with_tools, streamed=self.streamed)

    def decoder(self, *, stream: bool) -> ChatDecoder:
        return ChatDecoder(stream=stream, provider=self.provider)
