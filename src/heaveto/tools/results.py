"""What a tool returned, as the text that the model reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any, Self

from ..messages import MAX_PARTS_BYTES, File, Image, Part, text_of
from .surrogates import replace_surrogates

__all__ = ["MAX_CHARS", "READ_RESULT", "Shortened", "WithMedia", "behind", "cut_middle", "shortened", "to_text"]

READ_RESULT = "read_result"  # the tool that reads on in what was cut
MAX_CHARS = 50_000  # some 12,000 tokens: a longer result crowds out the conversation, and every later turn pays for it

_HEAD_SHARE = 0.6  # the head says what it is; the tail has the outcome


class WithMedia(str):
    """A result with images or files: the text that says what there is, which every API can have, and the `parts`."""

    __slots__ = ("parts",)
    parts: tuple[Part, ...]

    def __new__(cls, *parts: Part) -> Self:
        made = super().__new__(cls, text_of(parts))
        made.parts = parts
        return made


class Shortened(str):
    """A result that was cut in the middle, and the `whole` of it."""

    __slots__ = ("whole",)
    whole: str

    def __new__(cls, text: str, whole: str) -> Self:
        made = super().__new__(cls, text)
        made.whole = whole
        return made


def shortened(text: str, max_chars: int = MAX_CHARS) -> str:
    """The text; a long one as `cut_middle` has it, with the whole of it."""
    return text if len(text) <= max_chars else Shortened(cut_middle(text, max_chars), text)


def behind(head: str, text: str, joint: str = "\n") -> str:
    """A text behind another; what was cut keeps its whole."""
    if isinstance(text, Shortened):
        return Shortened(f"{head}{joint}{text}", f"{head}{joint}{text.whole}")
    return f"{head}{joint}{text}".rstrip()


def to_text(value: Any, max_chars: int = MAX_CHARS) -> str:
    """The value as text: a string as it is, None as "done", anything else as JSON; over-long text is `Shortened`.

    An image, a file, or a list that has one among texts, is `WithMedia`.
    """
    if value is None:
        return "done"
    if (parts := _media_in(value)) is not None:
        return WithMedia(
            *(cut_middle(replace_surrogates(each), max_chars) if isinstance(each, str) else each for each in parts)
        )
    if isinstance(value, Shortened):
        whole = replace_surrogates(value.whole)
        return Shortened(replace_surrogates(str(value)), whole) if len(value) <= max_chars else shortened(whole, max_chars)
    text = str.__str__(value) if isinstance(value, str) else _to_json(value)  # of an enum that is a string its value
    return shortened(replace_surrogates(text), max_chars)


def cut_middle(text: str, max_chars: int = MAX_CHARS) -> str:
    """The text, or its head and its tail around a line that says how much is missing."""
    if len(text) <= max_chars:
        return text
    head = int(max_chars * _HEAD_SHARE)
    tail = max_chars - head
    left_out = len(text) - max_chars
    return f"{text[:head]}\n... {left_out} of {len(text)} characters left out ...\n{text[-tail:]}"


def _media_in(value: Any) -> Sequence[Part] | None:
    """The parts of a result that has images or files; None for any other, and for more of them than a run keeps."""
    parts = [value] if isinstance(value, Image | File) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(each, str | Image | File) for each in parts):
        return None
    media = [each for each in parts if not isinstance(each, str)]
    if not media:
        return None
    return parts if sum(len(each.data) for each in media) <= MAX_PARTS_BYTES else [text_of(parts)]


def _to_json(value: Any) -> str:
    import msgspec

    try:
        return msgspec.json.encode(value, enc_hook=_to_plain).decode()
    except Exception:  # boundary: the call has taken effect, and a value that JSON cannot hold makes no failure of it
        return _repr(value)


def _repr(value: Any) -> str:
    try:
        return repr(value)
    except Exception:  # boundary: somebody's __repr__, an endless depth, a number of too many digits
        return f"done, with a value that has no text: {type(value).__name__}"


def _to_plain(value: Any) -> Any:
    if callable(dump := getattr(value, "model_dump", None)):  # a Pydantic model; not imported for the sake of a check
        return dump(mode="json")
    if isinstance(value, PurePath):
        return str(value)
    return repr(value)
