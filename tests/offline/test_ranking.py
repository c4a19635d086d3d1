"""The table of kinds is whole, every proposed edit is valid Python, and suspicion follows what failing tests reach."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from heaveto.offline.mutations import Place, proposals
from heaveto.offline.ranking import COMMON, rank
from heaveto.offline.reports import Failure, Frame, Report
from heaveto.offline.source import Source, is_test_file
from heaveto.offline.suspects import suspect
from heaveto.offline.symptoms import LIKELY

REPAIR = Path(__file__).parents[2] / "benchmarks" / "repair"
FIXES: dict[str, Any] = json.loads((REPAIR / "fixes.json").read_text())


def sources_of(name: str) -> list[tuple[str, str]]:
    folder = REPAIR / "projects" / name
    return sorted((path.relative_to(folder).as_posix(), path.read_text()) for path in folder.rglob("*.py"))


def test_symptoms_name_known_kinds() -> None:
    assert {kind for factors in LIKELY.values() for kind in factors} <= set(COMMON)


@pytest.mark.parametrize("name", ["billing", "stack_machine", "async_feed"])
def test_every_kind_that_is_proposed_has_a_weight(name: str) -> None:
    for path, text in sources_of(name):
        source = Source.parse(path, text)
        assert source is not None
        assert {edit.kind for edit in proposals(Place(source))} <= set(COMMON)


def test_candidates_parse_and_differ() -> None:
    files = sources_of("stack_machine")
    sources = tuple((path, text) for path, text in files if not is_test_file(path))
    candidates = rank(sources, (), Report(1, 0, (Failure("test_difference"),)))
    assert len(candidates) > 50
    assert len({each.text for each in candidates}) == len(candidates)
    for each in candidates:
        ast.parse(each.text)
        assert each.text != dict(sources)[each.path]


def test_columns_are_counted_in_characters() -> None:
    """`ast` counts bytes; text that is not ASCII before the edit must not move it."""
    source = Source.parse("a.py", 'def f(x):\n    return "é€" * (x + 1)\n')
    assert source is not None
    texts = [source.apply(edit) for edit in proposals(Place(source)) if edit.kind == "arithmetic"]
    assert 'def f(x):\n    return "é€" * (x - 1)\n' in texts


CODE = "def good(x):\n    return x\n\n\ndef bad(x):\n    return good(x)\n\n\ndef unused(x):\n    return x\n"
TESTS = "def test_good():\n    assert good(1) == 1\n\n\ndef test_bad():\n    assert bad(1) == 2\n"


def test_suspicion() -> None:
    """What only failing tests reach comes before what passing ones reach too, and both before what none reaches."""
    code, tests = Source.parse("code.py", CODE), Source.parse("test_code.py", TESTS)
    assert code is not None
    assert tests is not None
    suspicion = suspect([code], [tests], Report(1, 1, (Failure("test_bad"),)))
    bad, good, unused = (suspicion.of("code.py", line) for line in (6, 2, 10))
    assert bad > good > unused > 0


def test_a_traceback_points_at_its_innermost_line() -> None:
    code = Source.parse("code.py", CODE)
    assert code is not None
    failure = Failure("test_bad", (Frame("test_code.py", 6), Frame("code.py", 6), Frame("code.py", 2)), "TypeError")
    suspicion = suspect([code], [], Report(1, 1, (failure,)))
    assert suspicion.of("code.py", 2) > suspicion.of("code.py", 6) > suspicion.of("code.py", 10)


@pytest.mark.parametrize(
    ("path", "is_test"),
    [("test_a.py", True), ("a_test.py", True), ("tests/helpers.py", True), ("conftest.py", True), ("contest.py", False)],
)
def test_test_files(path: str, is_test: bool) -> None:
    assert is_test_file(path) is is_test
