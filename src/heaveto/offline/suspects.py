"""Which lines are suspicious: those that failing tests reach and passing ones do not.

Nothing is run: what a test reaches is read from the names in its code, and in the code of what those names define.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt

from .reports import Report
from .source import Function, Source, is_test_file

__all__ = ["Suspicion", "suspect"]

AWAY = 0.93  # a function one call further from the test is a little less likely
FLOOR = 0.02  # what no failing test seems to reach: names may be reached in ways that are not seen here
RAISED_HERE = 3.0  # the innermost line of a traceback
PASSED_THROUGH = 1.6  # the lines above it
REACHES = 12  # calls deep


@dataclass
class Unit:
    """A piece of code with a name: a function, a method, or an assignment of a module or class."""

    path: str
    name: str
    first: int
    last: int
    references: frozenset[str]
    owner: str = ""
    score: float = 0.0


@dataclass
class Suspicion:
    """How suspicious each line is.

    Attributes:
        lines: (path, line) -> factor for lines that tracebacks name.
    """

    units: list[Unit]
    lines: dict[tuple[str, int], float] = field(default_factory=dict)

    def of(self, path: str, line: int) -> float:
        """From 0 to about 3."""
        inside = [unit for unit in self.units if unit.path == path and unit.first <= line <= unit.last]
        unit = min(inside, key=lambda unit: unit.last - unit.first, default=None)
        return (unit.score if unit else FLOOR) * self.lines.get((path, line), 1.0)


def suspect(sources: Sequence[Source], tests: Sequence[Source], report: Report) -> Suspicion:
    """Score every unit of the sources by how many failing and passing tests reach it (Ochiai's measure)."""
    units = [unit for source in sources for unit in _units(source)]
    test_units = [unit for source in tests for unit in _units(source)]
    failing = {failure.name for failure in report.failures}
    reached_by_failing, reached_by_passing = _reach(units, test_units, failing)
    total = max(1, len(failing))
    for index, unit in enumerate(units):
        bad, good = sum(reached_by_failing[index]), float(len(reached_by_passing[index]))
        if not report.whole:
            good /= 2  # some of those that count as passing may have failed too
        count = len(reached_by_failing[index])
        unit.score = max(FLOOR, (bad / count) * count / sqrt(total * (count + good)) if count else 0)
    return Suspicion(units, _traced(report, {key: line for source in sources for key, line in _guarded(source).items()}))


def _reach(
    units: list[Unit], tests: list[Unit], failing: set[str]
) -> tuple[Mapping[int, list[float]], Mapping[int, list[float]]]:
    bad: dict[int, list[float]] = defaultdict(list)
    good: dict[int, list[float]] = defaultdict(list)
    index = _Index(units, tests)
    for test in tests:
        if not test.name.startswith("test"):
            continue
        into = bad if test.name in failing else good
        for unit, depth in index.reached(test):
            into[unit].append(AWAY**depth)
    return bad, good


class _Index:
    """Names to units, of the sources and of the tests' own functions."""

    def __init__(self, units: list[Unit], tests: list[Unit]) -> None:
        self.units = units
        self.by_name: dict[str, list[int]] = defaultdict(list)
        for number, unit in enumerate(units):
            for name in _called_as(unit):
                self.by_name[name].append(number)
        self.support = {unit.name: unit for unit in tests if not unit.name.startswith("test")}
        self.set_up = {unit.owner: unit for unit in tests if unit.name in ("setUp", "setup_method")}

    def reached(self, test: Unit) -> Iterator[tuple[int, int]]:
        """Units with their distance, nearest first."""
        names = set(test.references)
        if test.owner in self.set_up:
            names |= self.set_up[test.owner].references
        for name in sorted(names & self.support.keys()):
            names |= self.support[name].references
        seen: set[int] = set()
        for depth in range(REACHES):
            fresh = {number for name in names for number in self.by_name.get(name, ())} - seen
            if not fresh:
                return
            seen |= fresh
            yield from ((number, depth) for number in sorted(fresh))
            names = {name for number in fresh for name in self.units[number].references}


def _called_as(unit: Unit) -> Iterable[str]:
    """A class's name reaches its special methods, which have no name at the place where they are used."""
    if unit.owner and unit.name.startswith("__"):
        return (unit.owner, unit.name)
    return (unit.name,)


def _units(source: Source) -> Iterator[Unit]:
    for node in ast.walk(source.tree):
        if isinstance(node, Function):
            owner = source.parents.get(node)
            yield _unit(source, node, node.name, owner.name if isinstance(owner, ast.ClassDef) else "")
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and source.function_of(node) is None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            owner = source.parents.get(node)
            for name in _names(targets):
                yield _unit(source, node, name, owner.name if isinstance(owner, ast.ClassDef) else "")
        elif isinstance(node, ast.ClassDef) and not is_test_file(source.path):
            yield from (_inherits(source, node, base) for base in node.bases)


def _inherits(source: Source, node: ast.ClassDef, base: ast.expr) -> Unit:
    """The class line, so that a subclass's name reaches its base's methods."""
    names = frozenset(each.id for each in ast.walk(base) if isinstance(each, ast.Name))
    return Unit(source.path, node.name, node.lineno, node.lineno, names)


def _unit(source: Source, node: ast.stmt, name: str, owner: str) -> Unit:
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(each.lineno for each in decorators)])
    return Unit(source.path, name, first, node.end_lineno or node.lineno, _references(node), owner)


def _names(targets: Iterable[ast.expr]) -> list[str]:
    return [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]


def _references(node: ast.AST) -> frozenset[str]:
    names = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            names.add(each.id)
        elif isinstance(each, ast.Attribute):
            names.add(each.attr)
        elif isinstance(each, ast.arg):
            names.add(each.arg)  # a pytest fixture is reached by its parameter's name
    return frozenset(names)


def _guarded(source: Source) -> dict[tuple[str, int], int]:
    """Line of a `raise` -> line of the condition that it stands under."""
    guards: dict[tuple[str, int], int] = {}
    for node in ast.walk(source.tree):
        above = source.parents.get(node)
        if isinstance(node, ast.Raise) and isinstance(above, ast.If):
            guards[source.path, node.lineno] = above.lineno
    return guards


def _traced(report: Report, guards: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], float]:
    lines: dict[tuple[str, int], float] = {}
    for failure in report.failures:
        ours = [frame for frame in failure.frames if not is_test_file(frame.path)]
        for number, frame in enumerate(ours):
            innermost = number == len(ours) - 1 and failure.frames[-1] == frame
            key = (frame.path, frame.line)
            for each in (key, (frame.path, guards.get(key, frame.line))):
                lines[each] = max(lines.get(each, 0.0), RAISED_HERE if innermost else PASSED_THROUGH)
    return lines
