"""How a model shall write: the settings that APIs have for it, as one class. What an API has of them its dialect says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import msgspec

__all__ = ["Effort", "Sampling"]

Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]

_NUMBERS = ("temperature", "top_p", "presence_penalty", "frequency_penalty")
_LEAST = {"temperature": 0, "top_p": 0, "top_k": 0, "max_tokens": 1}


class Sampling(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a model shall write. What is not given is left to the API.

    Args:
        temperature: How far it may stray from the likeliest words.
        top_p: From how much of the likelihood it chooses, from 0 to 1.
        top_k: From how many tokens it chooses.
        seed: For APIs that try to write the same twice.
        stop: Texts at which it stops.
        max_tokens: The most output tokens of one reply.
        presence_penalty: Against saying again what was said, and `frequency_penalty` the more often it was.
        effort: How hard it shall think.
        parallel_tool_calls: Whether one reply may have several calls.
        tool_choice: "auto", "none", "required", or the name of the tool that it has to call.

    Raises:
        ValueError: When a value is none that any API could take.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    max_tokens: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    effort: Effort | None = None
    parallel_tool_calls: bool | None = None
    tool_choice: str | None = None

    if TYPE_CHECKING:  # what people may write, which `__post_init__` makes a tuple of

        def __init__(
            self,
            *,
            temperature: float | None = None,
            top_p: float | None = None,
            top_k: int | None = None,
            seed: int | None = None,
            stop: str | Sequence[str] = (),
            max_tokens: int | None = None,
            presence_penalty: float | None = None,
            frequency_penalty: float | None = None,
            effort: Effort | None = None,
            parallel_tool_calls: bool | None = None,
            tool_choice: str | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        said: str | Sequence[str] = self.stop
        msgspec.structs.force_setattr(self, "stop", (said,) if isinstance(said, str) else tuple(said))
        for name, value in self.given().items():
            if problem := _problem(name, value):
                raise ValueError(f"{name} must be {problem}, not {value!r}")

    def __bool__(self) -> bool:
        """Whether anything is given."""
        return self != _NOTHING

    def __repr__(self) -> str:
        return f"Sampling({', '.join(f'{name}={value!r}' for name, value in self.given().items())})"

    def given(self) -> dict[str, Any]:
        """The settings that are given, by name."""
        return {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) not in (None, ())}

    def over(self, other: Sampling) -> Sampling:
        """These settings, and the other's where these say nothing."""
        return Sampling(**{**other.given(), **self.given()})


_NOTHING = Sampling()


def _problem(name: str, value: Any) -> str:
    """What the value must be; empty where it is that."""
    if name == "stop":
        return "" if all(isinstance(each, str) and each for each in value) else "texts that are not empty"
    if name == "effort":
        return "" if value in get_args(Effort) else f"one of {', '.join(get_args(Effort))}"
    if name == "parallel_tool_calls":
        return "" if isinstance(value, bool) else "True or False"
    if name == "tool_choice":
        return "" if isinstance(value, str) and value else '"auto", "none", "required" or the name of a tool'
    kinds = (int, float) if name in _NUMBERS else (int,)
    if isinstance(value, bool) or not isinstance(value, kinds) or not math.isfinite(value):
        return "a number" if name in _NUMBERS else "a whole number"
    return f"{_LEAST[name]} or more" if value < _LEAST.get(name, -math.inf) else ""
