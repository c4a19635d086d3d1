"""Reports as `run_tests` writes them, of pytest and of unittest, and what is no report."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaveto.offline.reports import Frame, parse_report
from heaveto.offline.symptoms import symptoms

PYTEST = """\
tests failed: 2 failed, 1 passed, 1 skipped

FAIL tests/test_shop.py::ShopTest::test_total[a-b.c]
tests/test_shop.py:18: in test_total
    self.assertEqual(total([1]), 75)
src/shop.py:4: in total
    return price + tax
E   TypeError: can only concatenate str (not "int") to str

FAIL tests/test_shop.py::test_count
tests/test_shop.py:22: in test_count
    assert count() == 4
E   assert 3 == 4
E    +  where 3 = count()
"""
UNITTEST = """\
tests failed: 1 failed, 0 passed

FAIL test_shop.ShopTest.test_total
Traceback (most recent call last):
  File "test_shop.py", line 9, in test_total
    self.assertEqual(total([1]), 75)
AssertionError: Lists differ: [1, 2] != [2, 1]

First differing element 0:
1
2
"""


def test_reads_pytest() -> None:
    report = parse_report(PYTEST)
    assert report is not None
    assert (report.failed, report.passed, report.whole) == (2, 1, True)
    first, second = report.failures
    assert first.name == "test_total"
    assert first.frames == (Frame("tests/test_shop.py", 18), Frame("src/shop.py", 4))
    assert (first.error, first.text) == ("TypeError", 'can only concatenate str (not "int") to str')
    assert second.error == "AssertionError"
    assert second.values == (3, 4)
    assert "off by one" in list(symptoms(second))


def test_reads_unittest() -> None:
    report = parse_report(UNITTEST)
    assert report is not None
    (failure,) = report.failures
    assert failure.name == "test_total"
    assert failure.frames == (Frame("test_shop.py", 9),)
    assert failure.values == ([1, 2], [2, 1])
    assert list(symptoms(failure)) == ["same things, other order", "off by one"]


def test_passing() -> None:
    report = parse_report("tests passed: 12, 1 skipped")
    assert report is not None
    assert report.good
    assert report.passed == 12


def test_hung() -> None:
    """A run over its time is a failing one that names its test."""
    report = parse_report("the tests timed out (60 s, test_seconds): test_forever was running")
    assert report is not None
    assert report.hung
    assert not report.good
    assert [failure.name for failure in report.failures] == ["test_forever"]


@pytest.mark.parametrize("text", ["", "no tests were found", "cancelled before it ran: you pressed Ctrl-C", "tests pass"])
def test_no_report(text: str) -> None:
    assert parse_report(text) is None


@given(st.text())
def test_any_text_is_taken(text: str) -> None:
    report: Any = parse_report(f"tests failed: 1 failed, 0 passed\n\nFAIL test_x\n{text}")
    assert report.failed == 1
    for failure in report.failures:
        list(symptoms(failure))
