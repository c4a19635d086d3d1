"""The output of `node --test` (TAP and its own form), jest and vitest. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .told import ToldTests, blocks_after

__all__ = ["read_jest", "read_node_spec", "read_tap", "read_vitest"]

# --- TAP ------------------------------------------------------------------------------------------------------------

_TAP = re.compile(r"TAP version 1\d")
_SUBTEST = re.compile(r"(?P<indent>\s*)# Subtest: (?P<name>.*)")
_POINT = re.compile(r"(?P<indent>\s*)(?P<result>ok|not ok) \d+(?: -)? ?(?P<name>.*?)(?: # (?P<skip>SKIP|TODO).*)?$")
_SUBTESTS_FAILED = "failureType: 'subtestsFailed'"
_SUITE = "type: 'suite'"
_TAP_NOISE = re.compile(r"(?:duration_ms|failureType|type|code|name|expected|actual|operator|stack): |\.\.\.$|---$")
_INSIDE_NODE = re.compile(r".*\(?node:|.*<anonymous>\)$")


def read_tap(lines: Sequence[str]) -> ToldTests | None:
    """What came as TAP, with node's names for subtests; None when it was none."""
    if not any(_TAP.match(line) for line in lines):
        return None
    told, above = ToldTests("node --test"), dict[int, str]()
    for match, text in blocks_after(lines, _TAP_LINE, re.compile(r"\s*1\.\.\d+|# \w+ \d")):
        indent = len(match["at"])
        above = {depth: name for depth, name in above.items() if depth < indent}
        if subtest := _SUBTEST.match(match[0]):
            above[indent] = subtest["name"]
            told.running.append(_joined(above))
        elif point := _POINT.match(match[0]):
            _take_point(told, _joined({**above, indent: point["name"]}), point, text)
    return told


_TAP_LINE = re.compile(r"(?P<at>\s*)(?:# Subtest: |ok \d|not ok \d).*")


def _joined(names: dict[int, str]) -> str:
    return " > ".join(name for _, name in sorted(names.items()))


def _take_point(told: ToldTests, name: str, point: re.Match[str], text: str) -> None:
    told.running = [each for each in told.running if each != name]
    if point["skip"]:
        told.skipped += 1
    elif point["result"] == "ok":
        told.passed += _SUITE not in text
    elif _SUBTESTS_FAILED not in text:
        told.fail(name, _tap_text(text))


def _tap_text(text: str) -> str:
    """What a test point's block says for people: where, what, and the frames outside of node."""
    kept = [line.strip() for line in text.split("\n")]
    kept = [line for line in kept if line and not _TAP_NOISE.match(line) and not _INSIDE_NODE.match(line)]
    return "\n".join(line.removesuffix("|-").rstrip() for line in kept)


# --- node's own form ------------------------------------------------------------------------------------------------

_SPEC = re.compile(r"ℹ (?P<what>tests|pass|fail|skipped|cancelled|todo) (?P<count>\d+)$")
_FAILING = re.compile(r"✖ failing tests:$")
_AT = re.compile(r"test at (?P<place>.+)$")
_NAME = re.compile(r"✖ (?P<name>.*?)(?: \([\d.]+m?s\))?$")


def read_node_spec(lines: Sequence[str]) -> ToldTests | None:
    """What node's test runner told a terminal; None when it was not that."""
    counts = {match["what"]: int(match["count"]) for line in lines if (match := _SPEC.match(line))}
    if "tests" not in counts:
        return None
    told = ToldTests("node --test", counts.get("pass", 0), counts.get("skipped", 0) + counts.get("todo", 0))
    told.counted_failures = counts.get("fail", 0) + counts.get("cancelled", 0)
    begin = next((number for number, line in enumerate(lines) if _FAILING.match(line)), len(lines))
    for at, text in blocks_after(lines[begin:], _AT, re.compile(r"ℹ ")):
        head, _, rest = text.partition("\n")
        name = _NAME.match(head)
        kept = [line for line in rest.split("\n") if not _INSIDE_NODE.match(line)]
        told.fail(name["name"] if name else at["place"], "\n".join([f"at {at['place']}", *kept]).strip())
    return told


# --- jest -----------------------------------------------------------------------------------------------------------

_JEST_COUNTS = re.compile(r"Tests: +(?P<counts>.*total)$")
_JEST_SUITES = re.compile(r"Test Suites: ")
_JEST_LINE = re.compile(r"(?:FAIL|PASS) +(?P<file>\S+)|  ● (?P<name>.+)$")
_COUNT = re.compile(r"(?P<count>\d+) (?P<what>passed|failed|skipped|todo)")


def read_jest(lines: Sequence[str]) -> ToldTests | None:
    """What jest told; None when it was not jest."""
    if not any(_JEST_SUITES.match(line) for line in lines):
        return None
    told, file = ToldTests("jest"), ""
    for match, text in blocks_after(lines, _JEST_LINE, re.compile(r"Test Suites: |Summary of all")):
        if match["file"]:
            file = match["file"]
        else:
            told.fail(f"{file} > {match['name']}".removeprefix(" > "), text)
    _take_counts(told, next((each["counts"] for line in lines if (each := _JEST_COUNTS.match(line))), ""))
    return told


def _take_counts(told: ToldTests, text: str) -> None:
    counts = {match["what"]: int(match["count"]) for match in _COUNT.finditer(text)}
    told.passed, told.counted_failures = counts.get("passed", 0), counts.get("failed", 0)
    told.skipped = counts.get("skipped", 0) + counts.get("todo", 0)


# --- vitest ---------------------------------------------------------------------------------------------------------

_VITEST_FILES = re.compile(r" *Test Files  ")
_VITEST_COUNTS = re.compile(r" *Tests  (?P<counts>.*)\(\d+\)")
_VITEST_FAILURE = re.compile(r" *FAIL  (?P<name>\S.*)$")
_VITEST_END = re.compile(r"⎯{4,}| *Test Files  ")


def read_vitest(lines: Sequence[str]) -> ToldTests | None:
    """What vitest told; None when it was not vitest."""
    if not any(_VITEST_FILES.match(line) for line in lines):
        return None
    told, same = ToldTests("vitest"), list[str]()
    for match, text in blocks_after(lines, _VITEST_FAILURE, _VITEST_END):
        same.append(match["name"].rstrip())
        if text:  # failures of the same kind share a text, under the last of their names
            for name in same:
                told.fail(name, text)
            same.clear()
    _take_counts(told, next((each["counts"] for line in lines if (each := _VITEST_COUNTS.match(line))), ""))
    return told
