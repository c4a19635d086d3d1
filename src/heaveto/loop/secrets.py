"""What was marked secret, and what stands in its place in the journal, before watchers, and before the model.

Marked is what a tool's schema calls `writeOnly` or of the format "password", as it does for a `pydantic.SecretStr`, and
what a tool says to `Call.keep_secret`. The values are in memory while the run is driven and nowhere else: a call that is
left behind cannot be run when the run is resumed, and the model is told to call again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from ..journal.records import (
    AnswerRejected,
    CallSpent,
    Retried,
    RunFinished,
    ToolFinished,
    ToolResolved,
    ToolStarted,
)
from ..messages import AssistantMessage, ToolCall
from ..tools.json_text import NotArguments, decode_arguments
from .events import Body, ToolProgress

__all__ = ["PLACE", "Secrets", "has_secrets"]

PLACE = "⟦secret⟧"  # rare enough that what has it stood in for a secret
_ESCAPED = json.dumps(PLACE)[1:-1]
MIN_CHARS = 6  # what is shorter would be blotted out of ordinary words; the argument itself is hidden all the same
MAX_DEPTH = 200  # of a schema and the values in it; arguments are no deeper than 100

B = TypeVar("B", bound=Body)

# The fields in which a secret may be repeated: what tools, servers and people say.
_SAID: Mapping[type, tuple[str, ...]] = {
    AnswerRejected: ("content", "problem"),
    CallSpent: ("error",),
    Retried: ("error",),
    RunFinished: ("why", "text", "cause"),
    ToolFinished: ("content", "error"),
    ToolProgress: ("text",),
    ToolResolved: ("content", "evidence"),
    ToolStarted: ("facts",),
}


def has_secrets(schema: Mapping[str, Any]) -> bool:
    """Whether a tool's schema marks anything."""
    pending: list[Any] = [schema]
    while pending:
        node = pending.pop()
        if isinstance(node, Mapping):
            if _is_marked(node):
                return True
            pending.extend(node.values())
        elif isinstance(node, list):
            pending.extend(node)
    return False


