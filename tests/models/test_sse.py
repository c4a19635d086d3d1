"""The splitter against a plain reading of the grammar, for any bytes cut anywhere."""

import itertools
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from heaveto.errors import BadReply
from heaveto.models.sse import Event, SSESplitter

PIECES = [b"data:", b"data: ", b"data", b"event: e", b"id: 7", b"id: \0", b":", b"retry: 3", b"x: y", b"\n", b"\r", b"\r\n"]
PIECES += [b"\n\n", b"\r\r", b"\xef\xbb\xbf", b"a", "é".encode(), b"\xff", b" "]
EVENTS = [
    b"data: a\n\n",
    b"event: e\ndata: b\n\n",
    b"data:c\n\n",
    b"data: d\ndata: e\n\n",
    b": ping\n\n",
    b"id: 7\ndata: f\n\n",
]
EVENTS += [
    b"event: e\n\n",
    b"event:  e\ndata: \n\n",
    b"event: \ndata: g\n\n",
    b"event: %b\ndata: h\n\n" % (b"n" * 70),
    b"\n",
    b"data: i\n",
]
streams = st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join) | st.lists(st.sampled_from(EVENTS), max_size=8).map(
    b"".join
)


def plainly(data: bytes) -> list[tuple[str, bytes, str | None]]:
    """The grammar as the standard words it: one line after the other."""
    text = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    events, lines, name, last_id = [], [], "", None
    for line in text.split(b"\n")[:-1]:
        if not line:
            if lines:
                events.append((name or "message", b"\n".join(lines), last_id))
            lines, name = [], ""
            continue
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            lines.append(value)
        elif field == b"event":
            name = value.decode("utf-8", "replace")
        elif field == b"id" and b"\0" not in value:
            last_id = value.decode("utf-8", "replace")
    return events


def split(pieces: list[bytes]) -> list[tuple[str, bytes, str | None]]:
    splitter = SSESplitter()
    return [(event.event, event.data, event.id) for piece in pieces for event in splitter.feed(piece)]


@given(streams, st.lists(st.integers(0, 200), max_size=6))
@example(b"data: a\r\n\r\ndata: b\n\n", [8, 9, 10, 11])
@example(b"data: a\n\ndata:c\n\n", [])
@example(b"id: data: 1\n\n", [4])
@example(b"\xef\xbb\xbfdata: a\n\n", [1, 2])
def test_any_cut_gives_what_the_grammar_says(data: bytes, cuts: list[int]) -> None:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    pieces = [data[a:b] for a, b in itertools.pairwise(places)]
    assert split(pieces) == plainly(data)
    assert split([data[i : i + 1] for i in range(len(data))]) == plainly(data)


def test_comments_and_unknown_fields_are_counted_and_ignored() -> None:
    splitter = SSESplitter()
    assert splitter.feed(b": hello\n:\nretry: 10\nwhat: x\ndata: 1\n\n") == [Event("message", b"1")]
    assert (splitter.comments, splitter.unknown_fields) == (2, 1)


def test_what_has_no_empty_line_is_pending() -> None:
    splitter = SSESplitter()
    assert splitter.feed(b"event: error\ndata: {}") == []
    assert splitter.close() == Event("error", b"{}")
    assert splitter.close() is None


def test_an_event_has_a_largest_size_however_it_comes() -> None:
    with pytest.raises(BadReply, match="more than 100 bytes"):
        SSESplitter(100).feed(b"data: " + b"x" * 200 + b"\n\n")
    splitter = SSESplitter(100)
    with pytest.raises(BadReply, match="more than 100 bytes"):
        for _ in range(200):
            splitter.feed(b"x")


def test_a_long_event_in_many_reads_is_not_quadratic() -> None:
    """8 MB in 4 KB reads: joined at each read this copies 8 GB."""
    splitter, begun = SSESplitter(), time.process_time()
    splitter.feed(b"data: ")
    for _ in range(2048):
        splitter.feed(b"x" * 4096)
    (event,) = splitter.feed(b"\n\n")
    assert len(event.data) == 2048 * 4096
    assert time.process_time() - begun < 1


def test_a_long_line_full_of_beginnings_is_not_quadratic() -> None:
    """Looked through to its end from each of them, this line is read 350,000 times."""
    line = b"data: " * 350_000
    assert SSESplitter().feed(line + b"\nid: 1\n\n") == [Event("message", line[6:], "1")]
