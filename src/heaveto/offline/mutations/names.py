"""Wrong names: another variable, constant, attribute or method that is in reach; arguments in each other's place."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import pairwise

from ..source import Edit, Function
from .constants import indexes
from .rules import Place, rule

NEAR = 6  # alternatives tried for one name, the likeliest


@rule(ast.Name)
def variables(place: Place, node: ast.Name) -> Iterator[Edit]:
    function = place.source.function_of(node)
    if function is None or not isinstance(node.ctx, ast.Load):
        return
    locals_ = place.locals_of(function)
    called = isinstance(above := place.source.parents.get(node), ast.Call) and above.func is node
    if node.id in locals_:
        unused = _unused(function)
        yield from _others(place, node, node.id, locals_, "variable", lambda name: 3.0 if name in unused else 1.0)
    elif node.id in place.module_names:
        same = [name for name in place.module_names if name.isupper() == node.id.isupper() and name != function.name]
        yield from _others(place, node, node.id, same, "call" if called else "constant name")


def _unused(function: Function) -> set[str]:
    """Parameters and variables that are never read: the likeliest to have been meant."""
    read = Counter(n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))
    args = [arg.arg for arg in (*function.args.args, *function.args.kwonlyargs)]
    stored = [n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return {name for name in (*args, *stored) if not read[name]}


def _others(
    place: Place, node: ast.expr, name: str, names: Iterable[str], kind: str, weigh: object = None
) -> Iterator[Edit]:
    ranked = []
    for order, other in enumerate(names):
        if other != name:
            likeness = 0.5 + SequenceMatcher(None, name, other, autojunk=False).ratio()
            ranked.append((likeness * (weigh(other) if callable(weigh) else 1.0), -order, other))
    for weight, _, other in sorted(ranked, reverse=True)[:NEAR]:
        yield place.swap(node, other, kind, weight)


@rule(ast.Attribute)
def attributes(place: Place, node: ast.Attribute) -> Iterator[Edit]:
    cls = place.source.class_of(node)
    if cls is None or not (isinstance(node.value, ast.Name) and node.value.id == "self"):
        return
    fields, methods = place.members_of(cls)
    function = place.source.function_of(node)
    names = methods if node.attr in methods else fields
    own = function.name if function else ""
    for edit in _others(place, node, node.attr, [name for name in names if name != own], "attribute"):
        yield Edit(edit.start, edit.end, f"self.{edit.new}", edit.kind, edit.line, edit.weight)


@rule(ast.Name)
def forgotten_self(place: Place, node: ast.Name) -> Iterator[Edit]:
    """`total` for `self.total`."""
    cls, function = place.source.class_of(node), place.source.function_of(node)
    if cls is None or function is None or not function.args.args or function.args.args[0].arg != "self":
        return
    fields, methods = place.members_of(cls)
    if node.id in fields or node.id in methods:
        yield place.swap(node, f"self.{node.id}", "self", 1.5 if isinstance(node.ctx, ast.Store) else 1.0)


@rule(ast.Call)
def arguments(place: Place, node: ast.Call) -> Iterator[Edit]:
    called = (
        node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else ""
    )
    if called in ("get", "pop", "setdefault", "getattr", "isinstance"):
        return
    parameters = place.signatures.get(called, ())
    for number, (left, right) in enumerate(pairwise(node.args)):
        crossed = _crossed(_plain_name(left), _plain_name(right), parameters[number : number + 2])
        if isinstance(left, ast.Starred) or isinstance(right, ast.Starred) or place.code(left) == place.code(right):
            continue
        (start, low), (high, end) = place.source.span(left), place.source.span(right)
        between = place.source.text[low:high]
        yield Edit(
            start,
            end,
            place.code(right) + between + place.code(left),
            "swapped arguments",
            node.lineno,
            5.0 if crossed else 0.7,
        )
    for left_word, right_word in pairwise(node.keywords):
        (start, low), (high, end) = place.source.span(left_word.value), place.source.span(right_word.value)
        middle = place.source.text[low:high]
        new = place.code(right_word.value) + middle + place.code(left_word.value)
        yield Edit(start, end, new, "swapped arguments", node.lineno, 0.7)


def _crossed(left: str, right: str, parameters: tuple[str, ...]) -> bool:
    """Whether an argument has the name of the parameter beside its own."""
    return len(parameters) == 2 and (right == parameters[0] or left == parameters[1]) and left != parameters[0]


def _plain_name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


@rule(ast.BinOp, ast.Compare)
def twins(place: Place, node: ast.BinOp | ast.Compare) -> Iterator[Edit]:
    """The same thing on both sides of an operator: one of them was meant to be another."""
    left, right = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.left, node.comparators[0])
    if ast.dump(left) != ast.dump(right) or isinstance(left, ast.Constant):
        return
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Pow)):
        return  # a square
    for side in (right, left):
        for each in ast.walk(side):
            if isinstance(each, ast.Name):
                found = variables(place, each)
            elif isinstance(each, ast.Attribute):
                found = attributes(place, each)
            elif isinstance(each, ast.Subscript):
                found = (replace(edit, weight=3 * edit.weight) for edit in indexes(place, each))
            else:
                continue
            yield from (replace(edit, kind="twin") for edit in found)


@rule(ast.List, ast.Tuple)
def neighbours(place: Place, node: ast.List | ast.Tuple) -> Iterator[Edit]:
    """Two entries of a table in each other's place."""
    if len(node.elts) < 2 or (isinstance(node, ast.Tuple) and len(node.elts) == 2) or not isinstance(node.ctx, ast.Load):
        return
    for left, right in pairwise(node.elts):
        (start, low), (high, end) = place.source.span(left), place.source.span(right)
        new = place.code(right) + place.source.text[low:high] + place.code(left)
        yield Edit(start, end, new, "swapped values", left.lineno, 0.5)


@rule(ast.Tuple)
def pairs(place: Place, node: ast.Tuple) -> Iterator[Edit]:
    if len(node.elts) == 2 and isinstance(node.ctx, ast.Load):
        left, right = node.elts
        (start, low), (high, end) = place.source.span(left), place.source.span(right)
        new = place.code(right) + place.source.text[low:high] + place.code(left)
        yield Edit(start, end, new, "swapped values", node.lineno)
    elif len(node.elts) == 2:  # the targets of a loop or an unpacking
        left, right = node.elts
        (start, low), (high, end) = place.source.span(left), place.source.span(right)
        new = place.code(right) + place.source.text[low:high] + place.code(left)
        yield Edit(start, end, new, "swapped targets", node.lineno)


@rule(ast.IfExp)
def branches(place: Place, node: ast.IfExp) -> Iterator[Edit]:
    new = f"{place.code(node.orelse)} if {place.code(node.test)} else {place.code(node.body)}"
    yield place.swap(node, new, "swapped branches")


@rule(ast.Subscript)
def keys(place: Place, node: ast.Subscript) -> Iterator[Edit]:
    """`grid[x][y]` for `grid[y][x]`."""
    inner = node.value
    if isinstance(inner, ast.Subscript) and not isinstance(node.slice, ast.Slice) and not isinstance(inner.slice, ast.Slice):
        first, second = place.code(inner.slice), place.code(node.slice)
        if first != second:
            yield place.swap(node, f"{place.code(inner.value)}[{second}][{first}]", "swapped values")
