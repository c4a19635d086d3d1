"""A source file as the rules read it: its tree, what its names mean, and its comments."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Iterator
from typing import TypeAlias

__all__ = ["NESTED", "Function", "Source", "below", "last_part"]

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


class Source:
    """A parsed file.

    Raises:
        SyntaxError: When the text is not Python.
    """

    def __init__(self, text: str) -> None:
        self.tree = ast.parse(text)
        self.comments = dict(_comments(text))
        self._meanings = dict(_imports(self.tree))

    def name(self, node: ast.AST) -> str:
        """The dotted name that an expression stands for, import aliases resolved; empty when it is no name.

        `from anyio import CancelScope as C` makes "anyio.CancelScope" of `C`. A relative import begins with a dot.
        """
        if isinstance(node, ast.Name):
            return self._meanings.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            base = self.name(node.value)
            return f"{base}.{node.attr}" if base else f"?.{node.attr}"
        return ""

    def called(self, node: ast.AST) -> str:
        """The dotted name of what a call calls; empty for anything else."""
        return self.name(node.func) if isinstance(node, ast.Call) else ""

    def functions(self) -> Iterator[Function]:
        return (node for node in ast.walk(self.tree) if isinstance(node, Function))


def last_part(name: str) -> str:
    return name.rpartition(".")[2]


def below(nodes: ast.AST | Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes and what is in them, but for the bodies of functions, classes and lambdas, which run elsewhere."""
    pending = [nodes] if isinstance(nodes, ast.AST) else list(nodes)
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, NESTED):
            pending.extend(ast.iter_child_nodes(node))


def _imports(tree: ast.AST) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (alias.asname, alias.name) if alias.asname else (alias.name.partition(".")[0],) * 2
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            for alias in node.names:
                yield alias.asname or alias.name, f"{module}.{alias.name}"


def _comments(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
