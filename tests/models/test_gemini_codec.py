"""The codec of Gemini's generateContent: requests as the API asks for them, and replies that go back as they came."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaveto.errors import AgentError, APIError, BadToolCall, ProviderFailed
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
from heaveto.models.gemini_content import GeminiDecoder, GeminiEncoder
from heaveto.models.json_bytes import without_strays

any_text = st.text(st.characters(exclude_categories=()), max_size=30)
DUMMY = {"thoughtSignature": "skip_thought_signature_validator"}


def encoder(provider: str = "p", model: str = "gemini-2.5-flash", **settings: Any) -> GeminiEncoder:
    return GeminiEncoder(provider=provider, model=model, **settings)


def body(*messages: Message, by: GeminiEncoder | None = None, **request: Any) -> dict[str, Any]:
    return json.loads((by or encoder()).encode(Request(transcript=Transcript(messages), **request)))


def whole(*parts: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    candidate = {"index": 0, "content": {"role": "model", "parts": list(parts)}, "finishReason": finish}
    return {"candidates": [candidate], "modelVersion": "m", "responseId": "r1", **more}


def chunk(*parts: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    return b"data: " + json.dumps(whole(*parts, finish=finish, **more)).encode() + b"\n\n"


def decode(*pieces: bytes, stream: bool = True, taken: tuple[str, ...] = ()) -> Reply:
    decoder = GeminiDecoder(stream=stream, provider="p")
    for each in pieces:
        decoder.feed(each)
    return decoder.finish(taken)


def call(call_id: str = "c1", arguments: str = '{"x": 1}') -> ToolCall:
    return ToolCall(call_id, "f", arguments)


def use(call_id: str = "c1", **more: Any) -> dict[str, Any]:
    return {"functionCall": {"id": call_id, "name": "f", "args": {"x": 1}}, **more}


# --- requests ---


def test_a_request_has_its_parts() -> None:
    tool = ToolSpec("f", "does f", {"type": "object", "properties": {"x": {"type": "integer"}}})
    options = {"generationConfig": {"temperature": 0}, "tools": [{"googleSearch": {}}]}
    made = body(
        SystemMessage("be brief"),
        UserMessage("hi"),
        SystemMessage("and kind"),
        AssistantMessage("Let me see.", (call("c1"), call("c2", ""))),
        ToolMessage("c1", "f", "one"),
        ToolMessage("c2", "f", "no such file", ending="tool_error"),
        UserMessage("faster"),
        by=encoder(options=options),
        tools=[tool],
        max_output_tokens=100,
    )
    results = [
        {"functionResponse": {"id": "c1", "name": "f", "response": {"output": "one"}}},
        {"functionResponse": {"id": "c2", "name": "f", "response": {"error": "no such file"}}},
    ]
    assert made == {
        "systemInstruction": {"parts": [{"text": "be brief"}, {"text": "and kind"}]},
        "contents": [
            {"role": "user", "parts": [{"text": "hi"}]},
            {
                "role": "model",
                "parts": [
                    {"text": "Let me see."},
                    use("c1"),
                    {"functionCall": {"id": "c2", "name": "f", "args": {}}},
                ],
            },
            {"role": "user", "parts": results},
            {"role": "user", "parts": [{"text": "faster"}]},
        ],
        "tools": [
            {"functionDeclarations": [{"name": "f", "description": "does f", "parametersJsonSchema": tool.schema}]},
            {"googleSearch": {}},
        ],
        "generationConfig": {"temperature": 0, "maxOutputTokens": 100},
    }


def test_a_request_may_have_nothing_but_its_contents() -> None:
    assert body(UserMessage("hi")) == {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    assert body() == {"contents": []}


def test_each_message_is_encoded_once_also_where_results_arrive_one_by_one() -> None:
    class Counting(GeminiEncoder):
        encoded = 0

        def encode_parts(self, message: Message) -> bytes:
            self.encoded += 1
            return super().encode_parts(message)

    counting = Counting(provider="p", model="gemini-2.5-flash")
    transcript = Transcript([SystemMessage("s"), UserMessage("1")])
    for turn in range(5):
        transcript.append(AssistantMessage(str(turn), (call(f"a{turn}"), call(f"b{turn}"))))
        transcript.append(ToolMessage(f"a{turn}", "f", "one"))
        counting.encode(Request(transcript=transcript))
        transcript.append(ToolMessage(f"b{turn}", "f", "two"))
        assert json.loads(counting.encode(Request(transcript=transcript))) == body(*transcript)
    assert counting.encoded == len(transcript)


def test_blank_text_which_the_api_refuses_is_not_sent() -> None:
    made = body(SystemMessage(" "), UserMessage(" "), AssistantMessage(" \n", (call("a"),)), AssistantMessage(""))
    assert made == {"contents": [{"role": "user", "parts": [{"text": "(no text)"}]}, {"role": "model", "parts": [use("a")]}]}


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ("", {}),
        ('{"x": 123456789012345678901234567890}', {"x": 123456789012345678901234567890}),
        ('{"x": ', {"not_json": '{"x": '}),
        ("[1]", {"not_json": "[1]"}),
        ('{"x": "\\ud800"}', {"x": "�"}),
        ("\ud800", {"not_json": "�"}),
        ("[" * 100_000, {"not_json": "[" * 100_000}),
    ],
    ids=["none", "large", "cut", "list", "stray", "not text", "deep"],
)
def test_arguments_are_an_object_whatever_the_model_wrote(arguments: str, sent: Any) -> None:
    (content,) = body(AssistantMessage("", (call("a", arguments),)))["contents"]
    assert content["parts"][0]["functionCall"]["args"] == sent


@pytest.mark.parametrize(
    ("name", "sent"), [("f.g:h-i", "f.g:h-i"), ("7up", "_7up"), ("", "_"), ("é b", "__b"), ("x" * 200, "x" * 128)]
)
def test_names_are_made_to_fit_in_the_call_and_in_its_result(name: str, sent: str) -> None:
    used, answered = body(AssistantMessage("", (ToolCall("é", name, "{}"),)), ToolMessage("é", name, "one"))["contents"]
    made, result = used["parts"][0]["functionCall"], answered["parts"][0]["functionResponse"]
    assert made["name"] == result["name"] == sent
    assert made["id"] == result["id"]
    assert made["id"].isascii()


@pytest.mark.parametrize(
    ("model", "signs"),
    [("gemini-3-pro-preview", True), ("gemini-flash-latest", True), ("gemini-2.5-pro", False), ("gemma-3", False)],
)
def test_calls_of_another_model_are_said_to_be_unsigned_where_that_matters(model: str, signs: bool) -> None:
    by = encoder(model=model)
    mark = DUMMY if signs else {}
    (content,) = body(AssistantMessage("a", (call("a"), call("b"))), by=by)["contents"]
    assert content["parts"] == [{"text": "a"}, use("a", **mark), use("b")]
    signed = decode(chunk(use("a", thoughtSignature="s1"), use("b"), finish="STOP"))
    assert body(signed.message, by=by)["contents"][0]["parts"] == [use("a", thoughtSignature="s1"), use("b")]


def test_two_models_of_one_provider_do_not_share_what_is_kept() -> None:
    transcript = Transcript([AssistantMessage("", (call("a"),))])
    for model, part in (("gemini-3-pro", use("a", **DUMMY)), ("gemini-2.5-pro", use("a"))):
        made = json.loads(encoder(model=model).encode(Request(transcript=transcript)))
        assert made["contents"][0]["parts"] == [part]


# --- replies that go back ---


CODE = {"executableCode": {"language": "PYTHON", "code": "2+2"}}
DONE = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "4"}}


@pytest.mark.parametrize(
    "parts",
    [
        (use("a", thoughtSignature="s1"), use("b")),
        ({"text": "a"}, use("a", thoughtSignature="s1")),
        (use("a"), {"text": "a"}),
        ({"text": "hm", "thought": True, "thoughtSignature": "s1"}, {"text": "a"}),
        ({"text": "a"}, {"text": "", "thoughtSignature": "s1"}),
        ({"text": "a", "thoughtSignature": "s1"}, {"text": "b"}),
        (CODE, DONE, {"text": "4"}),
        ({"dream": ["sheep"]}, use("a")),
    ],
)
def test_a_reply_goes_back_as_it_came_to_its_provider_and_without_its_extras_to_others(parts: tuple[Any, ...]) -> None:
    for reply in (
        decode(json.dumps(whole(*parts, finish="STOP")).encode(), stream=False),
        decode(*(chunk(part) for part in parts), chunk(finish="STOP")),
    ):
        assert body(reply.message)["contents"] == [{"role": "model", "parts": list(parts)}]
        (other,) = body(reply.message, by=encoder("q"))["contents"]
        assert all(set(part) in ({"text"}, {"functionCall"}) for part in other["parts"])
        made = [part["functionCall"] for part in other["parts"] if "functionCall" in part]
        assert made == [part["functionCall"] for part in parts if "functionCall" in part]


def test_text_in_pieces_is_one_part_again_and_what_is_signed_stays_by_itself() -> None:
    thought = {"text": "hm", "thought": True}
    pieces = [thought, thought, {"text": "a"}, {"text": "b"}, {"text": "c", "thoughtSignature": "s1"}, {"text": "d"}]
    reply = decode(*(chunk(part) for part in pieces), chunk(use(), finish="STOP"))
    assert (reply.message.content, reply.message.reasoning) == ("abcd", "hmhm")
    (content,) = body(reply.message)["contents"]
    assert content["parts"] == [{"text": "ab"}, {"text": "c", "thoughtSignature": "s1"}, {"text": "d"}, use()]


def test_calls_without_ids_get_them_and_one_that_is_taken_another() -> None:
    bare = {"functionCall": {"name": "f", "args": {"x": 1}}, "thoughtSignature": "s1"}
    reply = decode(chunk(bare, use("c1"), use("c1"), finish="STOP"), taken=("c1",))
    ids = [each.id for each in reply.message.tool_calls]
    assert len({*ids, "c1", ""}) == 5
    (content,) = body(reply.message)["contents"]
    assert [part["functionCall"]["id"] for part in content["parts"]] == ids


def test_a_call_that_was_taken_away_does_not_go_back() -> None:
    reply = decode(chunk({"text": "a"}, use(thoughtSignature="s1"), finish="MAX_TOKENS"))
    assert body(reply.message)["contents"] == [{"role": "model", "parts": [{"text": "a"}]}]


# --- decoding ---


def test_deltas_put_together_are_the_reply() -> None:
    decoder = GeminiDecoder(stream=True)
    stream = chunk({"text": "hm", "thought": True}) + chunk({"text": "a"}, {"text": None}, use("c1"))
    assert decoder.feed(stream) == [ReasoningDelta("hm"), TextDelta("a"), CallDelta(0, "c1", "f", '{"x":1}')]
    assert not decoder.ended
    decoder.feed(chunk(finish="STOP"))
    assert (decoder.ended, decoder.done) == (True, False)  # nothing but the bytes' end says that no more comes
    assert [each.id for each in decoder.finish().message.tool_calls] == ["c1"]


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("MAX_TOKENS", "truncated"),
        ("SAFETY", "filtered"),
        ("RECITATION", "filtered"),
        ("SPII", "filtered"),
        ("TOO_MANY_TOOL_CALLS", "incomplete"),
        ("NEW_ONE", "incomplete"),
    ],
)
def test_a_cut_reply_has_no_call_to_run(reason: str, finish: str) -> None:
    reply = decode(chunk(use(), finish=reason))
    assert (reply.message.tool_calls, reply.finish, reply.native_finish) == ((), finish, reason)


def test_what_filtered_a_reply_is_told() -> None:
    said = {"candidates": [{"finishReason": "SAFETY", "finishMessage": "Not that."}]}
    assert decode(json.dumps(said).encode(), stream=False).refusal == "Not that."
    blocked = {"promptFeedback": {"blockReason": "BLOCKLIST", "blockReasonMessage": "No."}}
    reply = decode(json.dumps(blocked).encode(), stream=False)
    assert (reply.finish, reply.native_finish, reply.refusal) == ("filtered", "BLOCKLIST", "No.")


def test_a_call_without_a_name_is_a_call_and_goes_back_with_a_name_that_the_api_takes() -> None:
    for part in ({"functionCall": {"args": {}}}, {"functionCall": "f"}):
        reply = decode(chunk(part, finish="STOP"))
        assert [(call.name, call.arguments) for call in reply.message.tool_calls] == [("", "{}")]
        assert b'"name":"_"' in encoder().encode(Request(transcript=Transcript([reply.message])))


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("MALFORMED_FUNCTION_CALL", BadToolCall),
        ("UNEXPECTED_TOOL_CALL", BadToolCall),
        ("MALFORMED_RESPONSE", ProviderFailed),
        ("OTHER", ProviderFailed),
        ("MISSING_THOUGHT_SIGNATURE", APIError),
    ],
)
def test_a_reason_that_makes_a_reply_useless_is_an_error(reason: str, kind: type[AgentError]) -> None:
    with pytest.raises(kind, match=reason):
        decode(chunk({"text": "a"}), chunk(finish=reason))


@pytest.mark.parametrize(
    ("code", "kind", "retryable"), [(503, ProviderFailed, True), (429, APIError, True), (400, APIError, False)]
)
def test_an_error_midway_is_the_right_one(code: int, kind: type[AgentError], retryable: bool) -> None:
    error = {"error": {"code": code, "message": "boom", "status": "WHATEVER"}}
    with pytest.raises(kind) as caught:
        decode(chunk({"text": "a"}), b"data: " + json.dumps(error).encode() + b"\n\n")
    assert type(caught.value) is kind
    assert caught.value.retryable is retryable


def test_usage_is_overwritten_and_covers_the_reply_only_at_its_end() -> None:
    decoder = GeminiDecoder(stream=True)
    decoder.feed(chunk({"text": "a"}, usageMetadata={"promptTokenCount": 9, "thoughtsTokenCount": 2}))
    assert not decoder.counted
    last = {"promptTokenCount": 9, "cachedContentTokenCount": 4, "candidatesTokenCount": 3, "thoughtsTokenCount": 2}
    decoder.feed(chunk(finish="STOP", usageMetadata=last))
    assert decoder.counted
    assert decoder.usage == Usage(input_tokens=9, output_tokens=5, cached_input_tokens=4, reasoning_tokens=2)
    assert decoder.billed_output_tokens == 5


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
    """A server's own decoder: each part as who said it and what."""
    read: list[tuple[str, Any]] = [("system", part["text"]) for part in made.get("systemInstruction", {}).get("parts", ())]
    for content in made["contents"]:
        assert content["parts"]
        for part in content["parts"]:
            match part:
                case {"text": text}:
                    assert text.strip()
                    read.append((content["role"], text))
                case {"functionCall": {"id": call_id, "name": name, "args": dict() as arguments}}:
                    assert content["role"] == "model"
                    read.append(("call", (call_id, name, arguments)))
                case {"functionResponse": {"id": call_id, "response": dict() as said}}:
                    assert content["role"] == "user"
                    read.append(("result", (call_id, *said.items())))
                case _:
                    raise AssertionError(part)
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
                meant.append(("result", (message.call_id, ("error" if message.is_error else "output", message.content))))
            case AssistantMessage(content, tool_calls):
                if content.strip():
                    meant.append(("model", content))
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


