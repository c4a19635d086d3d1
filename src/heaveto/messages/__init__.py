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
from .parts import MAX_PARTS_BYTES, PDF, File, Image, Part, Prompt, attached, described, shown, text_of
from .replies import CallDelta, Delta, Finish, ReasoningDelta, Reply, TextDelta
from .sampling import Effort, Sampling

__all__ = [
    "MAX_PARTS_BYTES",
    "PDF",
    "AssistantMessage",
    "CallDelta",
    "Delta",
    "Effort",
    "Ending",
    "File",
    "Finish",
    "Image",
    "Limits",
    "Message",
    "Part",
    "Prompt",
    "ReasoningDelta",
    "Reply",
    "Sampling",
    "Spend",
    "SystemMessage",
    "TextDelta",
    "ToolCall",
    "ToolMessage",
    "Transcript",
    "Usage",
    "UserMessage",
    "attached",
    "described",
    "parse_usd",
    "shown",
    "text_of",
    "unanswered",
]
