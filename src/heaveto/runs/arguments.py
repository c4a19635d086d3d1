"""What an agent is made of, looked at before anything else: a wrong thing in a place is told with what belongs there."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import ConfigError
from ..loop.shared_budget import Budget
from ..messages import Limits, Sampling
from ..retry import RetryPolicy
from ..scopes import Slots

__all__ = ["check_arguments"]

UNKNOWN = ("wait", "tell_model")
NEVER_NONE = ("model", "tools", "system", "on_unknown", "grace_seconds")
SHOWN = 60  # characters of what was given


def check_arguments(given: Mapping[str, Any]) -> None:
    """Pass, or refuse an agent's arguments.

    Args:
        given: By their names; None where one was left out that may be.

    Raises:
        ConfigError: One is of another kind than its place takes, with what is.
    """
    for name, value in given.items():
        place = _PLACES[name]
        if not (place.fits(value) or (value is None and name not in NEVER_NONE)):
            raise ConfigError(f"{name}={_shown(value)} is no {place.kind}", _remedy(name, value) or place.right)


class _Place(NamedTuple):
    """What an argument takes: its kind in words, and what right looks like."""

    fits: Callable[[Any], bool]
    kind: str
    right: str


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _remedy(name: str, value: object) -> str:
    """What to write in the place of what people do write there."""
    if name == "model" and isinstance(value, str):
        return f"make one of its name: heaveto.models.by_name({_shown(value)})"
    if name == "tools" and isinstance(value, Collection) and not isinstance(value, str):
        wrong = next(each for each in value if not _is_tool(each))
        if inspect.isroutine(wrong):
            return f"{wrong.__name__} is a plain function: write @tool above its def"
        return f"{_shown(wrong)} is no tool: write @tool above a function's def"
    return ""


def _is_tool(value: object) -> bool:
    return all(hasattr(value, name) for name in ("name", "effect", "run"))


def _is_model(value: object) -> bool:
    return hasattr(value, "stream") and hasattr(value, "name") and not isinstance(value, type)


def _are_tools(value: object) -> bool:
    return isinstance(value, Collection) and not isinstance(value, str) and all(map(_is_tool, value))


def _is_store(value: object) -> bool:
    return isinstance(value, str | Path) or (hasattr(value, "create") and not isinstance(value, type))


def _are_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value) and value >= 0


def _of(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds)


_PLACES: Mapping[str, _Place] = {
    "model": _Place(_is_model, "model", 'make one, such as heaveto.models.by_name("ollama:qwen3:8b")'),
    "tools": _Place(_are_tools, "list of tools", "give one, such as tools=[word_count]"),
    "sampling": _Place(_of(Sampling), "Sampling", "give Sampling(temperature=0.2)"),
    "system": _Place(_of(str), "text", 'give a string, such as "You are brief."'),
    "limits": _Place(_of(Limits), "Limits", 'give Limits(turns=20, usd="0.50")'),
    "budget": _Place(_of(Budget), "Budget", 'give Budget(usd="2.00"); what one run may use up is limits=Limits(...)'),
    "store": _Place(_is_store, "store", "give a file, postgresql://user@host/database, or a store such as MemoryStore()"),
    "folder": _Place(_of(str, Path), "path", 'give one, such as "my/project"'),
    "slots": _Place(_of(Slots), "Slots", "give Slots(4)"),
    "retry": _Place(_of(RetryPolicy), "RetryPolicy", "give RetryPolicy(attempts=4)"),
    "approve": _Place(callable, "function", "give an async one of a call that returns True, False or a reason"),
    "permit": _Place(callable, "function", 'give Permissions("ask"), or one of a tool and a call'),
    "resolve": _Place(callable, "function", "give an async one of a call in doubt that returns a Check"),
    "on_unknown": _Place(lambda value: value in UNKNOWN, "word of its own", 'it is "wait" or "tell_model"'),
    "grace_seconds": _Place(_are_seconds, "number of seconds", "give 0 or more, such as 7.0"),
    "sandbox": _Place(lambda value: hasattr(value, "name"), "sandbox", "give find_sandbox()"),
}
