"""Images and files as plain data: what they are is found in their bytes, and what cannot be used is never made."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from heaveto.errors import ConfigError
from heaveto.messages import File, Image, ToolMessage, Transcript, UserMessage, attached, described, shown
from heaveto.messages.parts import MAX_PART_BYTES

PNG = b"\x89PNG\r\n\x1a\n and more"
PDF = b"%PDF-1.7 and more"


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"\0\0\0\x18ftypheic", "image/heic"),
    ],
)
def test_an_images_type_is_in_its_bytes(data: bytes, kind: str) -> None:
    assert Image(data).media_type == kind
    assert Image.from_bytes(data, kind, "x").name == "x"


def test_a_file_is_a_pdf_or_a_text() -> None:
    assert File(PDF).media_type == "application/pdf"
    assert File(PDF).text is None
    notes = File("café".encode(), name="notes.txt")
    assert (notes.media_type, notes.text) == ("text/plain", "notes.txt:\n\ncafé")
    assert File.from_url("https://h/a.pdf").media_type == "application/pdf"


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Image(), "either data or a url"),
        (lambda: Image(PNG, url="https://h/x.png"), "either data or a url"),
        (lambda: Image(b"hello"), 'an image needs a media type such as "image/png"'),
        (lambda: Image(PNG, "image/jpeg"), 'its bytes are image/png, and not "image/jpeg"'),
        (lambda: Image(PDF), 'not "application/pdf"'),
        (lambda: Image(url="file:///etc/passwd"), "give what is here as data"),
        (lambda: File(b"\xfe\xfe\0"), "neither a PDF nor UTF-8 text"),
        (lambda: File(PDF + bytes(MAX_PART_BYTES)), "20,000,000 is the most"),
    ],
)
def test_what_cannot_be_used_is_refused_when_it_is_made(make: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()


def test_a_file_on_disk_is_read_as_what_it_is(tmp_path: Path) -> None:
    for name, data, kind in (("x.png", PNG, Image), ("a.pdf", PDF, File), ("n.txt", b"hello", File)):
        (tmp_path / name).write_bytes(data)
        part = attached(tmp_path / name)
        assert (type(part), part.data, part.name) == (kind, data, name)


def test_a_file_that_cannot_be_read_is_a_clear_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").touch()
    (tmp_path / "binary").write_bytes(b"\xfe\xfe\0")
    with (tmp_path / "large.pdf").open("wb") as large:
        large.write(PDF)
        large.truncate(MAX_PART_BYTES + 1)
    for name, says in (
        ("missing.png", "No such file"),
        ("pipe", "is no file"),
        (".", "is no file"),
        ("empty", "is empty"),
        ("binary", "neither a PDF nor UTF-8 text"),
        ("large.pdf", "more than 20,000,000 bytes"),
    ):
        with pytest.raises(ConfigError, match=says):
            attached(tmp_path / name)


def test_what_people_see_has_no_bytes() -> None:
    image = Image(PNG, name="x.png")
    assert described(image) == "image/png x.png, 17 bytes"
    assert described(Image(url="https://h/x?token=secret")) == "image at https://h/x"
    assert repr(UserMessage.of("look", image)) == (
        "UserMessage(content='look\\n[image/png x.png, 17 bytes]', parts=('look', <Image image/png x.png, 17 bytes>))"
    )
    assert shown(image) == {"type": "image", "media_type": "image/png", "bytes": 17, "name": "x.png"}


def test_a_message_of_words_alone_is_a_text() -> None:
    assert UserMessage.of("a", "b") == UserMessage("a\nb")


def test_a_transcript_knows_its_images_and_files() -> None:
    image, file = Image(PNG), File(PDF)
    transcript = Transcript([UserMessage.of("a", image), ToolMessage("c", "f", "x", parts=("y", file)), UserMessage("b")])
    assert transcript.media == [image, file]
