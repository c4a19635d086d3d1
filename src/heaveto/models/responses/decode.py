"""Responses from bytes.

The rules of this file, besides those of `ReplyDecoder`:
- A reply ends with `response.completed`, `.incomplete` or `.failed`, which bring the usage. An event that is unknown
  changes nothing.
- An item that comes whole adds what its pieces left out, so that a server may leave out the pieces.
- A refusal is one whatever came before it.
- What the API's own tools did is no call of ours; it goes back with the reply as it came.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from ...errors import AgentError, BadReply, OutputFiltered, ProviderFailed
from ...messages import AssistantMessage, Finish, Reply, Usage
from ..decoder import ReplyDecoder
from ..error_bodies import ErrorBody, read_error, read_error_object
from ..json_bytes import decode
from ..sse import Event
from .items import Channel, Items, Piece
from .usage import to_usage
from .wire import WireEvent, WireResponse, body_decoder, event_decoder

__all__ = ["ResponsesDecoder"]

ENDINGS: dict[str, Finish] = {"max_output_tokens": "truncated", "content_filter": "filtered"}  # of an incomplete reply
CHANNELS: dict[str, Channel] = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.reasoning_summary_text.delta": "summary",
    "response.reasoning_text.delta": "reasoning",
    "response.function_call_arguments.delta": "arguments",
}
STATUSES = {  # inside a 200 the API sends the code alone
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "context_length_exceeded": 400,
    "insufficient_quota": 402,  # a 429 that no waiting mends
    "rate_limit_exceeded": 429,
    "server_error": 500,
    "data_residency_mismatch": 400,
}
FILTERED = frozenset(
    {"bio_policy", "cyber_policy", "misalignment_policy_violation", "image_content_policy_violation", "content_filter"}
)


class ResponsesDecoder(ReplyDecoder):
    """One reply in Responses; see `ReplyDecoder`."""

    def __init__(self, *, stream: bool, provider: str = "the model") -> None:
        super().__init__(stream=stream, provider=provider)
        self._items = Items()
        self._refusal: list[str] = []
        self._complete = False
        self.stop_reason = ""

    @property
    def ended(self) -> bool:
        return self.done

    @property
    def has_calls(self) -> bool:
        return self._items.has_calls

    def so_far(self, finish: Finish = "incomplete", taken: Collection[str] = ()) -> Reply:
        calls, items = self._items.finished(taken)
        extras: dict[str, Any] = {"provider": self._provider, "items": items} if items else {}
        return Reply(
            message=AssistantMessage("".join(self._text), calls, "".join(self._reasoning), extras),
            finish=finish,
            native_finish=self.stop_reason,
            usage=self.usage or Usage(),
            model=self.model,
            id=self.id,
            refusal="".join(self._refusal),
        )

    def _count_things(self) -> int:
        return self._items.things

    def _finish(self) -> Finish:
        if not self._complete:
            return ENDINGS.get(self.stop_reason, "incomplete")
        if any(self._refusal):
            return "refused"
        if self._items.has_cut_call:
            return "truncated"
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
        if self.done or event.data[:6] == b"[DONE]":  # which some compatible servers add
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
        elif (channel := CHANNELS.get(kind)) is not None:  # nearly every event
            self._take_piece(channel, data)
        else:
            self._take_other(kind, data)

    def _take_piece(self, channel: Channel, data: WireEvent) -> None:
        if isinstance(data.delta, str):
            part = data.summary_index
            self._hand_out(self._items.add(channel, data.delta, index=data.output_index, item_id=data.item_id, part=part))

    def _take_other(self, kind: str, data: WireEvent) -> None:
        match kind:
            case "response.output_item.added" if isinstance(data.item, dict):
                self._hand_out(self._items.begin(data.output_index, data.item))
                self.contents += 1
            case "response.output_item.done" if isinstance(data.item, dict):
                self._hand_out(self._items.complete(data.output_index, data.item))
                self.contents += 1
            case "response.function_call_arguments.done" if isinstance(data.arguments, str):
                self._hand_out(self._items.complete_arguments(data.output_index, data.item_id, data.arguments))
            case "response.completed" | "response.incomplete" | "response.failed" if data.response is not None:
                self._take_end(data.response, kind.removeprefix("response."))
            case _ if data.response is not None:
                self._take_head(data.response)

    def _take_body(self, body: bytes) -> None:
        data = self._read_body(body_decoder, body)
        if data is None:
            return
        if data.output is not None:
            self._take_end(data, data.status or "completed")
        elif data.error:
            self._fail(self._from_api(read_error_object({"error": data.error}), midway=data.status == "failed"))
        else:
            self._fail(self._nothing_usable(body))

    # --- parts of a response ---

    def _hand_out(self, pieces: Iterable[Piece]) -> None:
        if self._error is not None:
            return
        for piece in pieces:
            if isinstance(piece, str):
                self._refusal.append(piece)
                self.contents += 1
                self.characters += len(piece)
            else:
                self._add(piece)

    def _take_head(self, response: WireResponse) -> None:
        self.id, self.model = response.id or self.id, response.model or self.model

    def _take_end(self, response: WireResponse, status: str) -> None:
        self._take_head(response)
        self._hand_out(self._items.complete_all(response.output or []))
        if (usage := to_usage(response.usage)) is not None:
            self.usage, self.counted = usage, True
            self.billed_output_tokens = self.usage.output_tokens
        details = response.incomplete_details
        self.stop_reason = (status == "incomplete" and details and details.reason) or status
        self._complete = status == "completed"
        self.contents += 1
        if response.error or status == "failed":
            self._fail(self._reason(response.error))
        elif status not in ("completed", "incomplete"):  # such as a background job's "queued"
            self._fail(BadReply(f'the response is "{status}", and not done'))
        self.done = True

    def _reason(self, error: Any) -> AgentError:
        if not error:
            return ProviderFailed("it gave no reason")
        return self._from_api(read_error_object({"error": error}), midway=True)

    # --- errors ---

    def _from_api(self, body: ErrorBody, *, midway: bool) -> AgentError:
        if body.code in FILTERED:
            return OutputFiltered(body.message)
        if body.code == "error":  # the event's own type, where the API gave no code
            body = msgspec.structs.replace(body, code=None)
        if body.status is None and isinstance(body.code, str):
            status = 400 if "image" in body.code else STATUSES.get(body.code)
            body = msgspec.structs.replace(body, status=status)
        return super()._from_api(body, midway=midway)
