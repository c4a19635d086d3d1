"""The codec of chat completions: what no recording has, and requests that come back as they were."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaveto.errors import APIError, BadReply, EmptyReply, IncompleteStream, ProviderFailed
from heaveto.messages import (
    AssistantMessage,
    CallDelta,
    Message,
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
from heaveto.models.call_ids import fitting_name
from heaveto.models.chat import ChatDecoder, ChatEncoder
from heaveto.models.json_bytes import without_strays

any_text = st.text(st.characters(exclude_categories=()), max_size=30)


def event(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return b"data: " + json.dumps({"id": "g", "choices": [choice], **more}).encode() + b"\n\n"


def call_part(**fields: Any) -> dict[str, Any]:
    function = {key: fields.pop(key) for key in ("name", "arguments") if key in fields}
    return {"tool_calls": [{**fields, "function": function}]}


def decode(*pieces: bytes, stream: bool = True, taken: tuple[str, ...] = ()) -> Reply:
    decoder = ChatDecoder(stream=stream, provider="p")
    for piece in pieces:
        decoder.feed(piece)
    return decoder.finish(taken)


def calls_of(*parts: dict[str, Any]) -> list[tuple[str, str, str]]:
    reply = decode(*(event(part) for part in parts), event(finish="tool_calls"))
    return [(call.id, call.name, call.arguments) for call in reply.message.tool_calls]


# --- replies ---


def test_two_calls_under_one_index_are_told_apart_by_their_ids() -> None:
    assert calls_of(
        call_part(index=0, id="a", name="f", arguments='{"x":'),
        call_part(index=0, id="a", arguments="1}"),
        call_part(index=0, id="b", name="g", arguments="{}"),
    ) == [("a", "f", '{"x":1}'), ("b", "g", "{}")]


def test_a_name_may_be_repeated_or_come_in_pieces() -> None:
    assert calls_of(call_part(index=0, id="a", name="get_"), call_part(index=0, name="weather", arguments="{}")) == [
        ("a", "get_weather", "{}")
    ]
    assert calls_of(call_part(index=0, id="a", name="f", arguments="{"), call_part(index=0, name="f", arguments="}")) == [
        ("a", "f", "{}")
    ]


def test_arguments_may_come_as_an_object_and_calls_without_index_and_id() -> None:
    (first, second) = calls_of(call_part(name="f", arguments={"x": 1}), call_part(name="g"), call_part(arguments='{"y":2}'))
    assert first[1:] == ("f", '{"x":1}')
    assert second[1:] == ("g", '{"y":2}')
    assert first[0]
    assert second[0]
    assert first[0] != second[0]


def test_in_a_whole_reply_two_calls_with_one_id_are_two() -> None:
    calls = [{"id": "call_0", "function": {"name": name, "arguments": "{}"}} for name in ("f", "g")]
    choice = {"index": 0, "message": {"content": None, "tool_calls": calls}, "finish_reason": "tool_calls"}
    first, second = decode(json.dumps({"choices": [choice]}).encode(), stream=False).message.tool_calls
    assert (first.name, first.arguments, second.name, second.arguments) == ("f", "{}", "g", "{}")
    assert first.id == "call_0" != second.id


def test_an_id_that_came_before_gets_a_new_one() -> None:
    twice = [event(call_part(index=i, id="functions.f:0", name="f")) for i in (0, 1)]
    reply = decode(*twice, event(finish="tool_calls"), taken=("functions.f:0",))
    ids = [call.id for call in reply.message.tool_calls]
    assert len(set(ids)) == 2
    assert "functions.f:0" not in ids


def test_a_call_without_a_name_is_a_call_and_goes_back_with_a_name_that_the_api_takes() -> None:
    reply = decode(event(call_part(index=0, id="a", arguments="{}")), event(finish="tool_calls"))
    assert reply.message.tool_calls == (ToolCall("a", "", "{}"),)
    (message,) = body(reply.message)["messages"]
    assert message["tool_calls"][0]["function"] == {"name": "_", "arguments": "{}"}
    (odd,) = body(AssistantMessage(tool_calls=(ToolCall("a", "functions.read file", "{}"),)))["messages"]
    assert odd["tool_calls"][0]["function"]["name"] == "functions_read_file"


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_a_cut_reply_has_no_call_to_run(finish: str) -> None:
    reply = decode(event(call_part(index=0, id="a", name="f", arguments='{"x": 1}')), event(finish=finish))
    assert reply.finish in ("truncated", "filtered")
    assert reply.message.tool_calls == ()


def test_who_refuses_in_the_middle_of_it_has_refused() -> None:
    calling = event(call_part(index=0, id="a", name="f"))
    for before in (event({"content": "half of it"}), calling):
        reply = decode(before, event({"refusal": "I cannot"}), event({"refusal": " do that."}), event(finish="stop"))
        assert (reply.finish, reply.refusal, reply.message.tool_calls) == ("refused", "I cannot do that.", ())
    assert decode(event({"content": "whole", "refusal": ""}), event(finish="stop")).finish == "answer"


def test_calls_are_calls_whatever_the_reason_is_called() -> None:
    reply = decode(event(call_part(index=0, id="a", name="f")), event(finish="stop"))
    assert (reply.finish, reply.native_finish) == ("tool_calls", "stop")


def test_done_is_an_end_too_and_nothing_counts_after_it() -> None:
    reply = decode(event({"content": "hi"}), b"data: [DONE]\n\n", event({"content": " there"}))
    assert (reply.finish, reply.message.content) == ("answer", "hi")


def test_nothing_said_is_an_empty_reply_that_ended_well() -> None:
    assert decode(event({"role": "assistant", "content": ""}), event(finish="stop")).finish == "empty"


def test_a_last_event_without_its_empty_line_counts_when_it_is_whole() -> None:
    assert decode(event({"content": "hi"}), event(finish="stop").rstrip()).finish == "answer"
    with pytest.raises(IncompleteStream):
        decode(event({"content": "hi"}), event(finish="stop").rstrip()[:-1])


def test_usage_comes_anywhere_and_the_last_counts() -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 1}
    reply = decode(
        event({"content": "a"}, usage={**usage, "completion_tokens": 9}),
        event(finish="stop", usage=None),
        b'data: {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1, "cost": 0.000012}}\n\n',
    )
    assert reply.usage == Usage(input_tokens=3, output_tokens=1, cost_usd=reply.usage.cost_usd)
    assert str(reply.usage.cost_usd) == "0.000012"


@pytest.mark.parametrize(
    ("body", "stream", "error", "text"),
    [
        (b"", False, EmptyReply, "no bytes came"),
        (b"", True, EmptyReply, "no bytes came"),
        (b"<html><title>Sign in</title></html>", False, BadReply, "an HTML page where JSON was expected: Sign in"),
        (b"<html><title>Sign in</title></html>", True, BadReply, "an HTML page where JSON was expected: Sign in"),
        (b'{"error": {"message": "no", "code": 402}}', True, APIError, "402 Payment Required: no"),
        (b'{"choices": []}', False, EmptyReply, "no choices"),
        (b'{"choices": [{"index": 0, "mess', False, IncompleteStream, "its JSON is cut off"),
        (b'{"detail": "what?"}', False, BadReply, "what?"),
        (b"busy", False, BadReply, "busy"),
        (b": ping\n\n: ping\n\n", True, IncompleteStream, "nothing of it had come"),
        (b"data: what\n\n", True, ProviderFailed, "an event that is no chunk: what"),
        (b'event: error\ndata: {"message": "overloaded"}\n\n', True, ProviderFailed, "overloaded"),
        (b'data: {"error": {"message": "down", "code": 502}}\n\n', True, ProviderFailed, "502: down"),
        (b'data: {"error": {"message": "slow", "code": 429}}\n\n', True, APIError, "429 Too Many Requests: slow"),
        (
            b'data: {"choices": [{"index": 0, "error": {"message": "x", "code": 400}}]}\n\n',
            True,
            APIError,
            "400 Bad Request: x",
        ),
        (event({"content": "a"}, "error"), True, ProviderFailed, "it gave no reason"),
        (event({"content": "abc"}), True, IncompleteStream, "3 characters had come"),
    ],
)
def test_what_cannot_be_used_is_the_right_error(body: bytes, stream: bool, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        decode(body, stream=stream)
    assert type(caught.value) is error
    assert text in str(caught.value)


def test_an_error_hands_out_what_came_before_it_and_is_raised_at_the_end() -> None:
    decoder = ChatDecoder(stream=True)
    deltas = decoder.feed(event({"content": "a"}) + b'data: {"error": {"code": 503}}\n\n' + event({"content": "b"}))
    assert deltas == [TextDelta("a")]
    assert decoder.failed
    with pytest.raises(ProviderFailed):
        decoder.finish()
    assert decoder.so_far().message.content == "a"


def test_lone_surrogates_in_a_stream_are_replaced() -> None:
    data = b'data: {"choices": [{"index": 0, "delta": {"content": "a\\ud83d"}, "finish_reason": "stop"}]}\n\n'
    assert decode(data).message.content == "a�"


deltas = st.lists(
    st.one_of(
        any_text.map(lambda text: {"content": text}),
        any_text.map(lambda text: {"reasoning": text}),
        st.just({"role": "assistant", "content": None}),
        st.builds(lambda i, text: call_part(index=i, id=f"c{i}", name=f"f{i}", arguments=text), st.integers(0, 2), any_text),
        st.builds(
            lambda i, text: {"reasoning_details": [{"type": "t", "index": i, "text": text}]}, st.integers(0, 2), any_text
        ),
    ),
    max_size=8,
)
lines = st.sampled_from([b": ping\n\n", b"\n", b"event: x\n", b"data: [DONE]\n\n", b'data: {"error": {"code": 500}}\n\n'])


@given(deltas, st.lists(lines, max_size=3), st.sampled_from(["stop", "length", None]), st.randoms(use_true_random=False))
def test_decoding_does_not_depend_on_the_splitting(deltas: list[Any], lines: list[bytes], finish: str, random: Any) -> None:
    events = [event(delta) for delta in deltas] + lines
    random.shuffle(events)
    data = b"".join([*events, event(finish=finish)])
    whole, pieces = ChatDecoder(stream=True), ChatDecoder(stream=True)
    at_once = whole.feed(data) + whole.close()
    places = sorted(random.randrange(len(data) + 1) for _ in range(random.randrange(12)))
    cut = [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]
    in_pieces = [delta for piece in cut for delta in pieces.feed(piece)] + pieces.close()
    assert in_pieces == at_once
    assert pieces.so_far() == whole.so_far()
    assert ending(pieces) == ending(whole)


def ending(decoder: ChatDecoder) -> object:
    try:
        return decoder.finish()
    except Exception as error:
        return type(error), str(error)


def test_call_deltas_put_together_are_the_calls() -> None:
    decoder = ChatDecoder(stream=True)
    parts = [call_part(index=1, id="b", name="g"), call_part(index=0, id="a", name="f"), call_part(index=1, arguments="{}")]
    assert [delta for part in parts for delta in decoder.feed(event(part))] == [
        CallDelta(0, "b", "g"),
        CallDelta(1, "a", "f"),
        CallDelta(0, "", "", "{}"),
    ]


# --- requests ---


def encoder(provider: str = "p", **settings: Any) -> ChatEncoder:
    return ChatEncoder(provider=provider, model="m", stream=True, **settings)


def body(*messages: Message, by: ChatEncoder | None = None, **request: Any) -> dict[str, Any]:
    return json.loads((by or encoder()).encode(Request(transcript=Transcript(messages), **request)))


def test_a_request_has_its_parts() -> None:
    tool = ToolSpec("f", "does f", {"type": "object", "properties": {"x": {"type": "integer"}}})
    made = body(
        SystemMessage("be brief"),
        UserMessage("hi"),
        by=encoder(options={"temperature": 0}, max_tokens_field="max_completion_tokens"),
        tools=[tool],
        max_output_tokens=100,
    )
    assert made == {
        "model": "m",
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}],
        "tools": [{"type": "function", "function": {"name": "f", "description": "does f", "parameters": tool.schema}}],
        "temperature": 0,
        "stream": True,
        "max_completion_tokens": 100,
    }


def test_each_message_is_encoded_once() -> None:
    class Counting(ChatEncoder):
        encoded = 0

        def encode_message(self, message: Message) -> bytes:
            self.encoded += 1
            return super().encode_message(message)

    counting = Counting(provider="p", model="m", stream=True)
    transcript = Transcript([UserMessage("1")])
    for turn in range(5):
        counting.encode(Request(transcript=transcript))
        transcript.append(AssistantMessage(str(turn)))
    assert counting.encoded == 5


def test_what_an_api_wants_back_goes_to_it_and_to_no_other() -> None:
    reply = decode(
        event({"reasoning_details": [{"type": "reasoning.text", "text": "hm", "index": 0}], "reasoning_content": "hm"}),
        event({"reasoning_details": [{"type": "reasoning.text", "signature": "s", "index": 0}]}),
        event({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f"}, "extra_content": {"google": {"s": 1}}}]}),
        event(finish="tool_calls"),
    )
    (same,) = body(reply.message)["messages"]
    assert same["reasoning_details"] == [{"type": "reasoning.text", "text": "hm", "index": 0, "signature": "s"}]
    assert same["reasoning_content"] == "hm"
    assert same["tool_calls"][0]["extra_content"] == {"google": {"s": 1}}
    (other,) = body(reply.message, by=encoder("q"))["messages"]
    assert other.keys() == {"role", "content", "tool_calls"}
    assert "extra_content" not in other["tool_calls"][0]


@pytest.mark.parametrize("arguments", ["", '{"x": ', "[1]", "\ud800"])
def test_arguments_that_are_no_object_do_not_break_a_request(arguments: str) -> None:
    (message,) = body(AssistantMessage(tool_calls=(ToolCall("a", "f", arguments),)))["messages"]
    sent = json.loads(message["tool_calls"][0]["function"]["arguments"])
    assert sent == ({"not_json": without_strays(arguments)} if arguments else {})


calls = st.builds(ToolCall, st.from_regex(r"[a-z]{1,9}", fullmatch=True), any_text.filter(bool), st.just('{"x": 1}'))
messages = st.lists(
    st.one_of(
        st.builds(UserMessage, any_text),
        st.builds(ToolMessage, st.just("a"), st.just("f"), any_text),
        st.builds(AssistantMessage, any_text, st.lists(calls, max_size=3, unique_by=lambda call: call.id).map(tuple)),
    ),
    max_size=6,
)


@given(messages)
def test_a_servers_own_decoder_reads_what_was_meant(messages: list[Message]) -> None:
    made = body(*messages)["messages"]
    for message, sent in zip(messages, made, strict=True):
        assert (sent["content"] or "") == without_strays(message.content)
        if isinstance(message, ToolMessage):
            assert sent["tool_call_id"] == message.call_id
        if isinstance(message, AssistantMessage):
            got = [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in sent.get("tool_calls", [])]
            assert got == [(call.id, fitting_name(call.name), call.arguments) for call in message.tool_calls]


def with_fitting_names(calls: list[Any]) -> list[Any]:
    return [{**call, "function": {**call["function"], "name": fitting_name(call["function"]["name"])}} for call in calls]


@given(any_text.filter(lambda text: bool(without_strays(text))), st.lists(calls, max_size=3, unique_by=lambda call: call.id))
def test_a_reply_comes_back_in_the_next_request_as_it_came(text: str, calls: list[ToolCall]) -> None:
    """From a server's JSON through the reply, the transcript and the next request, back to the server's JSON."""
    sent = [{"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}} for c in calls]
    choice = {"index": 0, "message": {"content": text, "tool_calls": sent}, "finish_reason": "stop"}
    reply = decode(json.dumps({"choices": [choice]}).encode(), stream=False)
    (back,) = body(reply.message)["messages"]
    assert back == {
        "role": "assistant",
        "content": without_strays(text),
        **({"tool_calls": with_fitting_names(sent)} if calls else {}),
    }
