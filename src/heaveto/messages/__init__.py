"""Plain data, no await: the conversation, replies and their pieces, usage and money."""

from .conversation import (
    AssistantMessage,
    Ending,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    Transcript,
    UserMessage,
    unanswered,
)
from .limits import Limits
from .money import Spend, Usage, parse_usd
from .replies import CallDelta, Delta, Finish, ReasoningDelta, Reply, TextDelta

__all__ = [
    "AssistantMessage",
    "CallDelta",
    "Delta",
    "Ending",
    "Finish",
    "Limits",
    "Message",
    "ReasoningDelta",
    "Reply",
    "Spend",
    "SystemMessage",
    "TextDelta",
    "ToolCall",
    "ToolMessage",
    "Transcript",
    "Usage",
    "UserMessage",
    "parse_usd",
    "unanswered",
]
