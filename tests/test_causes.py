"""Causes: every class of both trees as a copy, a pickle and data; texts and codes."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
import types
import typing
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaveto import causes, errors, why
from heaveto.causes import (
    CallTimeout,
    Cancelled,
    ClientGone,
    ConnectTimeout,
    DeadlinePassed,
    Described,
    Foreign,
    Interrupted,
    Shutdown,
    SiblingFailed,
    Stop,
    StoppedFromOutside,
    StreamIdle,
    from_data,
    to_data,
)
from heaveto.errors import APIError, GaveUp


def every_class() -> list[type[Described]]:
    found = {
        value
        for module in (causes, errors)
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Described) and value.__name__ != "_WorthRetrying"  # never raised
    }
    return sorted(found, key=lambda cls: cls.__name__)


CLASSES = every_class()
VALUES: dict[Any, Any] = {
    str: "two words",
    int: 3,
    float: 1.5,
    bool: True,
    Decimal: Decimal("0.0123450"),
    BaseException: CallTimeout(120),
}


def sample(cls: type[Described], *, optional: bool = True) -> Described:
    """One with a value for each field, from the types of its constructor; without optional fields where asked."""
    hints = typing.get_type_hints(cls.__init__)
    parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
    return cls(*(value_of(hints[each.name]) for each in parameters if optional or each.default is inspect.Parameter.empty))


def value_of(hint: Any) -> Any:
    if hint in VALUES:
        return VALUES[hint]
    if hint is Any:
        return "two words"
    if isinstance(hint, types.UnionType):
        return value_of(next(each for each in typing.get_args(hint) if each is not type(None)))
    (kind,) = typing.get_args(hint)
    return ("a", "b") if kind is str else (value_of(kind),)


@pytest.fixture(
    params=[(cls, optional) for cls in CLASSES for optional in (True, False)],
    ids=lambda each: f"{each[0].__name__}-{each[1]}",
)
def error(request: pytest.FixtureRequest) -> Described:
    """One of each class, with and without its optional fields."""
    cls, optional = request.param
    return sample(cls, optional=optional)


def look_of(error: BaseException) -> tuple[Any, ...]:
    """All that one can see of an error; errors in its fields likewise."""
    public = {name: look_of_field(value) for name, value in vars(error).items()}
    return type(error), look_of_field(error.args), public, str(error)


def look_of_field(field: Any) -> Any:
    if isinstance(field, BaseException):
        return look_of(field)
    return tuple(map(look_of_field, field)) if isinstance(field, tuple) else field


def test_both_trees_are_here() -> None:
    names = {cls.__name__ for cls in CLASSES}
    assert names >= {"Stop", "SaveTimeout", "RunDeadline", "JournalDamaged", "ToolCrashed"}
    assert len(names) > 50


def test_a_copy_and_a_pickle_are_equal(error: Described) -> None:
    error.add_note("seen in a test")
    assert look_of(copy.copy(error)) == look_of(error)
    assert look_of(pickle.loads(pickle.dumps(error))) == look_of(error)


def test_data_survives_json(error: Described) -> None:
    back = from_data(json.loads(json.dumps(to_data(error))))
    assert look_of(back) == look_of(error)
    assert to_data(back) == to_data(error)


def test_texts_are_lower_case_without_a_final_stop(error: Described) -> None:
    text = str(error)
    assert text
    assert not text[0].isupper()
    assert not text.endswith((".", " ", ":", ";"))
    assert "failed to" not in text
    assert not text.startswith("error")
    assert "None" not in text
    assert not error.advice.endswith(".")


def test_the_repr_is_the_call_that_makes_it(error: Described) -> None:
    names = {cls.__name__: cls for cls in CLASSES}
    assert look_of(eval(repr(error), names | {"Decimal": Decimal})) == look_of(error)


def test_no_two_classes_have_one_code() -> None:
    assert all("code" in vars(cls) for cls in CLASSES)
    assert len({cls.code for cls in CLASSES}) == len(CLASSES)
    assert all(cls.code.replace("_", "").isalpha() and cls.code.islower() for cls in CLASSES)


def test_every_class_is_public() -> None:
    assert {cls.__name__ for cls in CLASSES} <= {*causes.__all__, *errors.__all__}


def test_a_deadline_is_a_timeout_whatever_its_fields() -> None:
    """OSError's constructor makes an errno and a file name of several arguments; none of ours goes there."""
    for cls in [cls for cls in CLASSES if issubclass(cls, DeadlinePassed)]:
        error = cls(120.0, "call_seconds")
        assert isinstance(error, TimeoutError)
        assert (error.seconds, error.setting, error.args, error.errno, error.filename) == (
            120.0,
            "call_seconds",
            (120.0, "call_seconds"),
            None,
            None,
        )
        assert error.timeout


