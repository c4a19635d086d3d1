"""Wrong statements: a missing or early return, a line at the wrong depth, break for continue, mutable defaults."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..source import Edit, Function
from .rules import Place, rule

LOOPS = (ast.For, ast.While, ast.AsyncFor)
IN_PLACE = ("sort", "append", "extend", "reverse", "update", "add", "insert", "remove", "discard", "clear")
SIMPLE = (ast.Return, ast.Assign, ast.AugAssign, ast.Expr, ast.Break, ast.Continue, ast.Raise)


@rule(ast.FunctionDef, ast.AsyncFunctionDef)
def missing_return(place: Place, node: Function) -> Iterator[Edit]:
    last = node.body[-1]
    if isinstance(last, ast.Expr) and last.value not in place.source.docstrings:
        yield place.swap(last, f"return {place.code(last)}", "missing return", _worth(last))
    elif isinstance(last, ast.Assign) and isinstance(last.targets[0], ast.Name):
        yield place.swap(last, f"return {place.code(last.value)}", "missing return", 0.8)
    if not isinstance(last, (ast.Return, ast.Raise)):
        for order, name in enumerate(_results(place, node)):
            at = place.source.line_end(node.end_lineno or node.lineno)
            weight = 0.2 if name == "self" else 0.9 - 0.1 * order
            yield Edit(at, at, f"\n{_indent(place, node)}return {name}", "missing return", last.lineno, weight)


def _worth(node: ast.Expr) -> float:
    """Whether the value of an expression is one that somebody may want: most methods that change things give none."""
    called = node.value.func if isinstance(node.value, ast.Call) else None
    if isinstance(called, ast.Attribute) and called.attr in IN_PLACE:
        return 0.1
    return 0.5 if called is not None else 1.2


def _results(place: Place, node: Function) -> list[str]:
    """What a function that forgot to return may have meant to, the last made first."""
    args = {arg.arg for arg in (*node.args.args, *node.args.kwonlyargs)}
    made = [name for name in place.locals_of(node) if name not in args]
    first_arg = [node.args.args[0].arg] if node.args.args else []
    return [*made[:3], *first_arg][:4]


def _indent(place: Place, node: Function) -> str:
    return place.source.indent(node.body[0].lineno)


@rule(ast.If, ast.For, ast.While, ast.With)
def missing_inner_return(place: Place, node: ast.If) -> Iterator[Edit]:
    """The last expression of a branch whose value is dropped."""
    for body in (node.body, getattr(node, "orelse", [])):
        if body and isinstance(body[-1], ast.Expr) and body[-1].value not in place.source.docstrings:
            yield place.swap(body[-1], f"return {place.code(body[-1])}", "missing return", 0.7 * _worth(body[-1]))


@rule(*SIMPLE)
def too_deep(place: Place, node: ast.stmt) -> Iterator[Edit]:
    """The last statement of a block that belongs after the block."""
    above = place.source.parents.get(node)
    if not isinstance(above, (*LOOPS, ast.If, ast.With, ast.Try)) or above.body[-1] is not node or len(above.body) < 2:
        return
    if node.lineno == above.lineno or getattr(above, "orelse", None) or getattr(above, "handlers", None):
        return
    yield from _indented(
        place, node, place.source.indent(above.lineno), "too deep", 1.0 if isinstance(above, LOOPS) else 0.6
    )


@rule(*SIMPLE)
def too_shallow(place: Place, node: ast.stmt) -> Iterator[Edit]:
    """The statement after a block that belongs into it."""
    above = place.source.parents.get(node)
    for body in (getattr(above, "body", ()), getattr(above, "orelse", ())):
        if isinstance(body, list) and node in body and (index := body.index(node)) > 0:
            before = body[index - 1]
            if isinstance(before, (*LOOPS, ast.If, ast.With)) and before.lineno != before.body[-1].lineno:
                weight = 0.5 if isinstance(node, ast.Return) else 0.9
                last = [*before.body, *getattr(before, "orelse", [])][-1]
                yield from _indented(place, node, place.source.indent(last.lineno), "too shallow", weight)


def _indented(place: Place, node: ast.stmt, indent: str, kind: str, weight: float) -> Iterator[Edit]:
    first, last = node.lineno, node.end_lineno or node.lineno
    had = len(place.source.indent(first))
    lines = [indent + line[had:] if line.strip() else line for line in place.source.lines[first - 1 : last]]
    yield Edit(place.source.line_start(first), place.source.line_end(last), "\n".join(lines), kind, first, weight)


@rule(ast.Break, ast.Continue)
def leaving(place: Place, node: ast.stmt) -> Iterator[Edit]:
    yield place.swap(node, "continue" if isinstance(node, ast.Break) else "break", "leaving")


@rule(ast.Return)
def early(place: Place, node: ast.Return) -> Iterator[Edit]:
    """A return in a loop that ends it on the first round."""
    if any(isinstance(each, LOOPS) for each in place.source.ancestors(node)):
        yield place.swap(node, "continue", "leaving", 0.5)


@rule(ast.FunctionDef, ast.AsyncFunctionDef)
def mutable_default(place: Place, node: Function) -> Iterator[Edit]:
    args = node.args.args[len(node.args.args) - len(node.args.defaults) :]
    pairs = [*zip(args, node.args.defaults, strict=True), *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)]
    for arg, default in pairs:
        if default is None or place.code(default) not in ("[]", "{}", "set()", "list()", "dict()"):
            continue
        start = place.source.span(default)[0]
        body = next((each for each in node.body if not _is_docstring(each)), node.body[-1])
        at = place.source.line_start(body.lineno)
        indent = place.source.indent(body.lineno)
        check = f"{indent}if {arg.arg} is None:\n{indent}    {arg.arg} = {place.code(default)}\n"
        between = place.source.text[place.source.span(default)[1] : at]
        yield Edit(start, at, f"None{between}{check}", "mutable default", node.lineno)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


@rule(ast.ClassDef)
def shared_value(place: Place, node: ast.ClassDef) -> Iterator[Edit]:
    """A list or dict of the class that each object should have for itself."""
    init = next((each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"), None)
    for each in node.body:
        if init is None or not (isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name)):
            continue
        if place.code(each.value) in ("[]", "{}", "set()"):
            at = place.source.line_end(init.end_lineno or init.lineno)
            line = f"\n{_indent(place, init)}self.{place.code(each)}"
            yield Edit(at, at, line, "shared value", each.lineno)


@rule(ast.FunctionDef)
def missing_base_init(place: Place, node: ast.FunctionDef) -> Iterator[Edit]:
    cls = place.source.parents.get(node)
    if node.name != "__init__" or not isinstance(cls, ast.ClassDef) or not cls.bases or "super()" in place.code(node):
        return
    names = [arg.arg for arg in node.args.args[1:]]
    at = place.source.line_start(node.body[0].lineno)
    for count in range(len(names), -1, -1):
        call = f"{_indent(place, node)}super().__init__({', '.join(names[:count])})\n"
        yield Edit(at, at, call, "base call", node.lineno, 1.0 - 0.2 * (len(names) - count))


@rule(ast.FunctionDef, ast.AsyncFunctionDef)
def missing_global(place: Place, node: Function) -> Iterator[Edit]:
    stored = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    outer = place.source.function_of(node)
    nonlocals = place.locals_of(outer) if outer else []
    at = place.source.line_start(node.body[0].lineno)
    for name in sorted(stored):
        word = "nonlocal" if name in nonlocals else "global" if name in place.module_names else ""
        if word:
            yield Edit(at, at, f"{_indent(place, node)}{word} {name}\n", "scope", node.lineno)


@rule(ast.While)
def missing_step(place: Place, node: ast.While) -> Iterator[Edit]:
    """A loop whose counter stands still."""
    tested = {each.id for each in ast.walk(node.test) if isinstance(each, ast.Name)}
    changed = {
        n.id for each in node.body for n in ast.walk(each) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    at = place.source.line_end(node.body[-1].end_lineno or node.lineno)
    for name in sorted(tested - changed):
        for step in ("+= 1", "-= 1", "//= 10", "//= 2"):
            line = f"\n{place.source.indent(node.body[0].lineno)}{name} {step}"
            yield Edit(at, at, line, "missing step", node.lineno, 1.0 if step == "+= 1" else 0.6)


@rule(ast.ExceptHandler)
def caught(place: Place, node: ast.ExceptHandler) -> Iterator[Edit]:
    if node.type is None or isinstance(node.type, ast.Tuple):
        return
    for name in (
        "ValueError",
        "KeyError",
        "TypeError",
        "IndexError",
        "AttributeError",
        "ZeroDivisionError",
        "OSError",
        "LookupError",
    ):
        if place.code(node.type) != name:
            yield place.swap(node.type, name, "caught")


@rule(ast.Raise)
def raised(place: Place, node: ast.Raise) -> Iterator[Edit]:
    call = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    if not isinstance(call, ast.Name):
        return
    for name in ("ValueError", "KeyError", "TypeError", "IndexError", "LookupError", "RuntimeError"):
        if call.id != name:
            yield place.swap(call, name, "raised")


@rule(ast.Return, ast.Expr)
def unraised(place: Place, node: ast.Return | ast.Expr) -> Iterator[Edit]:
    """An exception that was made and not raised."""
    value = node.value
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id.endswith(("Error", "Exception")):
        yield place.swap(node, f"raise {place.code(value)}", "unraised")


@rule(ast.Assign)
def in_place(place: Place, node: ast.Assign) -> Iterator[Edit]:
    """`items = items.sort()`, which is None; and `text.strip()` whose value is dropped."""
    value = node.value
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in IN_PLACE:
        yield place.swap(node, place.code(value), "in place")


@rule(*SIMPLE)
def order(place: Place, node: ast.stmt) -> Iterator[Edit]:
    """Two simple statements in each other's place."""
    body = getattr(place.source.parents.get(node), "body", [])
    if not isinstance(body, list) or node not in body[:-1] or isinstance(node, ast.Return):
        return
    after = body[body.index(node) + 1]
    if isinstance(after, SIMPLE) and not isinstance(after, (ast.Return, ast.Raise)) and after.lineno > node.lineno:
        (start, low), (high, end) = place.source.span(node), place.source.span(after)
        new = place.code(after) + place.source.text[low:high] + place.code(node)
        yield Edit(start, end, new, "swapped statements", node.lineno)


