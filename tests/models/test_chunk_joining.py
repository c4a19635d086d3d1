"""Joined chunks read as unjoined ones do, by h11's word, however they are cut and whatever is wrong with them."""

from __future__ import annotations

from itertools import pairwise

import h11
from hypothesis import given
from hypothesis import strategies as st

from heaveto.models.chunk_joining import ChunkJoiner

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
HEADS = [
    HEAD,
    b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + HEAD,
    b"HTTP/1.1 200 OK\ntransfer-encoding:chunked\n\n",
    b"HTTP/1.1 200 OK\r\ncontent-length: 30\r\n\r\n",
    b"HTTP/1.0 200 OK\r\n\r\n",
]
CHUNK = st.binary(min_size=1, max_size=20).map(lambda content: b"%X\r\n%b\r\n" % (len(content), content))
ODD_CHUNK = st.sampled_from(
    [b"3;a=b\r\nabc\r\n", b"3 \r\nabc\r\n", b"003\r\nabc\r\n", b"0x3\r\nabc\r\n", b"3\r\nabc", b"3\r\nabc5\r\nabcde\r\n",
     b"3\r\nabc\n", b"3\nabc\r\n", b"\r\n", b"-1\r\n", b"0\r\n\r\n", b"0\r\nx: y\r\n\r\n", b"f" * 30 + b"\r\n"]
)  # fmt: skip


def read_by_h11(pieces: list[bytes]) -> tuple[bytes, str]:
    """The body, and how it ended."""
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="POST", target="/", headers=[("host", "x"), ("content-length", "0")]))
    connection.send(h11.EndOfMessage())
    body = b""
    for piece in [*pieces, b""]:
        try:
            connection.receive_data(piece)
            while (event := connection.next_event()) is not h11.NEED_DATA:
                if isinstance(event, h11.Data):
                    body += bytes(event.data)
                if isinstance(event, (h11.EndOfMessage, h11.ConnectionClosed)) or event is h11.PAUSED:
                    return body, "ended"
        except h11.RemoteProtocolError:
            return body, "error"
    raise AssertionError


def cut(data: bytes, at: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(each % (len(data) + 1) for each in at)})
    return [data[begin:end] for begin, end in pairwise(places)]


@given(
    st.sampled_from(HEADS),
    st.lists(CHUNK | ODD_CHUNK, max_size=8),
    st.booleans(),
    st.lists(st.integers(0, 500), max_size=30),
)
def test_h11_reads_the_same_with_and_without(head: bytes, chunks: list[bytes], whole: bool, at: list[int]) -> None:
    data = head + b"".join(chunks) + (b"0\r\n\r\n" if whole else b"")
    joiner, pieces = ChunkJoiner(), cut(data, at)
    joiner.begin()
    joined = [each for each in map(joiner.feed, pieces) if each]
    assert read_by_h11(joined) == read_by_h11(pieces)


def test_all_chunks_of_a_read_are_one() -> None:
    joiner = ChunkJoiner()
    joiner.begin()
    chunks = b"".join(b"%x\r\n%b\r\n" % (size, b"x" * size) for size in range(1, 100))
    assert joiner.feed(HEAD + chunks) == HEAD + b"1356\r\n" + b"x" * 4950 + b"\r\n"
    assert joiner.feed(b"3\r\nabc\r\n0\r\n\r\n") == b"3\r\nabc\r\n0\r\n\r\n"


def test_content_is_handed_on_with_the_read_that_brought_it() -> None:
    joiner = ChunkJoiner()
    joiner.begin()
    fed = [HEAD, b"6", b"\r\n", b"abc", b"def", b"\r", b"\n3\r\nghi\r\n"]
    assert [joiner.feed(each) for each in fed] == [HEAD, b"", b"", b"3\r\nabc\r\n", b"3\r\ndef\r\n", b"", b"3\r\nghi\r\n"]


def test_the_next_answer_of_a_connection_begins_anew() -> None:
    joiner = ChunkJoiner()
    joiner.begin()
    assert joiner.feed(HEAD + b"3\r\nab") == HEAD + b"2\r\nab\r\n"
    joiner.begin()
    plain = b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n3\r\nabc\r\n"
    assert joiner.feed(plain) == plain


def test_a_connection_that_speaks_something_else_is_left_alone() -> None:
    joiner = ChunkJoiner()
    assert joiner.feed(HEAD + b"1\r\na\r\n1\r\nb\r\n") == HEAD + b"1\r\na\r\n1\r\nb\r\n"


def test_a_head_without_end_is_not_kept() -> None:
    joiner = ChunkJoiner()
    joiner.begin()
    for _ in range(200):
        assert joiner.feed(b"x" * 1024) == b"x" * 1024
    assert joiner._kept == b""
