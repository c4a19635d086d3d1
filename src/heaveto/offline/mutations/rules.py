"""The table of rules: for a type of syntax node, functions that propose small edits of it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

from ..source import Edit, Function, Source

__all__ = ["Place", "proposals", "rule"]

Rule: TypeAlias = "Callable[[Place, Any], Iterator[Edit]]"
R = TypeVar("R", bound=Callable[..., Iterator[Edit]])

_rules: dict[type[ast.AST], list[Rule]] = {}


def rule(*types: type[ast.AST]) -> Callable[[R], R]:
    """Register a function of (place, node) for these types of nodes."""

    def register(fn: R) -> R:
        for each in types:
            _rules.setdefault(each, []).append(fn)
        return fn

    return register


@dataclass(frozen=True, eq=False)
class Place:
    """A file under repair, with what a rule may want to know of it.

    Attributes:
        words: String constants of the tests and the other files.
        signatures: Name of a function or class of the project -> its parameters' names, without self.
    """

    source: Source
    words: frozenset[str] = frozenset()
    signatures: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    _locals: dict[ast.AST, list[str]] = field(default_factory=dict)

    def swap(self, node: ast.expr | ast.stmt | ast.arg | ast.keyword, text: str, kind: str, weight: float = 1.0) -> Edit:
        """Put `text` in the node's place."""
        start, end = self.source.span(node)
        return Edit(start, end, text, kind, node.lineno, weight)

    def operator(
        self, left: ast.expr, right: ast.expr, old: str, new: str, kind: str, weight: float = 1.0
    ) -> Iterator[Edit]:
        """Replace the operator between two operands."""
        low, high = self.source.span(left)[1], self.source.span(right)[0]
        at = self.source.text.find(old, low, high)
        if at >= 0:
            line = self.source.text.count("\n", 0, at) + 1
            yield Edit(at, at + len(old), new, kind, line, weight)

    def code(self, node: ast.expr | ast.stmt | ast.arg | ast.keyword) -> str:
        return self.source.code(node)

    def operand(self, node: ast.expr) -> str:
        """The node's code, in parentheses where it would fall apart beside an operator."""
        code = self.code(node)
        plain = (
            ast.Name,
            ast.Constant,
            ast.Call,
            ast.Attribute,
            ast.Subscript,
            ast.List,
            ast.Tuple,
            ast.Dict,
            ast.JoinedStr,
        )
        return code if isinstance(node, plain) else f"({code})"

    def locals_of(self, function: Function) -> list[str]:
        """Parameters and assigned names, in the order in which they appear, without self and cls."""
        if function not in self._locals:
            args = function.args
            names = [arg.arg for arg in [*args.posonlyargs, *args.args, *args.kwonlyargs]]
            stored = [n for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
            names += [n.id for n in sorted(stored, key=lambda n: (n.lineno, n.col_offset))]
            self._locals[function] = [name for name in dict.fromkeys(names) if name not in ("self", "cls", "_")]
        return self._locals[function]

    @cached_property
    def module_names(self) -> list[str]:
        """Constants and functions of the module, in order."""
        names: list[str] = []
        for node in self.source.tree.body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                names.append(node.name)
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names += [target.id for target in targets if isinstance(target, ast.Name)]
        return list(dict.fromkeys(names))

    @cached_property
    def unary_functions(self) -> list[tuple[str, bool]]:
        """The module's functions of one argument, and whether the module itself uses them."""
        read = {node.id for node in ast.walk(self.source.tree) if isinstance(node, ast.Name)}
        plain = [node for node in self.source.tree.body if isinstance(node, ast.FunctionDef)]
        return [(node.name, node.name in read) for node in plain if len(node.args.args) - len(node.args.defaults) == 1]

    @cached_property
    def mappings(self) -> set[str]:
        """The code of what is used as a mapping: its keys are no numbers to be one off."""
        calls = [node.func for node in ast.walk(self.source.tree) if isinstance(node, ast.Call)]
        methods = ("get", "items", "setdefault", "keys", "values")
        return {self.code(func.value) for func in calls if isinstance(func, ast.Attribute) and func.attr in methods}

    def members_of(self, cls: ast.ClassDef) -> tuple[list[str], list[str]]:
        """Data attributes, and methods, that the class has or uses on `self`."""
        properties = [node.name for node in cls.body if isinstance(node, Function) and _is_property(node)]
        methods = [node.name for node in cls.body if isinstance(node, Function) and node.name not in properties]
        fields = properties + [
            node.target.id for node in cls.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        ]
        for node in ast.walk(cls):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
                fields.append(node.attr)
        plain = [name for name in dict.fromkeys(fields) if name not in methods]
        return plain, [name for name in methods if not name.startswith("__")]


def _is_property(node: Function) -> bool:
    names = [each.id if isinstance(each, ast.Name) else getattr(each, "attr", "") for each in node.decorator_list]
    return any(name in ("property", "cached_property") for name in names)


def proposals(place: Place) -> Iterator[Edit]:
    """Every edit that some rule proposes, in the order of the syntax tree."""
    for node in ast.walk(place.source.tree):
        if node in place.source.docstrings:
            continue
        for fn in _rules.get(type(node), ()):
            yield from fn(place, node)
