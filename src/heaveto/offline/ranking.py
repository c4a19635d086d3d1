"""All candidates for one state of the project, the likeliest first: how suspicious the line is, times how common the slip,
times what the report's errors and values say about it."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from .mutations import Place, hinted, mend_syntax, proposals
from .patch import changed_lines
from .reports import Report
from .source import Edit, Function, Source
from .suspects import suspect
from .symptoms import boosts

__all__ = ["Candidate", "rank"]

# How common each kind of slip is, from 0 to 1; what is rare is tried when the report points at it, or late.
COMMON: Mapping[str, float] = {
    "hinted name": 6.0,
    "hinted attribute": 5.0,
    "hinted number": 1.3,
    "hinted word": 2.2,
    "boundary": 1.0,
    "missing return": 0.5,
    "unraised": 0.9,
    "mutable default": 0.9,
    "shared value": 0.8,
    "comparison": 0.75,
    "conjunction": 0.8,
    "arithmetic": 0.8,
    "bound": 0.8,
    "boolean": 0.7,
    "swapped operands": 0.6,
    "swapped arguments": 0.6,
    "grouping": 0.5,
    "in place": 0.8,
    "dropped value": 0.5,
    "initial value": 0.5,
    "augmented": 0.7,
    "variable": 0.4,
    "attribute": 0.4,
    "self": 0.5,
    "constant name": 0.4,
    "word": 0.5,
    "twin": 3.0,
    "shifted": 0.45,
    "call added": 0.3,
    "swapped statements": 0.25,
    "negation": 0.5,
    "too deep": 0.7,
    "too shallow": 0.5,
    "index": 0.6,
    "slice": 0.5,
    "method": 0.5,
    "function": 0.5,
    "call": 0.35,
    "number": 0.4,
    "order": 0.4,
    "leaving": 0.5,
    "base call": 0.5,
    "swapped values": 0.4,
    "swapped targets": 0.35,
    "swapped branches": 0.5,
    "raised": 0.35,
    "caught": 0.35,
    "scope": 0.3,
    "sign": 0.2,
    "separator": 0.25,
    "elif": 0.4,
    "await": 0.2,
    "copy": 0.15,
    "conversion": 0.12,
    "tidied": 0.1,
    "unwrapped": 0.15,
    "uncalled": 0.2,
    "default": 0.3,
    "decorator": 0.1,
    "missing step": 0.2,
    "condition dropped": 0.2,
}


KIND_AGAIN = 0.96  # the next edit of the same kind, anywhere
LINE_AGAIN = 0.8  # the next edit of the same kind in the same line


@dataclass(frozen=True, slots=True)
class Candidate:
    """One edit of one file.

    Attributes:
        text: The whole file with the edit made.
        before, after: The changed line or lines, for people.
    """

    path: str
    text: str
    line: int
    score: float
    kind: str
    before: str
    after: str


@lru_cache(maxsize=8)  # only spares work: the same arguments give the same list
def rank(sources: tuple[tuple[str, str], ...], tests: tuple[tuple[str, str], ...], report: Report) -> tuple[Candidate, ...]:
    """Every edit of the sources, each resulting text once, the likeliest first."""
    parsed = [source for path, text in sources if (source := Source.parse(path, text))]
    test_parsed = [source for path, text in tests if (source := Source.parse(path, text))]
    suspicion = suspect(parsed, test_parsed, report)
    likely = boosts(report)
    best: dict[tuple[str, str], Candidate] = {}
    for candidate in _syntax_candidates(sources, parsed):
        best.setdefault((candidate.path, candidate.text), candidate)
    words = frozenset(word for source in [*parsed, *test_parsed] for word in _words(source))
    signatures = dict(pair for source in parsed for pair in _signatures(source))
    for source in parsed:
        place = Place(source, words, signatures)
        for edit in [*hinted(place, report), *proposals(place)]:
            score = suspicion.of(source.path, edit.line) * COMMON[edit.kind] * edit.weight * likely.get(edit.kind, 1.0)
            _keep_best(best, source, edit, score)
    return tuple(_mixed(sorted(best.values(), key=_order)))


def _order(candidate: Candidate) -> tuple[float, str, int, str]:
    return -candidate.score, candidate.path, candidate.line, candidate.text


def _mixed(ranked: list[Candidate]) -> list[Candidate]:
    """Ranked anew so that neither a line nor a kind is tried to its end before others get their turn."""
    of_kind: Counter[str] = Counter()
    of_line: Counter[tuple[str, int, str]] = Counter()
    mixed = []
    for each in ranked:
        line = (each.path, each.line, each.kind)
        mixed.append(replace(each, score=each.score * KIND_AGAIN ** of_kind[each.kind] * LINE_AGAIN ** of_line[line]))
        of_kind[each.kind] += 1
        of_line[line] += 1
    return sorted(mixed, key=_order)


def _signatures(source: Source) -> Iterator[tuple[str, tuple[str, ...]]]:
    for node in ast.walk(source.tree):
        if isinstance(node, Function):
            owner = source.parents.get(node)
            name = owner.name if isinstance(owner, ast.ClassDef) and node.name == "__init__" else node.name
            yield name, tuple(arg.arg for arg in node.args.args if arg.arg not in ("self", "cls"))


def _keep_best(best: dict[tuple[str, str], Candidate], source: Source, edit: Edit, score: float) -> None:
    text = source.apply(edit)
    key = (source.path, text)
    if text == source.text or (key in best and best[key].score >= score):
        return
    if key not in best and not _changes_meaning(source, text):
        return
    _, before, after = changed_lines(source.text, text)
    best[key] = Candidate(source.path, text, edit.line, score, edit.kind, before, after)


def _changes_meaning(source: Source, text: str) -> bool:
    try:
        return ast.dump(ast.parse(text)) != _dump(source)
    except (SyntaxError, ValueError):
        return False


@lru_cache(maxsize=64)
def _dump(source: Source) -> str:
    return ast.dump(source.tree)


def _words(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in source.docstrings:
            yield node.value


def _syntax_candidates(sources: Iterable[tuple[str, str]], parsed: Iterable[Source]) -> Iterator[Candidate]:
    """A file that cannot be parsed fails every test, so mending it comes before all else."""
    whole = {source.path for source in parsed}
    for path, text in sources:
        if path not in whole:
            for order, (line, mended) in enumerate(mend_syntax(text)):
                _, before, after = changed_lines(text, mended)
                yield Candidate(path, mended, line, 100.0 - order, "syntax", before, after)