def test_texts_say_who_and_why() -> None:
    assert str(Cancelled()) == "cancelled"
    assert str(Cancelled("changed my mind", "operator")) == "cancelled by operator: changed my mind"
    assert str(Interrupted()) == "interrupted by you (SIGINT)"
    assert str(ClientGone("browser")) == "the browser is gone"
    assert str(SiblingFailed("boom")) == "a task beside it failed: boom"
    assert str(StoppedFromOutside()) == "stopped from outside, without a cause"
    assert str(Shutdown()) == "shutting down"
    assert str(Shutdown("SIGTERM")) == "shutting down: SIGTERM"
    assert str(StreamIdle(60)) == "the stream went quiet for 60 s (idle_seconds)"
    assert str(DeadlinePassed(0.25)) == "a deadline of 0.25 s passed"


@pytest.mark.parametrize(
    ("error", "retryable"),
    [(CallTimeout(1), True), (ConnectTimeout(1), True), (DeadlinePassed(1), None), (Cancelled(), None), (Shutdown(), None)],
)
def test_some_causes_know_whether_trying_again_can_help(error: Stop, retryable: bool | None) -> None:
    assert error.retryable is retryable


# --- as data --------------------------------------------------------------------------------------------------------


def test_chains_notes_and_errors_in_fields_are_kept() -> None:
    try:
        try:
            raise APIError("openrouter", 503, "busy", 2.0)
        except APIError as error:
            raise GaveUp(3, error) from error
    except GaveUp as error:
        error.add_note("in the third turn")
        back = from_data(json.loads(json.dumps(to_data(error))))
    assert isinstance(back, GaveUp)
    assert isinstance(back.last, APIError)
    assert isinstance(back.__cause__, APIError)
    assert (back.__cause__.status, back.__notes__) == (503, ["in the third turn"])


def test_somebody_elses_exception_keeps_its_name_and_text() -> None:
    back = from_data(to_data(KeyError("x")))
    assert (type(back), str(back)) == (Foreign, "KeyError: 'x'")
    assert str(from_data(to_data(ValueError()))) == "ValueError"


def test_a_group_lists_its_errors() -> None:
    data = to_data(ExceptionGroup("several", [Cancelled("a"), ValueError("b")]))
    assert [each["text"] for each in data["errors"]] == ["cancelled: a", "ValueError: b"]


@pytest.mark.parametrize("fields", [[], ["a"], ["a", "b"], ["a", "b", "c"]], ids=len)
def test_a_code_of_a_newer_version_becomes_a_foreign_error(fields: list[str]) -> None:
    back = from_data({"code": "from_the_future", "fields": fields, "text": "what it said"})
    assert str(back) == "from_the_future: what it said"


def test_fields_of_another_version_become_a_foreign_error() -> None:
    back = from_data({"code": "shutdown", "fields": ["a", "b", "c"], "text": "shutting down: a"})
    assert (type(back), str(back)) == (Foreign, "shutdown: shutting down: a")


def test_a_users_own_stop_comes_back_as_itself() -> None:
    class OutOfPaper(Cancelled):
        code = "test_out_of_paper"

    back = from_data(to_data(OutOfPaper("tray 2", "printer")))
    assert (type(back), str(back)) == (OutOfPaper, "cancelled by printer: tray 2")


@given(st.lists(st.one_of(st.text(), st.integers(), st.booleans(), st.none(), st.decimals(allow_nan=False)), max_size=4))
def test_any_plain_fields_come_back(fields: list[Any]) -> None:
    assert from_data(json.loads(json.dumps(to_data(Stop(*fields))))).args == tuple(fields)


def test_a_cycle_of_causes_is_written_down_once() -> None:
    """Other people's `raise error from error` must not send anyone round for ever."""
    error, other = ValueError("one"), ValueError("two")
    error.__cause__, other.__cause__ = other, error
    assert to_data(error) == {
        "code": "foreign",
        "text": "ValueError: one",
        "fields": ["ValueError", "one"],
        "cause": {"code": "foreign", "text": "ValueError: two", "fields": ["ValueError", "two"]},
    }
    other.__cause__ = None
    error.__cause__ = error
    assert "cause" not in to_data(error)


def nested(depth: int) -> BaseException:
    error: Exception = ValueError("innermost")
    for _ in range(depth):
        error = ExceptionGroup("group", [error])
    return error


def chained(depth: int) -> BaseException:
    error = ValueError("innermost")
    for number in range(depth):
        outer = ValueError(f"error {number}")
        outer.__cause__, error = error, outer
    return error


@pytest.mark.parametrize("make", [nested, chained])
def test_what_lies_too_deep_is_left_out_and_said_to_be(make: Callable[[int], BaseException]) -> None:
    whole, cut = json.dumps(to_data(make(50))), json.dumps(to_data(make(3_000)))
    assert ("innermost" in whole, "too deep" in whole) == (True, False)
    assert ("innermost" in cut, "too deep" in cut) == (False, True)
    assert why(make(3_000)).startswith("unexpected error: ValueError: ")


def test_a_text_of_megabytes_is_cut() -> None:
    assert len(json.dumps(to_data(ValueError("x" * 10_000_000)))) < 60_000
