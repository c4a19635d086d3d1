"""Chat completions from bytes: deltas while they come, the reply when they end. No I/O.

The rules of this file:
- Any split of the bytes gives the same result; so `feed` never raises for what the API says. An error inside a stream is
  kept, the deltas before it are handed out, and `finish` raises it.
- Only choice 0 counts. Usage is the last that came, never a sum.
- A reply ends with a `finish_reason` or `[DONE]`. What ended without either is incomplete, whatever came.
- A call can be run only when the reply ended well: in any other reply there are none.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from ...errors import AgentError, APIError, BadReply, BadToolCall, EmptyReply, IncompleteStream, ProviderFailed
from ...messages import AssistantMessage, Delta, Finish, ReasoningDelta, Reply, TextDelta, Usage
from ..error_bodies import ErrorBody, page_title, read_error, read_error_object
from ..json_bytes import decode
from ..sse import Event, SSESplitter
from .calls import CallsUnderWay
from .reasoning import ReasoningDetails, split_content
from .usage import billed_output_tokens, to_usage
from .wire import Choice, Chunk, Part, WireUsage, chunk_decoder

__all__ = ["ChatDecoder"]

ENDINGS: dict[str, Finish] = {
    "length": "truncated",
    "max_tokens": "truncated",
    "model_length": "truncated",
    "content_filter": "filtered",
    "refusal": "refused",
}  # every other reason is an ordinary end: "stop", "eos", "tool_calls", and what the next provider calls it
HEAD_BYTES = 64 * 1024  # of a body that is no stream: enough for an error object or a page's title
MAX_BODY_BYTES = 64 * 1024 * 1024  # of a whole reply; no API sends more text than this


class ChatDecoder:
    """One reply: `feed` bytes, `close` at their end, then `finish`.

    Args:
        stream: Whether the body is an event stream, not one JSON object.
        provider: Who answers, for errors and for what is sent back.

    Attributes:
        done: Whether the end of the reply has come; what follows is not waited for.
        contents: How many pieces of content came; keep-alives are none.
        characters: How many characters of text, reasoning and arguments came.
        usage: What the API reported; None before it did.
        billed_output_tokens: The output tokens that are paid for, where the API's count leaves some out.
    """

    def __init__(self, *, stream: bool, provider: str = "the model") -> None:
        self._stream, self._provider = stream, provider
        self.splitter = SSESplitter()
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._out: list[Delta] = []
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._reasoning_content: list[str] = []
        self._refusal: list[str] = []
        self._calls = CallsUnderWay()
        self._details = ReasoningDetails()
        self._extra_content: Any = None
        self._error: AgentError | None = None
        self._closed = False
        self.events = self.contents = self.characters = 0
        self.done = False
        self.id = self.model = self.finish_reason = self.native_finish_reason = ""
        self.usage: Usage | None = None
        self.billed_output_tokens = 0

    @property
    def failed(self) -> bool:
        """Whether an error came; `finish` raises it."""
        return self._error is not None

    @property
    def ended(self) -> bool:
        """Whether the reply is whole, though its bytes may go on."""
        return self.done or bool(self.finish_reason)

    @property
    def has_calls(self) -> bool:
        return len(self._calls) > 0

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
            if self._stream:
                self._take_last(self.splitter.close())
            else:
                self._take_body(b"".join(self._body))
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
            BadToolCall: A call has no name.
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
        if not all(call.name for call in reply.message.tool_calls):
            raise BadToolCall("it has no name")
        return reply

    def so_far(self, finish: Finish = "incomplete", taken: Collection[str] = ()) -> Reply:
        """What has come, with calls that may be cut off and must not be run."""
        calls, call_extras = self._calls.finished(taken)
        return Reply(
            message=AssistantMessage(
                "".join(self._text), calls, "".join(self._reasoning), self._extras(call_extras if calls else {})
            ),
            finish=finish,
            native_finish=self.native_finish_reason or self.finish_reason,
            usage=self.usage or Usage(),
            model=self.model,
            id=self.id,
            refusal="".join(self._refusal),
        )

    def _extras(self, calls: dict[str, Any]) -> dict[str, Any]:
        fields = {
            "reasoning_details": self._details.whole(),
            "reasoning_content": "".join(self._reasoning_content),
            "extra_content": self._extra_content,
        }
        extras: dict[str, Any] = {key: value for key, value in fields.items() if value}
        if calls:
            extras["calls"] = calls
        return {"provider": self._provider, **extras} if extras else {}

    def _finish(self) -> Finish:
        if ending := ENDINGS.get(self.finish_reason):
            return ending
        if self._refusal and not self._text and not len(self._calls):
            return "refused"
        if len(self._calls):
            return "tool_calls"
        return "answer" if any(self._text) else "empty"

    def _not_ended(self) -> AgentError:
        head = b"".join(self._body)
        if self.events and (self._text or self._reasoning or len(self._calls) or self.id):
            return IncompleteStream(f"{self.characters:,} characters had come")
        return self._nothing_usable(head)

    def _nothing_usable(self, body: bytes) -> AgentError:
        if not body.strip():
            return EmptyReply("no bytes came")
        if page := page_title(body):
            return BadReply(page)
        if body.lstrip().startswith(b"{"):
            return self._from_api(read_error(body), midway=False)
        return IncompleteStream("nothing of it had come") if self._stream else BadReply(read_error(body).message)

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
            self._fail(error)
            return
        for event in events:
            self._take_event(event)

    def _handed_out(self) -> list[Delta]:
        out, self._out = self._out, []
        return out

    def _take_last(self, event: Event | None) -> None:
        """An event that the end cut off counts when it is whole all the same."""
        if event is None:
            return
        if not event.data.startswith(b"[DONE]"):
            try:
                decode(chunk_decoder, event.data)
            except ValueError:
                return
        self._take_event(event)

    def _take_event(self, event: Event) -> None:
        if self.done:
            return
        self.events += 1
        data = event.data
        if data[:6] == b"[DONE]":
            self.done = True
            return
        try:
            chunk = decode(chunk_decoder, data)
        except ValueError:
            self._take_unreadable(event)
            return
        if event.event == "error" and chunk.error is None:
            self._fail(self._from_api(read_error(data), midway=True))
        self._take_chunk(chunk, midway=True)

    def _take_unreadable(self, event: Event) -> None:
        if event.event == "error":
            self._fail(self._from_api(read_error(event.data), midway=True))
        elif event.data.strip():
            self._fail(ProviderFailed(f"an event that is no chunk: {event.data[:80].decode('utf-8', 'replace')}"))

    def _take_body(self, body: bytes) -> None:
        if self.failed:
            return
        try:
            chunk = decode(chunk_decoder, body)
        except msgspec.ValidationError:
            self._fail(self._nothing_usable(body))
            return
        except ValueError:
            cut_off = body.lstrip().startswith(b"{")
            self._fail(IncompleteStream("its JSON is cut off") if cut_off else self._nothing_usable(body))
            return
        self._take_chunk(chunk, midway=False)
        if not self.failed and not chunk.choices:
            self._fail(self._nothing_usable(body) if chunk.choices is None else EmptyReply("no choices"))
        self.done = True  # a whole body has its end, also where a provider leaves the reason out

    # --- chunks ---

    def _take_chunk(self, chunk: Chunk, *, midway: bool) -> None:
        groq = chunk.x_groq
        if (usage := chunk.usage or (groq.usage if groq else None)) is not None:
            self._take_usage(usage)
        if not self.id and chunk.id:
            self.id = str(chunk.id)
        if not self.model and chunk.model:
            self.model = chunk.model
        error = chunk.error or (groq.error if groq else None)
        for choice in chunk.choices or ():
            if not choice.index and self._error is None:
                error = error or choice.error
                self._take_choice(choice)
        if error:
            self._fail(self._from_api(read_error_object({"error": error}), midway=midway))
        elif self.finish_reason == "error":
            self._fail(ProviderFailed("it gave no reason"))

    def _take_choice(self, choice: Choice) -> None:
        part = choice.delta or (None if self._stream else choice.message)
        if part is not None:
            self._take_part(part)
        if choice.finish_reason:
            self.finish_reason = choice.finish_reason
            self.contents += 1
        if choice.native_finish_reason:
            self.native_finish_reason = choice.native_finish_reason

    def _take_part(self, part: Part) -> None:
        if part.reasoning or part.reasoning_content or part.reasoning_details:
            self._take_reasoning(part)
        if isinstance(part.content, list):
            for kind, words in split_content(part.content):
                (self._add_text if kind == "text" else self._add_reasoning)(words)
        elif part.content:
            self._add_text(part.content)
        if part.refusal:
            self._refusal.append(part.refusal)
            self.contents += 1
        if part.extra_content is not None:
            self._extra_content = part.extra_content
        for call in part.tool_calls or ():
            if (delta := self._calls.add(call)) is not None:
                self._out.append(delta)
                self.contents += 1
                self.characters += len(delta.arguments)

    def _take_reasoning(self, part: Part) -> None:
        from_details = self._details.add(part.reasoning_details)
        if isinstance(part.reasoning_content, str):
            self._reasoning_content.append(part.reasoning_content)
        said = next((text for text in (part.reasoning, part.reasoning_content) if text and isinstance(text, str)), "")
        self._add_reasoning(said or from_details)  # many send the same words in both
        if part.reasoning_details:
            self.contents += 1

    def _add_text(self, text: str) -> None:
        self._text.append(text)
        self._out.append(TextDelta(text))
        self.contents += 1
        self.characters += len(text)

    def _add_reasoning(self, text: str) -> None:
        if text:
            self._reasoning.append(text)
            self._out.append(ReasoningDelta(text))
            self.contents += 1
            self.characters += len(text)

    def _take_usage(self, usage: WireUsage) -> None:
        self.usage = to_usage(usage)
        self.billed_output_tokens = billed_output_tokens(usage)
        self.contents += 1

    # --- errors ---

    def _fail(self, error: AgentError) -> None:
        if self._error is None:
            self._error = error

    def _from_api(self, body: ErrorBody, *, midway: bool) -> AgentError:
        if body.status is not None and (body.status < 500 or not midway):
            return APIError(self._provider, body.status, body.message)
        if midway:
            return ProviderFailed(f"{body.code}: {body.message}" if body.code else body.message)
        return BadReply(body.message)
