"""A function with type hints and a docstring, made a tool.

    @tool(effect="read")
    async def word_count(path: str) -> int:
        '''Count the words of a text file.

        Args:
            path: File, relative to the folder.
        '''

Type hints are resolved when the function is decorated, with the names that are visible there; those that are not yet
known are looked up again when the schema is first asked for, and so is all that needs pydantic.
"""

from __future__ import annotations

import copy
import functools
import inspect
import math
import re
import sys
import typing
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeAlias, TypeVar, get_args, overload

from ..errors import ConfigError, ToolError
from ..scopes import abandoned_threads, call_in_task, call_in_thread
from ..scopes.threads import PREFIX as THREADS
from .arguments import parse_arguments
from .protocol import Call, Check, Effect, Facts, Recovery
from .results import to_text
from .schema import Form, build_form

__all__ = ["FunctionTool", "check_tool_name", "tool"]

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")

Plan: TypeAlias = Callable[[Call, Mapping[str, Any]], Facts | Awaitable[Facts]]
TakeBack: TypeAlias = Callable[[Call, Mapping[str, Any]], str | Awaitable[str]]
CheckUp: TypeAlias = Callable[[Call, Mapping[str, Any]], Check | Awaitable[Check | None] | None]

MOST_ABANDONED = 8  # threads of one tool that did not stop, before no more are started

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # what the APIs accept


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    effect: Effect = "write"
    name: str | None = None
    approval: bool = False
    alone: bool | None = None
    seconds: float | None = None
    plan: Plan | None = None
    check: CheckUp | None = None
    undo: TakeBack | None = None
    idempotency_key: bool | float = False
    settle_seconds: float = 0.0
    isolate: bool = False


class FunctionTool(Generic[P, R]):
    """A function that a model may call. Made by `tool`; called like the function that it was, it is that function."""

    __name__: str

    def __init__(self, function: Callable[P, R], options: _Options, frame: FrameType | None = None) -> None:
        self.name: str = options.name or str(getattr(function, "__name__", ""))
        _check_options(self.name, function, options)
        functools.update_wrapper(self, function)
        self._function, self._options = function, options
        self.effect: Effect = options.effect
        self.alone = options.effect != "read" if options.alone is None else options.alone
        self.approval, self.seconds = options.approval, options.seconds
        self._frame = frame
        self._hints = self._resolve_hints()
        self._form: Form | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._function(*args, **kwargs)

    @overload
    def __get__(self, instance: None, owner: type) -> FunctionTool[P, R]: ...
    @overload
    def __get__(
        self: FunctionTool[Concatenate[S, Q], R], instance: S, owner: type[S] | None = None
    ) -> FunctionTool[Q, R]: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """As a method: the tool of one object."""
        if instance is None:
            return self
        if self._options.isolate:
            _check_isolation(self.name, self._function.__get__(instance))
        bound: FunctionTool[..., Any] = copy.copy(self)  # the hints are the same; the form is without `self`
        function: Any = self._function
        bound._function, bound._form = function.__get__(instance), None
        return bound

    def __repr__(self) -> str:
        return f"<tool {self.name} ({self.effect})>"

    @property
    def description(self) -> str:
        return self._get_form().description

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON schema of the arguments.

        Raises:
            ConfigError: When a model could not call the function: a parameter without a type, no docstring.
        """
        return self._get_form().schema

    def parse(self, arguments: str) -> dict[str, Any]:
        """The arguments from the model's JSON text, by name. What the text leaves out is left out.

        Raises:
            BadArguments: With what is wrong and the shape of a right call.
        """
        return parse_arguments(self.name, self._get_form(), arguments)

    async def plan(self, call: Call, arguments: Mapping[str, Any]) -> Facts:
        """What the tool's own `plan` notes before the call begins; nothing without one."""
        if self._options.plan is None:
            return {}
        return _plain(self.name, await self._do(self._options.plan, call, arguments))

    async def run(self, call: Call, arguments: Mapping[str, Any]) -> str:
        """Call the function. On a stop it has a moment to end; then its thread, or its task, is left to itself.

        Raises:
            ToolError: When so many threads of this tool did not stop that no more are started.
        """
        injected = self._get_form().injected
        if self._options.isolate:
            from .isolation import run_isolated

            return await run_isolated(self._function, injected, call, arguments, self.effect)
        values = {**arguments, injected: call} if injected else dict(arguments)
        return to_text(await self._do(functools.partial(self._function, **values)))

    async def check(self, call: Call, arguments: Mapping[str, Any]) -> Check | None:
        """What the tool's own `check` sees; None without one."""
        if self._options.check is None:
            return None
        seen: Check | None = await self._do(self._options.check, call, arguments)
        return seen

    @property
    def recovery(self) -> Recovery:
        """What it offers for a call whose outcome is not known."""
        options = self._options
        known = math.inf if options.idempotency_key is True else float(options.idempotency_key)
        undo = None if options.undo is None else functools.partial(self._do, options.undo)
        return Recovery(key_seconds=known, settle_seconds=options.settle_seconds, undo=undo)

    async def _do(self, function: Callable[..., Any], *args: Any) -> Any:
        if inspect.iscoroutinefunction(function):  # it looks through `partial`
            return await self._await(functools.partial(function, *args))
        _refuse_more_threads(self.name)

        def work() -> list[Any]:
            return [function(*args)]  # in a list, since a thread refuses a bare coroutine, which a sync face may hand out

        work.__name__ = self.name  # an abandoned thread is reported by it
        (value,) = await call_in_thread(work)
        return await self._await(lambda: value) if inspect.isawaitable(value) else value

    async def _await(self, start: Callable[[], Awaitable[Any]]) -> Any:
        async def work() -> Any:
            return await start()

        work.__name__ = self.name  # an abandoned task too
        return await call_in_task(work)

    def _get_form(self) -> Form:
        if self._form is None:
            hints = self._hints if self._hints is not None else self._resolve_hints(last_try=True)
            self._form = build_form(self.name, self._function, hints or {})
        return self._form

    def _resolve_hints(self, *, last_try: bool = False) -> dict[str, Any] | None:
        try:
            hints = typing.get_type_hints(self._function, localns=_visible_names(self._frame), include_extras=True)
        except (NameError, TypeError) as error:
            if last_try:
                raise ConfigError(f"tool {self.name} has a type hint that cannot be resolved: {error}") from error
            return None  # the frame is kept: the name may come later
        self._frame = None
        return hints


