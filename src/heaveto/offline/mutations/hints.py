"""Edits that the report itself suggests: names that an error mentions, constants that turn one value into the other."""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from difflib import SequenceMatcher, get_close_matches
from itertools import zip_longest
from typing import Any

from ..reports import Failure, Report
from ..source import Edit
from .rules import Place

__all__ = ["hinted"]

NO_NAME = re.compile(r"name '(\w+)' is not defined|variable '(\w+)'")
NO_ATTRIBUTE = re.compile(r"'?(?:type object |module )?'(\w+)'(?: object)? has no attribute '(\w+)'")
NO_WORD = re.compile(r"unexpected keyword argument '(\w+)'")
BUILT_IN = {cls.__name__: cls for cls in (str, list, dict, set, tuple, int, float, bytes, frozenset)}


def hinted(place: Place, report: Report) -> Iterator[Edit]:
    """Edits for every failure of the report, the same edit perhaps more than once."""
    for failure in report.failures:
        yield from _unknown_names(place, failure)
        yield from _unknown_attributes(place, failure)
        yield from _unknown_words(place, failure)
        yield from _uncaught(place, failure)
    yield from _agreed(place, [failure.values for failure in report.failures if failure.values is not None])


def _uncaught(place: Place, failure: Failure) -> Iterator[Edit]:
    """An error that came out of a `try` whose handler waits for another one."""
    lines = _at_lines(place, failure)
    for node in ast.walk(place.source.tree):
        if not isinstance(node, ast.Try) or not node.handlers or failure.error == "AssertionError":
            continue
        inside = range(node.body[0].lineno, (node.body[-1].end_lineno or node.body[-1].lineno) + 1)
        if any(line in inside for line in lines):
            for handler in node.handlers:
                if handler.type is not None and place.code(handler.type) != failure.error:
                    yield place.swap(handler.type, failure.error, "hinted name")


def _agreed(place: Place, pairs: list[tuple[Any, Any]]) -> Iterator[Edit]:
    """What the values suggest; an edit that explains one failure and not the others is likely a coincidence."""
    found: dict[tuple[int, int, str], list[Edit]] = {}
    for pair in pairs:
        once = {(edit.start, edit.end, edit.new): edit for edit in _from_values(place, *pair)}
        for key, edit in once.items():
            found.setdefault(key, []).append(edit)
    explained = Counter(kind for pair in pairs for kind in {edit.kind for edit in _from_values(place, *pair)})
    for edits in found.values():
        yield replace(edits[0], weight=edits[0].weight * (len(edits) / explained[edits[0].kind]) ** 2)


def _at_lines(place: Place, failure: Failure) -> set[int]:
    return {frame.line for frame in failure.frames if frame.path == place.source.path}


def _unknown_names(place: Place, failure: Failure) -> Iterator[Edit]:
    found = NO_NAME.search(failure.text) if failure.error in ("NameError", "UnboundLocalError") else None
    if not found:
        return
    name, lines = found[1] or found[2], _at_lines(place, failure)
    for node in ast.walk(place.source.tree):
        if not (isinstance(node, ast.Name) and node.id == name and node.lineno in lines):
            continue
        function = place.source.function_of(node)
        known = [*(place.locals_of(function) if function else []), *place.module_names, *_imported(place), *dir(builtins)]
        for order, other in enumerate(get_close_matches(name, [each for each in known if each != name], n=4, cutoff=0.5)):
            yield place.swap(node, other, "hinted name", 1.0 - 0.1 * order)
    if lines and name in sys.stdlib_module_names:
        at = place.source.line_start(_first_import(place))
        yield Edit(at, at, f"import {name}\n", "hinted name", min(lines), 1.5)


