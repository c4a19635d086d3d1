"""A call's arguments, checked, and in words of our own what is wrong with them.

The words are made from pydantic's error types and positions, never from its texts, so that the same arguments give the
same words whatever its release.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, get_args

from ..errors import BadArguments
from .json_text import NotArguments, decode_arguments, type_name
from .schema import Form

__all__ = ["explain", "parse_arguments"]

Path: TypeAlias = tuple[str | int, ...]

_MAX_PROBLEMS = 8  # a model mends a few at a time; the shape shows the rest
_MAX_SHOWN_CHARS = 60  # of a value that does not fit

# What a value should have been, by pydantic's error type, with the constraint's own figure.
_CONSTRAINTS = {
    "greater_than": "more than {gt}",
    "greater_than_equal": "{ge} or more",
    "less_than": "less than {lt}",
    "less_than_equal": "{le} or less",
    "multiple_of": "a multiple of {multiple_of}",
    "finite_number": "a finite number",
    "string_too_short": "a string of {min_length} or more characters",
    "string_too_long": "a string of {max_length} or fewer characters",
    "too_short": "{min_length} or more items",
    "too_long": "{max_length} or fewer items",
    "bytes_too_short": "{min_length} or more bytes",
    "bytes_too_long": "{max_length} or fewer bytes",
    "string_pattern_mismatch": "a string that matches {pattern}",
    "decimal_max_digits": "{max_digits} or fewer digits",
    "decimal_max_places": "{decimal_places} or fewer decimal places",
    "time_delta_type": 'a duration like "PT30S"',
    "time_delta_parsing": 'a duration like "PT30S"',
    "none_required": "null",
}
# The same by the error type's first word: pydantic has several errors for each type.
_TYPES = {
    "int": "an integer",
    "float": "a number",
    "decimal": "a decimal number",
    "string": "a string",
    "bytes": "a string",
    "bool": "true or false",
    "list": "an array",
    "tuple": "an array",
    "set": "an array",
    "frozen": "an array",
    "dict": "an object",
    "mapping": "an object",
    "model": "an object",
    "dataclass": "an object",
    "datetime": 'a date and time like "2026-01-31T09:30:00Z"',
    "date": 'a date like "2026-01-31"',
    "time": 'a time like "09:30:00"',
    "uuid": "a UUID",
    "url": "a URL",
    "union": "one of the described kinds",
}


def parse_arguments(tool: str, form: Form, text: str) -> dict[str, Any]:
    """The arguments from the model's JSON text, as the function's types.

    Raises:
        BadArguments: With what is wrong and the shape of a right call.
    """
    from pydantic import ValidationError

    try:
        arguments = decode_arguments(text)
    except NotArguments as error:
        raise BadArguments(tool, str(error), form.shape) from error
    try:
        # From JSON and strict: "1" is no integer, yet "2026-01-31" is a date and an array is a tuple.
        return form.validator.validate_json(json.dumps(arguments), strict=True)
    except ValidationError as error:
        errors: Sequence[Any] = error.errors(include_url=False)
        raise BadArguments(tool, explain(errors, arguments, form.schema), form.shape) from error


def explain(
    errors: Sequence[Mapping[str, Any]], arguments: Mapping[str, Any], schema: Mapping[str, Any], what: str = "the arguments"
) -> str:
    """What is wrong with the arguments, in one line."""
    wants: dict[tuple[Path, str], list[str]] = {}  # what one value may be, where a union says several things about it
    for error in errors:
        path, lead, want = _judge(error, arguments, schema, what)
        known = wants.setdefault((path, lead), [])
        if want and want not in known:
            known.append(want)
    in_order = sorted(wants, key=lambda each: ([(isinstance(step, str), step) for step in each[0]], each[1]))
    problems = [_join(lead, wants[path, lead]) for path, lead in in_order]
    if (more := len(problems) - _MAX_PROBLEMS) > 0:
        problems[_MAX_PROBLEMS:] = [f"and {more} more"]
    return "; ".join(problems)


def _judge(
    error: Mapping[str, Any], arguments: Mapping[str, Any], schema: Mapping[str, Any], what: str
) -> tuple[Path, str, str]:
    kind, location = error["type"], error["loc"]
    path, value = _walk(location, arguments)
    if kind == "missing":
        path = (*path, location[-1])
        return path, f'missing field "{_to_text(path)}"', ""
    name = _to_text(path)
    if kind == "extra_forbidden":
        return path, _unknown_field(name, path, schema), ""
    got = f"{name or what}: got {_shown(value)}"
    if complaint := _own_complaint(error):
        return path, f"{got}: {complaint}", ""
    return path, got, _want(error, path, schema)


def _join(lead: str, wants: list[str]) -> str:
    return f"{lead}, want {' or '.join(wants)}" if wants else lead


def _want(error: Mapping[str, Any], path: Path, schema: Mapping[str, Any]) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind in _CONSTRAINTS:
        return _CONSTRAINTS[kind].format_map(context)
    if kind in ("enum", "literal_error"):
        choices = [each for node in _nodes(schema, path) for each in node.get("enum", [node.get("const")])]
        return "one of " + ", ".join(json.dumps(each, ensure_ascii=False) for each in choices if each is not None)
    if (word := _TYPES.get(kind.split("_", 1)[0])) is not None:
        return word
    return f"something else ({kind})"


def _own_complaint(error: Mapping[str, Any]) -> str:
    """The words of the tool's own validator; none for pydantic's errors."""
    from pydantic_core.core_schema import ErrorType

    if error["type"] in ("value_error", "assertion_error"):
        return str(error.get("ctx", {}).get("error", "")) or "the tool refuses it"
    return "" if error["type"] in get_args(ErrorType) else str(error["msg"])


def _unknown_field(name: str, path: Path, schema: Mapping[str, Any]) -> str:
    known = sorted({each for node in _nodes(schema, path[:-1]) for each in node.get("properties", {})})
    nearest = difflib.get_close_matches(str(path[-1]), known, n=1, cutoff=0.5)
    if nearest:
        return f'unknown field "{name}" (did you mean "{nearest[0]}"?)'
    return f'unknown field "{name}" ({_fields(known)})'


def _fields(known: Sequence[str]) -> str:
    return f"the fields are {', '.join(known)}" if known else "there are no fields"


def _walk(location: Sequence[str | int], arguments: Any) -> tuple[Path, Any]:
    """The path through the arguments themselves; a location also names the members of unions, which are no part of it."""
    path: list[str | int] = []
    value = arguments
    for step in location:
        is_field = isinstance(value, dict) and step in value
        if is_field or (isinstance(value, list) and isinstance(step, int) and step < len(value)):
            value = value[step]
            path.append(step)
    return tuple(path), value


def _nodes(schema: Mapping[str, Any], path: Path) -> list[Mapping[str, Any]]:
    """The parts of the schema that speak of a path."""
    nodes = list(_members(schema, schema))
    for step in path:
        nodes = [each for node in nodes for child in _children(node, step) for each in _members(child, schema)]
    return nodes


def _members(node: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if "$ref" in node:
        yield from _members(schema["$defs"][node["$ref"].rsplit("/", 1)[-1]], schema)
        return
    yield node
    for key in ("anyOf", "oneOf", "allOf"):
        for each in node.get(key, ()):
            yield from _members(each, schema)


def _children(node: Mapping[str, Any], step: str | int) -> Iterator[Mapping[str, Any]]:
    if isinstance(step, int):
        fixed = node.get("prefixItems", [])
        inner = fixed[step] if step < len(fixed) else node.get("items")
    else:
        inner = node.get("properties", {}).get(step, node.get("additionalProperties"))
    if isinstance(inner, Mapping):
        yield inner


def _to_text(path: Path) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


def _shown(value: Any) -> str:
    if value is None or isinstance(value, (list, dict)):
        return type_name(value)
    text = json.dumps(value, ensure_ascii=False)
    if len(text) > _MAX_SHOWN_CHARS:
        text = f"{text[:_MAX_SHOWN_CHARS]}..."
    return f"{text} ({type_name(value).split()[-1]})"
