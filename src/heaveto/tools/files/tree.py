"""The files of a project, without what nobody wrote: what .gitignore names, caches, virtual environments, .git."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from ...errors import ToolError
from ...scopes import check_stop
from ..protocol import Hides, hide_nothing
from .replacing import TEMP_PREFIX
from .workspace import Entry, NotThere, Parts, Workspace

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

__all__ = ["find_nearest", "pointing_to_files", "walk_files"]

_LEFT_OUT = frozenset(
    {
        ".git", ".hg", ".svn", ".jj",
        "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".cache", ".eggs", ".tox", ".nox",
        ".venv", "venv", "node_modules",
    }
)  # fmt: skip
_MARKERS = frozenset({"pyvenv.cfg", "CACHEDIR.TAG"})  # a folder with one of these is an environment, or says it is a cache
_MAX_CANDIDATES = 5_000  # files looked at for the nearest name: a hint is not worth a longer walk


class _Rules(NamedTuple):
    """The .gitignore of one folder."""

    folder: Parts
    spec: GitIgnoreSpec


class _Folder(NamedTuple):
    """A folder that is being walked: what of it is still to come, and the rules that hold in it."""

    path: Parts
    rest: Iterator[Entry]
    rules: list[_Rules]


def walk_files(workspace: Workspace, start: Parts = ()) -> Iterator[Parts]:
    """The files below a folder. What was asked for by name is shown even if it is ignored itself.

    Raises:
        ToolError: When `start` is no folder inside the working folder.
    """
    rules = [each for depth in range(len(start)) for each in _read_rules(workspace, start[:depth])]
    if _is_ignored(rules, start, is_folder=True):
        rules = []
    yield from _walk(workspace, start, workspace.scan(start), rules)


def find_nearest(workspace: Workspace, path: str, hides: Hides = hide_nothing) -> str | None:
    """The existing file whose path is most like the given one; None when none is."""
    parts = workspace.resolve(path)
    paths = ["/".join(each) for each in itertools.islice(walk_files(workspace), _MAX_CANDIDATES)]
    known = [each for each in paths if not hides(each)]
    same_name = sorted(each for each in known if parts and each.rsplit("/", 1)[-1] == parts[-1])
    nearest = difflib.get_close_matches("/".join(parts), same_name or known, n=1, cutoff=0.0 if same_name else 0.6)
    return nearest[0] if nearest else None


@contextmanager
def pointing_to_files(workspace: Workspace, path: str, hides: Hides = hide_nothing) -> Iterator[None]:
    """Add the nearest existing file, of those that may be shown, to what says that there is none."""
    try:
        yield
    except NotThere as error:
        nearest = find_nearest(workspace, path, hides)
        hint = f'did you mean "{nearest}"?' if nearest else "list_files shows what there is"
        raise NotThere(f"{error}; {hint}") from error


def _walk(workspace: Workspace, start: Parts, entries: Sequence[Entry], rules: list[_Rules]) -> Iterator[Parts]:
    folders = [_entered(workspace, start, entries, rules)]  # down to the innermost; no depth is too deep for a list
    while folders:
        if (entry := next(folders[-1].rest, None)) is None:
            folders.pop()
            continue
        (name, kind), rules = entry, folders[-1].rules
        path = (*folders[-1].path, name)
        if kind == "folder" and name not in _LEFT_OUT and not _is_ignored(rules, path, is_folder=True):
            if (inner := _scan(workspace, path)) is not None:
                folders.append(_entered(workspace, path, inner, rules))
        elif not name.startswith(TEMP_PREFIX) and not _is_ignored(rules, path) and _is_file(workspace, path, kind):
            yield path


def _entered(workspace: Workspace, path: Parts, entries: Sequence[Entry], rules: list[_Rules]) -> _Folder:
    check_stop()
    if any(entry.name == ".gitignore" for entry in entries):
        rules = [*rules, *_read_rules(workspace, path)]
    return _Folder(path, iter(entries), rules)


def _scan(workspace: Workspace, folder: Parts) -> Sequence[Entry] | None:
    """What is in a folder; None when it is an environment or a cache, gone meanwhile, or not ours to read."""
    try:
        entries = workspace.scan(folder)
    except ToolError:
        return None
    return None if any(entry.name in _MARKERS for entry in entries) else entries


def _is_file(workspace: Workspace, path: Parts, kind: str) -> bool:
    return kind == "file" or (kind == "link" and workspace.kind(path) == "file")


def _read_rules(workspace: Workspace, folder: Parts) -> list[_Rules]:
    import pathspec

    try:
        text = workspace.read("/".join((*folder, ".gitignore"))).decode("utf-8", "replace")
    except ToolError:
        return []
    lines = text.splitlines()
    try:
        return [_Rules(folder, pathspec.GitIgnoreSpec.from_lines(lines))]
    except ValueError:  # git passes over a pattern that makes no sense, so the others count
        return [_Rules(folder, pathspec.GitIgnoreSpec.from_lines(filter(_is_pattern, lines)))]


def _is_pattern(line: str) -> bool:
    import pathspec

    try:
        pathspec.GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True


def _is_ignored(rules: Sequence[_Rules], path: Parts, *, is_folder: bool = False) -> bool:
    for folder, spec in reversed(rules):  # the nearest .gitignore that has an opinion decides
        relative = "/".join(path[len(folder) :]) + ("/" if is_folder else "")
        if (ignored := spec.check_file(relative).include) is not None:
            return ignored
    return False
