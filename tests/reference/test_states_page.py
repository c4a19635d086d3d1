"""The page of states says what the tables say."""

from __future__ import annotations

from states_page import PAGE, diagram, states_page


def test_the_page_is_what_the_tables_make() -> None:
    assert PAGE.read_text("utf-8") == states_page(), "make reference writes it anew"


def test_steps_between_the_same_states_share_an_arrow() -> None:
    drawn = diagram("a", {("a", "x"): "b", ("a", "y"): "b", ("b", "x"): "b"})
    assert drawn.splitlines()[2:5] == ["    [*] --> a", "    a --> b: x, y", "    b --> b: x"]
