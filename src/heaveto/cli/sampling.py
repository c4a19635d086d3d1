"""`--sampling NAME=VALUE`: how the model shall write, from the command line."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..messages import Sampling

__all__ = ["sampling_of"]


def _yes_or_no(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


# What reads the value of a setting, and what it must be where that fails.
_READERS: Mapping[str, tuple[Callable[[str], Any], str]] = {
    "temperature": (float, "a number"),
    "top_p": (float, "a number"),
    "top_k": (int, "a whole number"),
    "seed": (int, "a whole number"),
    "stop": (str, ""),
    "max_tokens": (int, "a whole number"),
    "presence_penalty": (float, "a number"),
    "frequency_penalty": (float, "a number"),
    "effort": (str, ""),
    "parallel_tool_calls": (_yes_or_no, "true or false"),
    "tool_choice": (str, ""),
}


def sampling_of(settings: Sequence[str]) -> Sampling | None:
    """What the settings come to; None without any. The last one of a name counts; of `stop` each does.

    Raises:
        ValueError: One is none.
    """
    given: dict[str, Any] = {}
    for setting in settings:
        name, value = _read(setting)
        given[name] = (*given.get(name, ()), value) if name == "stop" else value
    return Sampling(**given) if given else None


def _read(setting: str) -> tuple[str, Any]:
    name, sign, text = setting.partition("=")
    if not sign:
        raise ValueError(f'"{setting}" has no value; write it as temperature=0.2')
    if name not in _READERS:
        near = difflib.get_close_matches(name, _READERS, 1)
        hint = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(_READERS)}"
        raise ValueError(f'there is no setting "{name}"; {hint}')
    read, kind = _READERS[name]
    try:
        return name, read(text)
    except (ValueError, KeyError) as error:
        raise ValueError(f'{name} must be {kind}, not "{text}"') from error
