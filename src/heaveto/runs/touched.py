"""What of a call a permission rule is held against: the paths that it names, or its first argument. Pure but for links.

The rules of this file:
- Every path counts: of lists and inner objects too, each file of a patch, both ends of a move, and what is the default.
- An argument is a path by its type (`pathlib.Path`) or else by its name, since most schemas say no more than "string".
- A path has several spellings: as written without `.` and `..`, from the folder, absolute, and where its links lead.
"""

from __future__ import annotations

import os
import posixpath
import re
import shlex
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import ToolError
from ..tools.files.patch_format import parse_patch

__all__ = ["Touched", "find_touched", "fold", "forms_of", "reaches_of"]

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_PATH_WORDS = frozenset({"path", "paths", "file", "files", "filename", "filenames", "filepath", "filepaths"})
_PATH_NAMES = frozenset({"to", "from", "source", "sources", "src", "destination", "destinations", "dest", "dst"})
_FOLDER_WORDS = frozenset({"cwd", "folder", "folders", "dir", "dirs", "directory", "directories", "workdir"})
_PATCH_NAMES = frozenset({"patch", "diff"})
_FORMATS = frozenset({"path", "file-path", "directory-path"})
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_HEADERS = re.compile(  # of a patch that is none of ours, and of one of ours that is not right
    r"^(?:\*\*\* (?:(?:Add|Delete|Update) File|Move to):|(?:---|\+\+\+) (?:[abciow]/)?|(?:rename|copy) (?:from|to) )"
    r" *([^\t\n]*[^\s])",
    re.MULTILINE,
)


@dataclass(slots=True)
class Touched:
    """What a call names.

    Attributes:
        paths: The files and folders that it works on, as written.
        folders: Where it works; a permission for its command does not have to fit them.
        first: Its first argument as the tool declares it; a list in the spelling of a shell.
        is_list: Whether that is a list.
        is_clear: Whether its arguments could be read at all.
    """

    paths: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    first: str = ""
    is_list: bool = False
    is_clear: bool = True


def find_touched(schema: Mapping[str, Any], values: Mapping[str, Any]) -> Touched:
    """What a call with these arguments names. What it leaves out is the default."""
    declared = schema.get("properties", {})
    defaults = {name: each["default"] for name, each in declared.items() if isinstance(each, dict) and "default" in each}
    values = {**defaults, **values}
    first = next((values[name] for name in (*declared, *values) if name in values), "")
    touched = Touched(first=_as_text(first), is_list=isinstance(first, list))
    for name, value in values.items():
        _add(touched, name, value, declared.get(name, {}))
    return touched


def _as_text(value: Any) -> str:
    return shlex.join(map(str, value)) if isinstance(value, list) else str(value)


def _add(touched: Touched, name: str, value: Any, schema: Any) -> None:
    """Add what an argument names; the elements of a list go by the list's name."""
    match value:
        case str():
            _add_text(touched, name, value, schema)
        case list():
            items = schema.get("items", {}) if isinstance(schema, dict) else {}
            for each in value:
                _add(touched, name, each, items)
        case dict():
            for inner, each in value.items():
                _add(touched, inner, each, {})


def _add_text(touched: Touched, name: str, text: str, schema: Any) -> None:
    words = [word.lower() for word in _WORD.findall(name)] or [""]
    if _is_path_type(schema) or words[-1] in _PATH_WORDS or "_".join(words) in _PATH_NAMES:
        touched.paths.append(text)
    elif words[-1] in _FOLDER_WORDS:
        touched.folders.append(text)
    elif name in _PATCH_NAMES:
        touched.paths += _patched(text)


def _is_path_type(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    kinds = [schema, *(each for each in schema.get("anyOf", ()) if isinstance(each, dict))]
    return any(each.get("format") in _FORMATS for each in kinds)


def _patched(text: str) -> Iterator[str]:
    try:
        files = parse_patch(text)
    except ToolError:
        yield from (path for path in _HEADERS.findall(text) if path != "/dev/null")
        return
    for each in files:
        yield each.path
        if each.to:
            yield each.to


# --- spellings ------------------------------------------------------------------------------------------------------


def fold(text: str) -> str:
    """A path in a spelling that a disk without case, or with other accents, takes for the same."""
    return unicodedata.normalize("NFC", text).casefold()


def forms_of(path: str, folder: Path | None) -> list[str]:
    """A path as it is written and, where they differ, where its links lead: from the folder, or absolute outside of it."""
    forms = [_from_folder(_plain(path), folder)]
    if folder is not None and not _ADDRESS.match(path):
        try:
            real = os.path.realpath(os.path.join(folder, path))
        except ValueError:  # a NUL byte or half a character: no file has that name
            return forms
        forms.append(_from_folder(real, folder))
    return list(dict.fromkeys(forms))


def reaches_of(path: str, folder: Path | None) -> set[str]:
    """All that a denial of a path may be written for: its forms, also as a folder, as absolute, and with less before it."""
    found: set[str] = set()
    for form in (*forms_of(path, folder), *([posixpath.normpath(path)] if _ADDRESS.match(path) else ())):
        found |= {form, *_ends(form)}
        if folder is not None and not form.startswith("/"):
            found.add(posixpath.normpath(posixpath.join(folder.as_posix(), form)))
    return {fold(each) for form in found for each in (form, f"{form}/")}


def _plain(path: str) -> str:
    return path if _ADDRESS.match(path) else posixpath.normpath(path)


def _from_folder(path: str, folder: Path | None) -> str:
    if folder is None or not path.startswith("/"):
        return path
    return posixpath.relpath(path, folder) if Path(path).is_relative_to(folder) else path


def _ends(form: str) -> Iterator[str]:
    """Of an absolute path what it may be relative to the folder, if nobody knows that."""
    if form.startswith("/"):
        parts = form.split("/")
        yield from ("/".join(parts[at:]) for at in range(1, len(parts)))
