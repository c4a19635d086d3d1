"""The output of `cargo test`. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .told import ToldTests, blocks_after

__all__ = ["read_cargo"]

_BEGINS = re.compile(r"running \d+ tests?$|error(?:\[E\d+\])?: |\s+Compiling \S+ v\d")
_RESULT = re.compile(r"test (?P<name>\S.*?) \.\.\. (?P<result>ok|FAILED|ignored)\b")
_STARTED = re.compile(r"test (?P<name>\S.*?) \.\.\. ?$")
_SLOW = re.compile(r"test (?P<name>\S+) has been running for over")
_FAILURE = re.compile(r"---- (?P<name>.+) stdout ----$")
_END = re.compile(r"failures:$|test result: |\s+Running |\s+Doc-tests ")
_ERROR = re.compile(r"error(?:\[E\d+\])?: (?P<text>.*)")
_NO_ERROR = ("could not compile", "test failed", "aborting due to", "doctest failed")
_PLACE = re.compile(r"\s*--> (?P<place>\S+)")
_BACKTRACE = re.compile(r"\nstack backtrace:\n(?:.*\n)*?(?=note: |\Z)")
_NOTE = re.compile(r"\nnote: (?:run with|Some details).*")


def read_cargo(lines: Sequence[str]) -> ToldTests | None:
    """What cargo told; None when it was not cargo."""
    if not any(_BEGINS.match(line) for line in lines):
        return None
    told = ToldTests("cargo test")
    texts = {match["name"]: _shorter(text) for match, text in blocks_after(lines, _FAILURE, _END)}
    for line in lines:
        if match := _RESULT.match(line):
            _take(told, match["name"].removesuffix(" - should panic"), match["result"], texts)
        elif match := _STARTED.match(line) or _SLOW.match(line):
            told.running.append(match["name"])
    _take_errors(told, lines)
    return told


def _take(told: ToldTests, name: str, result: str, texts: dict[str, str]) -> None:
    told.running = [each for each in told.running if each != name]
    if result == "ok":
        told.passed += 1
    elif result == "ignored":
        told.skipped += 1
    else:
        told.fail(name, texts.get(name, ""))


def _shorter(text: str) -> str:
    return _NOTE.sub("", _BACKTRACE.sub("\n", text + "\n")).strip("\n")


def _take_errors(told: ToldTests, lines: Sequence[str]) -> None:
    """The compiler's errors, each up to the next blank line."""
    for match, text in blocks_after(lines, _ERROR, re.compile(r"\s*$")):
        if not match["text"].startswith(_NO_ERROR):
            place = _PLACE.search(text)
            told.fail(place["place"] if place else "build", f"{match[0]}\n{text}".rstrip())
