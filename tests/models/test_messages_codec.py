"""The codec of Anthropic's Messages: requests as the API asks for them, and replies that go back as they came."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaveto.errors import AgentError, APIError, OutputFiltered, ProviderFailed
from heaveto.messages import (
    AssistantMessage,
    CallDelta,
    Message,
    ReasoningDelta,
    Reply,
    SystemMessage,
    TextDelta,
    ToolCall,
    ToolMessage,
    Transcript,
    Usage,
    UserMessage,
)
from heaveto.models import Request, ToolSpec
from heaveto.models.anthropic_messages import MessagesDecoder, MessagesEncoder
from heaveto.models.json_bytes import without_strays

any_text = st.text(st.characters(exclude_categories=()), max_size=30)
MARK = {"cache_control": {"type": "ephemeral"}}


def encoder(provider: str = "p", model: str = "m", **settings: Any) -> MessagesEncoder:
    return MessagesEncoder(provider=provider, model=model, stream=True, **{"cache": False, **settings})


def body(*messages: Message, by: MessagesEncoder | None = None, **request: Any) -> dict[str, Any]:
    return json.loads((by or encoder()).encode(Request(transcript=Transcript(messages), **request)))


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def block(index: int, data: dict[str, Any], *deltas: dict[str, Any]) -> bytes:
    pieces = (event("content_block_delta", index=index, delta=delta) for delta in deltas)
    begin = event("content_block_start", index=index, content_block=data)
    return b"".join((begin, *pieces, event("content_block_stop", index=index)))


def end(reason: str = "end_turn") -> bytes:
    return event("message_delta", delta={"stop_reason": reason}, usage={"output_tokens": 3}) + event("message_stop")


def decode(*pieces: bytes, stream: bool = True, taken: tuple[str, ...] = ()) -> Reply:
    decoder = MessagesDecoder(stream=stream, provider="p")
    for piece in pieces:
        decoder.feed(piece)
    return decoder.finish(taken)


def call(call_id: str = "t1", arguments: str = '{"x": 1}') -> ToolCall:
    return ToolCall(call_id, "f", arguments)


# --- requests ---


def test_a_request_has_its_parts() -> None:
    tool = ToolSpec("f", "does f", {"type": "object", "properties": {"x": {"type": "integer"}}})
    made = body(
        SystemMessage("be brief"),
        UserMessage("hi"),
        SystemMessage("and kind"),
        by=encoder(options={"temperature": 0, "tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
        tools=[tool],
        max_output_tokens=100,
    )
    assert made == {
        "model": "m",
        "system": [{"type": "text", "text": "be brief"}, {"type": "text", "text": "and kind"}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "tools": [
            {"name": "f", "description": "does f", "input_schema": tool.schema},
            {"type": "web_search_20250305", "name": "web_search"},
        ],
        "temperature": 0,
        "stream": True,
        "max_tokens": 100,
    }


@pytest.mark.parametrize(
    ("model", "options", "tokens"),
    [
        ("claude-sonnet-4-5", {}, 32_000),
        ("claude-3-5-haiku-latest", {}, 8192),
        ("claude-3-opus-latest", {}, 4096),
        ("claude-opus-4-6", {"max_tokens": 128_000}, 128_000),
    ],
)
def test_the_most_output_tokens_are_always_said(model: str, options: dict[str, Any], tokens: int) -> None:
    assert body(UserMessage("hi"), by=encoder(model=model, options=options))["max_tokens"] == tokens


def test_the_results_of_one_reply_are_one_message_of_the_user() -> None:
    made = body(
        UserMessage("go"),
        AssistantMessage("", (call("a"), call("b"))),
        ToolMessage("a", "f", "one"),
        ToolMessage("b", "f", "no such file", ending="tool_error"),
        UserMessage("faster"),
    )
    roles = [message["role"] for message in made["messages"]]
    assert roles == ["user", "assistant", "user"]
    assert made["messages"][2]["content"] == [
        {"type": "tool_result", "tool_use_id": "a", "content": "one"},
        {"type": "tool_result", "tool_use_id": "b", "content": "no such file", "is_error": True},
        {"type": "text", "text": "faster"},
    ]


def test_each_message_is_encoded_once_also_where_results_arrive_one_by_one() -> None:
    class Counting(MessagesEncoder):
        encoded = 0

        def encode_blocks(self, message: Message) -> list[bytes]:
            self.encoded += 1
            return super().encode_blocks(message)

    counting = Counting(provider="p", model="m", stream=True)
    transcript = Transcript([SystemMessage("s"), UserMessage("1")])
    for turn in range(5):
        transcript.append(AssistantMessage(str(turn), (call(f"a{turn}"), call(f"b{turn}"))))
        transcript.append(ToolMessage(f"a{turn}", "f", "one"))
        counting.encode(Request(transcript=transcript))
        transcript.append(ToolMessage(f"b{turn}", "f", "two"))
        incremental = json.loads(counting.encode(Request(transcript=transcript)))
        assert incremental == body(*transcript, by=encoder(cache=True))
    assert counting.encoded == len(transcript) - 1  # the system prompt stands elsewhere


def marked(made: dict[str, Any]) -> list[tuple[int, int]]:
    return [
        (i, j)
        for i, message in enumerate(made["messages"])
        for j, content in enumerate(message["content"])
        if content.pop("cache_control", None)
    ]


def test_the_conversation_is_cached_up_to_its_end_and_to_the_end_of_the_request_before() -> None:
    turn = [AssistantMessage("", (call("a"), call("b"))), ToolMessage("a", "f", "1"), ToolMessage("b", "f", "2")]
    tool = ToolSpec("f", "", {})
    caching = encoder(cache=True)
    first = body(SystemMessage("s"), UserMessage("go"), by=caching, tools=[tool])
    assert first["system"] == [{"type": "text", "text": "s", **MARK}]
    assert "cache_control" not in first["tools"][0]
    assert marked(first) == [(0, 0)]
    transcript = [UserMessage("go"), *turn, *turn]
    second = body(*transcript, by=caching, tools=[tool])
    assert second["tools"] == [{"name": "f", "description": "", "input_schema": {}, **MARK}]
    assert marked(second) == [(2, 1), (4, 1)]
    assert second["messages"] == body(*transcript)["messages"]  # the marks change nothing else


def test_blank_text_which_the_api_refuses_is_not_sent() -> None:
    made = body(
        UserMessage(" "),
        AssistantMessage(" \n", (call("a"),)),
        ToolMessage("a", "f", "", ending="crashed"),
        AssistantMessage(""),
        UserMessage("go on"),
        SystemMessage(" "),
    )
    assert "system" not in made
    assert [message["content"] for message in made["messages"]] == [
        [{"type": "text", "text": "(no text)"}],
        [{"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}}],
        [
            {"type": "tool_result", "tool_use_id": "a", "content": "(no text)", "is_error": True},
            {"type": "text", "text": "go on"},
        ],
    ]


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ("", {}),
        ('{"x": 123456789012345678901234567890}', {"x": 123456789012345678901234567890}),
        ('{"x": ', {"not_json": '{"x": '}),
        ("[1]", {"not_json": "[1]"}),
        ('{"x": "\\ud800"}', {"x": "�"}),
        ('{"x": NaN}', {"x": None}),
        ("\ud800", {"not_json": "�"}),
        ("[" * 100_000, {"not_json": "[" * 100_000}),
    ],
    ids=["none", "large", "cut", "list", "stray", "nan", "not text", "deep"],
)
def test_arguments_are_an_object_whatever_the_model_wrote(arguments: str, sent: Any) -> None:
    (message,) = body(AssistantMessage("", (call("a", arguments),)))["messages"]
    assert message["content"][0]["input"] == sent


def test_ids_and_names_of_other_providers_are_made_to_fit_and_still_belong_together() -> None:
    ids = ["functions.f:0", "functions.f:1", "é", "x" * 200]
    strange = tuple(ToolCall(each, "functions.f", "{}") for each in ids)
    made = body(AssistantMessage("", strange), *(ToolMessage(each, "f", "") for each in ids))
    uses, results = (message["content"] for message in made["messages"])
    assert [use["id"] for use in uses] == [result["tool_use_id"] for result in results]
    assert len({use["id"] for use in uses}) == len(ids)
    assert all(use["id"].replace("_", "").isalnum() and use["id"].isascii() and len(use["id"]) < 65 for use in uses)
    assert {use["name"] for use in uses} == {"functions_f"}


# --- replies that go back ---


THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s1"}
SEALED = {"type": "redacted_thinking", "data": "x"}
SEARCH = {"type": "server_tool_use", "id": "srv1", "name": "web_search", "input": {"query": "q"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srv1", "content": [{"type": "web_search_result", "url": "u"}]}
CITED = {"type": "text", "text": "so", "citations": [{"type": "char_location", "cited_text": "so"}]}
USE = {"type": "tool_use", "id": "t1", "name": "f", "input": {"x": 1}}


def whole(*content: dict[str, Any], reason: str = "tool_use") -> bytes:
    message = {"type": "message", "id": "msg_1", "model": "m", "content": content, "stop_reason": reason}
    return json.dumps({**message, "usage": {"input_tokens": 1, "output_tokens": 2}}).encode()


@pytest.mark.parametrize(
    "content",
    [
        (THOUGHT, USE),
        (SEALED, THOUGHT, {"type": "text", "text": "a"}, USE),
        (THOUGHT, USE, {**THOUGHT, "signature": "s2"}, {**USE, "id": "t2"}),
        (SEARCH, FOUND, {"type": "text", "text": "it is "}, CITED, USE),
        ({"type": "text", "text": "a"}, USE),
        ({"type": "text", "text": "a"}, USE, {"type": "text", "text": "b"}),
        ({**THOUGHT, "thinking": ""}, USE),
        ({"type": "dream", "of": ["sheep"]}, USE),
    ],
)
def test_a_reply_goes_back_as_it_came_to_its_provider_and_without_its_extras_to_others(content: tuple[Any, ...]) -> None:
    reply = decode(whole(*content), stream=False)
    (same,) = body(reply.message)["messages"]
    assert tuple(same["content"]) == content
    (other,) = body(reply.message, by=encoder("q"))["messages"]
    assert {each["type"] for each in other["content"]} <= {"text", "tool_use"}
    assert [each for each in other["content"] if each["type"] == "tool_use"] == [
        c for c in content if c["type"] == "tool_use"
    ]


def test_a_streamed_reply_goes_back_as_the_whole_one() -> None:
    reply = decode(
        block(0, SEALED),
        block(
            1,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "h"},
            {"type": "thinking_delta", "thinking": "m"},
            {"type": "signature_delta", "signature": "s1"},
        ),
        block(2, {**SEARCH, "input": {}}, {"type": "input_json_delta", "partial_json": '{"query": "q"}'}),
        block(3, FOUND),
        block(
            4,
            {"type": "text", "text": "", "citations": []},
            {"type": "citations_delta", "citation": CITED["citations"][0]},
            {"type": "text_delta", "text": "so"},
        ),
        block(5, {**USE, "input": {}}, {"type": "input_json_delta", "partial_json": '{"x": 1}'}),
        end("tool_use"),
    )
    (back,) = body(reply.message)["messages"]
    assert back["content"] == [SEALED, THOUGHT, SEARCH, FOUND, CITED, USE]


def test_a_call_that_got_another_id_or_was_taken_away_does_so_in_its_blocks_too() -> None:
    reply = decode(whole(THOUGHT, USE), stream=False, taken=("t1",))
    (renamed,) = reply.message.tool_calls
    assert renamed.id != "t1"
    (back,) = body(reply.message)["messages"]
    assert [each.get("id") for each in back["content"]] == [None, renamed.id]
    without = decode(whole(THOUGHT, {"type": "text", "text": "a"}, USE, reason="max_tokens"), stream=False).message
    (back,) = body(without)["messages"]
    assert [each["type"] for each in back["content"]] == ["thinking", "text"]


def test_thinking_that_was_cut_off_before_its_signature_is_not_sent_back() -> None:
    reply = decode(
        whole({"type": "thinking", "thinking": "h", "signature": ""}, {"type": "text", "text": "a"}), stream=False
    )
    (back,) = body(reply.message)["messages"]
    assert back["content"] == [{"type": "text", "text": "a"}]


# --- decoding ---


def test_deltas_put_together_are_the_reply() -> None:
    decoder = MessagesDecoder(stream=True)
    stream = block(0, {"type": "text", "text": "a"}, {"type": "text_delta", "text": "b"})
    stream += block(3, {**USE, "input": {}}, {"type": "input_json_delta", "partial_json": "{}"})
    stream += event("content_block_delta", index=9, delta={"type": "thinking_delta", "thinking": "hm"})
    assert decoder.feed(stream) == [
        TextDelta("a"),
        TextDelta("b"),
        CallDelta(0, "t1", "f"),
        CallDelta(0, "", "", "{}"),
        ReasoningDelta("hm"),
    ]


@pytest.mark.parametrize(
    "reason", ["max_tokens", "refusal", "pause_turn", "model_context_window_exceeded", "content_filtered"]
)
def test_a_cut_reply_has_no_call_to_run(reason: str) -> None:
    reply = decode(block(0, USE), end(reason))
    assert (reply.message.tool_calls, reply.native_finish) == ((), reason)
    assert reply.finish in ("truncated", "refused", "incomplete", "filtered")


def test_a_call_without_a_name_is_a_call_and_goes_back_with_a_name_that_the_api_takes() -> None:
    reply = decode(block(0, {"type": "tool_use", "id": "t1"}), end("tool_use"))
    assert reply.message.tool_calls == (ToolCall("t1", "", "{}"),)
    assert b'"name":"_"' in encoder().encode(Request(transcript=Transcript([reply.message])))


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, ProviderFailed, True),
        ({"type": "api_error", "message": "Internal"}, ProviderFailed, True),
        ({"type": "rate_limit_error", "message": "slow"}, APIError, True),
        ({"type": "invalid_request_error", "message": "no"}, APIError, False),
        ({"type": "new_error", "message": "no"}, ProviderFailed, True),
        ({"type": "invalid_request_error", "message": "Output blocked by content filtering policy"}, OutputFiltered, None),
    ],
)
def test_an_error_midway_is_the_right_one(error: dict[str, str], kind: type[AgentError], retryable: bool | None) -> None:
    with pytest.raises(kind) as caught:
        decode(block(0, {"type": "text", "text": "a"}), event("error", error=error))
    assert type(caught.value) is kind
    assert caught.value.retryable is retryable
    assert error["message"] in str(caught.value)


def test_usage_of_the_start_does_not_cover_the_reply_and_is_overwritten() -> None:
    decoder = MessagesDecoder(stream=True)
    first = {"input_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 10, "output_tokens": 1}
    decoder.feed(event("message_start", message={"id": "i", "model": "m", "usage": first}))
    cached = {"cached_input_tokens": 100, "cache_write_tokens": 10}
    assert decoder.usage == Usage(input_tokens=115, output_tokens=1, **cached)
    assert not decoder.counted
    decoder.feed(block(0, {"type": "text", "text": "a"}) + end())
    assert decoder.counted
    assert decoder.finish().usage == Usage(input_tokens=115, output_tokens=3, **cached)


# --- properties ---


calls = st.builds(
    ToolCall, st.from_regex(r"[a-z]{1,9}", fullmatch=True), st.just("f"), st.sampled_from(["", "{}", '{"x": 1}', "]"])
)
conversations = st.lists(
    st.one_of(
        st.builds(SystemMessage, any_text),
        st.builds(UserMessage, any_text),
        st.builds(ToolMessage, st.just("a"), st.just("f"), any_text, st.sampled_from(["ok", "crashed"])),
        st.builds(AssistantMessage, any_text, st.lists(calls, max_size=3, unique_by=lambda call: call.id).map(tuple)),
    ),
    max_size=8,
)


def as_a_server_reads_it(made: dict[str, Any]) -> list[tuple[str, Any]]:
    """A server's own decoder: each block as who said it and what."""
    roles = [message["role"] for message in made["messages"]]
    assert all(before != after for before, after in itertools.pairwise(roles))
    read: list[tuple[str, Any]] = [("system", each["text"]) for each in made.get("system", ())]
    for message in made["messages"]:
        assert message["content"]
        for content in message["content"]:
            match content:
                case {"type": "text", "text": text}:
                    assert text.strip()
                    read.append((message["role"], text))
                case {"type": "tool_use", "id": call_id, "name": name, "input": dict() as arguments}:
                    read.append(("call", (call_id, name, arguments)))
                case {"type": "tool_result", "tool_use_id": call_id}:
                    assert content["content"].strip() or "is_error" not in content
                    read.append(("result", (call_id, content["content"], content.get("is_error", False))))
                case _:
                    raise AssertionError(content)
    return read


