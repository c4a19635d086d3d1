"""Images and files in a conversation, as plain data: their bytes, or where they are.

A part is kept with the run, so its size is bounded. What an API takes of them is for `models/inputs.py` to say.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self, TypeAlias

import msgspec

from ..errors import ConfigError

__all__ = [
    "MAX_PARTS_BYTES",
    "MAX_PART_BYTES",
    "PDF",
    "File",
    "Image",
    "Part",
    "Prompt",
    "attached",
    "described",
    "shown",
    "text_of",
]

MAX_PART_BYTES = 20_000_000  # of one; no API takes more in a request's body, but for the largest of PDFs
MAX_PARTS_BYTES = 40_000_000  # of one message, and so of one record of the journal

HEAD_BYTES = 32  # enough for `media_type_of`

PDF = "application/pdf"
TEXT = "text/plain"
HEADS = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif", b"%PDF-": PDF}
HEIC_BRANDS = frozenset({b"heic", b"heix", b"hevc", b"mif1"})


class _Media(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type"):
    data: bytes = b""
    media_type: str = ""
    url: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        kind = type(self).__name__
        if bool(self.data) == bool(self.url):
            raise ValueError(f"{kind} has either data or a url, and not both")
        if len(self.data) > MAX_PART_BYTES:
            raise ValueError(f"{kind} has {len(self.data):,} bytes; {MAX_PART_BYTES:,} is the most")
        if self.url and not self.url.startswith(("https://", "http://", "gs://")):
            raise ValueError(f'{kind}: its url looks like "https://host/path"; give what is here as data')
        found = media_type_of(self.data)
        if found and self.media_type and found != self.media_type:
            raise ValueError(f'{kind}: its bytes are {found}, and not "{self.media_type}"')
        msgspec.structs.force_setattr(self, "media_type", self.media_type or found)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {described(self)}>"  # the bytes are too many for anybody's log

    @classmethod
    def from_bytes(cls, data: bytes, media_type: str = "", name: str = "") -> Self:
        """One from its bytes, which mostly tell their media type themselves.

        Raises:
            ValueError: When they cannot be used.
        """
        return cls(data, media_type, "", name)

    @classmethod
    def from_url(cls, url: str, media_type: str = "", name: str = "") -> Self:
        """One that the API fetches itself; not every API does.

        Raises:
            ValueError: When it is no web address.
        """
        return cls(b"", media_type, url, name)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """One from a file on this machine.

        Raises:
            ConfigError: When the file cannot be read, is too large, or is of no kind that can be used.
        """
        data = _read(Path(path))
        try:
            return cls(data, "", "", Path(path).name)
        except ValueError as error:
            raise ConfigError(f'"{path}" cannot be attached: {error}', "give an image, a PDF or a text file") from error


class Image(_Media, frozen=True, tag="image"):
    """A picture.

    Args:
        data: Its bytes; or else a `url`.
        media_type: Such as "image/png"; found in the bytes by default.
        url: Where the API finds it.
        name: For people.

    Raises:
        ValueError: When it is no picture, or too large.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.url and not self.media_type.startswith("image/"):
            raise ValueError(f'an image needs a media type such as "image/png", not "{self.media_type}"')


class File(_Media, frozen=True, tag="file"):
    """A PDF, or a text.

    Args:
        data: Its bytes; or else a `url`.
        media_type: "application/pdf", or a kind of text; found in the bytes by default.
        url: Where the API finds it.
        name: What the model is told that it is called.

    Raises:
        ValueError: When its media type is not known, or it is too large.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        media_type = self.media_type or (PDF if self.url else TEXT if _is_text(self.data) else "")
        if not media_type:
            raise ValueError("its bytes are neither a PDF nor UTF-8 text; give its media type")
        msgspec.structs.force_setattr(self, "media_type", media_type)

    @property
    def text(self) -> str | None:
        """What a text says, under its name; None for any other file."""
        if not self.media_type.startswith("text/") or self.url:
            return None
        return f"{self.name or 'A file'}:\n\n{self.data.decode('utf-8', 'replace')}"


Part: TypeAlias = str | Image | File
Prompt: TypeAlias = str | Image | File | Sequence[Part]  # what people may give for a message


def attached(path: str | os.PathLike[str]) -> Image | File:
    """A file on this machine as what it is: an image, a PDF or a text.

    Raises:
        ConfigError: When it cannot be read, is too large, or is none of these.
    """
    kind = Image if media_type_of(_read(Path(path), HEAD_BYTES)).startswith("image/") else File
    return kind.from_file(path)


def text_of(parts: Iterable[Part]) -> str:
    """What is said in words, for people and lists: the texts, with a word for each of the others."""
    return "\n".join(part if isinstance(part, str) else f"[{described(part)}]" for part in parts)


def described(part: _Media) -> str:
    """A part in a few words, such as "image/png x.png, 12,345 bytes"."""
    kind = part.media_type or "image"
    name = f" {part.name}" if part.name else ""
    return f"{kind}{name}, {len(part.data):,} bytes" if part.data else f"{kind}{name} at {part.url.partition('?')[0]}"


def shown(part: Part) -> Any:
    """A part as plain data without its bytes, for who watches."""
    if isinstance(part, str):
        return part
    data = {"type": part.__struct_config__.tag, "media_type": part.media_type, "bytes": len(part.data)}
    return data | {key: value for key, value in (("url", part.url), ("name", part.name)) if value}


def media_type_of(data: bytes) -> str:
    """What the first bytes say; empty where they say nothing."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if data[4:8] == b"ftyp" and data[8:12] in HEIC_BRANDS:
        return "image/heic"
    return next((kind for head, kind in HEADS.items() if data.startswith(head)), "")


def _is_text(data: bytes) -> bool:
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False


def _read(path: Path, max_bytes: int = MAX_PART_BYTES + 1) -> bytes:
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for its writer
            raise ConfigError(f'"{path}" is no file', "give an image, a PDF or a text file")
        with path.open("rb") as file:
            data = file.read(max_bytes)
    except OSError as error:
        raise ConfigError(f'"{path}" cannot be read: {error.strerror}', "give a file that is there") from error
    if not data:
        raise ConfigError(f'"{path}" is empty', "give a file with something in it")
    if len(data) > MAX_PART_BYTES:
        raise ConfigError(f'"{path}" has more than {MAX_PART_BYTES:,} bytes', "give a smaller file")
    return data
