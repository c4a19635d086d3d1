"""An answer's schema on the wire: closed as each API asks, and refused before anything is sent where one holds none."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heaveto.errors import ConfigError
from heaveto.messages import Transcript, UserMessage
from heaveto.models import AnswerSchema, RemoteModel, Request, ToolSpec, by_name, compatible, fallback
from heaveto.models.answer_schemas import NotClosed, closed, is_recursive
from heaveto.testing import scripted

LOOK = ToolSpec("look", "Look.", {"type": "object", "properties": {}})
WEATHER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "title": "City", "minLength": 1, "format": "hostname"},
        "degrees": {"type": "number", "minimum": -90, "default": 0},
        "wind": {"anyOf": [{"$ref": "#/$defs/Wind"}, {"type": "null"}], "description": "If any."},
    },
    "required": ["city"],
    "$defs": {"Wind": {"type": "object", "properties": {"knots": {"type": "integer"}}, "title": "Wind"}},
}
CLOSED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "format": "hostname"},
        "degrees": {"type": "number", "minimum": -90},
        "wind": {"anyOf": [{"$ref": "#/$defs/Wind"}, {"type": "null"}], "description": "If any."},
    },
    "$defs": {
        "Wind": {
            "type": "object",
            "properties": {"knots": {"type": "integer"}},
            "required": ["knots"],
            "additionalProperties": False,
        }
    },
    "required": ["city", "degrees", "wind"],
    "additionalProperties": False,
}
ANSWER = AnswerSchema("weather", WEATHER)
OPEN = AnswerSchema("counts", {"type": "object", "additionalProperties": {"type": "integer"}})
NODE = {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}}}
LINKED = AnswerSchema("node", {**NODE, "$defs": {"Node": NODE}})


def model_of(name: str, **settings: Any) -> RemoteModel:
    return by_name(name, key="k", base_url="https://example.org", **settings)


def body(model: RemoteModel, answer: AnswerSchema | None = ANSWER, **request: Any) -> dict[str, Any]:
    transcript = Transcript([UserMessage("hi")])
    sent: dict[str, Any] = json.loads(model.dialect.encode(Request(transcript=transcript, answer=answer, **request)))
    return sent


# --- on the wire ---


def test_chat_completions_have_a_response_format() -> None:
    model = model_of("openai:m")
    expected = {"type": "json_schema", "json_schema": {"name": "weather", "schema": CLOSED, "strict": True}}
    assert body(model) == body(model, None) | {"response_format": expected}


def test_responses_have_it_in_text_beside_what_the_options_say() -> None:
    expected = {"type": "json_schema", "name": "weather", "schema": CLOSED, "strict": True}
    assert body(model_of("openai-responses:m"))["text"] == {"format": expected}
    options = {"text": {"verbosity": "low"}}
    assert body(model_of("openai-responses:m", options=options))["text"] == {"verbosity": "low", "format": expected}
    assert options == {"text": {"verbosity": "low"}}


def test_messages_have_it_in_their_output_config_without_ranges() -> None:
    degrees = {"degrees": {"type": "number"}}
    schema = {**CLOSED, "properties": CLOSED["properties"] | degrees}
    assert body(model_of("anthropic:m"))["output_config"] == {"format": {"type": "json_schema", "schema": schema}}


def test_gemini_takes_json_schema_as_it_is() -> None:
    config = body(model_of("gemini:gemini-3-pro"))["generationConfig"]
    assert config == {"responseMimeType": "application/json", "responseJsonSchema": WEATHER}


def test_what_cannot_be_closed_is_sent_as_it_is_where_the_api_may_miss_it() -> None:
    expected = {"name": "counts", "schema": OPEN.schema, "strict": False}
    assert body(model_of("openai:m"), OPEN)["response_format"]["json_schema"] == expected


def test_another_schema_in_the_next_request_is_that_one() -> None:
    model = model_of("openai:m")
    names = [body(model, each)["response_format"]["json_schema"]["name"] for each in (ANSWER, OPEN, ANSWER)]
    assert names == ["weather", "counts", "weather"]


# --- who has it ---


@pytest.mark.parametrize(
    ("name", "beside", "alone", "whole"),
    [
        ("openai:m", True, True, True),
        ("azure:m", True, True, True),
        ("openrouter:m", True, True, True),
        ("openai-responses:m", True, True, True),
        ("anthropic:m", True, True, True),
        ("xai:m", True, True, True),
        ("gemini:gemini-3-pro", True, True, True),
        ("gemini:gemini-2.5-flash", False, True, True),
        ("mistral:m", False, True, True),
        ("together:m", False, True, True),
        ("perplexity:m", False, True, True),
        ("ollama:m", False, True, True),
        ("vllm:m", False, True, True),
        ("llamacpp:m", False, True, True),
        ("groq:m", False, False, True),
        ("deepseek:m", False, False, False),
    ],
)
def test_who_holds_an_answer_to_a_schema(name: str, beside: bool, alone: bool, whole: bool) -> None:
    streamed, not_streamed = model_of(name), model_of(name, stream=False)
    for model, with_tools, takes in ((streamed, True, beside), (streamed, False, alone), (not_streamed, False, whole)):
        if takes:
            model.check_answer(ANSWER, with_tools=with_tools)
        else:
            with pytest.raises(ConfigError, match="leave native=True out"):
                model.check_answer(ANSWER, with_tools=with_tools)


def test_an_unknown_server_has_it_when_its_owner_says_so() -> None:
    with pytest.raises(ConfigError, match="holds no answer to a schema"):
        compatible("m", base_url="http://localhost:1/v1").check_answer(ANSWER, with_tools=False)
    compatible("m", base_url="http://localhost:1/v1", structured="beside tools").check_answer(ANSWER, with_tools=True)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [(OPEN, "the answer may have fields of any name"), (LINKED, "a part of it contains itself")],
)
def test_messages_refuse_what_they_do_not_take(answer: AnswerSchema, problem: str) -> None:
    with pytest.raises(ConfigError, match=f"anthropic holds no answer to this schema: {problem}; give that part a type"):
        model_of("anthropic:m").check_answer(answer, with_tools=False)


def test_of_several_models_each_has_to_have_it() -> None:
    fallback(scripted(name="one"), model_of("openai:m")).check_answer(ANSWER, with_tools=True)
    with pytest.raises(ConfigError, match="deepseek holds no answer to a schema"):
        fallback(model_of("openai:m"), model_of("deepseek:m")).check_answer(ANSWER, with_tools=True)


# --- closing ---


@pytest.mark.parametrize(
    ("node", "problem"),
    [
        ({}, "the answer.a may be of any kind"),
        ({"type": "object"}, "the answer.a may have fields of any name"),
        ({"type": "object", "properties": {}, "additionalProperties": True}, "the answer.a may have fields of any name"),
        ({"type": "array"}, "the answer.a may hold anything"),
        ({"type": "array", "items": {}}, r"the answer.a\[\] may be of any kind"),
        ({"type": "array", "prefixItems": [{"type": "string"}]}, 'the answer.a has "prefixItems"'),
        ({"allOf": [{"type": "string"}, {"minLength": 1}]}, 'the answer.a has "allOf"'),
    ],
)
def test_what_is_open_is_named(node: dict[str, Any], problem: str) -> None:
    with pytest.raises(NotClosed, match=problem):
        closed({"type": "object", "properties": {"a": node}})


def test_odd_spellings_of_simple_things_are_closed() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"allOf": [{"$ref": "#/$defs/A"}], "default": 1},
            "b": {"oneOf": [{"type": "string"}, {"type": "null"}], "discriminator": {}},
            "c": {"type": "string", "format": "json-pointer"},
        },
        "$defs": {"A": {"enum": [1, 2], "title": "A"}},
    }
    assert closed(schema)["properties"] == {
        "a": {"$ref": "#/$defs/A"},
        "b": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "c": {"type": "string"},
    }
    assert closed(schema)["$defs"] == {"A": {"enum": [1, 2]}}


def test_what_contains_itself_is_found() -> None:
    assert is_recursive(LINKED.schema)
    assert is_recursive({"$defs": {"A": {"items": {"$ref": "#/$defs/B"}}, "B": {"items": {"$ref": "#/$defs/A"}}}})
    assert is_recursive({"type": "object", "properties": {"self": {"$ref": "#"}}})
    assert not is_recursive(WEATHER)


scalars = st.sampled_from(
    [
        ({"type": "string", "title": "S"}, "x"),
        ({"type": "integer", "default": 3}, 3),
        ({"type": "number"}, 1.5),
        ({"type": "null"}, None),
        ({"enum": ["a", 1]}, "a"),
        ({"const": "b"}, "b"),
    ]
)


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def made(fields: dict[str, Any]) -> Any:
        schema = {"type": "object", "properties": {name: node for name, (node, _) in fields.items()}, "required": ["a"]}
        return schema, {name: value for name, (_, value) in fields.items()}

    return st.dictionaries(st.sampled_from("abc"), inner, min_size=1).map(made)


def lists(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return inner.map(lambda pair: ({"type": "array", "items": pair[0]}, [pair[1], pair[1]]))


def unions(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.tuples(inner, inner).map(lambda two: ({"anyOf": [two[0][0], two[1][0]]}, two[1][1]))


@settings(max_examples=40)
@given(objects(st.recursive(scalars, lambda inner: objects(inner) | lists(inner) | unions(inner), max_leaves=6)))
def test_a_closed_schema_takes_whole_answers_and_no_others(pair: tuple[dict[str, Any], dict[str, Any]]) -> None:
    schema, instance = pair
    made = closed(schema)
    jsonschema.validate(instance, made)
    for name in instance:
        less = {key: value for key, value in instance.items() if key != name}
        assert not jsonschema.Draft202012Validator(made).is_valid(less)
    assert not jsonschema.Draft202012Validator(made).is_valid({**instance, "z": 1})