def _plain(tool: str, facts: Any) -> Facts:
    """What a plan noted.

    Raises:
        TypeError: The journal could not keep it.
    """
    import msgspec

    if not isinstance(facts, Mapping):
        raise TypeError(f"the plan of {tool} returned {type(facts).__name__}, and not a mapping")
    try:
        msgspec.json.encode(facts)
    except UnicodeEncodeError:  # half a character, for which the journal has a sign
        pass
    except Exception as error:  # boundary: any object may be in it, and one in itself
        raise TypeError(f"the plan of {tool} returned what is no plain data: {error}") from error
    return facts


class _Decorator(Protocol):
    def __call__(self, function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(
    *,
    effect: Effect = "write",
    name: str | None = None,
    approval: bool = False,
    alone: bool | None = None,
    seconds: float | None = None,
    plan: Plan | None = None,
    check: CheckUp | None = None,
    undo: TakeBack | None = None,
    idempotency_key: bool | float = False,
    settle_seconds: float = 0.0,
    isolate: bool = False,
) -> _Decorator: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a tool of a function, sync or async. A parameter annotated `Call` is filled in and not shown to the model.

    Args:
        effect: What a call may change: "read" nothing, "idempotent" the same once or twice, "write" anything.
        name: What the model calls it; the function's name by default.
        approval: Whether a person has to approve each call.
        alone: Whether no other call may run beside it; by default, unless it only reads.
        seconds: The limit of one call.
        plan: `plan(call, arguments)`, what to note before a call begins, for `check`.
        check: `check(call, arguments)`, finds out by looking whether a call that was cut off took effect.
        undo: `undo(call, arguments)`, takes back what a call that was cut off may have done; it may be called twice.
        idempotency_key: Whether the function hands `call.key` on to a side that does a thing once for each key; a number
            is for how many seconds that side knows a key again.
        settle_seconds: How long after a check that found nothing it looks again before that is believed.
        isolate: Whether each call runs in a process of its own, which a stop kills with all that it started. The function
            must be importable; it sees an environment without keys.

    Raises:
        ConfigError: When an option is wrong. A function that no model could call is refused when its schema is asked for.
    """
    if function is not None:
        return FunctionTool(function, _Options(), sys._getframe(1))

    def decorate(function: Callable[..., Any]) -> FunctionTool[..., Any]:
        return FunctionTool(function, _Options(**options), sys._getframe(1))

    return decorate


def check_tool_name(name: str) -> None:
    """Pass, or refuse a name that the APIs do not take.

    Raises:
        ConfigError: Saying what they take.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(f'"{name}" is no name for a tool', "use up to 64 letters, digits, _ and -")


def _check_options(name: str, function: Callable[..., Any], options: _Options) -> None:
    if not inspect.isroutine(function):
        raise ConfigError(f"{function!r} is no function", "decorate a function: @tool above def")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigError(f"tool {name} is a generator", "return one value, and report on the way with call.progress")
    check_tool_name(name)
    if options.effect not in get_args(Effect):
        raise ConfigError(f'tool {name} has the effect "{options.effect}"', "use read, idempotent or write")
    if options.isolate:
        _check_isolation(name, function)
    if options.seconds is not None and not options.seconds > 0:
        raise ConfigError(f"tool {name} has a limit of {options.seconds} seconds", "use more than 0, or None for none")
    for what, value in (("idempotency_key", options.idempotency_key), ("settle_seconds", options.settle_seconds)):
        if not value >= 0:  # NaN is not either
            raise ConfigError(f"tool {name} has {what}={value}", "use seconds, 0 or more")


def _refuse_more_threads(name: str) -> None:
    stuck = sum(thread.name == f"{THREADS}{name}" for thread in abandoned_threads())
    if stuck >= MOST_ABANDONED:
        raise ToolError(
            f"{name} is not called now: {stuck} of its calls did not stop and are still at work; go on without it, "
            "or try again when they may have ended"
        )


def _check_isolation(name: str, function: Callable[..., Any]) -> None:
    from .isolation import check_importable

    check_importable(name, function)


def _visible_names(frame: FrameType | None) -> dict[str, Any]:
    """The local names where a function was decorated; in a class body also those of the function around it."""
    names: dict[str, Any] = {}
    while frame is not None:
        names = {**frame.f_locals, **names}
        if frame.f_code.co_flags & inspect.CO_OPTIMIZED:  # a function's body: the end of it
            break
        frame = frame.f_back if frame.f_locals is not frame.f_globals else None
    return names
