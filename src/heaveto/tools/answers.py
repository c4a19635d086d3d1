"""The answer that a run has to end with: its type, its schema, and the tool that takes it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Generic, cast, overload

from ..causes import Stop, text_of
from ..errors import BadAnswer, ConfigError, ToolError, ToolFatal
from ..scopes import current_cause
from .arguments import explain
from .decorator import check_tool_name
from .json_text import NotArguments, decode_arguments
from .protocol import Call, Check, Effect, Facts
from .schema import example_of, without_titles

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=None)
else:
    from typing import TypeVar

    T = TypeVar("T")

__all__ = ["AnswerForm", "FinalAnswer", "Output", "TakenAnswer", "build_answer_form"]

WRAPPED = "answer"  # the field of an answer that is no object by itself: every API wants one
RIGHT = "give a Pydantic model, a dataclass, a TypedDict, another type such as list[int], or a JSON schema"

_OF_TYPES = ("typing", "typing_extensions", "types", "annotationlib")  # where what is a type and no class is from


class Output(Generic[T]):
    """What an agent's answer has to be. `Agent(output=Report)` is `Agent(output=Output(Report))`.

    Args:
        of: A Pydantic model, a dataclass, a TypedDict, or any other type that Pydantic knows; or a JSON schema, and then the
            answer is plain data.
        native: Whether the API shall hold the model's text to the schema. By default the model calls a tool with its
            answer, which works with every API.
        corrections: How often a wrong answer goes back to the model, with what was wrong, in one drive of the run.
        tool: What that tool is called.

    Raises:
        ConfigError: When an option is wrong. What no answer can be is refused by the agent.
    """

    @overload
    def __init__(
        self: Output[Any], of: Mapping[str, Any], *, native: bool = ..., corrections: int = ..., tool: str = ...
    ) -> None: ...
    @overload
    def __init__(self, of: type[T], *, native: bool = ..., corrections: int = ..., tool: str = ...) -> None: ...
    def __init__(self, of: Any, *, native: bool = False, corrections: int = 3, tool: str = "final_answer") -> None:
        if isinstance(corrections, bool) or not isinstance(corrections, int) or corrections < 0:
            raise ConfigError(f"corrections={corrections!r}", "use a whole number, 0 or more")
        if not native:
            check_tool_name(tool)
        self.of, self.native, self.corrections, self.tool = of, native, corrections, tool


class AnswerForm(Generic[T]):
    """What an answer has to be, worked out.

    Attributes:
        name: What it is called, for the API.
        schema: The JSON schema, an object.
        shape: A right answer, as JSON.
        tool: What takes it; empty where the model writes it as text.
    """

    def __init__(
        self, name: str, schema: Mapping[str, Any], read: Callable[[dict[str, Any]], T], *, corrections: int, tool: str
    ) -> None:
        self.name, self.schema, self.corrections, self.tool = name, schema, corrections, tool
        self.shape = json.dumps(example_of(schema), ensure_ascii=False)
        self._read = read

    @property
    def fingerprint(self) -> str:
        """The name, and a hash of the schema, by which a journal tells two of them apart."""
        text = json.dumps(self.schema, sort_keys=True)
        return f"{self.name} {hashlib.sha256(text.encode()).hexdigest()[:12]}"

    def read(self, text: str) -> T:
        """The answer from what the model wrote, with the tool's call or without it.

        Raises:
            BadAnswer: With what is wrong, and the shape of a right one.
            ToolFatal: A validator of the program's own failed.
        """
        if self.tool and not text.lstrip().startswith("{"):
            raise BadAnswer("", self.shape, self.tool)
        return self.read_json(text)

    def read_json(self, text: str) -> T:
        """The answer from JSON text. Errors as in `read`."""
        try:
            return self._read(decode_arguments(text, "the answer"))
        except (NotArguments, Misfit, ToolError) as error:  # a ToolError is a validator's own words for the model
            raise BadAnswer(str(error), self.shape, self.tool) from error
        except Exception as error:  # boundary: a bug in a validator of the program's is no fault of the model
            if isinstance(error, Stop) and current_cause() is not None:  # a stop that it looked for; else it made one up
                raise
            what = self.tool or "the answer"
            raise ToolFatal(what, f"the check of the answer failed ({type(error).__name__}: {text_of(error)})") from error


class Misfit(ValueError):
    """The answer does not fit; says what is wrong."""


class TakenAnswer(str):
    """The result of the call that gave the answer."""

    __slots__ = ()


class FinalAnswer:
    """The tool that takes the answer."""

    effect: Effect = "read"
    alone = True  # so that a second one in the same reply sees the first
    approval = False
    seconds: float | None = None

    def __init__(self, form: AnswerForm[Any]) -> None:
        self._form = form
        self.name, self.schema = form.tool, form.schema
        self.description = "Give the final answer. It ends the task, so call it once, when nothing is left to do."

    def parse(self, arguments: str) -> Mapping[str, Any]:
        """The answer as plain data, once it is clear that it fits.

        Raises:
            BadAnswer: It does not.
        """
        self._form.read_json(arguments)
        return decode_arguments(arguments)

    async def plan(self, call: Call, arguments: Mapping[str, Any]) -> Facts:
        """Nothing to note."""
        return {}

    async def run(self, call: Call, arguments: Mapping[str, Any]) -> str:
        """Take it."""
        return TakenAnswer("the answer was taken")

    async def check(self, call: Call, arguments: Mapping[str, Any]) -> Check | None:
        """It changes nothing, so it may be called again."""
        return None


def build_answer_form(output: Output[T] | type[T] | Mapping[str, Any]) -> AnswerForm[T]:
    """Work out what an answer has to be.

    Raises:
        ConfigError: No answer can be that; says what right looks like.
    """
    made: Output[T] = output if isinstance(output, Output) else cast("Output[T]", Output(cast("type[T]", output)))
    of: Any = made.of
    if isinstance(of, Mapping):
        from .json_schema import check_schema, reader_of

        check_schema(of)
        name = str(of.get("title", "answer"))
        schema, wrapped = _as_object(dict(of))
        read: Callable[[dict[str, Any]], Any] = reader_of(schema)
    else:
        _check_is_type(of)
        name = getattr(of, "__name__", "answer")
        schema, read, wrapped = _of_type(of, name)
    take: Callable[[dict[str, Any]], Any] = (lambda data: _unwrapped(read(data))) if wrapped else read
    tool = "" if made.native else made.tool
    return AnswerForm(_fitting(name), schema, take, corrections=made.corrections, tool=tool)


def _check_is_type(of: Any) -> None:
    """Refuse a value in a type's place, of which Pydantic would make something: of a function its arguments."""
    if isinstance(of, type) or type(of).__module__ in _OF_TYPES:
        return
    if isinstance(of, FunctionType | BuiltinFunctionType | MethodType):
        raise ConfigError("output= is a function", RIGHT)
    raise ConfigError(f"output= is a value of {type(of).__name__} and not a type", RIGHT)