parts = st.one_of(
    st.builds(lambda t: {"text": t}, any_text),
    st.builds(lambda t, s: {"text": t, "thoughtSignature": s}, any_text, any_text),
    st.builds(lambda t: {"text": t, "thought": True}, any_text),
    st.builds(lambda t, n: use(str(n), thoughtSignature=t), any_text, st.uuids()),
    st.sampled_from([use("c1"), CODE, {"functionCall": None}, {"functionCall": {"name": "f"}}, {}, {"text": 3}]),
)
pieces = st.lists(
    st.one_of(
        st.builds(
            lambda each, n: chunk(*each, usageMetadata={"candidatesTokenCount": n}),
            st.lists(parts, max_size=3),
            st.integers(0, 9),
        ),
        st.sampled_from(
            [
                b": ping\n\n",
                b'data: {"candidates": [{"index": 1, "content": {"parts": [{"text": "B"}]}}]}\n\n',
                b'data: {"candidates": [{"content": {"role": "model"}}]}\n\n',
                b'data: {"promptFeedback": {"blockReason": "SAFETY"}}\n\n',
                b'data: {"error": {"code": 503, "message": "boom"}}\n\n',
                b"data: no\n\n",
                b"error: x\n",
            ]
        ),
    ),
    max_size=8,
)
reasons = st.sampled_from(["STOP", "MAX_TOKENS", "MALFORMED_FUNCTION_CALL", "NEW_ONE", None])


@given(pieces, reasons, st.booleans(), st.randoms(use_true_random=False))
def test_decoding_does_not_depend_on_the_splitting(parts: list[bytes], reason: str | None, crlf: bool, random: Any) -> None:
    data = b"".join([*parts, chunk(finish=reason) if reason else b""])
    data = data.replace(b"\n", b"\r\n") if crlf else data
    at_once, cut = (GeminiDecoder(stream=True, provider="p") for _ in range(2))
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
        [set(part) for part in message.extras.get("parts", ())],
        (reply.finish, reply.native_finish, reply.usage, reply.refusal),
    )


def ending(decoder: GeminiDecoder) -> object:
    try:
        reply = decoder.finish()
    except AgentError as error:
        return type(error), str(error)
    body(reply.message)  # whatever came can be sent
    return said_by(reply)
