"""Chat completions, the dialect that most providers speak: the wire's types, and the pure codec."""

from .decode import ChatDecoder
from .dialect import ChatDialect
from .encode import TAKES, ChatEncoder

__all__ = ["TAKES", "ChatDecoder", "ChatDialect", "ChatEncoder"]