class Secrets:
    """The secrets of one run, as far as one drive of it has seen them."""

    def __init__(self) -> None:
        self._texts = set[str]()
        self._arguments: dict[str, tuple[str, str]] = {}  # by call: as they are kept, and as they came

    def add(self, text: str) -> None:
        """Hide a text wherever it is said from now on."""
        if len(text) >= MIN_CHARS and text != PLACE:
            escaped = json.dumps(text)[1:-1]
            self._texts |= {text, escaped, json.dumps(text, ensure_ascii=False)[1:-1]}

    def learn(self, call: ToolCall, schema: Mapping[str, Any]) -> None:
        """Hide from now on what a person has put into a call, who did not know or say that the tool marks it."""
        self._hide_marked(call, {call.name: schema})

    def hide(self, message: AssistantMessage, schemas: Mapping[str, Mapping[str, Any]]) -> AssistantMessage:
        """A message as it is kept, once its calls' secrets are known.

        Args:
            schemas: Those of the tools that have any, by name.
        """
        marked = [self._hide_marked(call, schemas) for call in message.tool_calls]
        if not self._texts and all(call is was for call, was in zip(marked, message.tool_calls, strict=True)):
            return message
        calls = tuple(msgspec.structs.replace(call, arguments=self.text(call.arguments)) for call in marked)
        for call, was in zip(calls, message.tool_calls, strict=True):
            if call.arguments != was.arguments:
                self._arguments[call.id] = call.arguments, was.arguments
        return msgspec.structs.replace(
            message,
            content=self.text(message.content),
            reasoning=self.text(message.reasoning),
            tool_calls=calls,
            extras=self.data(message.extras),
        )

    def arguments_of(self, call: ToolCall) -> str:
        """A call's arguments as they came, where this drive has them."""
        kept, came = self._arguments.get(call.id, ("", ""))
        return came if kept == call.arguments else call.arguments

    def are_lost(self, call: ToolCall) -> bool:
        """Whether a call's secrets are not to be had: another drive had them, or the model wrote what it was shown."""
        arguments = self.arguments_of(call)
        return PLACE in arguments or _ESCAPED in arguments.lower()

    def clean(self, body: B) -> B:
        """A record or an event without them."""
        names = _SAID.get(type(body)) if self._texts else None
        if names is None:
            return body
        return msgspec.structs.replace(body, **{name: self.data(getattr(body, name)) for name in names})

    def text(self, text: str) -> str:
        """A text without them."""
        for secret in sorted(self._texts, key=len, reverse=True):
            text = text.replace(secret, PLACE)
        return text

    def data(self, value: Any) -> Any:
        """Plain data without them."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {key: self.data(each) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(map(self.data, value))
        return value

    def piecewise(self) -> Pieces:
        """For a text that comes in pieces."""
        return Pieces(self)

    def beginning_at_the_end(self, text: str) -> int:
        """How many characters at its end may be the beginning of one."""
        longest = max(map(len, self._texts), default=1) - 1
        ends = range(min(longest, len(text)), 0, -1)
        return next((size for size in ends if any(each.startswith(text[-size:]) for each in self._texts)), 0)

    def _hide_marked(self, call: ToolCall, schemas: Mapping[str, Mapping[str, Any]]) -> ToolCall:
        if (schema := schemas.get(call.name)) is None:
            return call
        try:
            arguments = decode_arguments(call.arguments)
        except NotArguments:  # nobody knows where in it the secret is, or a part of it
            return msgspec.structs.replace(call, arguments=PLACE)
        found: list[str] = []
        hidden = _Hiding(schema.get("$defs", {}), found.append).value(schema, arguments, 0)
        for text in found:
            self.add(text)
        if hidden == arguments:
            return call
        return msgspec.structs.replace(call, arguments=json.dumps(hidden, ensure_ascii=False))


class Pieces:
    """A text that comes in pieces, without the secrets: what may be the beginning of one waits for the next piece."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets, self._held = secrets, ""

    def feed(self, piece: str) -> str:
        """What can be told by now."""
        text = self._secrets.text(self._held + piece)
        told = len(text) - self._secrets.beginning_at_the_end(text)
        self._held = text[told:]
        return text[:told]

    def end(self) -> str:
        """What was held back, which was none."""
        rest, self._held = self._held, ""
        return rest


class _Hiding:
    """Goes through a schema and a value that fits it, side by side; what does not fit stays as it is."""

    def __init__(self, definitions: Mapping[str, Any], found: Callable[[str], None]) -> None:
        self._definitions, self._found = definitions, found

    def value(self, schema: Any, value: Any, depth: int) -> Any:
        if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
            return value
        if _is_marked(schema):
            return self._hide(value)
        for inner in self._beside(schema):
            value = self.value(inner, value, depth + 1)
        if isinstance(value, dict):
            named, others = schema.get("properties", {}), schema.get("additionalProperties")
            return {key: self.value(named.get(key, others), each, depth + 1) for key, each in value.items()}
        if isinstance(value, list):
            first, others = schema.get("prefixItems", ()), schema.get("items")
            return [self.value(first[at] if at < len(first) else others, each, depth + 1) for at, each in enumerate(value)]
        return value

    def _beside(self, schema: Mapping[str, Any]) -> Iterator[Any]:
        """Further schemas of the same value."""
        if isinstance(name := schema.get("$ref"), str):
            yield self._definitions.get(name.rpartition("/")[2])
        for several in ("allOf", "anyOf", "oneOf"):
            yield from schema.get(several, ())

    def _hide(self, value: Any) -> Any:
        if value in (None, "", [], {}):
            return value
        for text in _texts_in(value):
            self._found(text)
        return PLACE


def _is_marked(schema: Mapping[str, Any]) -> bool:
    return schema.get("writeOnly") is True or schema.get("format") == "password"


def _texts_in(value: Any) -> Iterator[str]:
    inner: Iterable[Any] = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in inner:
        yield from _texts_in(each)
    if isinstance(value, str) or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        yield str(value)
