"""Messages from bytes.

The rules of this file, besides those of `ReplyDecoder`:
- A reply ends with a `stop_reason` or `message_stop`. An event that is unknown changes nothing.
- Usage begins with `message_start` and is overwritten by `message_delta`. Until then it does not cover the reply.
- What the API's own tools did is no call of ours; it goes back with the reply as it came.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from ...errors import AgentError, OutputFiltered
from ...messages import AssistantMessage, Finish, Reply, Usage
from ..decoder import ReplyDecoder
from ..error_bodies import ErrorBody, read_error, read_error_object
from ..json_bytes import decode
from ..sse import Event
from .blocks import Blocks
from .usage import merge_usage, to_usage
from .wire import BlockDelta, WireEvent, event_decoder

__all__ = ["MessagesDecoder"]

ENDINGS: dict[str, Finish] = {
    "max_tokens": "truncated",
    "model_context_window_exceeded": "truncated",
    "refusal": "refused",
    "content_filtered": "filtered",  # Bedrock
    "guardrail_intervened": "filtered",  # Bedrock
    "pause_turn": "incomplete",  # the API's own tools took too long; asking again goes on from there
}  # every other reason is an ordinary end: "end_turn", "stop_sequence", "tool_use", and what comes next
STATUSES = {  # inside a 200 the API sends the type alone
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
FILTERED = "content filtering policy"  # of the message, since the type says only that the request was invalid


class MessagesDecoder(ReplyDecoder):
    """One reply in Messages; see `ReplyDecoder`."""

    def __init__(self, *, stream: bool, provider: str = "the model") -> None:
        super().__init__(stream=stream, provider=provider)
        self._blocks = Blocks()
        self._reported: dict[str, Any] = {}
        self._explanation = ""
        self.stop_reason = ""

    @property
    def ended(self) -> bool:
        return self.done or bool(self.stop_reason)

    @property
    def has_calls(self) -> bool:
        return self._blocks.has_calls

    def so_far(self, finish: Finish = "incomplete", taken: Collection[str] = ()) -> Reply:
        calls, blocks = self._blocks.finished(taken)
        extras: dict[str, Any] = {"provider": self._provider, "blocks": blocks} if blocks else {}
        return Reply(
            message=AssistantMessage("".join(self._text), calls, "".join(self._reasoning), extras),
            finish=finish,
            native_finish=self.stop_reason,
            usage=self.usage or Usage(),
            model=self.model,
            id=self.id,
            refusal=self._explanation,
        )

    def _count_things(self) -> int:
        return self._blocks.things

    def _finish(self) -> Finish:
        if ending := ENDINGS.get(self.stop_reason):
            return ending
        if self.has_calls:
            return "tool_calls"
        return "answer" if any(self._text) else "empty"

    # --- events ---

    def _is_whole(self, event: Event) -> bool:
        try:
            decode(event_decoder, event.data)
        except ValueError:
            return False
        return True

    def _take_event(self, event: Event) -> None:
        if self.done:
            return
        self.events += 1
        try:
            data = decode(event_decoder, event.data)
        except ValueError:
            self._take_unreadable(event)
            return
        kind = data.type or event.event
        if kind == "error" or data.error:
            self._fail(self._from_api(read_error(event.data), midway=True))
        elif kind == "content_block_delta" and data.delta is not None:  # nearly every event
            self._take_piece(data.index or 0, data.delta)
        else:
            self._take_other(kind, data)

    def _take_other(self, kind: str, data: WireEvent) -> None:
        match kind:
            case "message_start" if data.message is not None:
                self._take_head(data.message.id, data.message.model, data.message.usage)
            case "content_block_start" if data.content_block is not None:
                self._take_block(data.index or 0, data.content_block)
            case "message_delta":
                if data.delta is not None:
                    self._take_ending(data.delta.stop_reason, data.delta.stop_details)
                if data.usage is not None:
                    self._take_usage(data.usage, counted=True)
            case "message_stop":
                self.done = True

    def _take_body(self, body: bytes) -> None:
        data = self._read_body(event_decoder, body)
        if data is None:
            return
        if data.error:
            self._fail(self._from_api(read_error_object({"error": data.error}), midway=False))
        elif data.content is None:
            self._fail(self._nothing_usable(body))
        else:
            self._take_head(data.id, data.model, None)
            for index, block in enumerate(data.content):
                self._take_block(index, block)
            self._take_ending(data.stop_reason, data.stop_details)
            if data.usage is not None:
                self._take_usage(data.usage, counted=True)
        self.done = True  # a whole body has its end, also where the reason is left out

    # --- parts of a message ---

    def _take_head(self, message_id: str | None, model: str | None, usage: Any) -> None:
        self.id, self.model = message_id or "", model or ""
        if usage is not None:
            self._take_usage(usage, counted=False)

    def _take_block(self, index: int, block: dict[str, Any]) -> None:
        if self._error is None:
            self.contents += 1
            if (delta := self._blocks.begin(index, block)) is not None:
                self._add(delta)

    def _take_piece(self, index: int, piece: BlockDelta) -> None:
        if self._error is not None:
            return
        if (delta := self._blocks.add(index, piece)) is not None:
            self._add(delta)
        elif piece.partial_json or piece.signature or piece.citation:
            self.contents += 1

    def _take_ending(self, reason: str | None, details: Any) -> None:
        if reason:
            self.stop_reason = reason
            self.contents += 1
        said = details.get("explanation") if isinstance(details, dict) else None
        if isinstance(said, str):
            self._explanation = said

    def _take_usage(self, report: Any, *, counted: bool) -> None:
        self.contents += 1
        merged = merge_usage(self._reported, report)
        if merged is not None and (usage := to_usage(merged)) is not None:
            self._reported, self.usage, self.counted = merged, usage, counted
            self.billed_output_tokens = usage.output_tokens

    # --- errors ---

    def _from_api(self, body: ErrorBody, *, midway: bool) -> AgentError:
        if FILTERED in body.message:
            return OutputFiltered(body.message)
        if body.status is None and isinstance(body.code, str):
            body = msgspec.structs.replace(body, status=STATUSES.get(body.code))
        return super()._from_api(body, midway=midway)
