"""Wrong constants: numbers, booleans, None, strings; bounds of ranges, slices and indexes; initial values."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any

from ..source import Edit
from .rules import Place, rule

ALIKE = 0.6  # difflib's ratio from which two words may be meant as one


@rule(ast.Constant)
def constants(place: Place, node: ast.Constant) -> Iterator[Edit]:
    if isinstance(place.source.parents.get(node), (ast.JoinedStr, ast.FormattedValue)):
        return
    value: Any = node.value
    if isinstance(value, bool):
        yield place.swap(node, str(not value), "boolean")
    elif value is None:
        yield from _nothing(place, node)
    elif isinstance(value, (int, float)):
        yield from _numbers(place, node, value)
    elif isinstance(value, str):
        yield from _strings(place, node, value)


def _numbers(place: Place, node: ast.Constant, value: float) -> Iterator[Edit]:
    above = place.source.parents.get(node)
    bound = isinstance(above, (ast.Subscript, ast.Slice, ast.Compare, ast.BinOp)) or _is_range(above)
    kind, weight = ("bound", 1.0) if bound else ("number", 0.8)
    if isinstance(value, int):
        negative = isinstance(above, ast.UnaryOp) and isinstance(above.op, ast.USub)
        for near, share in ((value + 1, 0.9), (value - 1, 1.0)):
            if near >= 0 and not (negative and near == 0):
                yield place.swap(node, str(near), kind, weight * share)
        if value in (0, 1) and isinstance(above, (ast.Assign, ast.AnnAssign, ast.Return, ast.Call)):
            yield place.swap(node, str(1 - value), "initial value", 0.9)
    for other in (value * 10, value / 10, value * 100, value / 100):
        if value and (other == int(other) or isinstance(value, float)):
            text = repr(int(other)) if isinstance(value, int) else repr(round(other, 12))
            yield place.swap(node, text, "number", 0.25)
    if value and not isinstance(above, ast.UnaryOp):
        yield place.swap(node, f"-{place.code(node)}", "sign", 0.5)


def _is_range(node: ast.AST | None) -> bool:
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("range", "enumerate", "islice")
    )


def _nothing(place: Place, node: ast.Constant) -> Iterator[Edit]:
    if isinstance(place.source.parents.get(node), (ast.Return, ast.Assign, ast.AnnAssign)):
        for text in ("0", "[]", '""', "{}", "False", "True"):
            yield place.swap(node, text, "initial value", 0.4)


def _strings(place: Place, node: ast.Constant, value: str) -> Iterator[Edit]:
    for word in sorted(place.words):
        if word != value and _alike(word, value):
            yield place.swap(
                node, repr(word) if "'" in place.code(node)[:2] else _quoted(word), "word", _likeness(word, value)
            )
    if value in ("", " ", ", ", ",", "\n", "-", "_", ".", ":", "/"):
        for word in ("", " ", ", ", ",", "\n", "-", "_"):
            if word != value:
                yield place.swap(node, _quoted(word), "separator", 0.5)


def _alike(word: str, value: str) -> bool:
    return (
        bool(value)
        and bool(word)
        and "\n" not in word
        and len(word) <= 3 * len(value) + 3
        and _likeness(word, value) >= ALIKE
    )


def _likeness(word: str, value: str) -> float:
    return SequenceMatcher(None, word.lower(), value.lower(), autojunk=False).ratio()


def _quoted(text: str) -> str:
    """A literal in double quotes, as most code has it."""
    inner = repr(text)[1:-1]
    return f'"{inner}"' if '"' not in inner else repr(text)


@rule(ast.JoinedStr)
def formats(place: Place, node: ast.JoinedStr) -> Iterator[Edit]:
    """Two values of an f-string in each other's place."""
    values = [each.value for each in node.values if isinstance(each, ast.FormattedValue)]
    for left, right in pairwise(values):
        low, high = place.source.span(left), place.source.span(right)
        if low[1] >= high[0] or place.code(left) == place.code(right):
            continue  # before Python 3.12 these spans are the whole string's
        between = place.source.text[low[1] : high[0]]
        yield Edit(low[0], high[1], place.code(right) + between + place.code(left), "swapped values", node.lineno)


