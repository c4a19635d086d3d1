"""The conversation as plain data, the same for every API, and the rule that each call has one answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, TypeAlias

import msgspec

from .parts import File, Image, Part, text_of

__all__ = [
    "AssistantMessage",
    "Ending",
    "Message",
    "SystemMessage",
    "ToolCall",
    "ToolMessage",
    "Transcript",
    "UserMessage",
    "unanswered",
]


class SystemMessage(msgspec.Struct, frozen=True, tag_field="role", tag="system"):
    """What the model is told before everything else."""

    content: str


class UserMessage(msgspec.Struct, frozen=True, tag_field="role", tag="user", omit_defaults=True):
    """What a person, or the program, says.

    Attributes:
        content: The words, with one for each image and file.
        parts: The words, images and files in their order; empty where there are only words.
    """

    content: str
    parts: tuple[Part, ...] = ()

    @classmethod
    def of(cls, *parts: Part) -> UserMessage:
        """A message of texts, images and files."""
        has_more = any(not isinstance(part, str) for part in parts)
        return cls(text_of(parts), parts if has_more else ())


class ToolCall(msgspec.Struct, frozen=True):
    """A tool call that the model asked for.

    Attributes:
        id: Unique within the run; made by us where the API sends none, or one twice.
        arguments: The JSON text exactly as it came; it may not parse.
    """

    id: str
    name: str
    arguments: str

    @property
    def identity(self) -> str:
        """The same for two calls of one tool with the same arguments, however their JSON is spelled."""
        try:
            arguments = json.dumps(json.loads(self.arguments or "{}"), sort_keys=True, separators=(",", ":"))
        except (ValueError, RecursionError):  # no JSON, or nested too deep to be anybody's arguments
            arguments = self.arguments
        return hashlib.sha256(f"{self.name}\0{arguments}".encode("utf-8", "surrogatepass")).hexdigest()


class AssistantMessage(msgspec.Struct, frozen=True, tag_field="role", tag="assistant", omit_defaults=True):
    """What the model said.

    Attributes:
        extras: What this API wants back in the next request, such as signed reasoning; only its codec reads it.
    """

    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    extras: dict[str, Any] = {}


Ending: TypeAlias = Literal[
    "ok",  # it ran and says so
    "tool_error",  # it ran, or could not, and the model can mend it: the tool's own error, bad arguments, unknown tool
    "crashed",  # a bug in the tool
    "denied",  # a person or a rule refused
    "not_run",  # a stop came before it began
    "timed_out",  # its limit passed while it ran
    "stopped",  # a stop came while it ran
    "fatal",  # it cannot run at all
    "unknown",  # it may have changed something and did not say
]


class ToolMessage(msgspec.Struct, frozen=True, tag_field="role", tag="tool", omit_defaults=True):
    """The one answer to a tool call.

    Attributes:
        ending: How the call ended, for programs; `content` is for the model.
        parts: As in `UserMessage`; an API that takes no images in a result gets `content`.
    """

    call_id: str
    name: str
    content: str
    ending: Ending = "ok"
    parts: tuple[Part, ...] = ()

    @property
    def is_error(self) -> bool:
        return self.ending != "ok"


Message: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolMessage


def unanswered(messages: Iterable[Message]) -> list[ToolCall]:
    """The calls that have no answer yet, in the order in which the model asked."""
    waiting: dict[str, ToolCall] = {}
    for message in messages:
        if isinstance(message, AssistantMessage):
            waiting |= {call.id: call for call in message.tool_calls}
        elif isinstance(message, ToolMessage):
            waiting.pop(message.call_id, None)
    return list(waiting.values())


class Transcript:
    """The messages of a run, append-only, each encoded once for the API that it is sent to.

    A request's body is joined from kept pieces, so that the three-hundredth turn costs what the third did.

    Attributes:
        call_ids: The ids of all calls in it.
        media: The images and files in it.
    """

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._messages: list[Message] = []
        self._encoded: dict[str, list[bytes]] = {}
        self.call_ids: set[str] = set()
        self.media: list[Image | File] = []
        self.append(*messages)

    def append(self, *messages: Message) -> None:
        self._messages.extend(messages)
        for message in messages:
            if isinstance(message, AssistantMessage):
                self.call_ids.update(call.id for call in message.tool_calls)
            elif isinstance(message, UserMessage | ToolMessage) and message.parts:
                self.media += (part for part in message.parts if not isinstance(part, str))

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)

    def __len__(self) -> int:
        return len(self._messages)

    def __getitem__(self, index: int) -> Message:
        return self._messages[index]

    def encoded(self, dialect: str, encode: Callable[[Message], bytes]) -> list[bytes]:
        """Each message in the dialect's bytes; `encode` is called for those that are new since the last time."""
        pieces = self._encoded.setdefault(dialect, [])
        pieces.extend(encode(message) for message in self._messages[len(pieces) :])
        return pieces
