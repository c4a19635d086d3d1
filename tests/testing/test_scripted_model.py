"""The scripted model speaks through the codecs of chat completions."""

from __future__ import annotations

from typing import Any

import pytest

from heaveto.errors import BadReply
from heaveto.messages import (
    AssistantMessage,
    CallDelta,
    Delta,
    ReasoningDelta,
    Reply,
    TextDelta,
    ToolCall,
    Transcript,
    Usage,
)
from heaveto.messages import UserMessage as User
from heaveto.models import Request
from heaveto.testing import FakeClock, calls, scripted
from heaveto.testing.scripted_bytes import events_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend(fake_clock: FakeClock) -> Any:
    return fake_clock.backend


async def said(model: Any, transcript: Transcript | None = None) -> tuple[list[Delta], Reply]:
    async with model.stream(Request(transcript=transcript or Transcript([User("hi")]))) as stream:
        with pytest.raises(RuntimeError, match="when the iteration over the stream has ended"):
            _ = stream.reply
        assert stream.spent.estimated
        deltas = [delta async for delta in stream]
        assert not stream.spent.estimated
        return deltas, stream.reply


async def test_what_a_script_says_is_a_real_reply() -> None:
    asked = ToolCall("call_a", "look", '{"at":"é"}')
    message = AssistantMessage("two  words", (asked,), "hm", {"provider": "other", "blocks": []})
    script = Reply(
        message=message,
        finish="tool_calls",
        usage=Usage(input_tokens=3, output_tokens=4),
        id="r",
        model="m",
        native_finish="tool_use",
    )
    deltas, reply = await said(scripted(script))
    assert reply == script
    assert deltas == [
        ReasoningDelta("hm"),
        TextDelta("two"),
        TextDelta(" "),
        TextDelta(" words"),
        CallDelta(0, "call_a", "look", '{"at":"é"}'),
    ]


async def test_what_no_api_can_send_arrives_as_from_one() -> None:
    """Half a surrogate pair, empty arguments, and an id that the conversation has."""
    first = calls(("look", ""), text="odd \ud800")
    _, reply = await said(scripted(first))
    assert (reply.message.content, reply.message.tool_calls[0].arguments) == ("odd �", "{}")
    _, again = await said(scripted(first), Transcript([User("hi"), first.message]))
    assert again.message.tool_calls[0].id not in ("", first.message.tool_calls[0].id)


async def test_every_end_of_a_reply_can_be_scripted() -> None:
    for finish in ("answer", "truncated", "filtered", "refused", "incomplete", "empty"):
        script = Reply(message=AssistantMessage("" if finish == "empty" else "half"), finish=finish)  # type: ignore[arg-type]
        assert (await said(scripted(script)))[1] == script
    refused = Reply(message=AssistantMessage(), finish="refused", refusal="I would rather not")
    assert (await said(scripted(refused)))[1] == refused


def test_its_bytes_are_a_stream_of_events() -> None:
    *events, last = events_of(Reply(message=AssistantMessage("a b"), finish="answer"))
    assert all(event.startswith(b"data: {") and event.endswith(b"}\n\n") for event in events)
    assert last.endswith(b"data: [DONE]\n\n")


async def test_an_error_in_a_script_is_raised_when_the_call_begins() -> None:
    with pytest.raises(BadReply):
        async with scripted(BadReply("no")).stream(Request(transcript=Transcript([User("hi")]))):
            pass
