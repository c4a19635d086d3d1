"""The JSON text of a call's arguments, decoded with words of our own for what is wrong with it.

The rules of this file:
- The words do not come from the `json` module: its texts and positions differ between Python versions.
- What can be read in one way only is read: no text at all is no arguments, a line break inside a string is one, and
  half a surrogate pair becomes the replacement character.
- What other parsers would refuse or read otherwise is refused here: NaN, numbers beyond a float, very deep nesting.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from .surrogates import replace_surrogates

__all__ = ["MAX_DEPTH", "NotArguments", "decode_arguments", "type_name"]

MAX_DEPTH = 100  # pydantic's own parser stops at 200; no call that a model means is nested like that
_SHOWN_CHARS = 24  # enough to recognise the place in one's own text
_LITERALS = ("true", "false", "null")
_NUMBER_PART = re.compile(r"-|\.|[eE][+-]?|")  # what a number that was cut leaves over


class NotArguments(ValueError):
    """The text is not one JSON object; says what is wrong."""


def decode_arguments(text: str, what: str = "the arguments") -> dict[str, Any]:
    """The object that the text holds.

    Args:
        what: What the text is, for the words about it.

    Raises:
        NotArguments: When it holds none.
    """
    if not text.strip():
        return {}
    try:
        data = json.loads(text, strict=False, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise NotArguments(_fault(text, error, what)) from error
    except RecursionError as error:
        raise NotArguments(f"the JSON is nested deeper than {MAX_DEPTH} levels") from error
    except ValueError as error:
        # Ours from `_refuse_constant`, or Python's limit on the digits of an integer.
        raise (
            error if isinstance(error, NotArguments) else NotArguments("the JSON has a number with too many digits")
        ) from error
    if not isinstance(data, dict):
        raise NotArguments(f"{what} must be a JSON object, not {type_name(data)}")
    return {_clean(key, 1): _clean(value, 1) for key, value in data.items()}


def type_name(value: Any) -> str:
    """A JSON value's type in words, with its article."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int():
            return "an integer"
        case float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"


def _refuse_constant(name: str) -> NoReturn:
    raise NotArguments(f"the JSON has {name}, which is not a JSON number")


def _fault(text: str, error: json.JSONDecodeError, what: str) -> str:
    position = error.pos
    if error.msg.startswith("Illegal trailing comma"):  # Python 3.13 points at the comma, earlier ones at what follows
        position += 1 + len(text[position + 1 :]) - len(text[position + 1 :].lstrip())
    before = text[:position].rstrip()
    after = f", after {_shown(before)}" if before else ""
    if _is_cut(text, position, error.msg):
        was = "were" if what.endswith("s") else "was"
        return f"the JSON ends too early, at character {len(text)}: {what} {was} cut off"
    return f"the JSON is not valid: unexpected {_seen(text, position)} at character {position + 1}{after}"


def _is_cut(text: str, position: int, message: str) -> bool:
    rest = text[position:].rstrip()
    if message.startswith(("Unterminated string", "Invalid \\")):
        return message.startswith("Unterminated") or '"' not in rest
    return _NUMBER_PART.fullmatch(rest) is not None or any(literal.startswith(rest) for literal in _LITERALS)


def _seen(text: str, position: int) -> str:
    return json.dumps(text[position]) if text[position] != '"' else "quotation mark"


def _shown(before: str) -> str:
    return before if len(before) <= _SHOWN_CHARS else f"...{before[-_SHOWN_CHARS:]}"


def _clean(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise NotArguments(f"the JSON is nested deeper than {MAX_DEPTH} levels")
    match value:
        case str():
            return replace_surrogates(value)
        case list():
            return [_clean(each, depth + 1) for each in value]
        case dict():
            return {_clean(key, depth): _clean(each, depth + 1) for key, each in value.items()}
        case float() if not math.isfinite(value):
            raise NotArguments("the JSON has a number that is too large")
    return value
