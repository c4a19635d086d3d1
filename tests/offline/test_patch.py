"""Edits of whole lines: applied in order they make the wanted text, and each is unique when its turn comes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from heaveto.offline.patch import changed_lines, occurs_once, replacements

LINES = st.lists(
    st.sampled_from(["", "    x = 1", "    return x", "def f():", "a", "aa", "\tb", "é"]), min_size=1, max_size=12
)


@given(LINES, LINES)
def test_makes_any_text_of_any_other(before: list[str], after: list[str]) -> None:
    text, wanted = "\n".join(before), "\n".join(after)
    for old, new in replacements(text, wanted):
        assert occurs_once(text, old) or text == old
        text = text.replace(old, new, 1)
    assert text == wanted


def test_takes_context_where_a_line_occurs_twice() -> None:
    before = "def a():\n    return 1\n\n\ndef b():\n    return 1"
    after = "def a():\n    return 1\n\n\ndef b():\n    return 2"
    assert list(replacements(before, after)) == [("def b():\n    return 1", "def b():\n    return 2")]


def test_names_the_first_line_that_differs() -> None:
    assert changed_lines("a\nb\nc", "a\nB\nc") == (2, "b", "B")
    assert changed_lines("a\nc", "a\nb\nc") == (2, "", "b")
