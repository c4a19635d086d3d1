"""A fault, a cut or a line that would never come to pass is refused where it is written: a test of it would test nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from heaveto.testing import Answered, Cut, FaultyExchange, calls, fault_at, faults_at_random, scripted

WRONG: list[tuple[Callable[..., Any], tuple[Any, ...], str]] = [
    (Cut, ("broken", 3), "a cut is one of .*closed.*; not 'broken'"),
    (Cut, ("reset", -1), "a cut is at a byte, 0 or more, not -1"),
    (Cut, ("reset", "3"), "a cut is at a byte, 0 or more, not '3'"),
    (fault_at, (1, "broken"), "a fault is one of before, .*; not 'broken'"),
    (fault_at, (0, "full"), "a write has a number from 1, not 0"),
    (fault_at, ("1", "full"), "a write has a number from 1, not '1'"),
    (faults_at_random, (7, "full", "broken"), "a fault is one of before, .*; not 'broken'"),
    (FaultyExchange, ("text",), "bytes, an Answered or an exchange, not 'text'"),
    (FaultyExchange, (b"", "reset"), r"a Cut, such as Cut\(\"reset\", 40\), an Answered or None, not 'reset'"),
    (scripted, (5,), "a line is a text, .* not 5"),
    (calls, ("look",), r"a call is a pair such as \(\"read_file\", .*, not 'look'"),
    (calls, (("look",),), "a call is a pair such as"),
    (calls, (({}, "look"),), "a call is a pair such as"),
]


@pytest.mark.parametrize(("make", "arguments", "says"), WRONG)
def test_it_is_refused_with_what_there_is(make: Callable[..., Any], arguments: tuple[Any, ...], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        make(*arguments)


def test_an_operation_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="an operation is one of create, take, append; not 'read'"):
        fault_at(1, "full", on="read")  # type: ignore[arg-type]


def test_what_is_right_passes() -> None:
    assert FaultyExchange(Answered(b""), Cut("refused"), None, Answered(b"", 500)).requests == []
    assert scripted("a", ValueError("b"), calls(("look", {})), lambda request: "c").name == "scripted"
