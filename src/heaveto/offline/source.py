"""One Python file as text and syntax tree, and an edit as a span of that text."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

__all__ = ["Edit", "Source", "is_test_file"]

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Edit:
    """A span of a file's text and what to put there.

    Attributes:
        kind: What kind of slip this mends; the ranking weighs kinds.
        line: The line that it is about, from 1.
        weight: How likely it is among edits of its kind, 1 by default.
    """

    start: int
    end: int
    new: str
    kind: str
    line: int
    weight: float = 1.0


@dataclass(frozen=True, eq=False)
class Source:
    """A parsed file. `parse` gives None for a file that is not valid Python."""

    path: str
    text: str
    tree: ast.Module
    _starts: list[int] = field(default_factory=list)

    @classmethod
    def parse(cls, path: str, text: str) -> Source | None:
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):  # ValueError: a null character
            return None
        starts = [0]
        for line in text.split("\n"):
            starts.append(starts[-1] + len(line) + 1)
        return cls(path, text, tree, starts)

    @cached_property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        return {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    @cached_property
    def docstrings(self) -> set[ast.AST]:
        """String constants that stand alone as a statement."""
        return {
            node.value for node in ast.walk(self.tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }

    def offset(self, line: int, byte_column: int) -> int:
        """The position in the text of what `ast` gives as a line and a column in UTF-8 bytes."""
        text = self.lines[line - 1]
        column = byte_column if text.isascii() else len(text.encode()[:byte_column].decode(errors="ignore"))
        return self._starts[line - 1] + column

    def span(self, node: ast.expr | ast.stmt | ast.arg | ast.keyword | ast.ExceptHandler) -> tuple[int, int]:
        end = (node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)  # the parser always sets them
        return self.offset(node.lineno, node.col_offset), self.offset(*end)

    def code(self, node: ast.expr | ast.stmt | ast.arg | ast.keyword) -> str:
        start, end = self.span(node)
        return self.text[start:end]

    def line_start(self, line: int) -> int:
        return self._starts[line - 1]

    def line_end(self, line: int) -> int:
        """The end of the line's text, before its line break."""
        return self._starts[line] - 1

    def indent(self, line: int) -> str:
        text = self.lines[line - 1]
        return text[: len(text) - len(text.lstrip())]

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        while (above := self.parents.get(node)) is not None:
            yield above
            node = above

    def function_of(self, node: ast.AST) -> Function | None:
        return next((each for each in self.ancestors(node) if isinstance(each, Function)), None)

    def class_of(self, node: ast.AST) -> ast.ClassDef | None:
        return next((each for each in self.ancestors(node) if isinstance(each, ast.ClassDef)), None)

    def apply(self, edit: Edit) -> str:
        return self.text[: edit.start] + edit.new + self.text[edit.end :]


def is_test_file(path: str) -> bool:
    """Whether a path is a test's by the names that pytest and unittest look for, or lies in a tests folder."""
    *folders, name = path.split("/")
    stem = name.removesuffix(".py")
    named = stem.startswith("test_") or stem.endswith("_test") or stem in ("tests", "test", "conftest")
    return named or any(folder in ("tests", "test", "testing") for folder in folders)
