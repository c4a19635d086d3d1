"""Run the rules over files, and leave out what a comment allows."""

from __future__ import annotations

import os
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .rules import RULES
from .source import Source

__all__ = ["Finding", "check_file", "check_source", "python_files"]

ALLOWED = re.compile(r"# heaveto: allow (?P<rule>\S+)[ \t]*(?P<reason>[^#]*)")


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """Something that a rule found."""

    path: str
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule} {self.text}"


def python_files(paths: Iterable[Path]) -> Iterator[Path]:
    """The files named and those below the folders named, sorted within each; nothing of hidden folders and environments.

    Raises:
        OSError: A folder cannot be read.
    """
    for path in paths:
        yield from sorted(_below(path)) if path.is_dir() else [path]


def _below(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder, onerror=_raise):
        folders[:] = [name for name in folders if name[0] != "." and not Path(place, name, "pyvenv.cfg").exists()]
        files = (Path(place, name) for name in names if name.endswith(".py"))
        yield from (file for file in files if file.is_file())  # no broken link, and no pipe, on which we would wait


def _raise(error: OSError) -> None:
    raise error


def check_file(path: Path) -> list[Finding]:
    """What the rules find in a file; when it cannot be read as Python, that."""
    try:
        with tokenize.open(path) as file:  # in the encoding that it says it has
            text = file.read()
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:  # the last: a codec that is not for text
        return [Finding(str(path), 1, "syntax", str(error))]
    except OSError as error:
        return [Finding(str(path), 1, "unreadable", error.strerror or str(error))]
    return check_source(text, str(path))


def check_source(text: str, path: str = "<text>") -> list[Finding]:
    """What the rules find in a program, in the order of its lines."""
    try:
        return sorted(_findings(Source(text), path))
    except SyntaxError as error:
        return [Finding(path, error.lineno or 1, "syntax", error.msg)]
    except (tokenize.TokenError, ValueError) as error:  # Python 3.11 says it of some texts
        return [Finding(path, 1, "syntax", str(error))]
    except RecursionError:
        return [Finding(path, 1, "syntax", "an expression that is nested too deeply to be read")]


def _findings(source: Source, path: str) -> Iterator[Finding]:
    allowed = {(line, match["rule"]): match["reason"].strip() for line, match in _allowances(source)}
    used = set()
    for rule, check in RULES.items():
        for found in check(source):
            key = next(((line, rule) for line in found.lines if (line, rule) in allowed), None)
            if key is None:
                yield Finding(path, found.lines.start, rule, found.text)
            else:
                used.add(key)
    for (line, rule), reason in allowed.items():
        if (line, rule) not in used:
            yield Finding(path, line, "unused-allow", f"nothing here breaks the rule {rule}; remove the comment")
        elif not reason:
            yield Finding(path, line, "allow-reason", f"say why: # heaveto: allow {rule} because ...")


def _allowances(source: Source) -> Iterator[tuple[int, re.Match[str]]]:
    for line, comment in source.comments.items():
        for match in ALLOWED.finditer(comment):
            yield line, match
