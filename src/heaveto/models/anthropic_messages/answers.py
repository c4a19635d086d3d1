"""An answer's schema as Messages takes it: every object closed, no ranges, nothing that contains itself."""

from __future__ import annotations

from typing import Any

from ...errors import ConfigError
from ..answer_schemas import NotClosed, closed, is_recursive
from ..protocol import AnswerSchema

__all__ = ["check_answer", "output_format"]

LEFT_OUT = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "pattern", "minItems", "maxItems"}
)


def output_format(answer: AnswerSchema) -> dict[str, Any]:
    """The format for `output_config`.

    Raises:
        NotClosed: The API does not take the schema.
    """
    if is_recursive(answer.schema):
        raise NotClosed("a part of it contains itself")
    return {"type": "json_schema", "schema": closed(answer.schema, LEFT_OUT)}


def check_answer(answer: AnswerSchema, provider: str) -> None:
    """Pass, or refuse a schema that the API does not take.

    Raises:
        ConfigError: Naming the part, and the way out.
    """
    try:
        output_format(answer)
    except NotClosed as error:
        raise ConfigError(
            f"{provider} holds no answer to this schema: {error}",
            "give that part a type with named fields, or leave native=True out",
        ) from error