def _of_type(of: Any, name: str) -> tuple[dict[str, Any], Callable[[dict[str, Any]], Any], bool]:
    from pydantic import ConfigDict, PydanticUserError, TypeAdapter
    from pydantic.errors import PydanticUndefinedAnnotation
    from typing_extensions import TypedDict  # pydantic wants this one below Python 3.12

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(of)
        schema, wrapped = _as_object(without_titles(adapter.json_schema()))
        if wrapped:
            make_type: Any = TypedDict
            typed = make_type("Answer", {WRAPPED: of})
            typed.__pydantic_config__ = ConfigDict(extra="forbid")
            adapter = TypeAdapter(typed)
    except (PydanticUserError, PydanticUndefinedAnnotation) as error:
        wrong = str(error.message).splitlines()[0]
        raise ConfigError(f"no answer can be a {name}: {wrong}", RIGHT) from error
    return schema, lambda data: _validated(adapter, data, schema), wrapped


def _validated(adapter: Any, data: dict[str, Any], schema: Mapping[str, Any]) -> Any:
    from pydantic import ValidationError

    try:
        return adapter.validate_json(json.dumps(data), strict=True)  # as a tool's arguments
    except ValidationError as error:
        raise Misfit(explain(error.errors(include_url=False), data, schema, "the answer")) from error


def _as_object(schema: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """The schema as one of an object, and whether the answer had to be put into a field of one."""
    definitions = schema.pop("$defs", {})
    more = {"$defs": definitions} if definitions else {}
    if set(schema) == {"allOf"} and len(schema["allOf"]) == 1:  # so pydantic before 2.9 writes a reference
        schema = dict(schema["allOf"][0])
    if set(schema) == {"$ref"}:  # of a type that contains itself
        schema = dict(definitions.get(schema["$ref"].rsplit("/", 1)[-1], schema))
    if schema.get("type", "object" if "properties" in schema else "any") == "object":
        return {"type": "object", **schema, **more}, False
    whole = {"type": "object", "properties": {WRAPPED: schema}, "required": [WRAPPED], "additionalProperties": False}
    return {**whole, **more}, True


def _unwrapped(data: Any) -> Any:
    return data[WRAPPED]


def _fitting(name: str) -> str:
    """The name as the APIs take it."""
    return "".join(each if each.isascii() and (each.isalnum() or each in "_-") else "_" for each in name)[:64] or "answer"
