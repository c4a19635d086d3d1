"""Anthropic's Messages: the wire's types, and the pure codec. (`heaveto.models.anthropic` is the function.)"""

from .decode import MessagesDecoder
from .dialect import MessagesDialect
from .encode import MessagesEncoder

__all__ = ["MessagesDecoder", "MessagesDialect", "MessagesEncoder"]
