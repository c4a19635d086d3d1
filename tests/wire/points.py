"""One stream cut at one byte, through the real client: what came of it, and whether that is right.

A point is a stream, a byte, and what happens there: the connection is closed, reset, stalled, or only pauses (split).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from judge import joined
from replies import Reply
from standing import standing

from heaveto.causes import StreamIdle
from heaveto.errors import AgentError, BadReply, EmptyReply, IncompleteStream
from heaveto.messages import Delta, Transcript, UserMessage
from heaveto.models import RemoteModel, Request
from heaveto.models.anthropic_messages import MessagesDialect
from heaveto.models.chat import ChatDialect
from heaveto.models.gemini_content import GeminiDialect
from heaveto.models.responses import ResponsesDialect
from heaveto.scopes import Scope
from heaveto.testing import Cut, FaultyExchange

__all__ = ["HOWS", "Came", "How", "Point", "call", "cut_exchange", "model_for", "places", "wrong_at"]

How: TypeAlias = Literal["closed", "reset", "stalled", "split"]
HOWS: tuple[How, ...] = ("closed", "reset", "stalled", "split")

DIALECTS: dict[str, Any] = {
    "chat": ChatDialect,
    "anthropic": MessagesDialect,
    "responses": ResponsesDialect,
    "gemini": GeminiDialect,
}
LAST_BYTES = 48  # of a large stream: all of them, since its end is decided there
HANG_SECONDS = 600.0  # longer than every limit of a call


@dataclass(frozen=True)
class Point:
    reply: Reply
    place: int
    how: How

    def __str__(self) -> str:
        return f"{self.reply.name} {self.how} at byte {self.place}"


@dataclass(frozen=True)
class Came:
    """What came of a call: deltas, and a reply or an error."""

    deltas: list[Delta]
    reply: Any = None
    error: BaseException | None = None

    @property
    def said(self) -> Any:
        """All but the ids that are made by us and the usage, which is an estimate when its event was cut off."""
        calls = [(call.name, call.arguments) for call in self.reply.message.tool_calls]
        message = self.reply.message
        return self.reply.finish, self.reply.native_finish, message.content, message.reasoning, calls, self.reply.refusal

    def __str__(self) -> str:
        return f"{self.error!r}" if self.error is not None else f"a reply: {self.said}"


def places(reply: Reply, limit: int | None, seed: int = 1) -> list[int]:
    """Every byte of a small stream; of a large one nasty places, the last bytes and others, the same for one seed."""
    size = len(reply.body)
    if limit is None or size < limit:
        return list(range(size + 1))
    decisive = {place + near for place in reply.nasty for near in (-1, 0, 1)} | set(range(size - LAST_BYTES, size + 1))
    decisive &= set(range(size + 1))
    numbers = random.Random(f"{seed} {reply.name}")
    if len(decisive) > limit:
        return sorted(numbers.sample(sorted(decisive), limit))
    others = numbers.sample(range(size + 1), limit)
    return sorted(decisive | set(others[len(decisive) :]))


def cut_exchange(point: Point) -> FaultyExchange:
    """Answers in memory, as the point says that its model was made for."""
    return FaultyExchange(point.reply.body, Cut(point.how, point.place))


def model_for(reply: Reply, base_url: str = "http://memory", **settings: Any) -> RemoteModel:
    """A model that speaks the reply's dialect."""
    return RemoteModel(DIALECTS[reply.dialect]("m", provider="p"), base_url=base_url, **settings)


async def call(model: RemoteModel) -> Came:
    """One call; an error of ours is part of what came."""
    deltas: list[Delta] = []
    try:
        with Scope(HANG_SECONDS):
            async with model.stream(Request(transcript=Transcript([UserMessage("hi")]))) as stream:
                async for delta in stream:
                    deltas.append(delta)  # noqa: PERF401 - an error may come in the middle
                return Came(deltas, stream.reply)
    except (AgentError, StreamIdle) as error:
        return Came(deltas, error=error)
    raise AssertionError("a quiet scope")


