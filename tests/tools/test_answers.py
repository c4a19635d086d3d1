"""The form of an answer: made of any type, read in strict JSON, and the words for what does not fit."""

from __future__ import annotations

import dataclasses
import json
from datetime import date
from enum import Enum
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, model_validator
from typing_extensions import TypedDict

from heaveto.errors import BadAnswer, ConfigError, ToolError, ToolFatal
from heaveto.tools import FinalAnswer, Output, TakenAnswer, build_answer_form
from heaveto.tools.protocol import Call


class Sky(Enum):
    CLEAR = "clear"
    GREY = "grey"


class Wind(BaseModel):
    knots: int = Field(ge=0, le=200)


class Weather(BaseModel):
    """What the weather is."""

    city: str = Field(min_length=2, description="Its name.")
    on: date
    sky: Sky = Sky.CLEAR
    winds: list[Wind] = []
    kind: Literal["land", "sea"] = "land"

    @model_validator(mode="after")
    def no_wind_in_grey(self) -> Weather:
        if self.sky is Sky.GREY and self.winds:
            raise ValueError("under a grey sky there is no wind")
        return self


class Node(BaseModel):
    value: int
    next: Node | None = None


class Closed(BaseModel, extra="forbid"):
    a: int


@dataclasses.dataclass
class Point:
    x: int
    y: float = 0


class Pair(TypedDict):
    left: str
    right: int


GOLDEN: list[tuple[Any, str, str]] = [
    (Weather, "{}", 'missing field "city"; missing field "on"'),
    (Weather, '{"city": "x", "on": "2026-01-31"}', 'city: got "x" (string), want a string of 2 or more characters'),
    (Weather, '{"city": "Faro", "on": "soon"}', 'on: got "soon" (string), want a date like "2026-01-31"'),
    (
        Weather,
        '{"city": "Faro", "on": "2026-01-31", "sky": "blue", "winds": [{"knots": -1}]}',
        'sky: got "blue" (string), want one of "clear", "grey"; winds[0].knots: got -1 (integer), want 0 or more',
    ),
    (
        Weather,
        '{"city": "Faro", "on": "2026-01-31", "sky": "grey", "winds": [{"knots": 3}]}',
        "the answer: got an object: under a grey sky there is no wind",
    ),
    (Closed, '{"a": 1, "b": 2}', 'unknown field "b" (the fields are a)'),
    (Point, '{"x": "1"}', 'x: got "1" (string), want an integer'),
    (Pair, '{"left": "a", "right": 1.5}', "right: got 1.5 (number), want an integer"),
    (list[int], '{"answer": [1, null]}', "answer[1]: got null, want an integer"),
    (list[int], '{"answer": [1], "more": 2}', 'unknown field "more" (the fields are answer)'),
    (int | str, '{"answer": []}', "answer: got an array, want an integer or a string"),
    (Node, '{"value": 1, "next": {"value": "2"}}', 'next.value: got "2" (string), want an integer'),
    (Point, "[1]", "the answer must be a JSON object, not an array"),
    (Point, "It is 3.", 'the JSON is not valid: unexpected "I" at character 1'),
    (Point, '{"x": 1', "the JSON ends too early, at character 7: the answer was cut off"),
    (Point, '{"x": NaN}', "the JSON has NaN, which is not a JSON number"),
]


@pytest.mark.parametrize(("of", "text", "problem"), GOLDEN)
def test_the_words_for_what_does_not_fit(of: Any, text: str, problem: str) -> None:
    form = build_answer_form(Output(of, native=True))
    with pytest.raises(BadAnswer) as caught:
        form.read(text)
    assert caught.value.problem == problem
    assert str(caught.value) == f"the answer does not fit: {problem}; answer with nothing but JSON like {form.shape}"


