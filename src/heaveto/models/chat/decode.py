"""Chat completions from bytes.

The rules of this file, besides those of `ReplyDecoder`:
- Only choice 0 counts. Usage is the last that came, never a sum.
- A reply ends with a `finish_reason` or `[DONE]`.
- A refusal is one whatever came before it: half an answer, or calls of a model that then thought better of it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ...errors import EmptyReply, ProviderFailed
from ...messages import AssistantMessage, Finish, Reply, Usage
from ..decoder import ReplyDecoder
from ..error_bodies import read_error, read_error_object
from ..json_bytes import decode
from ..sse import Event
from .calls import CallsUnderWay
from .reasoning import ReasoningDetails, split_content
from .usage import billed_output_tokens, to_usage
from .wire import Choice, Chunk, Part, chunk_decoder

__all__ = ["ChatDecoder"]

ENDINGS: dict[str, Finish] = {
    "length": "truncated",
    "max_tokens": "truncated",
    "model_length": "truncated",
    "content_filter": "filtered",
    "refusal": "refused",
}  # every other reason is an ordinary end: "stop", "eos", "tool_calls", and what the next provider calls it


class ChatDecoder(ReplyDecoder):
    """One reply in chat completions; see `ReplyDecoder`."""

    def __init__(self, *, stream: bool, provider: str = "the model") -> None:
        super().__init__(stream=stream, provider=provider)
        self._reasoning_content: list[str] = []
        self._refusal: list[str] = []
        self._calls = CallsUnderWay()
        self._details = ReasoningDetails()
        self._extra_content: Any = None
        self._unsaid = 0  # texts beside those that were handed out
        self.finish_reason = self.native_finish_reason = ""

    @property
    def ended(self) -> bool:
        return self.done or bool(self.finish_reason)

    @property
    def has_calls(self) -> bool:
        return len(self._calls) > 0

    def so_far(self, finish: Finish = "incomplete", taken: Collection[str] = ()) -> Reply:
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

    def _count_things(self) -> int:
        return self._calls.things + self._details.things + self._unsaid

    def _finish(self) -> Finish:
        if ending := ENDINGS.get(self.finish_reason):
            return ending
        if any(self._refusal):
            return "refused"
        if len(self._calls):
            return "tool_calls"
        return "answer" if any(self._text) else "empty"

    # --- events ---

    def _is_whole(self, event: Event) -> bool:
        if event.data.startswith(b"[DONE]"):
            return True
        try:
            decode(chunk_decoder, event.data)
        except ValueError:
            return False
        return True

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

    def _take_body(self, body: bytes) -> None:
        chunk = self._read_body(chunk_decoder, body)
        if chunk is None:
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
            self.characters += len(part.refusal)
        if part.extra_content is not None:
            self._extra_content = part.extra_content
            self._unsaid += 1
        for call in part.tool_calls or ():
            if (delta := self._calls.add(call, whole=not self._stream)) is not None:
                self._add(delta)

    def _take_reasoning(self, part: Part) -> None:
        from_details = self._details.add(part.reasoning_details)
        said = next((text for text in (part.reasoning, part.reasoning_content) if text and isinstance(text, str)), "")
        self._add_reasoning(said or from_details)  # many send the same words in both
        if isinstance(part.reasoning_content, str):
            self._reasoning_content.append(part.reasoning_content)
            self._unsaid += len(part.reasoning_content) > len(said)
        if said:
            self._unsaid += len(from_details) > len(said)
        if part.reasoning_details:
            self.contents += 1

    def _take_usage(self, report: Any) -> None:
        self.contents += 1
        if (usage := to_usage(report)) is not None:
            self.usage, self.counted = usage, True
            self.billed_output_tokens = billed_output_tokens(report)
