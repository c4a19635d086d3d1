"""A function's signature as the form of a call: the JSON schema, the validator, and an example of a right call."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NotRequired

from ..errors import ConfigError
from .docstrings import Described, read_docstring
from .protocol import Call

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = ["Form", "build_form", "example_of", "without_titles"]

_MAX_EXAMPLE_DEPTH = 6  # a type that contains itself has to end somewhere

_FORMATS = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T09:30:00Z",
    "time": "09:30:00",
    "duration": "PT30S",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
    "uri": "https://example.org/",
    "email": "a@example.org",
    "ipv4": "192.0.2.1",
}


@dataclass(frozen=True, slots=True)
class Form:
    """How a tool is called.

    Attributes:
        injected: The parameter that takes the `Call`; None when there is none.
        shape: A right call, as JSON.
    """

    description: str
    schema: Mapping[str, Any]
    validator: TypeAdapter[dict[str, Any]]
    injected: str | None
    shape: str


def build_form(name: str, function: Callable[..., Any], hints: Mapping[str, Any]) -> Form:
    """Work out how a function is called.

    Raises:
        ConfigError: When a model cannot call it; says what right looks like.
    """
    parameters = dict(inspect.signature(function).parameters)
    injected = next((each for each in parameters if hints.get(each) is Call), None)
    docs = _read_docs(name, function, set(parameters))
    parameters.pop(injected or "", None)
    for parameter in parameters.values():
        _check_parameter(name, parameter, hints)
    validator, schema = _compile(name, parameters, hints)
    schema = _finish_schema(schema, parameters, docs)
    return Form(docs.text, schema, validator, injected, json.dumps(example_of(schema), ensure_ascii=False))


def example_of(schema: Mapping[str, Any]) -> Any:
    """A value that the schema allows, as far as it can be told: what is required, or all there is where nothing is."""
    return _example(schema, schema.get("$defs", {}), 0)


def _read_docs(name: str, function: Callable[..., Any], parameters: set[str]) -> Described:
    docs = read_docstring(function.__doc__ or "")
    if not docs.text:
        raise ConfigError(
            f"tool {name} has no docstring", 'give it one: the model reads it, as in """Count the words of a text file."""'
        )
    if strays := [each for each in docs.parameters if each.lstrip("*") not in parameters]:
        raise ConfigError(f"the docstring of tool {name} describes {strays[0]}, which is no parameter of it")
    return docs


def _check_parameter(name: str, parameter: inspect.Parameter, hints: Mapping[str, Any]) -> None:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise ConfigError(f"tool {name} takes {parameter}, which has no schema", "name each parameter and give it a type")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise ConfigError(f"parameter {parameter.name} of tool {name} cannot be passed by name", "leave the / out")
    if parameter.name not in hints:
        if parameter.name == "self":
            raise ConfigError(f"tool {name} is a method without its object", f"take it from one: Thing().{name}")
        raise ConfigError(
            f"parameter {parameter.name} of tool {name} has no type", f"give it one, as in {parameter.name}: str"
        )


def _compile(
    name: str, parameters: Mapping[str, inspect.Parameter], hints: Mapping[str, Any]
) -> tuple[TypeAdapter[dict[str, Any]], dict[str, Any]]:
    from pydantic import ConfigDict, PydanticUserError, TypeAdapter
    from typing_extensions import TypedDict  # pydantic wants this one below Python 3.12

    # A TypedDict rather than a model: any name may be a field, and the function's own defaults apply.
    fields = {
        each.name: hints[each.name] if each.default is each.empty else NotRequired[hints[each.name]]
        for each in parameters.values()
    }
    make_type: Any = TypedDict
    typed = make_type("Arguments", fields)
    typed.__pydantic_config__ = ConfigDict(extra="forbid", strict=True)
    typed.__doc__ = None
    try:
        validator: TypeAdapter[dict[str, Any]] = TypeAdapter(typed)
        return validator, validator.json_schema()
    except PydanticUserError as error:
        wrong = error.message.splitlines()[0]
        raise ConfigError(f"tool {name} has a parameter whose type has no JSON schema: {wrong}") from error


def _finish_schema(schema: dict[str, Any], parameters: Mapping[str, inspect.Parameter], docs: Described) -> dict[str, Any]:
    properties = schema.pop("properties", {})
    for name, node in properties.items():
        if name in docs.parameters:
            node.setdefault("description", docs.parameters[name])
        default = parameters[name].default
        if isinstance(default, (str, int, float)) and not hasattr(default, "value"):  # an enum's member is no JSON
            node.setdefault("default", default)
    whole = {"type": "object", "properties": properties, "required": schema.get("required", [])}
    if "$defs" in schema:
        whole["$defs"] = schema["$defs"]
    return without_titles(whole) | {"additionalProperties": False}


def without_titles(schema: dict[str, Any]) -> dict[str, Any]:
    """Leave pydantic's generated titles out: they repeat the name, and each request would pay for them."""
    tidy: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "title" and isinstance(value, str):
            continue
        if key in ("properties", "$defs"):
            tidy[key] = {name: without_titles(node) for name, node in value.items()}
        elif key in ("anyOf", "oneOf", "allOf", "prefixItems"):
            tidy[key] = [without_titles(node) for node in value]
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            tidy[key] = without_titles(value)
        else:
            tidy[key] = value
    return tidy


def _example(node: Mapping[str, Any], definitions: Mapping[str, Any], depth: int) -> Any:
    if "$ref" in node:
        return _example(definitions[node["$ref"].rsplit("/", 1)[-1]], definitions, depth + 1)
    for key in ("examples", "enum", "anyOf", "oneOf", "allOf"):
        if choices := node.get(key):
            return choices[0] if key in ("examples", "enum") else _example(choices[0], definitions, depth + 1)
    for key in ("const", "default"):
        if key in node:
            return node[key]
    match node.get("type"):
        case "object":
            return _example_object(node, definitions, depth)
        case "array":
            return _example_array(node, definitions, depth)
        case "integer" | "number":
            return _example_number(node)
        case "boolean":
            return True
        case "null":
            return None
        case _:
            return _FORMATS.get(node.get("format", ""), "x" * max(0, node.get("minLength", 0) - 3) + "...")


def _example_object(node: Mapping[str, Any], definitions: Mapping[str, Any], depth: int) -> dict[str, Any]:
    properties = node.get("properties", {})
    wanted = node.get("required") or (list(properties) if depth == 0 else [])
    return {name: _example(properties.get(name, {}), definitions, depth + 1) for name in wanted}


def _example_array(node: Mapping[str, Any], definitions: Mapping[str, Any], depth: int) -> list[Any]:
    if fixed := node.get("prefixItems"):
        return [_example(each, definitions, depth + 1) for each in fixed]
    if depth > _MAX_EXAMPLE_DEPTH or not node.get("items"):
        return []
    return [_example(node["items"], definitions, depth + 1)] * max(1, node.get("minItems", 1))


def _example_number(node: Mapping[str, Any]) -> int | float:
    step: int | float = node.get("multipleOf", 1)
    if "minimum" in node or "exclusiveMinimum" in node:
        least: int | float = node.get("minimum", node.get("exclusiveMinimum", 0) + 1)
        return -(-least // step) * step
    most: int | float = node.get("maximum", node.get("exclusiveMaximum", step + 1) - 1)
    return step if most >= step else most // step * step