def wrong_at(point: Point, came: Came, whole: Came, *, framed: bool = False) -> str | None:
    """What is wrong with what came; None when it is right.

    Args:
        whole: What comes of the stream as it is.
        framed: Whether HTTP says where the body ends, so that a close before it is a broken connection.
    """
    whole_body = framed and point.how == "stalled" and point.place == len(point.reply.body)
    judged = replace(point, how="closed") if whole_body else point  # nothing can stall behind the end that HTTP knows
    problem = next(problems(judged, came, whole, broken=framed and point.how == "closed"), None)
    return f"{point}: {problem}: {came}" if problem else None


def problems(point: Point, came: Came, whole: Came, *, broken: bool) -> Iterator[str]:
    if point.how == "split":
        if (came.deltas and joined(came.deltas)) != (whole.deltas and joined(whole.deltas)) or not same(came, whole):
            yield "not what the whole stream gives"
        elif came.reply is not None and came.reply.usage != whole.reply.usage:
            yield "another usage than the whole stream gives"
        return
    text, whole_text = joined(came.deltas)[0], joined(whole.deltas)[0]
    if not whole_text.startswith(text):
        yield "text that the stream does not have"
    prefix, dialect = point.reply.body[: point.place], point.reply.dialect
    by_events = standing(dialect, prefix, closed=False)
    by_bytes = standing(dialect, prefix, closed=True)
    if point.how == "stalled":
        yield from wrong_stalled(by_events, came, whole)
    elif point.how == "reset" or broken:
        yield from wrong_broken(by_events, by_bytes, came, whole)
    else:
        yield from wrong_closed(by_bytes, prefix, came, whole)


def same(came: Came, whole: Came) -> bool:
    if came.reply is None or whole.reply is None:
        return type(came.error) is type(whole.error) and str(came.error) == str(whole.error)
    return bool(came.said == whole.said)


def wrong_end(came: Came, whole: Came) -> Iterator[str]:
    """The reply had ended in what came."""
    if came.reply is None:
        yield "an error, though the reply had ended"
    elif whole.reply is not None and came.said != whole.said:
        yield "another reply than the whole one"
    elif whole.reply is None and came.reply.finish in ("answer", "tool_calls"):
        yield "an answer, though an error follows"


def wrong_closed(state: str, prefix: bytes, came: Came, whole: Came) -> Iterator[str]:
    match state:
        case "failed":
            if not same(came, whole):
                yield "not the API's error"
        case "ended" | "done":
            yield from wrong_end(came, whole)
        case _:
            nothing = not prefix.strip()
            page = type(whole.error) is BadReply  # the beginning of one may say so already
            allowed = (EmptyReply,) if nothing else (BadReply, IncompleteStream) if page else (IncompleteStream,)
            if type(came.error) not in allowed:
                yield f"not {allowed[0].__name__}, though the reply had not ended"


def wrong_broken(by_events: str, by_bytes: str, came: Came, whole: Came) -> Iterator[str]:
    match by_events:
        case "failed":
            if not same(came, whole):
                yield "not the API's error"
        case "ended" if by_bytes == "failed" and same(came, whole):
            pass  # the error had come but for its empty line
        case "ended" | "done":
            yield from wrong_end(came, whole)
        case _ if type(came.error) is not IncompleteStream:
            if by_bytes == "open":
                yield "not IncompleteStream, though the connection broke"
            elif by_bytes != "failed":  # its last event had come but for the empty line: as good as ended
                yield from wrong_end(came, whole)


def wrong_stalled(state: str, came: Came, whole: Came) -> Iterator[str]:
    match state:
        case "failed":
            if not same(came, whole):
                yield "not the API's error"
        case "done":
            yield from wrong_end(came, whole)
        case "ended" if came.reply is not None:
            yield from wrong_end(came, whole)
        case _ if type(came.error) is not StreamIdle:
            yield "not StreamIdle, though the stream went quiet"