@rule(ast.Expr)
def dropped_value(place: Place, node: ast.Expr) -> Iterator[Edit]:
    value = node.value
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and isinstance(value.func.value, ast.Name):
        weight = 0.1 if value.func.attr in IN_PLACE else 1.5
        yield place.swap(node, f"{value.func.value.id} = {place.code(value)}", "dropped value", weight)
    elif isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "sorted" and value.args:
        yield place.swap(node, f"{place.code(value.args[0])} = {place.code(value)}", "dropped value")


@rule(ast.FunctionDef)
def decorators(place: Place, node: ast.FunctionDef) -> Iterator[Edit]:
    """A missing `self`, `@staticmethod` or `@property`."""
    if not isinstance(place.source.parents.get(node), ast.ClassDef) or node.decorator_list:
        return
    at = place.source.line_start(node.lineno)
    indent = place.source.indent(node.lineno)
    first = node.args.args[0].arg if node.args.args else ""
    if first not in ("self", "cls"):
        yield Edit(at, at, f"{indent}@staticmethod\n", "decorator", node.lineno, 0.7)
        paren = place.source.text.index("(", at) + 1
        yield Edit(paren, paren, "self, " if first else "self", "decorator", node.lineno)
    elif first == "cls":
        yield Edit(at, at, f"{indent}@classmethod\n", "decorator", node.lineno)
    elif len(node.args.args) == 1 and not node.name.startswith("_"):
        yield Edit(at, at, f"{indent}@property\n", "decorator", node.lineno, 0.4)


@rule(ast.For)
def changed_while_walked(place: Place, node: ast.For) -> Iterator[Edit]:
    if isinstance(node.iter, (ast.Name, ast.Attribute, ast.Call)) and not place.code(node.iter).startswith("range"):
        yield place.swap(node.iter, f"list({place.code(node.iter)})", "copy", 0.8)


@rule(ast.If)
def elifs(place: Place, node: ast.If) -> Iterator[Edit]:
    """`if` for `elif`, and the other way round."""
    start = place.source.span(node)[0]
    if place.source.text.startswith("elif", start):
        yield Edit(start, start + 4, "if", "elif", node.lineno)
        return
    above = place.source.parents.get(node)
    body = getattr(above, "body", [])
    if isinstance(body, list) and node in body and body.index(node) and isinstance(body[body.index(node) - 1], ast.If):
        yield Edit(start, start + 2, "elif", "elif", node.lineno)
