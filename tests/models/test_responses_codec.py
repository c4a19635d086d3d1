"""The codec of OpenAI's Responses: requests as the API asks for them, and replies that go back as they came."""

from __future__ import annotations

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
from heaveto.models.json_bytes import without_strays
from heaveto.models.responses import ResponsesDecoder, ResponsesEncoder

any_text = st.text(st.characters(exclude_categories=()), max_size=30)


def encoder(provider: str = "p", model: str = "gpt-5", **settings: Any) -> ResponsesEncoder:
    return ResponsesEncoder(provider=provider, model=model, stream=True, **settings)


def body(*messages: Message, by: ResponsesEncoder | None = None, **request: Any) -> dict[str, Any]:
    return json.loads((by or encoder()).encode(Request(transcript=Transcript(messages), **request)))


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def response(status: str, *output: dict[str, Any], **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 9, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 3}
    return {"id": "resp_1", "model": "m", "status": status, "output": list(output), "usage": usage, **more}


def end(status: str = "completed", *output: dict[str, Any], **more: Any) -> bytes:
    return event(f"response.{status}", response=response(status, *output, **more))


def begun(index: int, item: dict[str, Any]) -> bytes:
    return event("response.output_item.added", output_index=index, item=item)


def whole(index: int, item: dict[str, Any]) -> bytes:
    return event("response.output_item.done", output_index=index, item=item)


def piece(channel: str, index: int, delta: str, **more: Any) -> bytes:
    return event(f"response.{channel}.delta", output_index=index, delta=delta, **more)


def decode(*pieces: bytes, stream: bool = True, taken: tuple[str, ...] = ()) -> Reply:
    decoder = ResponsesDecoder(stream=stream, provider="p")
    for each in pieces:
        decoder.feed(each)
    return decoder.finish(taken)


def call(call_id: str = "c1", arguments: str = '{"x": 1}') -> ToolCall:
    return ToolCall(call_id, "f", arguments)


CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": '{"x": 1}', "status": "completed"}
SEALED = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA1"}
OPEN = {"type": "reasoning", "id": "rs_2", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}}


def said(text: str = "a", **more: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content, **more}


# --- requests ---


def test_a_request_has_its_parts() -> None:
    tool = ToolSpec("f", "does f", {"type": "object", "properties": {"x": {"type": "integer"}}})
    made = body(
        SystemMessage("be brief"),
        UserMessage("hi"),
        AssistantMessage("Let me see.", (call("c1"), call("c2", ""))),
        ToolMessage("c1", "f", "one"),
        ToolMessage("c2", "f", "no such file", ending="tool_error"),
        by=encoder(options={"reasoning": {"effort": "low"}, "tools": [{"type": "web_search"}], "include": ["more"]}),
        tools=[tool],
        max_output_tokens=100,
    )
    assert made == {
        "model": "gpt-5",
        "input": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "hi"},
            {"type": "message", "role": "assistant", "content": "Let me see."},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"x": 1}'},
            {"type": "function_call", "call_id": "c2", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "one"},
            {"type": "function_call_output", "call_id": "c2", "output": "no such file"},
        ],
        "tools": [
            {"type": "function", "name": "f", "description": "does f", "parameters": tool.schema, "strict": False},
            {"type": "web_search"},
        ],
        "store": False,
        "reasoning": {"effort": "low"},
        "stream": True,
        "include": ["reasoning.encrypted_content", "more"],
        "max_output_tokens": 100,
    }


@pytest.mark.parametrize(
    ("model", "asked"),
    [("gpt-5", True), ("o4-mini", True), ("gpt-oss-20b", True), ("gpt-4.1", False), ("ft:gpt-4o:x", False)],
)
def test_only_models_that_reason_are_asked_for_their_reasoning(model: str, asked: bool) -> None:
    assert ("include" in body(UserMessage("hi"), by=encoder(model=model))) is asked


def test_each_message_is_encoded_once_and_one_that_says_nothing_is_left_out() -> None:
    class Counting(ResponsesEncoder):
        encoded = 0

        def encode_message(self, message: Message) -> bytes:
            self.encoded += 1
            return super().encode_message(message)

    counting = Counting(provider="p", model="gpt-5", stream=True)
    transcript = Transcript([SystemMessage("s"), UserMessage("1"), AssistantMessage("")])
    for turn in range(5):
        transcript.append(AssistantMessage(str(turn), (call(f"a{turn}"),)), ToolMessage(f"a{turn}", "f", "one"))
        assert json.loads(counting.encode(Request(transcript=transcript))) == body(*transcript)
    assert counting.encoded == len(transcript)


