"""A module imports its own folder and the floors below it. This list is the only one of the order."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

FLOORS = (
    "causes",
    "errors",
    "scopes",
    "messages",
    "retry",
    "models",
    "tools",
    "journal",
    "loop",
    "runs",
    "groups",
    "fleet",
    "offline",
    "server",
    "cli",
    "testing",
    "__main__",
    "__init__",  # the surface, and the command as a module: they may name everything
    "__main__",
)
PACKAGE = "heaveto"
SOURCE = Path(__file__).parents[1] / "src" / PACKAGE
MODULES = sorted(SOURCE.rglob("*.py"))


def floor_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(path: Path, source: Path = SOURCE) -> Iterator[tuple[int, str]]:
    """Line and floor of each import of ours that runs, in functions too."""
    package = (PACKAGE, *path.relative_to(source).parts[:-1])
    for node in running(ast.parse(path.read_text())):
        match node:
            case ast.Import(names=names):
                targets = [tuple(name.name.split(".")) for name in names]
            case ast.ImportFrom(level=0, module=str(module), names=names):
                targets = [(*module.split("."), name.name) for name in names]
            case ast.ImportFrom(level=level, module=module, names=names):
                base = package[: len(package) - level + 1]
                targets = [(*base, *(module.split(".") if module else ()), name.name) for name in names]
            case _:
                continue
        for target in targets:
            if target[0] == PACKAGE:
                yield node.lineno, target[1] if len(target) > 1 else "__init__"


def running(node: ast.AST) -> Iterator[ast.AST]:
    """The node and every one below it, but for those under `if TYPE_CHECKING`."""
    yield node
    types_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    for child in node.orelse if types_only else ast.iter_child_nodes(node):
        yield from running(child)


def test_every_module_is_on_a_floor() -> None:
    unknown = {floor_of(path) for path in MODULES} - set(FLOORS)
    assert not unknown, f"not in FLOORS of {Path(__file__).name}: {sorted(unknown)}; put each where its imports allow"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_import_looks_up(path: Path) -> None:
    here = FLOORS.index(floor_of(path))
    wrong = [
        f"line {line}: {floor_of(path)} imports {floor}, which is not below it"
        for line, floor in imported(path)
        if floor not in FLOORS[: here + 1]
    ]
    assert not wrong, f"{path.relative_to(SOURCE)}: {'; '.join(wrong)}; move the code, or import for types only"


def test_the_walk_sees_every_form_of_import(tmp_path: Path) -> None:
    """Relative and absolute, of a module, a name and the package, in functions; not those for types only."""
    (tmp_path / "tools").mkdir()
    module = tmp_path / "tools" / "files.py"
    module.write_text(
        "from typing import TYPE_CHECKING\nimport os, heaveto.runs\nfrom .. import errors\nfrom ..scopes import Scope\n"
        "from .protocol import Tool\nfrom heaveto import cli\nimport heaveto\nfrom heaveto.server.page import app\n"
        "if TYPE_CHECKING:\n    from ..runs import Run\nelse:\n    from ..fleet import Queue\n"
        "def late():\n    from ..groups import merge\n"
    )
    expected = [
        (2, "runs"),
        (3, "errors"),
        (4, "scopes"),
        (5, "tools"),
        (6, "cli"),
        (7, "__init__"),
        (8, "server"),
        (12, "fleet"),
        (14, "groups"),
    ]
    assert sorted(imported(module, tmp_path)) == expected
