"""Small changes to a module that its tests should notice, one at a time.

`ALTERNATIVES` has a function for each kind of node; it yields what may stand in the node's place. Annotations, decorators,
docstrings and the names of types are left alone, since no test could tell.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

__all__ = ["Mutant", "mutants_of"]

NO_BEHAVIOUR = {"annotation", "returns", "decorator_list", "bases", "type_params"}
NAMES_OF_TYPES = {"TypeVar", "TypeVarTuple", "ParamSpec"}
SWAPS: dict[type, tuple[type, ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div,),
    ast.Div: (ast.Mult,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
}


class Mutant(NamedTuple):
    """A changed module. `line` is where, counted from 1; `change` what, as "before -> after"."""

    line: int
    change: str
    source: str


def mutants_of(source: str) -> Iterator[Mutant]:
    """Every mutant of a module's source that differs from it and from the others, in the module's order."""
    tree = ast.parse(source)
    seen = {ast.unparse(tree)}
    for mutant in _within(tree, tree):
        if mutant.source not in seen:
            seen.add(mutant.source)
            yield mutant


def _within(tree: ast.Module, node: ast.AST) -> Iterator[Mutant]:
    for name, value in ast.iter_fields(node):
        if name in NO_BEHAVIOUR:
            continue
        if isinstance(value, list):
            for place, child in enumerate(value):
                yield from _at(tree, child, lambda new, v=value, p=place: v.__setitem__(p, new))
        else:
            yield from _at(tree, value, lambda new, node=node, name=name: setattr(node, name, new))


def _at(tree: ast.Module, child: Any, put: Callable[[Any], None]) -> Iterator[Mutant]:
    if not isinstance(child, ast.AST) or (isinstance(child, ast.stmt) and _has_no_behaviour(child)):
        return
    for new in ALTERNATIVES.get(type(child), _nothing)(child):
        put(new)
        yield Mutant(child.lineno, f"{_short(child)} -> {_short(new)}", ast.unparse(ast.fix_missing_locations(tree)))
        put(child)
    yield from _within(tree, child)


def _has_no_behaviour(node: ast.stmt) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Pass():
            return True
        case ast.Expr(value=ast.Constant() | ast.Yield()):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.Assign(value=ast.Call(func=ast.Name(id=name))):
            return name in NAMES_OF_TYPES
        case ast.AnnAssign(annotation=ast.Name(id="TypeAlias")) | ast.AnnAssign(value=None):
            return True
    return False


def _short(node: ast.AST) -> str:
    text = ast.unparse(node)
    if isinstance(node, ast.Try):
        return " ".join(line.strip() for line in text.splitlines() if line.startswith(("try:", "except", "finally:")))
    return text.partition("\n")[0]


def _with(node: Any, **fields: Any) -> Any:
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def _without_each(items: list[Any]) -> Iterator[list[Any]]:
    for n in range(len(items)):
        yield items[:n] + items[n + 1 :]


def _nothing(_: Any) -> Iterator[ast.AST]:
    return iter(())


def _comparison(node: ast.Compare) -> Iterator[ast.AST]:
    for n, op in enumerate(node.ops):
        for swap in SWAPS.get(type(op), ()):
            yield _with(node, ops=[*node.ops[:n], swap(), *node.ops[n + 1 :]])


def _operator(node: ast.BinOp | ast.AugAssign | ast.BoolOp) -> Iterator[ast.AST]:
    for swap in SWAPS.get(type(node.op), ()):
        yield _with(node, op=swap())
    if isinstance(node, ast.AugAssign):
        yield ast.Pass()
    if isinstance(node, ast.BoolOp):
        for rest in _without_each(node.values):
            yield _with(node, values=rest) if len(rest) > 1 else rest[0]


def _unary(node: ast.UnaryOp) -> Iterator[ast.AST]:
    if isinstance(node.op, (ast.Not, ast.USub)):
        yield node.operand


def _constant(node: ast.Constant) -> Iterator[ast.AST]:
    match node.value:
        case bool():
            yield _with(node, value=not node.value)
        case int() | float():
            yield _with(node, value=node.value + 1)
        case str():
            yield _with(node, value=node.value + "!")


def _attribute(node: ast.Attribute) -> Iterator[ast.AST]:
    if ast.unparse(node) == "math.inf":
        yield ast.Constant(0.0)


def _tested(node: Any) -> Iterator[ast.AST]:
    if not (isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not)):  # `_unary` takes the `not` away
        yield _with(node, test=ast.UnaryOp(ast.Not(), node.test))


def _call(node: ast.Call) -> Iterator[ast.AST]:
    if isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
        yield _with(node, func=ast.Name("max" if node.func.id == "min" else "min", ast.Load()))
    for rest in _without_each(node.keywords):
        yield _with(node, keywords=rest)
    if isinstance(node.func, ast.Name) and node.func.id == "isinstance" and isinstance(node.args[1], ast.Tuple):
        for kinds in _without_each(node.args[1].elts):
            yield _with(node, args=[node.args[0], _with(node.args[1], elts=kinds)])


def _removed(_: ast.stmt) -> Iterator[ast.AST]:
    yield ast.Pass()


def _assigned(node: ast.Assign | ast.AnnAssign) -> Iterator[ast.AST]:
    """Only what is kept: without a local variable, the next line would fail at once."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    if any(isinstance(each, (ast.Attribute, ast.Subscript)) for target in targets for each in ast.walk(target)):
        yield ast.Pass()


def _returned(node: ast.Return) -> Iterator[ast.AST]:
    if node.value is None:
        yield ast.Pass()
    elif not (isinstance(node.value, ast.Constant) and node.value.value in (None, True, False)):
        yield _with(node, value=ast.Constant(None))


def _raised(node: ast.Raise) -> Iterator[ast.AST]:
    yield ast.Pass()
    if node.cause is not None:
        yield _with(node, cause=None)


def _with_block(node: ast.With | ast.AsyncWith) -> Iterator[ast.AST]:
    for item in node.items:
        if item.optional_vars is None:
            rest = [each for each in node.items if each is not item]
            yield _with(node, items=rest) if rest else ast.If(ast.Constant(True), node.body, [])


def _try(node: ast.Try) -> Iterator[ast.AST]:
    for rest in _without_each(node.handlers):
        yield _with(node, handlers=rest) if rest or node.finalbody else ast.If(ast.Constant(True), node.body, [])


def _handler(node: ast.ExceptHandler) -> Iterator[ast.AST]:
    if isinstance(node.type, ast.Name) and node.type.id == "BaseException":
        yield _with(node, type=ast.Name("Exception", ast.Load()))


ALTERNATIVES: dict[type, Callable[[Any], Iterator[ast.AST]]] = {
    ast.Compare: _comparison,
    ast.BinOp: _operator,
    ast.BoolOp: _operator,
    ast.AugAssign: _operator,
    ast.UnaryOp: _unary,
    ast.Constant: _constant,
    ast.Attribute: _attribute,
    ast.If: _tested,
    ast.IfExp: _tested,
    ast.While: _tested,
    ast.Call: _call,
    ast.Expr: _removed,
    ast.Delete: _removed,
    ast.Assign: _assigned,
    ast.AnnAssign: _assigned,
    ast.Return: _returned,
    ast.Raise: _raised,
    ast.With: _with_block,
    ast.AsyncWith: _with_block,
    ast.Try: _try,
    ast.ExceptHandler: _handler,
}
