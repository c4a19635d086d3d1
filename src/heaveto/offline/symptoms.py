"""What the errors and the compared values of a report say about the kind of slip: a table from symptom to factors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .reports import Failure, Report

__all__ = ["boosts", "symptoms"]

# fmt: off
LIKELY: Mapping[str, Mapping[str, float]] = {
    "nothing came": {
        "missing return": 6, "too deep": 2, "in place": 3, "initial value": 2, "too shallow": 2, "leaving": 2,
    },
    "off by one": {
        "shifted": 2, "bound": 2, "boundary": 1.8, "number": 1.5, "initial value": 1.6, "slice": 1.5,
        "hinted number": 1.5,
    },
    "other sign": {"arithmetic": 2, "swapped operands": 3, "sign": 5, "swapped arguments": 2},
    "yes and no": {
        "comparison": 1.6, "boundary": 1.6, "conjunction": 1.8, "negation": 2, "boolean": 1.6, "function": 1.5,
        "missing return": 1.2, "method": 1.4, "hinted number": 0.2,
    },
    "other type": {"conversion": 6, "unwrapped": 5, "arithmetic": 1.3, "uncalled": 3, "initial value": 1.5},
    "same things, other order": {
        "swapped statements": 1.5, "call added": 1.3, "order": 6, "boolean": 1.5, "swapped values": 3,
        "swapped operands": 2, "comparison": 1.5, "slice": 2, "method": 1.5, "swapped arguments": 1.5,
    },
    "repeated or missing items": {
        "shifted": 3, "index": 1.5, "augmented": 2, "bound": 1.5, "boundary": 1.5, "slice": 1.8, "too deep": 2,
        "too shallow": 2, "method": 1.5, "leaving": 2, "negation": 1.3, "comparison": 1.3,
    },
    "nested list": {"method": 3, "function": 1.5},
    "other case or space": {"method": 3, "tidied": 8, "separator": 3, "hinted word": 0.6},
    "other number": {
        "arithmetic": 1.5, "augmented": 1.6, "hinted number": 1.0, "function": 1.4, "grouping": 1.6, "variable": 1.3,
    },
    "other fraction": {"arithmetic": 1.5, "function": 2, "unwrapped": 3, "conversion": 3, "grouping": 1.6},
    "other words": {
        "augmented": 1.5, "dropped value": 1.5, "method": 1.2, "word": 1.6, "hinted word": 1.5, "swapped values": 1.5,
        "swapped arguments": 1.4, "variable": 1.8,
    },
    "nothing raised": {
        "boundary": 2, "comparison": 1.5, "conjunction": 1.8, "negation": 1.5, "unraised": 6, "caught": 1.5,
        "raised": 1.3, "boolean": 1.2, "number": 1.3,
    },
    "raised for nothing": {
        "negation": 2.5, "comparison": 1.8, "boundary": 1.8, "conjunction": 2, "boolean": 1.5, "condition dropped": 2,
    },
    "coroutine": {"await": 30},
    "text and number": {"conversion": 12, "unwrapped": 3},
    "IndexError": {
        "arithmetic": 1.8, "bound": 3, "boundary": 2.5, "index": 2, "initial value": 1.3, "slice": 1.3,
        "conjunction": 1.5,
    },
    "KeyError": {
        "word": 4, "caught": 3, "raised": 2, "comparison": 2, "default": 1.5, "method": 2, "negation": 2,
        "variable": 1.5, "swapped arguments": 1.5,
    },
    "ZeroDivisionError": {
        "boundary": 3, "comparison": 2, "caught": 3, "negation": 2, "initial value": 1.5, "conjunction": 2,
    },
    "RecursionError": {
        "boundary": 2, "comparison": 2, "arithmetic": 2, "self": 1, "attribute": 3, "base call": 2, "bound": 2,
    },
    "UnboundLocalError": {"scope": 12, "initial value": 1.5, "too deep": 2},
    "NameError": {"self": 8, "variable": 2},
    "AttributeError": {
        "base call": 6, "method": 3, "missing return": 4, "initial value": 2.5, "in place": 4, "attribute": 2,
        "uncalled": 4, "decorator": 3, "await": 6, "self": 4, "function": 1.5,
    },
    "TypeError": {
        "conversion": 5, "unwrapped": 2, "decorator": 6, "missing return": 4, "in place": 4, "uncalled": 6, "await": 8,
        "default": 8, "swapped arguments": 1.6, "initial value": 2, "method": 1.8, "base call": 2, "caught": 2,
    },
    "ValueError": {"caught": 3, "swapped targets": 2, "tidied": 4, "method": 1.5, "raised": 2},
    "RuntimeError": {"copy": 10, "caught": 1.5},
    "nothing was changed": {"mutable default": 1.5, "copy": 2},
    "hung": {"missing step": 20, "too shallow": 3, "arithmetic": 1.5, "boundary": 1.5, "augmented": 2, "leaving": 2},
}
# fmt: on


MIXED = ("not supported between", "unsupported operand", "can only concatenate", "must be str")


def boosts(report: Report) -> dict[str, float]:
    """Kind of slip -> factor, from the strongest symptom for each."""
    factors: dict[str, float] = {}
    for failure in report.failures:
        for symptom in symptoms(failure):
            for kind, factor in LIKELY.get(symptom, {}).items():
                factors[kind] = max(factors.get(kind, 0.0), factor) if factor > 1 else min(factors.get(kind, 1.0), factor)
    if report.hung:
        factors |= LIKELY["hung"]
    return factors


def symptoms(failure: Failure) -> Iterator[str]:
    """The names of what is to be seen in one failure."""
    text = failure.text
    if "not raised" in text or "DID NOT RAISE" in text:
        yield "nothing raised"
    elif failure.error != "AssertionError":
        yield failure.error if failure.error in LIKELY else "raised for nothing"
    elif failure.values is not None:
        yield from _of_values(*failure.values)
    elif text.startswith(("True is not false", "False is not true", "not ", "False", "True")) or "is not" in text:
        yield "nothing came" if "None" in text else "yes and no"
    if "coroutine" in text:
        yield "coroutine"
    if any(words in text for words in MIXED):
        yield "text and number"
    if "NoneType" in text or "unexpectedly None" in text:
        yield "nothing came"


def _of_values(one: Any, other: Any) -> Iterator[str]:
    if (one is None) != (other is None):
        yield "nothing came"
    elif isinstance(one, bool) and isinstance(other, bool):
        yield "yes and no"
    elif isinstance(one, (int, float)) and isinstance(other, (int, float)):
        yield from _of_numbers(one, other)
    elif isinstance(one, str) and isinstance(other, str):
        yield "other case or space" if _squeezed(one) == _squeezed(other) else "other words"
        if sorted(one) == sorted(other):
            yield "same things, other order"
        if one.startswith(other) or other.startswith(one) or one.endswith(other) or other.endswith(one):
            yield "repeated or missing items"
    elif isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        yield from _of_lists(list(one), list(other))
    elif isinstance(one, (dict, set)) and isinstance(other, (dict, set)):
        yield "repeated or missing items" if len(one) != len(other) else "other number"
    else:
        yield "other type"


def _of_numbers(one: float, other: float) -> Iterator[str]:
    if one == -other:
        yield "other sign"
    elif abs(one - other) == 1:
        yield "off by one"
    elif abs(one - other) < 1:
        yield "other fraction"
    else:
        yield "other number"


def _of_lists(one: list[Any], other: list[Any]) -> Iterator[str]:
    if sorted(map(repr, one)) == sorted(map(repr, other)):
        yield "same things, other order"
    elif len(one) != len(other):
        yield "repeated or missing items"
        if any(isinstance(each, list) for each in one) != any(isinstance(each, list) for each in other):
            yield "nested list"
    for left, right in zip(one, other, strict=False):
        if left != right:
            yield from _of_values(left, right)
            return


def _squeezed(text: str) -> str:
    return "".join(text.split()).lower()
