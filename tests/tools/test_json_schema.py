"""Answers by JSON schema: held to it as jsonschema holds them, and told in the words that types have."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heaveto.errors import BadAnswer
from heaveto.tools import Output, build_answer_form

jsonschema = pytest.importorskip("jsonschema")

NODE = {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/Node"}}, "required": ["v"]}
TWO_KINDS = "a: got 2 (integer): it fits more than one of the described kinds"
GOLDEN: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"required": ["a", "b"]}, {"b": 1}, 'missing field "a"'),
    ({"properties": {"a": {"type": "integer"}}}, {"a": "1"}, 'a: got "1" (string), want an integer'),
    ({"properties": {"a": {"type": ["integer", "null"]}}}, {"a": True}, "a: got true (boolean), want an integer or null"),
    ({"properties": {"a": {}}, "additionalProperties": False}, {"b": 1}, 'unknown field "b" (the fields are a)'),
    ({"properties": {"a": {"enum": ["x", "y"]}}}, {"a": "z"}, 'a: got "z" (string), want one of "x", "y"'),
    ({"properties": {"a": {"const": 3}}}, {"a": 4}, "a: got 4 (integer), want one of 3"),
    ({"properties": {"a": {"minimum": 3}}}, {"a": 2}, "a: got 2 (integer), want 3 or more"),
    ({"properties": {"a": {"exclusiveMaximum": 3}}}, {"a": 3}, "a: got 3 (integer), want less than 3"),
    ({"properties": {"a": {"multipleOf": 2}}}, {"a": 3}, "a: got 3 (integer), want a multiple of 2"),
    ({"properties": {"a": {"maxLength": 2}}}, {"a": "xyz"}, 'a: got "xyz" (string), want a string of 2 or fewer characters'),
    ({"properties": {"a": {"pattern": "^b"}}}, {"a": "c"}, 'a: got "c" (string), want a string that matches ^b'),
    ({"properties": {"a": {"minItems": 1}}}, {"a": []}, "a: got an array, want 1 or more items"),
    ({"properties": {"a": {"items": {"type": "string"}}}}, {"a": ["x", 1]}, "a[1]: got 1 (integer), want a string"),
    (
        {"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "object", "required": ["b"]}]}}},
        {"a": 1},
        "a: got 1 (integer), want a string or an object",
    ),
    ({"properties": {"a": {"uniqueItems": True}}}, {"a": [1, 1]}, "a: got an array: its items must differ"),
    ({"properties": {"a": {"not": {"type": "null"}}}}, {"a": None}, 'a: got null: its "not" refuses it'),
    ({"properties": {"a": {"oneOf": [{"minimum": 1}, {"type": "integer"}]}}}, {"a": 2}, TWO_KINDS),
    ({**NODE, "$defs": {"Node": NODE}}, {"v": 1, "next": {"v": "2"}}, 'next.v: got "2" (string), want an integer'),
]


@pytest.mark.parametrize(("schema", "answer", "problem"), GOLDEN)
def test_the_words_are_those_of_types(schema: dict[str, Any], answer: Any, problem: str) -> None:
    form = build_answer_form(Output({"type": "object", **schema}))
    with pytest.raises(BadAnswer) as caught:
        form.read(json.dumps(answer))
    assert caught.value.problem == problem


def test_a_schemas_title_is_its_name_as_far_as_the_apis_take_it() -> None:
    assert build_answer_form({"title": "Größe & Co", "type": "object"}).name == "Gr__e___Co"
    assert build_answer_form({"type": "object"}).name == "answer"


def test_what_is_no_object_is_the_field_of_one() -> None:
    form = build_answer_form({"type": "array", "items": {"$ref": "#/$defs/A"}, "$defs": {"A": {"type": "integer"}}})
    assert form.read('{"answer": [1, 2]}') == [1, 2]
    with pytest.raises(BadAnswer, match=r'answer\[0\]: got "x" \(string\), want an integer'):
        form.read('{"answer": ["x"]}')


def test_what_has_properties_is_an_object_also_unsaid_and_parts_of_several_are_all_held_to() -> None:
    assert build_answer_form({"properties": {"a": {"type": "integer"}}}).read('{"a": 1}') == {"a": 1}
    several = {"allOf": [{"$ref": "#/$defs/A"}, {"required": ["a"]}], "$defs": {"A": {"type": "object"}}}
    with pytest.raises(BadAnswer, match=r'missing field "answer\.a"'):
        build_answer_form(several).read('{"answer": {}}')
    one = {"allOf": [{"$ref": "#/$defs/A"}], "$defs": {"A": {"type": "object", "required": ["a"]}}}
    assert build_answer_form(one).read('{"a": 1}') == {"a": 1}


nodes = st.sampled_from(
    [
        {"type": "integer", "minimum": 0},
        {"type": "string", "minLength": 1},
        {"type": ["boolean", "null"]},
        {"type": "array", "items": {"type": "integer"}, "maxItems": 2},
        {"enum": ["x", 1]},
        {"anyOf": [{"type": "integer"}, {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}]},
        {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False},
    ]
)
schemas = st.fixed_dictionaries(
    {"properties": st.dictionaries(st.sampled_from("abc"), nodes, max_size=3)},
    optional={"required": st.lists(st.sampled_from("abc"), unique=True), "additionalProperties": st.just(False)},
)
values = st.recursive(
    st.sampled_from([None, True, -1, 0, 1, 1.5, "", "x", "yy"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=5,
)


@given(schemas, st.dictionaries(st.sampled_from("abcd"), values, max_size=4))
@settings(max_examples=40)
def test_an_answer_fits_exactly_when_jsonschema_says_so(schema: dict[str, Any], answer: dict[str, Any]) -> None:
    schema = {"type": "object", **schema}
    try:
        read = build_answer_form(schema).read(json.dumps(answer))
    except BadAnswer as error:
        told = error.problem.partition("something else")[1]
        assert (bool(error.problem), told) == (True, "")  # noqa: PT017 - which of the two it is, is what is tried
        assert not jsonschema.Draft202012Validator(schema).is_valid(answer)
    else:
        assert read == answer
        jsonschema.validate(answer, schema)
