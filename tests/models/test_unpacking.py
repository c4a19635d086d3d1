"""Packed bodies: the same content whatever the pieces, and no body that breaks off is taken for a whole one."""

from __future__ import annotations

import gzip
import zlib
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaveto.models.unpacking import MAX_UNPACKED_BYTES, NotUnpacked, Unpacker, unpacker_for

contents = st.binary(max_size=50) | st.binary(min_size=1, max_size=5).map(lambda piece: piece * 3_000)
codings = st.sampled_from(["gzip", "x-gzip", "deflate", "raw"])


def packed(coding: str, members: list[bytes]) -> bytes:
    if coding == "deflate":
        return zlib.compress(b"".join(members))
    if coding == "raw":
        return zlib.compress(b"".join(members))[2:-4]
    return b"".join(map(gzip.compress, members))


def name_of(coding: str) -> str:
    return "deflate" if coding == "raw" else coding


def unpacked(unpacker: Unpacker, pieces: list[bytes]) -> bytes:
    parts: list[bytes] = []
    for piece in pieces:
        unpacker.feed(piece)
        while part := unpacker.take():
            assert len(part) <= MAX_UNPACKED_BYTES
            parts.append(part)
    unpacker.end()
    return b"".join(parts)


@given(codings, st.lists(contents, min_size=1, max_size=3), st.lists(st.integers(0, 200), max_size=5))
def test_the_content_does_not_depend_on_the_pieces(coding: str, members: list[bytes], cuts: list[int]) -> None:
    body = packed(coding, members)
    places = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    pieces = [body[start:stop] for start, stop in pairwise(places)]
    assert unpacked(Unpacker(name_of(coding)), pieces) == b"".join(members)
    assert unpacked(Unpacker(name_of(coding)), [bytes([each]) for each in body]) == b"".join(members)


@given(codings, contents, st.data())
def test_a_body_that_breaks_off_is_no_whole_one(coding: str, content: bytes, data: st.DataObject) -> None:
    body = packed(coding, [content])
    left = data.draw(st.integers(1, len(body) - 1))
    with pytest.raises(NotUnpacked, match=f"the {name_of(coding)} body breaks off|is not deflate"):
        unpacked(Unpacker(name_of(coding)), [body[:left]])


@given(st.binary(max_size=30).filter(lambda rest: not rest.startswith(b"\x1f\x8b")), st.booleans())
def test_what_follows_and_is_no_member_is_ignored(rest: bytes, at_once: bool) -> None:
    body = gzip.compress(b"yes")
    assert unpacked(Unpacker("gzip"), [body + rest] if at_once else [body, *(bytes([each]) for each in rest)]) == b"yes"


@given(st.binary(max_size=200), codings)
def test_anything_is_unpacked_or_refused(body: bytes, coding: str) -> None:
    with suppress(NotUnpacked):
        unpacked(Unpacker(name_of(coding)), [body])


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_few_bytes_that_stand_for_very_many_come_a_part_at_a_time(coding: str) -> None:
    body = packed(coding, [bytes(5 * MAX_UNPACKED_BYTES)])
    unpacker = Unpacker(coding)
    unpacker.feed(body)
    parts = []
    while part := unpacker.take():
        parts.append(len(part))
    unpacker.end()
    assert sum(parts) == 5 * MAX_UNPACKED_BYTES
    assert max(parts) <= MAX_UNPACKED_BYTES


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip", "nonsense"])
def test_a_coding_that_was_not_asked_for_is_named(coding: str) -> None:
    with pytest.raises(NotUnpacked, match=f'the body is packed as "{coding}", which was not asked for'):
        unpacked(Unpacker(coding), [b"some body"])


@pytest.mark.parametrize("coding", ["", "identity", " Identity "])
def test_what_is_not_packed_needs_nothing(coding: str) -> None:
    assert unpacker_for(coding) is None
