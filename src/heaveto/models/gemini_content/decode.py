"""generateContent from bytes.

The rules of this file, besides those of `ReplyDecoder`:
- Only candidate 0 counts. A reply ends with a `finishReason`, or with the reason why the prompt was blocked; a stream has
  no other end than its bytes'.
- `STOP` is the only good end: with any other reason, also one that is new, no call may be run.
- Each chunk has the usage so far, never to be added; only the last one's covers the reply.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ...errors import AgentError, APIError, BadToolCall, EmptyReply, ProviderFailed
from ...messages import AssistantMessage, CallDelta, Finish, ReasoningDelta, Reply, TextDelta, Usage
from ..decoder import ReplyDecoder
from ..error_bodies import read_error, read_error_object
from ..json_bytes import decode
from ..sse import Event
from .parts import Parts
from .usage import to_usage
from .wire import Candidate, Chunk, PromptFeedback, chunk_decoder

__all__ = ["GeminiDecoder"]

GOOD_END = "STOP"
ENDINGS: dict[str, Finish] = {  # every other reason but the good one is "incomplete"
    "MAX_TOKENS": "truncated",
    "CONTINUATION": "truncated",
    "SAFETY": "filtered",
    "RECITATION": "filtered",
    "LANGUAGE": "filtered",
    "BLOCKLIST": "filtered",
    "PROHIBITED_CONTENT": "filtered",
    "SPII": "filtered",
    "IMAGE_SAFETY": "filtered",
    "IMAGE_PROHIBITED_CONTENT": "filtered",
    "IMAGE_RECITATION": "filtered",
    "MODEL_ARMOR": "filtered",
    "ESCALATION": "filtered",
    "PUP_LIMITED_DISABLED": "filtered",
}
BAD_CALLS = frozenset({"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"})
FAILURES = frozenset({"OTHER", "MALFORMED_RESPONSE", "IMAGE_OTHER", "NO_IMAGE"})
UNSIGNED = "MISSING_THOUGHT_SIGNATURE"
NO_REASONS = ("", "FINISH_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED", "BLOCK_REASON_UNSPECIFIED")


class GeminiDecoder(ReplyDecoder):
    """One reply in generateContent; see `ReplyDecoder`."""

    def __init__(self, *, stream: bool, provider: str = "the model") -> None:
        super().__init__(stream=stream, provider=provider)
        self._parts = Parts()
        self._explanation = ""
        self._blocked = False
        self.stop_reason = ""

    @property
    def ended(self) -> bool:
        return self.done or bool(self.stop_reason)

    @property
    def has_calls(self) -> bool:
        return self._parts.has_calls

    def so_far(self, finish: Finish = "incomplete", taken: Collection[str] = ()) -> Reply:
        calls, parts = self._parts.finished(taken)
        extras: dict[str, Any] = {"provider": self._provider, "parts": parts} if parts else {}
        return Reply(
            message=AssistantMessage("".join(self._text), calls, "".join(self._reasoning), extras),
            finish=finish,
            native_finish=self.stop_reason,
            usage=self.usage or Usage(),
            model=self.model,
            id=self.id,
            refusal="" if self.stop_reason == GOOD_END else self._explanation,
        )

    def _count_things(self) -> int:
        return len(self._parts)

    def _finish(self) -> Finish:
        if self._blocked:
            return "filtered"
        if self.stop_reason not in ("", GOOD_END):
            return ENDINGS.get(self.stop_reason, "incomplete")
        if self.has_calls:
            return "tool_calls"
        return "answer" if any(self._text) else "empty"

    # --- events ---

    def _is_whole(self, event: Event) -> bool:
        try:
            decode(chunk_decoder, event.data)
        except ValueError:
            return False
        return True

    def _take_event(self, event: Event) -> None:
        self.events += 1
        try:
            chunk = decode(chunk_decoder, event.data)
        except ValueError:
            self._take_unreadable(event)
            return
        if event.event == "error" and chunk.error is None:
            self._fail(self._from_api(read_error(event.data), midway=True))
        self._take_chunk(chunk, midway=True)

    def _take_body(self, body: bytes) -> None:
        chunk = self._read_body(chunk_decoder, body)
        if chunk is None:
            return
        self._take_chunk(chunk, midway=False)
        if not self.failed and not self._blocked and not chunk.candidates:
            nothing = chunk.candidates is None and chunk.usage_metadata is None
            self._fail(self._nothing_usable(body) if nothing else EmptyReply("no candidates"))
        self.done = True  # a whole body has its end, also where the reason is left out

    # --- chunks ---

    def _take_chunk(self, chunk: Chunk, *, midway: bool) -> None:
        self.id, self.model = self.id or chunk.response_id or "", self.model or chunk.model_version or ""
        if self._error is None:
            for candidate in chunk.candidates or ():
                if not candidate.index:
                    self._take_candidate(candidate)
            if chunk.prompt_feedback is not None:
                self._take_feedback(chunk.prompt_feedback)
        if chunk.usage_metadata is not None:
            self._take_usage(chunk.usage_metadata)
        if chunk.error:
            self._fail(self._from_api(read_error_object({"error": chunk.error}), midway=midway))

    def _take_usage(self, report: Any) -> None:
        self.contents += 1
        if (usage := to_usage(report)) is not None:
            self.usage, self.counted = usage, self.ended or not self._stream
            self.billed_output_tokens = usage.output_tokens

    def _take_candidate(self, candidate: Candidate) -> None:
        for part in (candidate.content and candidate.content.parts) or ():
            self._take_part(part)
        self._explanation = candidate.finish_message or self._explanation
        reason = candidate.finish_reason or ""
        if reason not in NO_REASONS:
            self.stop_reason = reason
            self.contents += 1
            if (error := self._unusable(reason)) is not None:
                self._fail(error)

    def _take_part(self, part: dict[str, Any]) -> None:
        match self._parts.add(part):
            case TextDelta(text):
                self._add_text(text)
            case ReasoningDelta(text):
                self._add_reasoning(text)
            case CallDelta() as delta:
                self._out.append(delta)
                self.contents += 1
                self.characters += len(delta.arguments)
            case None:
                self.contents += 1

    def _take_feedback(self, feedback: PromptFeedback) -> None:
        if (reason := feedback.block_reason or "") not in NO_REASONS:
            self._blocked, self.stop_reason = True, reason
            self._explanation = feedback.block_reason_message or self._explanation
            self.contents += 1

    # --- errors ---

    def _unusable(self, reason: str) -> AgentError | None:
        """The error that a reason stands for; None for the end of a reply."""
        said = self._explanation or reason
        if reason in BAD_CALLS:
            return BadToolCall(said)
        if reason in FAILURES:
            return ProviderFailed(said)
        return APIError(self._provider, 400, said) if reason == UNSIGNED else None
