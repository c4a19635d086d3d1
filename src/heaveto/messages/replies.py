"""What comes from a model: deltas while it speaks, and the whole reply."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from .conversation import AssistantMessage
from .money import Usage

__all__ = ["CallDelta", "Delta", "Finish", "ReasoningDelta", "Reply", "TextDelta"]


class TextDelta(msgspec.Struct, frozen=True, gc=False):
    """A piece of the answer."""

    text: str


class ReasoningDelta(msgspec.Struct, frozen=True, gc=False):
    """A piece of the model's reasoning."""

    text: str


class CallDelta(msgspec.Struct, frozen=True, gc=False):
    """A piece of a tool call; `index` tells the calls of a reply apart."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


Delta: TypeAlias = TextDelta | ReasoningDelta | CallDelta

Finish: TypeAlias = Literal["answer", "tool_calls", "truncated", "filtered", "refused", "incomplete", "empty"]


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """One whole reply, or what had come of it.

    Attributes:
        finish: How it ended. A reply that did not end well has no call that may be run.
        native_finish: The API's own word for it.
        model: The model that answered, as the API names it.
        id: The API's id of the reply.
    """

    message: AssistantMessage
    finish: Finish
    native_finish: str = ""
    usage: Usage = Usage()
    model: str = ""
    id: str = ""
    refusal: str = ""
