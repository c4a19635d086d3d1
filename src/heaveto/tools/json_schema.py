"""Answers held against a JSON schema, with the same words for what is wrong as for a type's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..errors import ConfigError
from .answers import Misfit
from .arguments import explain

__all__ = ["check_schema", "reader_of"]

# pydantic's type of the error that each keyword makes, and what it calls the keyword's figure
_LIMITS = {
    "minimum": ("greater_than_equal", "ge"),
    "exclusiveMinimum": ("greater_than", "gt"),
    "maximum": ("less_than_equal", "le"),
    "exclusiveMaximum": ("less_than", "lt"),
    "multipleOf": ("multiple_of", "multiple_of"),
    "minLength": ("string_too_short", "min_length"),
    "maxLength": ("string_too_long", "max_length"),
    "minItems": ("too_short", "min_length"),
    "maxItems": ("too_long", "max_length"),
    "pattern": ("string_pattern_mismatch", "pattern"),
}
_OTHERS = {"uniqueItems": "its items must differ", "oneOf": "it fits more than one of the described kinds"}
_TYPES = {
    "integer": "int_type",
    "number": "float_type",
    "string": "string_type",
    "boolean": "bool_type",
    "array": "list_type",
    "object": "dict_type",
    "null": "none_required",
}


def check_schema(schema: Mapping[str, Any]) -> None:
    """Pass, or refuse.

    Raises:
        ConfigError: It is no JSON schema, or the package that reads them is not there.
    """
    try:
        from jsonschema import Draft202012Validator, SchemaError  # type: ignore[import-untyped]
    except ImportError as error:
        raise ConfigError(
            "an answer by JSON schema needs jsonschema", 'pip install "heaveto[schema]", or give a type instead'
        ) from error
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise ConfigError(f"output= is no JSON schema: at {error.json_path}: {error.message}") from error
    if strays := [each for each in _references(schema) if not each.startswith("#/$defs/")]:
        raise ConfigError(f'output= refers to "{strays[0]}"', 'put what it refers to under "$defs", as in "#/$defs/Name"')


def reader_of(schema: Mapping[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """What returns an answer that fits the schema, which is one, and refuses any other."""
    from jsonschema import Draft202012Validator

    validator = Draft202012Validator(schema)

    def read(data: dict[str, Any]) -> dict[str, Any]:
        if errors := [ours for error in validator.iter_errors(data) for ours in _as_ours(error)]:
            raise Misfit(explain(errors, data, schema, "the answer"))
        return data

    return read


def _as_ours(error: Any) -> Iterator[dict[str, Any]]:
    """A keyword that is not met, as pydantic would tell it."""
    keyword, wanted, at = error.validator, error.validator_value, tuple(error.absolute_path)
    if keyword == "required":
        yield from ({"type": "missing", "loc": (*at, name)} for name in wanted if name not in error.instance)
    elif keyword in ("additionalProperties", "unevaluatedProperties") and wanted is False:
        known = error.schema.get("properties", {})
        yield from ({"type": "extra_forbidden", "loc": (*at, name)} for name in error.instance if name not in known)
    elif keyword == "type":
        names = [wanted] if isinstance(wanted, str) else wanted
        yield from ({"type": _TYPES[name], "loc": at} for name in names)
    elif keyword in ("enum", "const"):
        yield {"type": "literal_error", "loc": at}
    elif keyword in _LIMITS:
        kind, figure = _LIMITS[keyword]
        yield {"type": kind, "loc": at, "ctx": {figure: wanted}}
    elif keyword in ("anyOf", "oneOf") and error.context:
        yield from (ours for each in error.context for ours in _as_ours(each))
    else:
        yield {"type": "not_met", "loc": at, "msg": _OTHERS.get(keyword, f'its "{keyword}" refuses it')}


def _references(node: Any) -> Iterator[str]:
    match node:
        case Mapping():
            if isinstance(reference := node.get("$ref"), str):
                yield reference
            for each in node.values():
                yield from _references(each)
        case list():
            for each in node:
                yield from _references(each)
