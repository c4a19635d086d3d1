"""JSON in and out, forgiving where msgspec is not.

msgspec is fast and refuses lone surrogates, bad UTF-8 and NaN, all of which real APIs, models and file names produce. So
what it refuses is taken the slow way, with U+FFFD in the place of what no text can hold.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar

import msgspec

__all__ = ["as_object", "decode", "encode", "is_object", "read_json", "without_strays"]

T = TypeVar("T")

_encoder = msgspec.json.Encoder()


def decode(decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    """Decode with `decoder`, and what it refuses the forgiving way.

    Raises:
        ValueError: When it is not JSON, or not of the decoder's type.
    """
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, RecursionError):
        value: T = msgspec.convert(read_json(data), decoder.type, strict=False)
        return value


def read_json(data: bytes) -> Any:
    """Plain data, the forgiving way.

    Raises:
        ValueError: When it is not JSON, or nested too deeply to be read.
    """
    try:
        return without_strays(json.loads(data.decode("utf-8", "replace"), parse_int=_whole_number))
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error


def _whole_number(digits: str) -> int | float:
    """The number, infinite where it has more digits than Python reads: nothing else in the text is lost for it."""
    try:
        return int(digits)
    except ValueError:
        return float(digits)


def encode(value: Any) -> bytes:
    """Encode, with U+FFFD for each lone surrogate."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(without_strays(msgspec.to_builtins(value)))


def without_strays(value: Any) -> Any:
    """The same plain data, with U+FFFD for each lone surrogate; a split pair that stands side by side is joined."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {without_strays(key): without_strays(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_strays(each) for each in value]
    return value


def is_object(text: str) -> bool:
    """Whether the text is one JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def as_object(arguments: str) -> Any:
    """A call's arguments as the object that some APIs demand: as they came, mended, or wrapped into one."""
    try:
        if isinstance(msgspec.json.decode(arguments), dict):
            return msgspec.Raw(arguments.encode())
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        pass  # msgspec is stricter than what models write
    return read_json(arguments.encode("utf-8", "replace")) if is_object(arguments) else {"not_json": arguments}
