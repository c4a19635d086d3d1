"""What every dialect's decoder is: bytes in, deltas out while they come, the reply when they end. No I/O.

The rules of this file:
- Any split of the bytes gives the same result; so `feed` never raises for what the API says. An error inside a stream is
  kept, the deltas before it are handed out, and `finish` raises it.
- What ended without the reply's own end is incomplete, whatever came.
- A call can be run only when the reply ended well: in any other reply there are none.
- A server may go on for ever: what is kept is bounded, whatever it is.
- A call without a name, and figures that cannot be true, spoil no reply that was paid for: the model is told that there is
  no such tool, and the figures are unknown.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import TypeVar

import msgspec

from ..errors import AgentError, APIError, BadReply, EmptyReply, IncompleteStream, ProviderFailed
from ..messages import Delta, Finish, ReasoningDelta, Reply, TextDelta, Usage
from .error_bodies import ErrorBody, page_title, read_error
from .json_bytes import decode
from .sse import Event, SSESplitter

__all__ = ["ReplyDecoder"]

T = TypeVar("T")

HEAD_BYTES = 64 * 1024  # of a body that is no stream: enough for an error object or a page's title
MAX_HELD_BYTES = 32 * 1024 * 1024  # of a stream's events that bring what is kept besides text: calls, blocks, signatures
MAX_BODY_BYTES = 64 * 1024 * 1024  # of a whole reply; no API sends more text than this


class ReplyDecoder(ABC):
    """One reply: `feed` bytes, `close` at their end, then `finish`.

    Args:
        stream: Whether the body is an event stream, not one JSON object.
        provider: Who answers, for errors and for what is sent back.

    Attributes:
        done: Whether the end of the reply has come; what follows is not waited for.
        contents: How many pieces of content came; keep-alives are none.
        characters: How many characters of text, reasoning and arguments came.
        usage: What the API reported; None before it did.
        counted: Whether `usage` covers the whole reply.
        billed_output_tokens: The output tokens that are paid for, where the API's count leaves some out.
    """

    def __init__(self, *, stream: bool, provider: str = "the model") -> None:
        self._stream, self._provider = stream, provider
        self.splitter = SSESplitter()
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._things = self._held_bytes = self._event_bytes = 0
        self._out: list[Delta] = []
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._error: AgentError | None = None
        self._closed = False
        self.events = self.contents = self.characters = 0
        self.done = self.counted = False
        self.id = self.model = ""
        self.usage: Usage | None = None
        self.billed_output_tokens = 0

    @property
    def failed(self) -> bool:
        """Whether an error came; `finish` raises it."""
        return self._error is not None

    @property
    @abstractmethod
    def ended(self) -> bool:
        """Whether the reply is whole, though its bytes may go on."""

    @property
    @abstractmethod
    def has_calls(self) -> bool: ...

    def feed(self, data: bytes) -> list[Delta]:
        """The deltas in the next bytes."""
        if self._closed or not data:
            return []
        if not self._stream or not self.events:
            self._keep(data)
        if self._stream:
            self._split(data)
        return self._handed_out()

    def close(self) -> list[Delta]:
        """The deltas that only the end of the bytes makes readable: all of a whole body's, a stream's last event's."""
        if not self._closed:
            self._closed = True
            if not self._stream:
                self._take_body(b"".join(self._body))
            elif (event := self.splitter.close()) is not None and self._is_whole(event):
                self._take_event(event)
        return self._handed_out()

    def finish(self, taken: Collection[str] = ()) -> Reply:
        """The reply.

        Args:
            taken: Ids of earlier calls of the conversation; a call that has one of them gets a new one.

        Raises:
            APIError: The API reported an error with a status, inside a 200.
            ProviderFailed: It reported one of its own partway through.
            IncompleteStream: The bytes ended before the reply did.
            EmptyReply, BadReply: There was nothing that could be used.
        """
        self.close()
        if self._error is not None:
            raise self._error
        if not self.ended:
            raise self._not_ended()
        finish = self._finish()
        reply = self.so_far(finish, taken)
        if finish != "tool_calls":
            return msgspec.structs.replace(reply, message=msgspec.structs.replace(reply.message, tool_calls=()))
        return reply

    @abstractmethod
    def so_far(self, finish: Finish = "incomplete", taken: Collection[str] = ()) -> Reply:
        """What has come, with calls that may be cut off and must not be run."""

    # --- what a dialect knows ---

    @abstractmethod
    def _take_event(self, event: Event) -> None: ...

    @abstractmethod
    def _is_whole(self, event: Event) -> bool:
        """Whether an event that the end cut off before its empty line counts all the same."""

    @abstractmethod
    def _take_body(self, body: bytes) -> None: ...

    @abstractmethod
    def _finish(self) -> Finish:
        """How a reply that is whole ended."""

    @abstractmethod
    def _count_things(self) -> int:
        """How many things besides text it keeps; it only grows."""

    # --- bytes ---

    def _keep(self, data: bytes) -> None:
        self._body_bytes += len(data)
        if not self._stream and self._body_bytes > MAX_BODY_BYTES:
            self._fail(BadReply(f"a body of more than {MAX_BODY_BYTES:,} bytes"))
        elif not self._stream:
            self._body.append(data)
        elif (room := HEAD_BYTES - self._body_bytes + len(data)) > 0:
            self._body.append(data[:room])

    def _split(self, data: bytes) -> None:
        try:
            events = self.splitter.feed(data)
        except BadReply as error:
            self._cut_off(error)
            return
        self._event_bytes += len(data)
        if events:
            for event in events:
                self._take_event(event)
            self._hold()

    def _hold(self) -> None:
        """Count the bytes of events that brought more than text."""
        if (things := self._count_things()) != self._things:
            self._things = things
            self._held_bytes += self._event_bytes
            if self._held_bytes > MAX_HELD_BYTES:
                self._cut_off(BadReply(f"more than {MAX_HELD_BYTES:,} bytes of calls and other parts"))
        self._event_bytes = 0

    def _cut_off(self, error: BadReply) -> None:
        """Take no more, also while the client reads on for a moment."""
        self._fail(error)
        self._closed, self.splitter = True, SSESplitter()

    def _handed_out(self) -> list[Delta]:
        out, self._out = self._out, []
        return out

    def _read_body(self, decoder: msgspec.json.Decoder[T], body: bytes) -> T | None:
        """A whole body as the dialect's struct; None after a failure."""
        if self.failed:
            return None
        try:
            return decode(decoder, body)
        except msgspec.ValidationError:
            self._fail(self._nothing_usable(body))
        except ValueError:
            cut_off = body.lstrip().startswith(b"{")
            self._fail(IncompleteStream("its JSON is cut off") if cut_off else self._nothing_usable(body))
        return None

    # --- content ---

    def _add(self, delta: Delta) -> None:
        if isinstance(delta, TextDelta):
            said = delta.text
            self._text.append(said)
        elif isinstance(delta, ReasoningDelta):
            said = delta.text
            self._reasoning.append(said)
        else:
            said = delta.arguments
        self._out.append(delta)
        self.contents += 1
        self.characters += len(said)

    def _add_text(self, text: str) -> None:
        self._text.append(text)  # as `_add` does, for nearly every chunk there is
        self._out.append(TextDelta(text))
        self.contents += 1
        self.characters += len(text)

    def _add_reasoning(self, text: str) -> None:
        if text:
            self._add(ReasoningDelta(text))

    # --- errors ---

    def _fail(self, error: AgentError) -> None:
        if self._error is None:
            self._error = error

    def _take_unreadable(self, event: Event) -> None:
        if event.event == "error":
            self._fail(self._from_api(read_error(event.data), midway=True))
        elif event.data.strip():
            self._fail(ProviderFailed(f"an event that is no chunk: {event.data[:80].decode('utf-8', 'replace')}"))

    def _not_ended(self) -> AgentError:
        if self.events and (self._text or self._reasoning or self.has_calls or self.id):
            return IncompleteStream(f"{self.characters:,} characters had come")
        return self._nothing_usable(b"".join(self._body))

    def _nothing_usable(self, body: bytes) -> AgentError:
        if not body.strip():
            return EmptyReply("no bytes came")
        if page := page_title(body):
            return BadReply(page)
        if body.lstrip().startswith(b"{"):
            return self._from_api(read_error(body), midway=False)
        return IncompleteStream("nothing of it had come") if self._stream else BadReply(read_error(body).message)

    def _from_api(self, body: ErrorBody, *, midway: bool) -> AgentError:
        if body.status is not None and (body.status < 500 or not midway):
            return APIError(self._provider, body.status, body.message)
        if midway:
            return ProviderFailed(f"{body.code}: {body.message}" if body.code else body.message)
        return BadReply(body.message)
