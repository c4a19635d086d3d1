"""JSON schemas as APIs take them to hold an answer to.

They take a part of JSON schema, in which every object is closed: each of its properties is required, and there are no
others. What is left out here (a length, a range) is checked when the answer is there, as all of it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from ..errors import ConfigError
from .protocol import AnswerSchema

__all__ = ["KeptForm", "NotClosed", "StructuredOutput", "check_structured", "closed", "is_recursive", "strict_or_not"]

StructuredOutput: TypeAlias = Literal[
    "beside tools",  # in a request that has tools too
    "alone",  # only where there are none
    "alone, not streamed",
    "none",
]

LEFT_OUT = frozenset(
    {
        *("required", "additionalProperties"),  # which are made anew
        *(
            "title",
            "default",
            "examples",
            "discriminator",
            "deprecated",
            "readOnly",
            "writeOnly",
            "$schema",
            "$id",
            "$comment",
        ),
        *("minLength", "maxLength", "uniqueItems", "minProperties", "maxProperties", "contentMediaType", "contentEncoding"),
    }
)
FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
KINDS = ("type", "enum", "const", "anyOf", "oneOf", "$ref")
NOT_TAKEN = ("patternProperties", "prefixItems", "not", "if", "contains", "propertyNames", "dependentSchemas")


class NotClosed(ValueError):
    """The schema has a part that cannot be closed; says which."""


def closed(schema: Mapping[str, Any], left_out: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The schema with every object closed. What fits into it fits into the schema too, but for what is left out.

    Args:
        left_out: Further keywords that the API does not take.

    Raises:
        NotClosed: It has an object with fields of any name, or a value of any kind.
    """
    return _Closing(LEFT_OUT | left_out).node(schema, "the answer")


def strict_or_not(answer: AnswerSchema) -> dict[str, Any]:
    """The schema as OpenAI takes it: strict where it can be closed, else as it is, which the model may then miss."""
    try:
        return {"name": answer.name, "schema": closed(answer.schema), "strict": True}
    except NotClosed:
        return {"name": answer.name, "schema": answer.schema, "strict": False}


class KeptForm:
    """An API's form of the last schema: all requests of a run have the same one."""

    def __init__(self, make: Callable[[AnswerSchema], Any]) -> None:
        self._make = make
        self._answer: AnswerSchema | None = None
        self._form: Any = None

    def of(self, answer: AnswerSchema) -> Any:
        if answer is not self._answer:
            self._answer, self._form = answer, self._make(answer)
        return self._form


class _Closing:
    def __init__(self, left_out: frozenset[str]) -> None:
        self._left_out = left_out

    def node(self, node: Mapping[str, Any], where: str) -> dict[str, Any]:
        if "$ref" in node and "$defs" not in node:
            return {"$ref": node["$ref"]}  # beside it the APIs take nothing
        if len(node.get("allOf", ())) == 1:
            node = {**{key: value for key, value in node.items() if key != "allOf"}, **node["allOf"][0]}
        _refuse_open(node, where)
        made = dict(self._keyword(key, value, where) for key, value in node.items() if key not in self._left_out)
        if made.get("format", "date") not in FORMATS:
            del made["format"]
        if node.get("type") == "object":
            properties = made.setdefault("properties", {})
            made |= {"required": list(properties), "additionalProperties": False}
        return made

    def _keyword(self, key: str, value: Any, where: str) -> tuple[str, Any]:
        match key:
            case "properties" | "$defs":
                inside = f"{where}." if key == "properties" else ""
                return key, {name: self.node(each, f"{inside}{name}") for name, each in value.items()}
            case "anyOf" | "oneOf":
                return "anyOf", [self.node(each, where) for each in value]
            case "items":
                return key, self.node(value, f"{where}[]")
            case _:
                return key, value


def _refuse_open(node: Mapping[str, Any], where: str) -> None:
    strays = [key for key in (*NOT_TAKEN, "allOf") if key in node]
    if strays:
        raise NotClosed(f'{where} has "{strays[0]}"')
    if not any(key in node for key in KINDS):
        raise NotClosed(f"{where} may be of any kind")
    kind = node.get("type")
    if kind == "object" and (
        node.get("additionalProperties") or not ("properties" in node or "additionalProperties" in node)
    ):
        raise NotClosed(f"{where} may have fields of any name")
    if kind == "array" and not isinstance(node.get("items"), Mapping):
        raise NotClosed(f"{where} may hold anything")


def is_recursive(schema: Mapping[str, Any]) -> bool:
    """Whether a part of the schema contains itself."""
    definitions = schema.get("$defs", {})
    uses = {name: _references(node) for name, node in definitions.items()}

    def leads_to(name: str, wanted: str, seen: set[str]) -> bool:
        return any(
            each == wanted or (each not in seen and leads_to(each, wanted, seen | {each})) for each in uses.get(name, ())
        )

    return any(leads_to(name, name, set()) for name in uses) or any("/$defs/" not in each for each in _pointers(schema))


def _references(node: Any) -> set[str]:
    return {pointer.rsplit("/", 1)[-1] for pointer in _pointers(node)}


def _pointers(node: Any) -> set[str]:
    match node:
        case dict():
            own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set[str]()
            return own.union(*map(_pointers, node.values()))
        case list():
            return set[str]().union(*map(_pointers, node))
        case _:
            return set()


def check_structured(structured: StructuredOutput, who: str, *, with_tools: bool, streamed: bool) -> None:
    """Pass, or refuse where the API holds no answer to a schema, or not in such a request.

    Raises:
        ConfigError: Naming the way out.
    """
    way_out = "leave native=True out: the final tool works with every API"
    if structured == "none":
        raise ConfigError(f"{who} holds no answer to a schema", way_out)
    if with_tools and structured != "beside tools":
        raise ConfigError(f"{who} holds no answer to a schema in a run that has tools", way_out)
    if streamed and structured == "alone, not streamed":
        raise ConfigError(f"{who} streams no answer that is held to a schema", f"pass stream=False, or {way_out}")
