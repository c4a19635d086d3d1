"""What a watcher of a run sees: its records as they are written, and what happens between them.

A durable event's id is its record's number in the journal. One that is not kept (a piece of text, a line of progress) has
the number of the record before it and a counter: "12.3".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from ..journal.records import Record, ToolStarted
from ..messages import shown

__all__ = ["Body", "Emit", "Event", "ReasoningPiece", "TextPiece", "ToolProgress", "ToolRunning", "TurnStarted"]


class TurnStarted(msgspec.Struct, frozen=True, tag_field="type", tag="turn.started"):
    """A model call begins."""

    turn: int


class TextPiece(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="text"):
    """A piece of the answer. A `retry` event voids the pieces of the turn that came before it."""

    turn: int
    attempt: int
    text: str


class ReasoningPiece(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="reasoning"):
    """A piece of the model's reasoning; void like a piece of text."""

    turn: int
    attempt: int
    text: str


class ToolRunning(msgspec.Struct, frozen=True, tag_field="type", tag="tool.running"):
    """A tool call begins to run. `arguments` is the JSON text as the model wrote it."""

    call_id: str
    name: str
    arguments: str


class ToolProgress(msgspec.Struct, frozen=True, tag_field="type", tag="tool.progress"):
    """A line that a running tool wants to be seen."""

    call_id: str
    name: str
    text: str


Body: TypeAlias = Record | TurnStarted | TextPiece | ReasoningPiece | ToolRunning | ToolProgress


class Event(msgspec.Struct, frozen=True):
    """One thing that happened in a run.

    Attributes:
        id: Its place; see the top of this file.
        at: Seconds since 1970.
        durable: Whether it is in the journal.
        body: What happened; match on its class.
    """

    id: str
    run_id: str
    at: float
    durable: bool
    body: Body

    @property
    def type(self) -> str:
        """The name of what happened, such as "tool.finished"."""
        return str(self.body.__struct_config__.tag)

    def to_data(self) -> dict[str, Any]:
        """The event as plain data: type, id, run_id, at, and the body's fields; of images and files all but their bytes."""
        body = self.body
        if isinstance(body, ToolStarted) and "changes" in body.facts:
            from ..tools.files.kept import without_contents

            body = msgspec.structs.replace(body, facts=without_contents(body.facts))
        if parts := getattr(body, "parts", ()):
            body = msgspec.structs.replace(body, parts=tuple(map(shown, parts)))
        data = msgspec.to_builtins(body)
        return {"type": data.pop("type"), "id": self.id, "run_id": self.run_id, "at": self.at, **data}


Emit: TypeAlias = Callable[[Event], None]
