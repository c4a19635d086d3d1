"""What two requests' bodies have in common, and where they differ first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

__all__ = ["VOLATILE", "Difference", "difference", "without"]

VOLATILE = ("metadata", "prompt_cache_key", "safety_identifier", "user")  # whom a request is made for, not what it asks
SHOWN_CHARACTERS = 60  # of a value in a text


class Difference(NamedTuple):
    """How far two bodies are apart, from 0 to 1, and the first place, in words."""

    distance: float
    text: str


def without(body: bytes, fields: Iterable[str]) -> Any:
    """A body as data, without fields at its top; as text when it is no JSON."""
    try:
        data = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return body.decode(errors="backslashreplace")
    return {name: value for name, value in data.items() if name not in set(fields)} if isinstance(data, dict) else data


def difference(recorded: Any, sent: Any) -> Difference:
    """Compare a recorded body with one that is sent."""
    old, new = dict(_leaves(recorded)), dict(_leaves(sent))
    apart = [path for path in {**old, **new} if old.get(path) != new.get(path)]
    if not apart:
        return Difference(0, "nothing differs")
    first = apart[0]
    text = f"{first} was {_shown(old.get(first))}, and is {_shown(new.get(first))}"
    return Difference(len(apart) / len({**old, **new}), text)


def _leaves(value: Any, path: str = "$") -> Iterable[tuple[str, str]]:
    """Every value that holds no other, with its place."""
    if isinstance(value, dict) and value:
        for name in sorted(value):
            yield from _leaves(value[name], f"{path}.{name}")
    elif isinstance(value, list) and value:
        for index, each in enumerate(value):
            yield from _leaves(each, f"{path}[{index}]")
    else:
        yield path, msgspec.json.encode(value).decode()


def _shown(value: str | None) -> str:
    if value is None:
        return "not there"
    return value if len(value) <= SHOWN_CHARACTERS else f"{value[:SHOWN_CHARACTERS]}..."