@pytest.mark.parametrize("arguments", ['{"x": ', "[1]", "\ud800", "[" * 100_000])
def test_arguments_are_an_object_whatever_the_model_wrote(arguments: str) -> None:
    (item,) = body(AssistantMessage("", (call("a", arguments),)))["input"]
    assert json.loads(item["arguments"]) == {"not_json": without_strays(arguments)}


def test_ids_and_names_of_other_providers_are_made_to_fit_and_still_belong_together() -> None:
    ids = ["functions.f:0", "é", "x" * 200]
    strange = tuple(ToolCall(each, "functions.f", "{}") for each in ids)
    items = body(AssistantMessage("", strange), *(ToolMessage(each, "f", "") for each in ids))["input"]
    assert [item["call_id"] for item in items[:3]] == [item["call_id"] for item in items[3:]]
    assert len({item["call_id"] for item in items}) == len(ids)
    assert all(len(item["call_id"]) <= 64 and item["call_id"].isascii() for item in items)
    assert {item["name"] for item in items[:3]} == {"functions_f"}


# --- replies that go back ---


@pytest.mark.parametrize(
    "output",
    [
        (SEALED, CALL),
        (SEALED, said()),
        (OPEN, said(), CALL),
        (SEALED, CALL, {**SEALED, "id": "rs_3"}, {**CALL, "id": "fc_2", "call_id": "c2"}),
        (SEARCH, said("it is 4"), CALL),
        (said("so: ", phase="commentary"), CALL),
        (CALL, said()),
        (said("a"), said("b", id="msg_2")),
        ({"type": "dream", "of": ["sheep"]}, CALL),
    ],
)
def test_a_reply_goes_back_as_it_came_to_its_provider_and_without_its_extras_to_others(output: tuple[Any, ...]) -> None:
    for reply in (
        decode(json.dumps(response("completed", *output)).encode(), stream=False),
        decode(*(whole(index, item) for index, item in enumerate(output)), end()),
    ):
        assert body(reply.message)["input"] == list(output)
        other = body(reply.message, by=encoder("q"))["input"]
        assert {each["type"] for each in other} <= {"message", "function_call"}
        calls = [each["call_id"] for each in other if each["type"] == "function_call"]
        assert calls == [each["call_id"] for each in output if each["type"] == "function_call"]


def test_the_whole_item_goes_back_and_not_the_one_that_began() -> None:
    reply = decode(
        begun(0, {**SEALED, "encrypted_content": "gA"}), whole(0, {**SEALED, "status": None}), whole(1, CALL), end()
    )
    assert body(reply.message)["input"] == [SEALED, CALL]


def test_reasoning_that_nothing_follows_or_that_nobody_kept_stays_here() -> None:
    unsealed = {"type": "reasoning", "id": "rs_9", "summary": [{"type": "summary_text", "text": "hm"}]}
    assert [item["type"] for item in body(decode(whole(0, unsealed), whole(1, CALL), end()).message)["input"]] == [
        "function_call"
    ]
    cut = end("incomplete", incomplete_details={"reason": "max_output_tokens"})
    assert body(decode(whole(0, SEALED), whole(1, CALL), cut).message)["input"] == []
    kept = decode(whole(0, SEALED), whole(1, said()), whole(2, {**SEALED, "id": "rs_3"}), whole(3, CALL), cut)
    assert body(kept.message)["input"] == [SEALED, said()]


def test_a_model_that_does_not_reason_is_not_sent_what_another_one_thought() -> None:
    transcript = Transcript([decode(whole(0, SEALED), whole(1, CALL), end()).message])
    for model, types in (("gpt-5", ["reasoning", "function_call"]), ("gpt-4.1", ["function_call"])):
        made = json.loads(encoder(model=model).encode(Request(transcript=transcript)))
        assert [item["type"] for item in made["input"]] == types
    searched = decode(whole(0, SEARCH), whole(1, said()), end()).message
    assert body(searched, by=encoder(model="gpt-4.1"))["input"] == [SEARCH, said()]


def test_a_call_that_got_another_id_has_it_in_its_item_too() -> None:
    reply = decode(whole(0, SEALED), whole(1, CALL), end(), taken=("c1",))
    (renamed,) = reply.message.tool_calls
    assert renamed.id != "c1"
    assert [item.get("call_id") for item in body(reply.message)["input"]] == [None, renamed.id]


