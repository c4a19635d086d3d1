"""Wrong operators: comparisons, arithmetic, and/or, not; swapped operands; a condition the wrong way round."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from ..source import Edit
from .rules import Place, rule

COMPARISONS: dict[type[ast.cmpop], tuple[str, tuple[tuple[str, str, float], ...]]] = {
    ast.Lt: ("<", (("<=", "boundary", 1.0), (">", "comparison", 0.9), (">=", "comparison", 0.6), ("!=", "comparison", 0.2))),
    ast.LtE: (
        "<=",
        (("<", "boundary", 1.0), (">=", "comparison", 0.9), (">", "comparison", 0.6), ("==", "comparison", 0.2)),
    ),
    ast.Gt: (">", ((">=", "boundary", 1.0), ("<", "comparison", 0.9), ("<=", "comparison", 0.6), ("!=", "comparison", 0.2))),
    ast.GtE: (
        ">=",
        ((">", "boundary", 1.0), ("<=", "comparison", 0.9), ("<", "comparison", 0.6), ("==", "comparison", 0.2)),
    ),
    ast.Eq: ("==", (("!=", "comparison", 0.9), (">=", "comparison", 0.4), ("<=", "comparison", 0.3))),
    ast.NotEq: ("!=", (("==", "comparison", 1.0), (">", "comparison", 0.2))),
    ast.Is: ("is", (("is not", "comparison", 1.0), ("==", "comparison", 0.7))),
    ast.IsNot: ("is not", (("is", "comparison", 1.0), ("!=", "comparison", 0.5))),
    ast.In: ("in", (("not in", "comparison", 0.9), ("==", "comparison", 0.2))),
    ast.NotIn: ("not in", (("in", "comparison", 1.0),)),
}

ARITHMETIC: dict[type[ast.operator], tuple[str, tuple[tuple[str, float], ...]]] = {
    ast.Add: ("+", (("-", 1.0), ("*", 0.4))),
    ast.Sub: ("-", (("+", 1.0), ("/", 0.1))),
    ast.Mult: ("*", (("/", 0.8), ("+", 0.5), ("**", 0.3), ("//", 0.3))),
    ast.Div: ("/", (("//", 1.0), ("*", 0.9), ("-", 0.1))),
    ast.FloorDiv: ("//", (("/", 1.0), ("%", 0.9), ("*", 0.3))),
    ast.Mod: ("%", (("//", 1.0), ("/", 0.2))),
    ast.Pow: ("**", (("*", 1.0),)),
    ast.BitAnd: ("&", (("|", 1.0), ("^", 0.5), ("-", 0.5))),
    ast.BitOr: ("|", (("&", 1.0), ("^", 0.5))),
    ast.BitXor: ("^", (("|", 0.6), ("&", 0.6), ("**", 0.8))),
    ast.LShift: ("<<", ((">>", 1.0),)),
    ast.RShift: (">>", (("<<", 1.0),)),
}

SYMMETRIC = (ast.Mult, ast.BitAnd, ast.BitOr, ast.BitXor)


@rule(ast.Compare)
def comparisons(place: Place, node: ast.Compare) -> Iterator[Edit]:
    operands = [node.left, *node.comparators]
    for left, op, right in zip(operands, node.ops, operands[1:], strict=False):
        old, others = COMPARISONS[type(op)]
        for new, kind, weight in others:
            yield from place.operator(left, right, old, new, kind, weight)


@rule(ast.BinOp)
def arithmetic(place: Place, node: ast.BinOp) -> Iterator[Edit]:
    if _is_text(node.left) or _is_text(node.right):
        yield from _joined(place, node)
        return
    if type(node.op) not in ARITHMETIC:
        return
    old, others = ARITHMETIC[type(node.op)]
    for new, weight in others:
        yield from place.operator(node.left, node.right, old, new, "arithmetic", weight)
    if not isinstance(node.op, SYMMETRIC):
        swapped = f"{place.operand(node.right)} {old} {place.operand(node.left)}"
        yield place.swap(node, swapped, "swapped operands", 0.3 if isinstance(node.op, ast.Add) else 1.0)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _joined(place: Place, node: ast.BinOp) -> Iterator[Edit]:
    """Text before or after: the only two ways to put it."""
    if isinstance(node.op, ast.Add):
        swapped = f"{place.operand(node.right)} + {place.operand(node.left)}"
        yield place.swap(node, swapped, "swapped operands", 0.6)


@rule(ast.BinOp)
def grouping(place: Place, node: ast.BinOp) -> Iterator[Edit]:
    """`a + b * c` for `(a + b) * c`, and the other way round."""
    sums, products = (ast.Add, ast.Sub), (ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)
    bare = place.code(node).endswith(place.code(node.right))  # no parentheses of its own
    if isinstance(node.op, sums) and bare and isinstance(node.right, ast.BinOp) and isinstance(node.right.op, products):
        low, high = place.source.span(node)[0], place.source.span(node.right.left)[1]
        yield Edit(low, high, f"({place.source.text[low:high]})", "grouping", node.lineno)
    if isinstance(node.op, sums) and isinstance(node.left, ast.BinOp) and isinstance(node.left.op, products):
        low, high = place.source.span(node.left.right)[0], place.source.span(node)[1]
        yield Edit(low, high, f"({place.source.text[low:high]})", "grouping", node.lineno)


@rule(ast.BoolOp)
def conjunctions(place: Place, node: ast.BoolOp) -> Iterator[Edit]:
    old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
    for left, right in pairwise(node.values):
        yield from place.operator(left, right, old, new, "conjunction")
    for value in node.values:
        rest = [place.code(each) for each in node.values if each is not value]
        yield place.swap(node, f" {old} ".join(rest), "condition dropped", 0.4)


@rule(ast.UnaryOp)
def negations(place: Place, node: ast.UnaryOp) -> Iterator[Edit]:
    if isinstance(node.op, ast.Not):
        yield place.swap(node, place.code(node.operand), "negation")
    elif isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        yield place.swap(node, place.code(node.operand), "sign")


@rule(ast.If, ast.While, ast.IfExp)
def conditions(place: Place, node: ast.If | ast.While | ast.IfExp) -> Iterator[Edit]:
    """A condition the wrong way round, where no single operator turns it."""
    if isinstance(node.test, (ast.Compare, ast.UnaryOp)) or isinstance(node, ast.While):
        return
    yield place.swap(node.test, f"not {place.operand(node.test)}", "negation", 0.8)


@rule(ast.Return)
def returned(place: Place, node: ast.Return) -> Iterator[Edit]:
    value = node.value
    if isinstance(value, (ast.Name, ast.Attribute, ast.Call, ast.BoolOp)):
        yield place.swap(value, f"not {place.operand(value)}", "negation", 0.4)
    if isinstance(value, (ast.Name, ast.Attribute, ast.Call, ast.BinOp)):
        yield place.swap(value, f"-{place.operand(value)}", "sign", 0.2)


@rule(ast.Lambda)
def sort_keys(place: Place, node: ast.Lambda) -> Iterator[Edit]:
    """A key that sorts the wrong way, alone or as a part of a tuple."""
    for part in node.body.elts if isinstance(node.body, ast.Tuple) else [node.body]:
        if isinstance(part, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)):
            yield place.swap(part, f"-{place.code(part)}", "order")


@rule(ast.comprehension)
def filters(place: Place, node: ast.comprehension) -> Iterator[Edit]:
    for test in node.ifs:
        if not isinstance(test, (ast.Compare, ast.UnaryOp)):
            yield place.swap(test, f"not {place.operand(test)}", "negation")


@rule(ast.AugAssign)
def augmented(place: Place, node: ast.AugAssign) -> Iterator[Edit]:
    old, others = ARITHMETIC.get(type(node.op), ("", ()))
    if not old:
        return
    for new, weight in others:
        yield from place.operator(node.target, node.value, f"{old}=", f"{new}=", "arithmetic", weight)
    yield from place.operator(node.target, node.value, f"{old}=", "=", "augmented", 0.5)


def _set_before(place: Place, node: ast.Assign, target: str) -> bool:
    """Whether the same function sets the target above, so that there is something to add to."""
    function = place.source.function_of(node)
    assigned = [each for each in ast.walk(function) if isinstance(each, ast.Assign)] if function else []
    return any(place.code(each.targets[0]) == target and each.lineno < node.lineno for each in assigned)


@rule(ast.Assign)
def accumulated(place: Place, node: ast.Assign) -> Iterator[Edit]:
    """`=` for `+=`, in a loop, of a name that the loop did not make."""
    target = node.targets[0]
    if len(node.targets) > 1 or not isinstance(target, (ast.Name, ast.Attribute, ast.Subscript)):
        return
    again = _set_before(place, node, place.code(target))
    looped = again and any(isinstance(each, (ast.For, ast.While, ast.AsyncFor)) for each in place.source.ancestors(node))
    for op, weight in (("+=", 1.0), ("-=", 0.5), ("*=", 0.3)):
        yield from place.operator(target, node.value, "=", op, "augmented", weight if looped else weight * 0.4)
