"""A few of the inputs of `make fuzz`, and that it sees what is wrong."""

from __future__ import annotations

from typing import Any

import endless
import fuzz
import pytest
from points import DIALECTS

from heaveto.models.chat import ChatDialect
from heaveto.models.chat.decode import ChatDecoder
from heaveto.models.decoder import ReplyDecoder


def test_some_inputs_of_every_target() -> None:
    wrong, tried = fuzz.failures(1, range(3000))
    assert wrong == []
    assert all(tried[target] > 300 for target in fuzz.TARGETS)


def test_an_input_can_be_made_again() -> None:
    known = fuzz.fixtures()
    assert fuzz.made(7, 11, known) == fuzz.made(7, 11, known) != fuzz.made(7, 12, known)


class Sloppy(ChatDecoder):
    """Raises what is not ours, or depends on the cuts."""

    def _take_event(self, event: Any) -> None:
        if b"choices" in event.data:
            raise KeyError("choices")
        super()._take_event(event)


class Forgetful(ChatDecoder):
    def feed(self, data: bytes) -> Any:
        return super().feed(data[:100])


class Talkative(ChatDecoder):
    def feed(self, data: bytes) -> Any:
        return super().feed(data) * 200


@pytest.mark.parametrize(
    ("decoder", "text"), [(Sloppy, "KeyError"), (Forgetful, "how the bytes are cut"), (Talkative, "more was handed out")]
)
def test_a_bug_is_seen(monkeypatch: pytest.MonkeyPatch, decoder: type[ChatDecoder], text: str) -> None:
    class Dialect(ChatDialect):
        def decoder(self, *, stream: bool) -> ChatDecoder:
            return decoder(stream=stream, provider="p")

    monkeypatch.setitem(DIALECTS, "chat", Dialect)
    wrong, _ = fuzz.failures(1, range(600))
    assert any(text in each for each in wrong)


@pytest.mark.parametrize("odd", [b"[]", b"{}", b"1.5", b"null", b"true"])
def test_details_of_reasoning_with_odd_names_are_taken(odd: bytes) -> None:
    """Found by seed 1."""
    detail = b'{"type":%b,"index":%b,"text":"hm"}' % (odd, odd)
    decoder = ChatDecoder(stream=True)
    decoder.feed(b'data: {"choices":[{"delta":{"reasoning_details":[%b]},"finish_reason":"stop"}]}\n\n' % detail)
    assert decoder.finish().message.reasoning == "hm"


def test_of_a_reply_without_an_end_little_is_kept() -> None:
    assert endless.largest_kept(256 * 1024) == []


def test_what_is_kept_for_ever_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReplyDecoder, "_hold", lambda _: None)
    shapes = {name: endless.SHAPES[name] for name in ("chat new details", "anthropic blocks", "chat text", "comments")}
    monkeypatch.setattr(endless, "SHAPES", shapes)
    assert [each.partition(":")[0] for each in endless.largest_kept(256 * 1024)] == ["chat new details", "anthropic blocks"]