def as_it_was_meant(messages: list[Message]) -> list[tuple[str, Any]]:
    meant: list[tuple[str, Any]] = [
        ("system", m.content) for m in messages if isinstance(m, SystemMessage) and m.content.strip()
    ]
    for message in messages:
        match message:
            case UserMessage(content):
                meant.append(("user", content if content.strip() else "(no text)"))
            case ToolMessage():
                text = message.content if message.content.strip() or not message.is_error else "(no text)"
                meant.append(("result", (message.call_id, text, message.is_error)))
            case AssistantMessage(content, tool_calls):
                if content.strip():
                    meant.append(("assistant", content))
                for each in tool_calls:
                    arguments = {"not_json": each.arguments} if each.arguments == "]" else json.loads(each.arguments or "{}")
                    meant.append(("call", (each.id, each.name, arguments)))
    return without_strays(meant)


@given(conversations, st.booleans(), st.integers(0, 8))
def test_a_servers_own_decoder_reads_what_was_meant(messages: list[Message], cache: bool, sent_before: int) -> None:
    by = encoder(cache=cache)
    transcript = Transcript(messages[:sent_before])
    by.encode(Request(transcript=transcript))
    transcript.append(*messages[sent_before:])
    made = json.loads(by.encode(Request(transcript=transcript)))
    assert without_strays(as_a_server_reads_it(made)) == as_it_was_meant(messages)


