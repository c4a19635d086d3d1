"""A call's arguments: what is accepted, and the exact words for what is not."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaveto.errors import BadArguments
from heaveto.tools import tool
from heaveto.tools.json_text import MAX_DEPTH, NotArguments, decode_arguments
from heaveto.tools.schema import example_of


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class Edit(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    old: str
    line: int = 1


@dataclass
class Limits:
    least: Annotated[int, pydantic.Field(ge=1, lt=10)]


def _even(n: int) -> int:
    if n % 2:
        raise ValueError("give an even number")
    return n


@tool
def change(
    path: str,
    edits: list[Edit],
    times: int = 1,
    ratio: float = 0.5,
    size: Size = Size.SMALL,
    mode: Literal["fast", "safe"] = "safe",
    limits: Limits | None = None,
    until: dt.date | None = None,
    price: Decimal | None = None,
    either: int | str | None = None,
    pair: tuple[int, str] | None = None,
    name: Annotated[str, pydantic.Field(pattern="^[a-z]+$", max_length=5)] = "a",
    even: Annotated[int, pydantic.AfterValidator(_even)] = 2,
    flag: bool = False,
) -> None:
    """Change files."""


FIELDS = "edits, either, even, flag, limits, mode, name, pair, path, price, ratio, size, times, until"
MANY = "; ".join(f'edits[{n}]: got "x" (string), want an object' for n in range(8)) + "; and 3 more"
SHAPE = 'send JSON like {"path": "...", "edits": [{"old": "..."}]}'


def call(**fields: Any) -> str:
    return json.dumps({"path": "a", "edits": []} | fields)


def test_right_calls_give_the_functions_types() -> None:
    """What JSON cannot say is made of what it can; what is left out is left out."""
    text = call(
        edits=[{"old": "x"}], ratio=1, size="large", until="2026-01-31", price="1.5", pair=[1, "b"], limits={"least": 3}
    )
    assert change.parse(text) == {
        "path": "a",
        "edits": [Edit(old="x")],
        "ratio": 1.0,
        "size": Size.LARGE,
        "until": dt.date(2026, 1, 31),
        "price": Decimal("1.5"),
        "pair": (1, "b"),
        "limits": Limits(3),
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        # the text is no JSON object
        ('{"path": "a",}', 'the JSON is not valid: unexpected "}" at character 14, after {"path": "a",'),
        ('{"path": "a" "b"}', 'the JSON is not valid: unexpected quotation mark at character 14, after {"path": "a"'),
        ("{'path': 1}", 'the JSON is not valid: unexpected "\'" at character 2, after {'),
        ('{"path": x}', 'the JSON is not valid: unexpected "x" at character 10, after {"path":'),
        ('{"path": "a"} {}', 'the JSON is not valid: unexpected "{" at character 15, after {"path": "a"}'),
        ("hello", 'the JSON is not valid: unexpected "h" at character 1'),
        ('{"path": "a', "the JSON ends too early, at character 11: the arguments were cut off"),
        ('{"path": ', "the JSON ends too early, at character 9: the arguments were cut off"),
        ('{"path": "\\u12', "the JSON ends too early, at character 14: the arguments were cut off"),
        ('{"flag": tru', "the JSON ends too early, at character 12: the arguments were cut off"),
        ("[1]", "the arguments must be a JSON object, not an array"),
        ('"x"', "the arguments must be a JSON object, not a string"),
        ("null", "the arguments must be a JSON object, not null"),
        ('{"ratio": NaN}', "the JSON has NaN, which is not a JSON number"),
        ('{"ratio": -Infinity}', "the JSON has -Infinity, which is not a JSON number"),
        ('{"ratio": 1e999}', "the JSON has a number that is too large"),
        ('{"times": ' + "9" * 5_000 + "}", "the JSON has a number with too many digits"),
        ('{"path": ' + "[" * 150 + "]" * 150 + "}", "the JSON is nested deeper than 100 levels"),
        ('{"path": ' + "[" * 90_000 + "]" * 90_000 + "}", "the JSON is nested deeper than 100 levels"),
        # fields
        ("", 'missing field "edits"; missing field "path"'),
        (call(pth=1), 'unknown field "pth" (did you mean "path"?)'),
        (
            call(zzzzzzzz=1),
            'unknown field "zzzzzzzz" (the fields are ' + FIELDS + ")",
        ),
        (
            call(edits=[{"old": "x"}, {"odl": "y"}]),
            'unknown field "edits[1].odl" (did you mean "old"?); missing field "edits[1].old"',
        ),
        (call(limits={}), 'missing field "limits.least"'),
        # types
        (call(path=1), "path: got 1 (integer), want a string"),
        (call(path=None), "path: got null, want a string"),
        (call(times="1"), 'times: got "1" (string), want an integer'),
        (call(times=1.0), "times: got 1.0 (number), want an integer"),
        (call(times=True), "times: got true (boolean), want an integer"),
        (call(ratio="0.5"), 'ratio: got "0.5" (string), want a number'),
        (call(flag="yes"), 'flag: got "yes" (string), want true or false'),
        (call(edits={"old": "x"}), "edits: got an object, want an array"),
        (call(edits=["x"]), 'edits[0]: got "x" (string), want an object'),
        (call(edits=[{"old": "x", "line": "2"}]), 'edits[0].line: got "2" (string), want an integer'),
        (call(either=[1]), "either: got an array, want an integer or a string"),
        (call(until="tomorrow"), 'until: got "tomorrow" (string), want a date like "2026-01-31"'),
        (call(price="much"), 'price: got "much" (string), want a decimal number'),
        (call(pair=[1]), 'missing field "pair[1]"'),
        (call(path=["x" * 99]), "path: got an array, want a string"),
        (call(times="x" * 99), 'times: got "' + "x" * 59 + "... (string), want an integer"),
        # choices and constraints
        (call(size="huge"), 'size: got "huge" (string), want one of "small", "large"'),
        (call(mode="quick"), 'mode: got "quick" (string), want one of "fast", "safe"'),
        (call(limits={"least": 0}), "limits.least: got 0 (integer), want 1 or more"),
        (call(limits={"least": 10}), "limits.least: got 10 (integer), want less than 10"),
        (call(name="A"), 'name: got "A" (string), want a string that matches ^[a-z]+$'),
        (call(name="abcdef"), 'name: got "abcdef" (string), want a string of 5 or fewer characters'),
        (call(even=3), "even: got 3 (integer): give an even number"),
        # several
        (call(times="1", ratio="x"), 'ratio: got "x" (string), want a number; times: got "1" (string), want an integer'),
        (call(edits=["x"] * 11), MANY),
    ],
)  # fmt: skip
def test_words_for_what_is_wrong(text: str, problem: str) -> None:
    """They are ours to the byte: a new release of a validator must not change what the model reads."""
    with pytest.raises(BadArguments) as caught:
        change.parse(text)
    assert str(caught.value) == f"bad arguments for change: {problem}; {SHAPE}"
    assert caught.value.problem == problem


def test_what_can_be_read_in_one_way_only_is_read() -> None:
    """A line break inside a string, half a surrogate pair, a pair in two escapes, and no text at all."""
    assert decode_arguments('{"a": "x\ny"}') == {"a": "x\ny"}
    assert decode_arguments('{"a": "\\ud83d!"}') == {"a": "\ufffd!"}
    assert decode_arguments('{"a": ["\\ud83d\\ude00", "\ud83d"]}') == {"a": ["\U0001f600", "\ufffd"]}
    assert decode_arguments(" \n") == {}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), json_values, max_size=4), st.booleans())
def test_objects_come_back_as_they_were(data: dict[str, Any], ascii_only: bool) -> None:
    assert decode_arguments(json.dumps(data, ensure_ascii=ascii_only)) == data


@given(st.dictionaries(st.text(min_size=1), json_values, min_size=1, max_size=3), st.data())
def test_a_cut_object_is_called_cut(data: dict[str, Any], draw: st.DataObject) -> None:
    """Wherever the text of a call ends too early, the words say so."""
    text = json.dumps(data)
    end = draw.draw(st.integers(1, len(text) - 1))
    with pytest.raises(NotArguments, match="ends too early"):
        decode_arguments(text[:end])


@given(st.text() | st.text(alphabet='{}[]",:0123456789.eE+-truefalsn\\u d83\ud83d'))
def test_any_text_is_decoded_or_refused(text: str) -> None:
    """Nothing else comes out than an object without half characters, or NotArguments."""
    try:
        data = decode_arguments(text)
    except NotArguments:
        return
    json.dumps(data, ensure_ascii=False, allow_nan=False).encode()


def test_depth_at_the_limit() -> None:
    inner = MAX_DEPTH - 1
    assert decode_arguments('{"a": ' + "[" * inner + "]" * inner + "}")
    with pytest.raises(NotArguments, match="nested deeper"):
        decode_arguments('{"a": ' + "[" * (inner + 2) + "]" * (inner + 2) + "}")


class Node(pydantic.BaseModel):
    name: str
    children: list[Node]


@tool
def all_kinds(
    a: Annotated[int, pydantic.Field(gt=3, multiple_of=5)],
    b: Annotated[float, pydantic.Field(le=-2)],
    c: Size,
    d: dt.datetime,
    e: tuple[int, bool],
    f: Annotated[list[Edit], pydantic.Field(min_length=2)],
    g: dict[str, int],
    h: Node,
    i: Annotated[str, pydantic.Field(min_length=8)],
    j: dt.timedelta | None,
    k: Literal[3],
) -> None:
    """Take all kinds."""


def test_the_shape_is_a_right_call() -> None:
    """The tool accepts the example that it gives, for every kind of field, and a type that contains itself ends."""
    assert all_kinds.parse(json.dumps(example_of(all_kinds.schema)))
    with pytest.raises(BadArguments) as caught:
        all_kinds.parse("{}")
    assert all_kinds.parse(caught.value.shape)


def test_the_shape_of_a_call_without_required_fields() -> None:
    """It shows what there is."""

    @tool
    def look(only: str = "", n: int = 3) -> None:
        """Look."""

    with pytest.raises(BadArguments, match=r'send JSON like \{"only": "", "n": 3\}'):
        look.parse("[]")
    assert look.parse("") == {}
