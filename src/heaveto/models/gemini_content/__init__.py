"""Gemini's generateContent: the wire's types, and the pure codec."""

from .decode import GeminiDecoder
from .dialect import GeminiDialect
from .encode import GeminiEncoder

__all__ = ["GeminiDecoder", "GeminiDialect", "GeminiEncoder"]