@pytest.mark.parametrize(
    ("of", "text", "value"),
    [
        (Weather, '{"city": "Faro", "on": "2026-01-31"}', Weather(city="Faro", on=date(2026, 1, 31))),
        (Point, '{"x": 1, "y": 2}', Point(1, 2.0)),
        (Pair, '{"left": "a", "right": 2}', {"left": "a", "right": 2}),
        (Node, '{"value": 1, "next": {"value": 2}}', Node(value=1, next=Node(value=2))),
        (Node | None, '{"answer": {"value": 1}}', Node(value=1)),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (tuple[int, str], '{"answer": [1, "a"]}', (1, "a")),
        (Sky, '{"answer": "grey"}', Sky.GREY),
        (Point, '{"x": 1, "y": "\\ud83d"}'.replace('"\\ud83d"', "1"), Point(1, 1.0)),
    ],
    ids=str,
)
def test_the_answer_is_of_its_type(of: Any, text: str, value: Any) -> None:
    read = build_answer_form(Output(of)).read(text)
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    "of", [Weather, Node, Closed, Point, Pair, list[int], int | str, Sky, dict[str, int], bool], ids=str
)
def test_the_shape_that_the_model_is_shown_is_right(of: Any) -> None:
    form = build_answer_form(Output(of))
    form.read(form.shape)
    assert form.schema["type"] == "object"
    assert '"title"' not in json.dumps(form.schema)


def test_a_form_is_named_and_told_apart() -> None:
    assert build_answer_form(list[int]).name == "list"
    weather, point = build_answer_form(Weather), build_answer_form(Point)
    assert weather.fingerprint == build_answer_form(Output(Weather, native=True)).fingerprint
    assert weather.fingerprint.partition(" ")[0] == "Weather"
    assert weather.fingerprint != point.fingerprint


@pytest.mark.parametrize(
    ("of", "problem"),
    [
        (3, "output= is a value of int and not a type"),
        ("Nowhere", "output= is a value of str and not a type"),
        (list["Nowhere"], "no answer can be .*"),  # type: ignore[name-defined]  # noqa: F821
    ],
)
def test_what_no_answer_can_be_is_refused(of: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=f"{problem}; give a Pydantic model"):
        build_answer_form(Output(of))


def test_a_bug_in_a_validator_is_no_fault_of_the_models() -> None:
    class Broken(BaseModel):
        a: int

        @model_validator(mode="after")
        def fail(self) -> Broken:
            raise KeyError("b")

    with pytest.raises(ToolFatal, match=r"final_answer: the check of the answer failed \(KeyError: 'b'\)"):
        build_answer_form(Broken).read('{"a": 1}')


def test_a_validator_may_say_in_its_own_words_what_the_model_reads() -> None:
    class Dated(BaseModel):
        day: int

        @model_validator(mode="after")
        def only_sundays(self) -> Dated:
            if self.day % 7:
                raise ToolError("only Sundays are free")
            return self

    with pytest.raises(BadAnswer, match="the answer does not fit: only Sundays are free; call final_answer"):
        build_answer_form(Dated).read('{"day": 3}')


@pytest.mark.anyio
async def test_the_final_tool_takes_what_fits_and_says_so() -> None:
    final = FinalAnswer(build_answer_form(Point))
    assert (final.name, final.effect, final.alone, final.approval) == ("final_answer", "read", True, False)
    assert final.parse('{"x": 1}') == {"x": 1}
    taken = await final.run(Call(), {"x": 1})
    assert isinstance(taken, TakenAnswer)
    assert taken == "the answer was taken"
    with pytest.raises(BadAnswer, match='missing field "x"; call final_answer with JSON like'):
        final.parse("")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["x", "y", "z"]), inner, max_size=3),
    max_leaves=6,
)


@given(json_values)
@settings(max_examples=40)
def test_any_json_is_an_answer_or_told_in_the_same_words_each_time(value: Any) -> None:
    text = json.dumps(value)
    form = build_answer_form(Output(Point, native=True))
    said = [_said(form, text), _said(form, text)]
    assert said[0] == said[1]
    right = isinstance(value, dict) and isinstance(value.get("x"), int) and not isinstance(value["x"], bool)
    right = right and isinstance(value.get("y", 0), (int, float)) and not isinstance(value.get("y", 0), bool)
    assert (said[0] == "") == right


def _said(form: Any, text: str) -> str:
    try:
        form.read(text)
    except BadAnswer as error:
        return str(error)
    return ""
