"""What the client needs to know of an API: where requests go, and their bytes there and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from .decoder import ReplyDecoder
from .protocol import Request

__all__ = ["ANY_OUTPUT", "Dialect", "OutputBounds"]


class OutputBounds(NamedTuple):
    """How many output tokens a request may ask for.

    Attributes:
        largest: What it gets when it does not ask; None where nobody knows.
        least: The fewest that the API takes.
    """

    largest: int | None = None
    least: int = 0

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> OutputBounds:
        """The bounds that a body's own fields set, in the words of any of the APIs."""
        generation = options.get("generationConfig") or {}
        said = (options.get(name) for name in ("max_tokens", "max_completion_tokens", "max_output_tokens"))
        numbers = [number for number in (*said, generation.get("maxOutputTokens")) if isinstance(number, int)]
        thinking = options.get("thinking")
        budget = thinking.get("budget_tokens") if isinstance(thinking, Mapping) else None
        return cls(min(numbers, default=None), budget + 1 if isinstance(budget, int) else 0)


ANY_OUTPUT = OutputBounds()


class Dialect(Protocol):
    """One model's API. Pure: the client does the I/O.

    Attributes:
        model: The model's name at the provider.
        provider: The provider's name, for errors.
        streamed: Whether replies are asked for as streams.
        path: What is added to the API's address.
        output: How many output tokens a request may ask for, where the dialect has this attribute.

    A dialect may have `takes` too, the images and files that the API takes (`Takes`), `sampling`, its settings
    (`SamplingRules`), and `check_answer(answer, with_tools=...)`, which refuses a schema that the API holds no answer to.
    Without them there are none.
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
