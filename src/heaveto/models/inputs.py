"""Which images and files an API takes, and their bytes as the APIs want them."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Sequence

import msgspec

from ..errors import ConfigError
from ..messages import PDF, File, Image, Part, ToolMessage, described

__all__ = ["IMAGES", "NOTHING", "Takes", "as_base64", "as_data_url", "estimated_tokens", "words_for"]

BYTES_PER_TOKEN = 3  # of a request's JSON, measured; on the safe side
IMAGE_TOKENS = 1_600  # of a large one; each API counts otherwise
PDF_BYTES_PER_TOKEN = 25  # some 2,000 tokens a page of 50 kB

IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


class Takes(msgspec.Struct, frozen=True, kw_only=True):
    """What an API takes in a message, as its documents say; whether a model can see them is for the API to say.

    A text is sent as text, so every API takes it.

    Attributes:
        images: Media types of images.
        files: Media types of files.
        image_urls: Whether it fetches an image from an address, and `file_urls` a file.
        image_bytes: Of the largest image, and `file_bytes` of the largest file.
        in_results: Media types that it takes in a tool's result too; of others the model is told what there was.
    """

    images: frozenset[str] = IMAGES
    files: frozenset[str] = frozenset({PDF})
    image_urls: bool = True
    file_urls: bool = True
    image_bytes: int = 20_000_000
    file_bytes: int = 20_000_000
    in_results: frozenset[str] = frozenset()

    def check(self, parts: Iterable[Part], provider: str) -> None:
        """Pass, or refuse before anything is sent.

        Raises:
            ConfigError: It does not take one of them.
        """
        for part in parts:
            if not isinstance(part, str) and (problem := self._problem(part)):
                raise ConfigError(f"{provider} does not take {described(part)}", problem)

    def in_result(self, parts: Iterable[Part]) -> list[Part]:
        """The parts of a tool's result, with a word for each that the API does not take there."""
        return [
            part if isinstance(part, str) or self.takes_in_result(part) else (_text(part) or f"[{described(part)}]")
            for part in parts
        ]

    def words_of(self, message: ToolMessage) -> str:
        """What a tool's result says beside the images and files that the API takes there."""
        if not message.parts:
            return message.content
        return "\n".join(part for part in self.in_result(message.parts) if isinstance(part, str))

    def takes_in_result(self, part: Image | File) -> bool:
        """Whether a tool's result may have it."""
        return part.media_type in self.in_results and not self._problem(part)

    def _problem(self, part: Image | File) -> str:
        if _text(part) is not None:
            return ""
        what, kinds, urls, most = (
            ("images", self.images, self.image_urls, self.image_bytes)
            if isinstance(part, Image)
            else ("files", self.files, self.file_urls, self.file_bytes)
        )
        if not kinds:
            return f"it takes no {what}"
        if part.url and not urls:
            return "it fetches nothing itself: give the bytes"
        if part.media_type not in kinds and not (part.url and not part.media_type):
            return f"it takes {', '.join(sorted(kinds))}"
        return f"{most:,} bytes are the most" if len(part.data) > most else ""


NOTHING = Takes(images=frozenset(), files=frozenset())


def as_base64(part: Image | File) -> str:
    return base64.b64encode(part.data).decode()


def as_data_url(part: Image | File) -> str:
    """Where the API finds it: its own address, or its bytes in one."""
    return part.url or f"data:{part.media_type};base64,{as_base64(part)}"


def words_for(parts: Sequence[Part]) -> Iterable[str | Image | File]:
    """The parts with each text file as the text that it is."""
    for part in parts:
        text = None if isinstance(part, str) else _text(part)
        yield part if text is None else text


def _text(part: Image | File) -> str | None:
    return part.text if isinstance(part, File) else None


def estimated_tokens(body_bytes: int, media: Sequence[Image | File]) -> int:
    """An estimate of what a request's body costs to read. Images and PDFs are not read as text."""
    seen = [part for part in media if _text(part) is None]
    text_bytes = max(0, body_bytes - sum(len(part.data) * 4 // 3 for part in seen))
    return math.ceil(text_bytes / BYTES_PER_TOKEN) + sum(map(_tokens_of, seen))


def _tokens_of(part: Image | File) -> int:
    return IMAGE_TOKENS if isinstance(part, Image) else max(IMAGE_TOKENS, len(part.data) // PDF_BYTES_PER_TOKEN)
