"""The mutation run: what it changes, and that what it excuses is still there. The run itself is `make mutants`."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def mutants() -> Iterator[ModuleType]:
    sys.path.insert(0, str(BENCHMARKS))
    yield importlib.import_module("mutants")
    sys.path.remove(str(BENCHMARKS))


@pytest.mark.parametrize(
    ("source", "changes"),
    [
        ("x < 3", ["x < 3 -> x <= 3", "x < 3 -> x >= 3", "3 -> 4"]),
        ("if not x: y()", ["not x -> x", "y() -> pass"]),
        ("if x: y()", ["if x: -> if not x:", "y() -> pass"]),
        ("a and b", ["a and b -> a or b", "a and b -> b", "a and b -> a"]),
        ("def f(a: int = 1) -> bool:\n    return True", ["1 -> 2", "True -> False"]),
        ("def f():\n    'what it does'\n    return g()", ["return g() -> return None"]),
        ("max(a, b)", ["max(a, b) -> min(a, b)"]),
        ("with scope(shield=True): f()", ["scope(shield=True) -> scope()", "True -> False", "f() -> pass"]),
        ("try: f()\nfinally: g()", ["f() -> pass", "g() -> pass"]),
        ("import x\n__all__ = ['x']\nT = TypeVar('T')", []),
        ("self.x, y = 1, z", ["self.x, y = (1, z) -> pass", "1 -> 2"]),
    ],
)
def test_these_are_the_mutants_of(mutants: ModuleType, source: str, changes: list[str]) -> None:
    found = [each.change for each in mutants.mutants_of(source)]
    assert set(changes) <= set(found)
    assert len(found) <= len(changes) + 2


def test_each_mutant_differs_from_the_original_and_from_the_others(mutants: ModuleType) -> None:
    source = (BENCHMARKS.parent / "src/heaveto/scopes/slots.py").read_text()
    sources = [each.source for each in mutants.mutants_of(source)]
    assert len({*sources, ast.unparse(ast.parse(source))}) == len(sources) + 1
    assert len(sources) > 30


def test_what_is_explained_is_a_mutant_of_today_and_has_a_reason(mutants: ModuleType) -> None:
    today = {place.key for place in mutants.places("")}
    known = mutants.explained()
    assert set(known) - today == set()
    assert all(len(why) > 20 for why in known.values())


def test_the_tests_of_a_module_come_first(mutants: ModuleType) -> None:
    tests = mutants.tests_of("slots.py")
    assert tests[0] == "tests/scopes/test_slots.py"
    there = {f"tests/scopes/{path.name}" for path in (BENCHMARKS.parent / "tests/scopes").glob("test_*.py")}
    assert set(tests) == there