pieces = st.lists(
    st.one_of(
        st.builds(
            lambda i, t: block(i, {"type": "text", "text": ""}, {"type": "text_delta", "text": t}),
            st.integers(0, 3),
            any_text,
        ),
        st.builds(
            lambda i, t, s: block(
                i,
                {"type": "thinking", "thinking": "", "signature": ""},
                {"type": "thinking_delta", "thinking": t},
                {"type": "signature_delta", "signature": s},
            ),
            st.integers(0, 3),
            any_text,
            any_text,
        ),
        st.builds(
            lambda i, t, n: block(i, {**USE, "id": f"t{n}", "input": {}}, {"type": "input_json_delta", "partial_json": t}),
            st.integers(0, 3),
            any_text,
            st.uuids(),  # a repeated one is replaced by one that is new each time
        ),
        st.sampled_from(
            [
                b": ping\n\n",
                event("ping"),
                event("message_start", message={"id": "i", "usage": {"input_tokens": 1}}),
                event("content_block_delta", index=2, delta={"type": "citations_delta", "citation": {}}),
                event("content_block_delta", delta={"type": "new_delta"}),
                event("error", error={"type": "overloaded_error"}),
                b"data: no\n\n",
                b"error: x\n",
            ]
        ),
    ),
    max_size=8,
)


@given(
    pieces, st.sampled_from(["end_turn", "tool_use", "max_tokens", None]), st.booleans(), st.randoms(use_true_random=False)
)
def test_decoding_does_not_depend_on_the_splitting(parts: list[bytes], reason: str | None, crlf: bool, random: Any) -> None:
    data = b"".join([*parts, end(reason) if reason else b""])
    data = data.replace(b"\n", b"\r\n") if crlf else data
    whole, cut = MessagesDecoder(stream=True), MessagesDecoder(stream=True)
    at_once = whole.feed(data) + whole.close()
    places = sorted(random.randrange(len(data) + 1) for _ in range(random.randrange(12)))
    edges = zip([0, *places], [*places, len(data)], strict=True)
    in_pieces = [delta for a, b in edges for delta in cut.feed(data[a:b])] + cut.close()
    assert in_pieces == at_once
    assert cut.so_far() == whole.so_far()
    assert ending(cut) == ending(whole)


def ending(decoder: MessagesDecoder) -> object:
    try:
        return decoder.finish(("made",))
    except AgentError as error:
        return type(error), str(error)
