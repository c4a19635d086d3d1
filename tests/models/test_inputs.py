"""Images and files in requests, as each API's documents ask for them; what an API does not take is never sent."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from heaveto.errors import ConfigError
from heaveto.messages import AssistantMessage, File, Image, Message, ToolCall, ToolMessage, Transcript, UserMessage
from heaveto.models import Request, anthropic, by_name, compatible, gemini, openai, openai_responses, openrouter
from heaveto.models.inputs import estimated_tokens

PNG, PDF_BYTES = b"\x89PNG\r\n\x1a\n...", b"%PDF-1.7..."
IMAGE, PDF, NOTES = Image(PNG, name="x.png"), File(PDF_BYTES, name="a.pdf"), File(b"hello", name="n.txt")
PNG64, PDF64 = base64.b64encode(PNG).decode(), base64.b64encode(PDF_BYTES).decode()
THERE = Image.from_url("https://h/x.png", "image/png")
NOTES_TEXT = "n.txt:\n\nhello"

MAKERS: dict[str, Any] = {
    "chat": lambda **more: openai("m", key="k", **more),
    "messages": lambda **more: anthropic("m", key="k", cache=False, **more),
    "responses": lambda **more: openai_responses("m", key="k", **more),
    "gemini": lambda **more: gemini("gemini-3-pro", key="k", **more),
}


def body(model: Any, *messages: Message) -> Any:
    return json.loads(model.dialect.encode(Request(transcript=Transcript(messages))))


QUESTION = UserMessage.of("what is this?", IMAGE, THERE, PDF, NOTES)
ENCODED = {
    "chat": [
        {"type": "text", "text": "what is this?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG64}"}},
        {"type": "image_url", "image_url": {"url": "https://h/x.png"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF64}"}},
        {"type": "text", "text": NOTES_TEXT},
    ],
    "messages": [
        {"type": "text", "text": "what is this?"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG64}},
        {"type": "image", "source": {"type": "url", "url": "https://h/x.png"}},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": PDF64},
            "title": "a.pdf",
        },
        {"type": "text", "text": NOTES_TEXT},
    ],
    "responses": [
        {"type": "input_text", "text": "what is this?"},
        {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{PNG64}"},
        {"type": "input_image", "detail": "auto", "image_url": "https://h/x.png"},
        {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF64}"},
        {"type": "input_text", "text": NOTES_TEXT},
    ],
    "gemini": [
        {"text": "what is this?"},
        {"inlineData": {"mimeType": "image/png", "data": PNG64}},
        {"fileData": {"mimeType": "image/png", "fileUri": "https://h/x.png"}},
        {"inlineData": {"mimeType": "application/pdf", "data": PDF64}},
        {"text": NOTES_TEXT},
    ],
}


def content_of(sent: Any) -> Any:
    (message,) = sent.get("messages") or sent.get("input") or sent["contents"]
    return message.get("content") or message["parts"]


@pytest.mark.parametrize("dialect", MAKERS)
def test_what_a_person_shows_is_sent_as_the_api_asks(dialect: str) -> None:
    assert content_of(body(MAKERS[dialect](), QUESTION)) == ENCODED[dialect]


def test_the_cache_marks_an_image_that_ends_a_message_too() -> None:
    (block,) = content_of(body(anthropic("m", key="k"), UserMessage.of(IMAGE)))
    assert (block["type"], block["cache_control"]) == ("image", {"type": "ephemeral"})


RESULT = ToolMessage("c1", "shot", "words for it", parts=("here:", IMAGE, NOTES))
IN_WORDS = "here:\n[image/png x.png, 11 bytes]\n" + NOTES_TEXT


def result_of(model: Any) -> Any:
    sent = body(model, UserMessage("go"), AssistantMessage(tool_calls=(ToolCall("c1", "shot", "{}"),)), RESULT)
    return (sent.get("messages") or sent.get("input") or sent["contents"])[-1]


def test_a_tools_image_goes_where_the_api_takes_it_and_is_named_where_not() -> None:
    assert result_of(MAKERS["chat"]())["content"] == IN_WORDS
    (block,) = result_of(MAKERS["messages"]())["content"]
    assert [part["type"] for part in block["content"]] == ["text", "image", "text"]
    assert [part["type"] for part in result_of(MAKERS["responses"]())["output"]] == [
        "input_text",
        "input_image",
        "input_text",
    ]
    (part,) = result_of(MAKERS["gemini"]())["parts"]
    assert part["functionResponse"]["response"] == {"output": "here:\n" + NOTES_TEXT}
    assert part["functionResponse"]["parts"] == [{"inlineData": {"mimeType": "image/png", "data": PNG64}}]
    (older,) = result_of(gemini("gemini-2.5-flash", key="k"))["parts"]
    assert older["functionResponse"] == {"id": "c1", "name": "shot", "response": {"output": IN_WORDS}}


def test_a_result_with_another_apis_kind_of_image_breaks_no_request() -> None:
    odd = ToolMessage("c1", "shot", "", parts=(Image(b"\0\0\0\x18ftypheic"),))
    for make in MAKERS.values():
        assert b"heic" in make().dialect.encode(Request(transcript=Transcript([odd])))


@pytest.mark.parametrize(
    ("model", "part", "says"),
    [
        (
            lambda: by_name("deepseek:m", key="k"),
            IMAGE,
            "deepseek does not take image/png x.png, 11 bytes; it takes no",
        ),
        (lambda: by_name("groq:m", key="k"), PDF, "it takes no files"),
        (lambda: by_name("xai:m", key="k"), Image(b"GIF89a"), "it takes image/jpeg, image/png"),
        (lambda: by_name("ollama:m"), THERE, "it fetches nothing itself: give the bytes"),
        (lambda: openai("m", key="k"), File.from_url("https://h/a.pdf"), "it fetches nothing itself"),
        (lambda: anthropic("m", key="k"), Image(PNG + bytes(5_000_000)), "5,000,000 bytes are the most"),
        (lambda: gemini("m", key="k"), Image(b"GIF89a"), "image/heic, image/heif, image/jpeg"),
    ],
)
def test_what_an_api_does_not_take_is_refused_before_it_is_sent(model: Any, part: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        model().check_inputs(["look", part])
    with pytest.raises(ConfigError, match=says):
        body(model(), UserMessage.of("look", part))


def test_every_api_takes_a_text_file() -> None:
    for name in ("deepseek:m", "mistral:m", "ollama:m"):
        model = by_name(name, key="k")
        model.check_inputs([NOTES])
        assert content_of(body(model, UserMessage.of("read", NOTES)))[1]["text"] == NOTES_TEXT
    openrouter("m", key="k").check_inputs([File.from_url("https://h/a.pdf")])


def test_an_image_is_not_counted_as_if_it_were_text() -> None:
    """An estimate of what a call that was cut has cost."""
    model = compatible("m", base_url="http://localhost:1/v1")
    transcript = Transcript([UserMessage.of("look", Image(PNG + bytes(3_000_000)), File(PDF_BYTES + bytes(1_000_000)))])
    sent = model.dialect.encode(Request(transcript=transcript))
    assert len(sent) > 5_000_000
    assert 41_600 <= estimated_tokens(len(sent), transcript.media) < 42_000
    assert estimated_tokens(3_000, [NOTES]) == 1_000
