"""A few of the points of `make bytes`, and that its judges see what is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import every_byte
import pytest
from hand_made import hand_made
from judge import WrongConclusion, judge
from points import HOWS, Came, Point, call, cut_exchange, model_for, places, wrong_at
from replies import Reply
from standing import standing

from heaveto.causes import StreamIdle
from heaveto.errors import EmptyReply, IncompleteStream
from heaveto.messages import TextDelta
from heaveto.testing.clocks import FakeClock

HERE = Path(__file__).parent
STREAMS = [reply for reply in hand_made() if reply.stream]
TEXT = next(reply for reply in STREAMS if reply.name == "made-messages-text-pings")


def test_hand_made_streams_at_some_bytes_in_memory_and_over_sockets() -> None:
    points = [Point(reply, place, how) for reply in STREAMS for place in places(reply, 3) for how in HOWS]
    wholes = {reply.name: every_byte.whole(reply) for reply in STREAMS}
    assert len(points) > 500
    assert every_byte.in_memory(points, wholes) == []
    assert every_byte.over_sockets(points[::20], wholes) == []


def test_a_small_stream_is_cut_at_every_byte_and_a_large_one_at_its_end() -> None:
    size = len(TEXT.body)
    assert places(TEXT, size + 1) == places(TEXT, None) == list(range(size + 1))
    few = places(TEXT, 200)
    assert len(few) == len(set(few)) < size
    assert {*TEXT.nasty, size - 1, size} <= set(few)


@pytest.mark.parametrize("reply", [pytest.param(reply, id=reply.name) for reply in STREAMS])
def test_the_second_opinion_agrees_with_what_is_expected(reply: Reply) -> None:
    outcome, state = reply.expected["outcome"], standing(reply.dialect, reply.body, closed=True)
    wanted = {"stream_error": {"failed"}, "bad_response": {"open"}, "incomplete": {"open"}}.get(outcome, {"ended", "done"})
    said_so = outcome == "incomplete" and reply.expected.get("stop_reason")  # the API itself ended it there
    assert state in wanted or said_so


def whole() -> Came:
    return FakeClock("asyncio").run(call, model_for(TEXT, exchange=cut_exchange(Point(TEXT, len(TEXT.body), "closed"))))


@pytest.mark.parametrize("how", HOWS)
def test_a_false_answer_is_seen(how: str) -> None:
    right = whole()
    place = 100 if how != "split" else len(TEXT.body)
    point = Point(TEXT, place, how)
    assert wrong_at(Point(TEXT, len(TEXT.body), "closed"), right, right) is None
    false = right if how != "split" else Came([TextDelta("other")], right.reply)
    assert wrong_at(point, false, right)
    assert wrong_at(point, Came([], error=EmptyReply()), right)
    assert wrong_at(point, Came([TextDelta("what it never said")], error=IncompleteStream()), right)


def test_an_error_where_the_reply_had_ended_is_seen() -> None:
    right, size = whole(), len(TEXT.body)
    for how, error in (("closed", IncompleteStream()), ("reset", IncompleteStream()), ("stalled", StreamIdle(60))):
        assert wrong_at(Point(TEXT, size, how), Came([], error=error), right)


@pytest.mark.parametrize(
    "change", [{"text": "no"}, {"usage": None}, {"outcome": "truncated"}, {"tool_calls": [{}]}, {"stop_reason": ""}]
)
def test_another_conclusion_is_seen(change: dict[str, object]) -> None:
    with pytest.raises((WrongConclusion, ValueError)):
        judge(
            Reply(name="r", dialect="anthropic", stream=True, body=TEXT.body, expected={**TEXT.expected, **change}),
            [TEXT.body],
        )


@pytest.mark.parametrize(
    ("command", "last", "status"),
    [
        ("wire.py --random 0 --two 2", ["wire: no recordings in ", "hand-made alone, ", " all as expected"], 0),
        (
            "every_byte.py --places 2 --served 4",
            ["bytes: ", " points (4 over sockets)", "all right, fewer than 4,000", "hand-made streams alone"],
            1,
        ),
    ],
)
def test_without_recordings_the_last_line_says_so(command: str, last: list[str], status: int) -> None:
    done = run(command)
    line = done.stdout.splitlines()[-1]
    assert all(part in line for part in last), line
    assert done.returncode == status, done.stdout + done.stderr


def test_where_ci_is_set_missing_recordings_are_a_failure() -> None:
    assert run("wire.py --random 0 --two 2", CI="1").returncode == 1


def run(command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    environment |= {"HEAVETO_WIRE_DIR": "/nowhere", **variables}
    script, *arguments = command.split()
    return subprocess.run(
        [sys.executable, str(HERE / script), *arguments], env=environment, capture_output=True, text=True, check=False
    )
