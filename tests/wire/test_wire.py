"""Recorded traffic and replies made by hand: the decoders conclude what is right, however the bytes are cut."""

from __future__ import annotations

import pytest
from hand_made import hand_made
from judge import Decoded, cut, judge, judge_refusal, splits
from replies import Reply, recorded

RANDOM_SPLITS = 5  # `make wire` has more

ALL = [*recorded(), *hand_made()]
OK = [pytest.param(reply, id=reply.name) for reply in ALL if reply.status == 200]
REFUSALS = [pytest.param(reply, id=reply.name) for reply in ALL if reply.status != 200]


@pytest.mark.skipif(not recorded(), reason="no recorded traffic")
def test_the_recordings_are_there() -> None:
    assert len(recorded()) > 70


@pytest.mark.parametrize("reply", OK)
def test_any_split_gives_what_is_expected(reply: Reply) -> None:
    wanted = judge(reply, [reply.body]).facts()
    for pieces in splits(reply, RANDOM_SPLITS):
        facts = judge(reply, pieces).facts()
        if any(not call["id"] for call in reply.expected.get("tool_calls", ())):
            del facts["calls"]  # ids made by us
            facts["calls"] = wanted["calls"]
        assert facts == wanted


@pytest.mark.parametrize("reply", OK)
def test_a_reply_cut_anywhere_is_right_or_an_error(reply: Reply) -> None:
    """Closed at some 200 places: never an answer or calls that differ from the whole one's."""
    data = reply.body
    whole = Decoded(reply, [data])
    for end in {*range(0, len(data), max(1, len(data) // 200)), *range(max(0, len(data) - 40), len(data))}:
        decoded = Decoded(reply, cut(data[:end], []))
        if decoded.reply is None:
            assert decoded.error is not None
            continue
        assert whole.decoder.ended
        if whole.reply is not None:
            assert decoded.reply.finish == whole.reply.finish
            assert decoded.reply.message.content == whole.reply.message.content
            assert [(c.name, c.arguments) for c in decoded.reply.message.tool_calls] == [
                (c.name, c.arguments) for c in whole.reply.message.tool_calls
            ]


@pytest.mark.parametrize("reply", REFUSALS)
def test_http_errors(reply: Reply) -> None:
    judge_refusal(reply)