def test_what_a_server_sends_only_at_the_end_is_taken_from_there() -> None:
    reply = decode(
        begun(0, {"type": "reasoning"}), begun(1, said("")), piece("output_text", 1, "a"), end("completed", SEALED, said())
    )
    assert (reply.message.content, body(reply.message)["input"]) == ("a", [SEALED, said()])
    without = decode(whole(0, SEALED), piece("output_text", 1, "a"), end())
    assert body(without.message)["input"] == [SEALED, {"type": "message", "role": "assistant", "content": "a"}]


# --- decoding ---


def test_deltas_put_together_are_the_reply() -> None:
    decoder = ResponsesDecoder(stream=True)
    stream = begun(0, {"type": "reasoning", "id": "r"})
    stream += piece("reasoning_summary_text", 0, "A", summary_index=0) + piece(
        "reasoning_summary_text", 0, "B", summary_index=1
    )
    stream += piece("output_text", 1, "a") + whole(1, said("ab"))
    stream += begun(2, {**CALL, "arguments": ""}) + piece("function_call_arguments", 2, '{"x"') + whole(2, CALL)
    assert decoder.feed(stream) == [
        ReasoningDelta("A"),
        ReasoningDelta("\n\nB"),
        TextDelta("a"),
        TextDelta("b"),
        CallDelta(0, "c1", "f"),
        CallDelta(0, arguments='{"x"'),
        CallDelta(0, arguments=": 1}"),
    ]


@pytest.mark.parametrize(
    ("reason", "finish"),
    [("max_output_tokens", "truncated"), ("content_filter", "filtered"), ("steered", "incomplete"), (None, "incomplete")],
)
def test_a_cut_reply_has_no_call_to_run(reason: str | None, finish: str) -> None:
    reply = decode(whole(0, CALL), end("incomplete", incomplete_details={"reason": reason} if reason else None))
    assert (reply.message.tool_calls, reply.finish, reply.native_finish) == ((), finish, reason or "incomplete")


def test_a_call_without_a_name_is_a_call_and_goes_back_with_a_name_that_the_api_takes() -> None:
    reply = decode(whole(0, {"type": "function_call", "call_id": "c1"}), end())
    assert reply.message.tool_calls == (ToolCall("c1", "", "{}"),)
    assert b'"name":"_"' in encoder().encode(Request(transcript=Transcript([reply.message])))


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        ({"code": "server_error", "message": "boom"}, ProviderFailed, True),
        ({"code": "rate_limit_exceeded", "message": "slow"}, APIError, True),
        ({"code": "insufficient_quota", "message": "pay"}, APIError, False),
        ({"code": "invalid_prompt", "message": "no"}, APIError, False),
        ({"code": "empty_image_file", "message": "no"}, APIError, False),
        ({"code": "new_error", "message": "no"}, ProviderFailed, True),
        ({"code": "bio_policy", "message": "not that"}, OutputFiltered, None),
    ],
)
def test_an_error_midway_is_the_right_one(error: dict[str, str], kind: type[AgentError], retryable: bool | None) -> None:
    for last in (event("error", **error), event("error", error=error), end("failed", error=error)):
        with pytest.raises(kind) as caught:
            decode(whole(0, said()), last)
        assert type(caught.value) is kind
        assert caught.value.retryable is retryable
        assert error["message"] in str(caught.value)


def test_usage_is_counted_with_the_end_also_of_a_reply_that_failed() -> None:
    decoder = ResponsesDecoder(stream=True)
    decoder.feed(event("response.created", response={"id": "i", "model": "m", "usage": None}) + whole(0, said()))
    assert (decoder.usage, decoder.counted, decoder.id) == (None, False, "i")
    decoder.feed(event("error", message="boom") + end("failed", error={"message": "boom"}))
    assert decoder.counted
    assert decoder.usage == Usage(input_tokens=9, output_tokens=3, cached_input_tokens=4)


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
    """A server's own decoder: each item as who said it and what."""
    read: list[tuple[str, Any]] = []
    for item in made["input"]:
        match item:
            case {"role": str(role), "content": str(content)}:
                read.append((role, content))
            case {"type": "function_call", "call_id": call_id, "name": name, "arguments": str(arguments)}:
                read.append(("call", (call_id, name, json.loads(arguments))))
            case {"type": "function_call_output", "call_id": call_id, "output": str(output)}:
                read.append(("result", (call_id, output)))
            case _:
                raise AssertionError(item)
    return read


