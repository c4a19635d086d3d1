"""Chat completions, the dialect that most providers speak: the wire's types, and the pure codec."""

from .decode import ChatDecoder
from .dialect import ChatDialect
from .encode import TAKES, ChatEncoder
from .sampling import ANY_SERVER, EFFORTS, SAMPLING

__all__ = ["ANY_SERVER", "EFFORTS", "SAMPLING", "TAKES", "ChatDecoder", "ChatDialect", "ChatEncoder"]
