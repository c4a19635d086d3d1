"""Wrong calls: a neighbour of the method or function that was meant, a missing or needless conversion, copy or await."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..source import Edit, Function
from .rules import Place, rule

# Names that are easily taken for one another. In each group every name may stand for every other.
METHODS = (
    ("append", "extend"),
    ("append", "add"),
    ("add", "update"),
    ("appendleft", "append"),
    ("strip", "lstrip", "rstrip"),
    ("removeprefix", "lstrip"),
    ("removesuffix", "rstrip"),
    ("lower", "upper"),
    ("title", "capitalize", "upper"),
    ("keys", "values", "items"),
    ("startswith", "endswith"),
    ("find", "rfind"),
    ("find", "index"),
    ("split", "rsplit"),
    ("split", "splitlines"),
    ("partition", "rpartition"),
    ("ljust", "rjust", "center"),
    ("pop", "popleft"),
    ("remove", "discard"),
    ("union", "intersection", "difference", "symmetric_difference"),
    ("issubset", "issuperset"),
    ("isdigit", "isalpha", "isalnum"),
    ("isupper", "islower"),
    ("match", "search", "fullmatch"),
    ("days", "seconds"),
    ("floor", "ceil", "trunc"),
    ("sin", "cos"),
    ("read", "readlines", "readline"),
    ("sort", "reverse"),
    ("get", "setdefault"),
    ("get", "pop"),
    ("encode", "decode"),
    ("heappush", "heappop"),
    ("bisect_left", "bisect_right"),
)
FUNCTIONS = (
    ("min", "max", "sum"),
    ("any", "all"),
    ("sum", "len", "max"),
    ("sorted", "reversed", "list"),
    ("int", "float", "round", "str"),
    ("floor", "ceil", "round"),
    ("list", "set", "tuple", "sorted"),
    ("isinstance", "issubclass"),
    ("bisect_left", "bisect_right"),
    ("zip", "zip_longest"),
    ("abs", "int"),
)
WRAPPERS = ("int", "str", "float", "abs", "len", "list", "sorted", "set", "tuple", "round", "bool")


def _neighbours(name: str, groups: tuple[tuple[str, ...], ...]) -> list[str]:
    return list(dict.fromkeys(other for group in groups if name in group for other in group if other != name))


@rule(ast.Attribute)
def methods(place: Place, node: ast.Attribute) -> Iterator[Edit]:
    end = place.source.span(node)[1]
    for order, other in enumerate(_neighbours(node.attr, METHODS)):
        yield Edit(end - len(node.attr), end, other, "method", node.end_lineno or node.lineno, 1.0 - 0.1 * order)


@rule(ast.Call)
def functions(place: Place, node: ast.Call) -> Iterator[Edit]:
    if not isinstance(node.func, ast.Name):
        return
    for order, other in enumerate(_neighbours(node.func.id, FUNCTIONS)):
        yield place.swap(node.func, other, "function", 1.0 - 0.1 * order)
    if node.func.id in WRAPPERS and len(node.args) == 1 and not node.keywords:
        yield place.swap(node, place.code(node.args[0]), "unwrapped", 0.5)


@rule(ast.Call)
def method_dropped(place: Place, node: ast.Call) -> Iterator[Edit]:
    """`text.strip()` for `text`; and a forgotten `.strip()` or `.lower()` on what a method gave."""
    if isinstance(node.func, ast.Attribute) and not node.args and not node.keywords:
        yield place.swap(node, place.code(node.func.value), "unwrapped", 0.4)


@rule(ast.Call)
def ends(place: Place, node: ast.Call) -> Iterator[Edit]:
    """`pop()` for `pop(0)`, and the other way round."""
    if isinstance(node.func, ast.Attribute) and node.func.attr == "pop" and not node.keywords:
        code = place.code(node.func)
        if not node.args:
            yield place.swap(node, f"{code}(0)", "index")
        elif len(node.args) == 1 and place.code(node.args[0]) == "0":
            yield place.swap(node, f"{code}()", "index")


@rule(ast.Name, ast.Attribute)
def call_added(place: Place, node: ast.Name | ast.Attribute) -> Iterator[Edit]:
    """A function of this module that was not applied to a value; the likelier when nothing here uses it."""
    function = place.source.function_of(node)
    above = place.source.parents.get(node)
    if function is None or not _is_value(place, node) or not isinstance(above, (ast.Assign, ast.Return, ast.Call, ast.For)):
        return
    for name, used in place.unary_functions:
        if name != function.name:
            yield place.swap(node, f"{name}({place.code(node)})", "call added", 0.3 if used else 1.0)


@rule(ast.Call)
def orders(place: Place, node: ast.Call) -> Iterator[Edit]:
    """`reverse=True` forgotten or needless; a missing key is beyond a small edit."""
    name = (
        node.func.id if isinstance(node.func, ast.Name) else node.func.attr if isinstance(node.func, ast.Attribute) else ""
    )
    if name not in ("sorted", "sort"):
        return
    end = place.source.span(node)[1] - 1
    if not any(word.arg == "reverse" for word in node.keywords):
        lead = ", " if node.args or node.keywords else ""
        yield Edit(end, end, f"{lead}reverse=True", "order", node.lineno)


@rule(ast.Return, ast.Assign, ast.Expr)
def order_of_result(place: Place, node: ast.Return | ast.Assign | ast.Expr) -> Iterator[Edit]:
    value = node.value
    if isinstance(node, ast.Return) and isinstance(value, (ast.Name, ast.Attribute, ast.ListComp, ast.Call)):
        yield place.swap(value, f"sorted({place.code(value)})", "order", 0.5)
        yield place.swap(value, f"{place.code(value)}[::-1]", "order", 0.6)


@rule(ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.BinOp, ast.GeneratorExp)
def conversions(place: Place, node: ast.expr) -> Iterator[Edit]:
    if not _is_value(place, node):
        return
    code = place.code(node)
    inner = code[1:-1] if isinstance(node, ast.GeneratorExp) else code
    already = place.source.parents.get(node)
    wrapped = isinstance(already, ast.Call) and isinstance(already.func, ast.Name) and already.func.id in WRAPPERS
    for order, function in enumerate(WRAPPERS[:7]):
        if not wrapped and not code.startswith(f"{function}("):
            yield place.swap(node, f"{function}({inner})", "conversion", 1.0 - 0.05 * order)


@rule(ast.Name, ast.Attribute, ast.Subscript, ast.Call)
def tidying(place: Place, node: ast.expr) -> Iterator[Edit]:
    """A forgotten `.strip()`, `.lower()` or copy."""
    if not _is_value(place, node):
        return
    code = place.code(node)
    for order, method in enumerate(("strip", "lower")):
        if not code.endswith(f".{method}()"):
            yield place.swap(node, f"{code}.{method}()", "tidied", 1.0 - 0.1 * order)
    above = place.source.parents.get(node)
    if isinstance(above, (ast.Assign, ast.AnnAssign, ast.Return, ast.Call)) and not isinstance(node, ast.Call):
        yield place.swap(node, f"{code}.copy()", "copy", 1.0)
        yield place.swap(node, f"list({code})", "copy", 0.9)


def _is_value(place: Place, node: ast.expr) -> bool:
    """Whether the node is read for its value: no target, no called function, no base of an attribute."""
    if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load) or place.source.function_of(node) is None:
        return False
    above = place.source.parents.get(node)
    if isinstance(above, (ast.Attribute, ast.Expr, ast.Await, ast.arg, ast.FunctionDef, ast.AnnAssign)):
        return isinstance(above, ast.AnnAssign) and above.value is node
    return not (isinstance(above, ast.Call) and above.func is node)


@rule(ast.Call)
def awaits(place: Place, node: ast.Call) -> Iterator[Edit]:
    above = place.source.parents.get(node)
    function = place.source.function_of(node)
    if isinstance(function, ast.AsyncFunctionDef) and not isinstance(above, ast.Await):
        yield place.swap(node, f"await {place.code(node)}", "await")
        parens = isinstance(above, (ast.Attribute, ast.Subscript))
        if parens:
            yield place.swap(node, f"(await {place.code(node)})", "await")


@rule(ast.Attribute)
def uncalled(place: Place, node: ast.Attribute) -> Iterator[Edit]:
    """A method that was named and not called."""
    above = place.source.parents.get(node)
    called = isinstance(above, ast.Call) and above.func is node
    known = any(node.attr in group for group in METHODS) or _is_method(place, node.attr)
    if known and not called and isinstance(node.ctx, ast.Load):
        yield place.swap(node, f"{place.code(node)}()", "uncalled")


@rule(ast.Call)
def defaults(place: Place, node: ast.Call) -> Iterator[Edit]:
    """`.get(key)` without the default that the sum beside it needs."""
    if isinstance(node.func, ast.Attribute) and node.func.attr == "get" and len(node.args) == 1:
        end = place.source.span(node)[1] - 1
        for order, text in enumerate(("0", "[]", '""', "{}")):
            yield Edit(end, end, f", {text}", "default", node.lineno, 1.0 - 0.1 * order)


@rule(ast.Call)
def base_calls(place: Place, node: ast.Call) -> Iterator[Edit]:
    """`super()` naming another method than the one it stands in."""
    function = place.source.function_of(node)
    if function is None or not (isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call)):
        return
    if place.code(node.func.value) == "super()" and node.func.attr != function.name:
        yield place.swap(node.func, f"super().{function.name}", "base call")


def _is_method(place: Place, name: str) -> bool:
    return any(isinstance(node, Function) and node.name == name for node in ast.walk(place.source.tree))