def as_it_was_meant(messages: list[Message]) -> list[tuple[str, Any]]:
    meant: list[tuple[str, Any]] = []
    for message in messages:
        match message:
            case SystemMessage(content):
                meant.append(("system", content))
            case UserMessage(content):
                meant.append(("user", content))
            case ToolMessage():
                meant.append(("result", (message.call_id, message.content)))
            case AssistantMessage(content, tool_calls):
                if content.strip():
                    meant.append(("assistant", content))
                for each in tool_calls:
                    arguments = {"not_json": each.arguments} if each.arguments == "]" else json.loads(each.arguments or "{}")
                    meant.append(("call", (each.id, each.name, arguments)))
    return without_strays(meant)


@given(conversations, st.integers(0, 8))
def test_a_servers_own_decoder_reads_what_was_meant(messages: list[Message], sent_before: int) -> None:
    by = encoder()
    transcript = Transcript(messages[:sent_before])
    by.encode(Request(transcript=transcript))
    transcript.append(*messages[sent_before:])
    made = json.loads(by.encode(Request(transcript=transcript)))
    assert without_strays(as_a_server_reads_it(made)) == as_it_was_meant(messages)


indexes = st.integers(0, 3)
pieces = st.lists(
    st.one_of(
        st.builds(
            piece,
            st.sampled_from(
                ["output_text", "refusal", "reasoning_text", "reasoning_summary_text", "function_call_arguments"]
            ),
            indexes,
            any_text,
            summary_index=st.integers(0, 1),
            item_id=st.sampled_from(["", "msg_1", "fc_1"]),
        ),
        st.builds(lambda i, n, a: begun(i, {**CALL, "call_id": f"c{n}", "arguments": a}), indexes, st.uuids(), any_text),
        st.builds(lambda i, t: whole(i, said(t)), indexes, any_text),
        st.builds(whole, indexes, st.sampled_from([CALL, SEALED, OPEN, SEARCH, {"type": "message", "content": [3]}, {}])),
        st.sampled_from(
            [
                b": ping\n\n",
                event("response.created", response={"id": "i", "model": "m"}),
                event("response.output_item.added", item=3),
                event("response.new", delta={"x": 1}),
                event("response.function_call_arguments.done", output_index=0, arguments="{}"),
                event("error", message="boom"),
                b"data: no\n\n",
                b"data: [DONE]\n\n",
                b"error: x\n",
            ]
        ),
    ),
    max_size=8,
)
ends = st.sampled_from(
    [b"", end(), end("completed", SEALED, said(), {**CALL, "call_id": "late"}), end("incomplete"), end("failed")]
)


@given(pieces, ends, st.booleans(), st.randoms(use_true_random=False))
def test_decoding_does_not_depend_on_the_splitting(parts: list[bytes], last: bytes, crlf: bool, random: Any) -> None:
    data = b"".join([*parts, last])
    data = data.replace(b"\n", b"\r\n") if crlf else data
    at_once, cut = (ResponsesDecoder(stream=True, provider="p") for _ in range(2))
    deltas = at_once.feed(data) + at_once.close()
    places = sorted(random.randrange(len(data) + 1) for _ in range(random.randrange(12)))
    edges = zip([0, *places], [*places, len(data)], strict=True)
    in_pieces = [delta for a, b in edges for delta in cut.feed(data[a:b])] + cut.close()
    assert in_pieces == deltas
    assert said_by(cut.so_far()) == said_by(at_once.so_far())
    assert ending(cut) == ending(at_once)
    assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == cut.so_far().message.content


def said_by(reply: Reply) -> object:
    """All but the ids that are made by us."""
    message = reply.message
    return (
        message.content,
        message.reasoning,
        [(call.name, call.arguments) for call in message.tool_calls],
        [item["type"] for item in message.extras.get("items", ()) if "type" in item],
        (reply.finish, reply.native_finish, reply.usage, reply.refusal),
    )


def ending(decoder: ResponsesDecoder) -> object:
    try:
        reply = decoder.finish()
    except AgentError as error:
        return type(error), str(error)
    assert json.loads(encoder().encode(Request(transcript=Transcript([reply.message]))))["input"] is not None
    return said_by(reply)
