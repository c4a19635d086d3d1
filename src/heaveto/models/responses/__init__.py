"""OpenAI's Responses: the wire's types, and the pure codec."""

from .decode import ResponsesDecoder
from .dialect import ResponsesDialect
from .encode import ResponsesEncoder

__all__ = ["ResponsesDecoder", "ResponsesDialect", "ResponsesEncoder"]