@rule(ast.Call)
def ranges(place: Place, node: ast.Call) -> Iterator[Edit]:
    """Bounds of a range that are no plain number, and a start that is missing or too many."""
    if not (isinstance(node.func, ast.Name) and node.func.id == "range" and node.args):
        return
    stop = node.args[0] if len(node.args) == 1 else node.args[1]
    yield from _shifted(place, stop)
    if len(node.args) == 1:
        yield place.swap(stop, f"1, {place.code(stop)}", "bound", 0.9)
        yield place.swap(stop, f"1, {place.operand(stop)} + 1", "bound", 0.7)
    else:
        yield from _shifted(place, node.args[0], 0.6)
        if len(node.args) == 2 and isinstance(node.args[0], ast.Constant) and node.args[0].value == 1:
            start, end = place.source.span(node.args[0])[0], place.source.span(stop)[1]
            yield Edit(start, end, place.code(stop), "bound", node.lineno, 0.5)


def _shifted(place: Place, node: ast.expr, weight: float = 1.0) -> Iterator[Edit]:
    if isinstance(node, ast.Constant):
        return
    if isinstance(node, ast.BinOp) and isinstance(node.right, ast.Constant) and node.right.value == 1:
        yield place.swap(node, place.code(node.left), "bound", weight)
        if isinstance(node.op, ast.Sub):
            yield place.swap(node, f"{place.code(node.left)} + 1", "bound", weight * 0.3)
        return
    yield place.swap(node, f"{place.operand(node)} + 1", "bound", weight)
    yield place.swap(node, f"{place.operand(node)} - 1", "bound", weight * 0.9)


@rule(ast.Subscript)
def indexes(place: Place, node: ast.Subscript) -> Iterator[Edit]:
    index = node.slice
    if isinstance(index, ast.Slice):
        yield from _slices(place, node, index)
    elif isinstance(index, ast.Constant) and isinstance(index.value, int):
        yield from _fixed_indexes(place, index, index.value)
    elif isinstance(index, ast.UnaryOp):
        yield place.swap(index, "0", "index", 0.9)
    elif isinstance(index, (ast.Name, ast.BinOp)) and place.code(node.value) not in place.mappings:
        yield from _shifted(place, index, 0.7)


@rule(ast.BinOp)
def shifted_operands(place: Place, node: ast.BinOp) -> Iterator[Edit]:
    """A factor that counts from one where nought was meant, and the other way round."""
    if isinstance(node.op, (ast.Mult, ast.FloorDiv, ast.Mod)):
        for side in (node.left, node.right):
            if isinstance(side, (ast.Name, ast.Attribute)):
                yield place.swap(side, f"({place.code(side)} - 1)", "shifted")
                yield place.swap(side, f"({place.code(side)} + 1)", "shifted", 0.9)


def _fixed_indexes(place: Place, index: ast.Constant, value: int) -> Iterator[Edit]:
    if value == 0:
        yield place.swap(index, "-1", "index", 0.9)
    elif value > 1:
        yield place.swap(index, "0", "index", 0.3)
    if value == 1:
        yield place.swap(index, "-1", "index", 0.6)


def _slices(place: Place, node: ast.Subscript, index: ast.Slice) -> Iterator[Edit]:
    lower, upper, step = (place.code(each) if each else "" for each in (index.lower, index.upper, index.step))
    tail = f":{step}" if step else ""
    for bound in (index.lower, index.upper):
        if bound is not None:
            yield from _shifted(place, bound)
    options = [("1", upper, 0.5)] if not lower else [("", upper, 0.7)]
    options += [(lower, "-1", 0.5)] if not upper else [(lower, "", 0.7)]
    options += [(upper, lower, 0.8)] if lower != upper else []
    if lower and not upper and not lower.startswith("-"):
        options.append((f"-{lower}", "", 0.6))
    if upper and not lower and not upper.startswith("-"):
        options.append(("", f"-{upper}", 0.3))
    start, end = place.source.span(index_span := node.slice)
    for low, high, weight in options:
        yield Edit(start, end, f"{low}:{high}{tail}", "slice", index_span.lineno, weight)
    if step == "-1" and not lower and not upper:
        yield Edit(start, end, ":", "slice", index_span.lineno)


@rule(ast.Assign, ast.AnnAssign)
def empty_values(place: Place, node: ast.Assign | ast.AnnAssign) -> Iterator[Edit]:
    """A first value of the wrong type."""
    value = node.value
    if value is None or not isinstance(value, (ast.List, ast.Dict, ast.Constant, ast.Call)):
        return
    empties = ["[]", "{}", "set()", '""', "0", "None"]
    code = place.code(value)
    if code in (*empties, "''", "list()", "dict()", "False", "True"):
        for other in empties:
            if other != code:
                yield place.swap(value, other, "initial value", 0.4)
