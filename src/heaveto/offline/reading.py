"""Which files to read next: small projects whole, of larger ones what the report and the imports point at."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from .knowledge import Knowledge
from .reports import Report
from .source import Source, is_test_file

__all__ = ["files_to_read"]

SMALL = 16  # Python files that are read at once, without asking which matter
TWICE = 2  # times that a file is asked for: a stop may have come before the first
AT_ONCE = 12  # files a reply
ENOUGH = 40  # files in all; a bug that needs more to be seen is beyond small edits


def files_to_read(known: Knowledge, report: Report) -> list[str]:
    """Paths not asked for yet, the most telling first; empty when enough is known."""
    listing = [path for path in known.listing or () if path.endswith(".py") and path != "setup.py"]
    fresh = [path for path in _wanted(known, report, listing) if path not in known.now and known.asked[path] < TWICE]
    return list(dict.fromkeys(fresh))[: max(0, min(AT_ONCE if len(listing) > SMALL else SMALL, ENOUGH - len(known.asked)))]


def _wanted(known: Knowledge, report: Report, listing: list[str]) -> Iterator[str]:
    framed = [frame.path for failure in report.failures for frame in failure.frames]
    yield from (path for path in framed if path in listing or (not listing and not path.startswith(("/", "<"))))
    if len(listing) <= SMALL:
        yield from listing
        return
    tests = [path for path in listing if is_test_file(path)]
    named = [path for path in tests if any(_module(path) in failure.test.replace("/", ".") for failure in report.failures)]
    yield from named
    yield from _imported_files(known.originals.items(), listing)
    yield from tests[:AT_ONCE]


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _imported_files(read: Iterable[tuple[str, str]], listing: list[str]) -> Iterator[str]:
    by_module = {_module(path): path for path in listing}
    for path, text in read:
        source = Source.parse(path, text)
        for name in _imports(source.tree) if source else ():
            yield from (other for module, other in by_module.items() if module == name or module.endswith(f".{name}"))


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if base:
                yield base
            yield from (f"{base}.{alias.name}" if base else alias.name for alias in node.names)