def _imported(place: Place) -> list[str]:
    imports = [node for node in ast.walk(place.source.tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    return [alias.asname or alias.name for node in imports for alias in node.names]


def _first_import(place: Place) -> int:
    """The line of the first statement that may follow an import."""
    for node in place.source.tree.body:
        future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if not future and not (isinstance(node, ast.Expr) and node.value in place.source.docstrings):
            return node.lineno
    return len(place.source.lines)


def _unknown_attributes(place: Place, failure: Failure) -> Iterator[Edit]:
    found = NO_ATTRIBUTE.search(failure.text) if failure.error == "AttributeError" else None
    if not found:
        return
    owner, name = found[1], found[2]
    known = list(dir(BUILT_IN[owner])) if owner in BUILT_IN else _attributes(place)
    lines = _at_lines(place, failure)
    for node in ast.walk(place.source.tree):
        if isinstance(node, ast.Attribute) and node.attr == name and (node.lineno in lines or owner not in BUILT_IN):
            end = place.source.span(node)[1]
            for order, other in enumerate(get_close_matches(name, [k for k in known if k != name], n=5, cutoff=0.4)):
                near = 1.0 if node.lineno in lines else 0.6
                yield Edit(end - len(name), end, other, "hinted attribute", node.lineno, near - 0.1 * order)
    yield from _misspelt_definitions(place, name)


def _misspelt_definitions(place: Place, name: str) -> Iterator[Edit]:
    """A method or field that was meant to be called what others call it."""
    for node in ast.walk(place.source.tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and get_close_matches(name, [node.name], cutoff=0.7):
            at = place.source.text.index(node.name, place.source.span(node)[0])
            yield Edit(at, at + len(node.name), name, "hinted attribute", node.lineno, 0.5)


def _attributes(place: Place) -> list[str]:
    tree = place.source.tree
    used = [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    defined = [node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return list(dict.fromkeys([*used, *defined, *sorted(place.words)]))


def _unknown_words(place: Place, failure: Failure) -> Iterator[Edit]:
    found = NO_WORD.search(failure.text)
    if not found:
        return
    args = [node.arg for node in ast.walk(place.source.tree) if isinstance(node, ast.arg)]
    for node in ast.walk(place.source.tree):
        if isinstance(node, ast.keyword) and node.arg == found[1]:
            for other in get_close_matches(found[1], [arg for arg in args if arg != found[1]], n=3, cutoff=0.3):
                start = place.source.span(node)[0]
                yield Edit(start, start + len(found[1]), other, "hinted name", node.lineno)


def _from_values(place: Place, one: Any, other: Any) -> Iterator[Edit]:
    """Which of the two was wanted depends on how the test was written, so both ways are tried."""
    for got, want in ((one, other), (other, one)):
        for was, wanted in _leaves(got, want):
            if isinstance(was, str) and isinstance(wanted, str):
                yield from _string_edits(place, was, wanted)
            elif _is_number(was) and _is_number(wanted) and was != wanted:
                yield from _number_edits(place, was, wanted)


def _leaves(got: Any, want: Any) -> Iterator[tuple[Any, Any]]:
    """The pairs in which two values of the same shape differ; a few will do."""
    if isinstance(got, (list, tuple)) and isinstance(want, (list, tuple)) and len(got) <= 20:
        for pair in zip_longest(got, want):
            yield from _leaves(*pair)
    elif isinstance(got, dict) and isinstance(want, dict):
        for key in [*got, *(key for key in want if key not in got)]:
            if key in got and key in want:
                yield from _leaves(got[key], want[key])
        missing, extra = [key for key in want if key not in got], [key for key in got if key not in want]
        yield from zip(extra, missing, strict=False)
    elif got != want:
        yield got, want


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _string_edits(place: Place, got: str, want: str) -> Iterator[Edit]:
    for tag, a, b, c, d in SequenceMatcher(None, got, want, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        for left, right in ((0, 0), (1, 0), (0, 1), (1, 1), (3, 3)):  # with some of what stands around the difference
            old, new = got[max(0, a - left) : b + right], want[max(0, c - left) : d + right]
            if old != new and (old.strip() or (left, right) == (0, 0)) and len(new) <= 3 * len(old) + 4:
                yield from _in_literals(place, old, new)


def _in_literals(place: Place, old: str, new: str) -> Iterator[Edit]:
    """Replace text inside of string literals, those of f-strings too; only where it stands there as it is."""
    for node in ast.walk(place.source.tree):
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            if node in place.source.docstrings or isinstance(place.source.parents.get(node), ast.JoinedStr):
                continue
            start, end = place.source.span(node)
            code = place.source.text[start:end]
            at = code.find(old, 1)
            if old and 0 < at < len(code) - len(old) and not set(new) & set("\n\"'\\{}"):
                share = len(old) / (len(code) - 2)
                if not old.strip() and share < 1:
                    continue
                weight = 0.1 if isinstance(place.source.parents.get(node), ast.Subscript) else 0.1 + 0.9 * share
                yield Edit(start + at, start + at + len(old), new, "hinted word", node.lineno, weight)


def _number_edits(place: Place, got: float, want: float) -> Iterator[Edit]:
    for node in ast.walk(place.source.tree):
        if not (isinstance(node, ast.Constant) and _is_number(node.value)) or _is_incidental(place, node):
            continue
        value: Any = node.value
        guesses = [value + (want - got)]
        if got and want:
            guesses += [value * want / got, value * got / want]
        for order, guess in enumerate(guesses):
            text = _plain(guess, whole=isinstance(value, int))
            if text and text != place.code(node):
                table = place.source.function_of(node) is None  # a named constant is the likelier to be mistyped
                yield place.swap(node, text, "hinted number", (1.0 if order == 0 else 0.8) * (1.5 if table else 1.0))


def _is_incidental(place: Place, node: ast.Constant) -> bool:
    """A parameter's default, or the digits to round to: rarely what a wrong result comes from."""
    above = place.source.parents.get(node)
    rounds = isinstance(above, ast.Call) and isinstance(above.func, ast.Name) and above.func.id == "round"
    return rounds or isinstance(above, ast.arguments)


def _plain(value: float, *, whole: bool) -> str:
    """The number as a person would write it, or nothing when nobody would."""
    if value < 0 or value != value or value > 1e9:
        return ""
    near = round(value)
    if abs(value - near) < 1e-9 * max(1, abs(value)):
        return str(near) if whole else repr(float(near))
    if whole:
        return ""
    short = repr(round(value, 4))
    return short if abs(value - float(short)) < 1e-9 and len(short) <= 6 else ""
