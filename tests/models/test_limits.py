"""The limits of a call, to the second, on both back ends; and that only waiting for the other side counts."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import anyio
import pytest

from heaveto.causes import CallTimeout, Cancelled, ConnectTimeout, DeadlinePassed, StreamIdle
from heaveto.errors import ConfigError
from heaveto.messages import Transcript, UserMessage
from heaveto.models import CallLimits, HTTPRequest, RemoteModel, Request
from heaveto.models.chat import ChatDialect
from heaveto.models.limits import _Plan
from heaveto.scopes import Scope
from heaveto.testing.clocks import FakeClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend(fake_clock: FakeClock) -> Any:
    return fake_clock.backend


def event(text: str = "", finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


END = event(finish="stop") + b"data: [DONE]\n\n"


class PacedExchange:
    """An exchange in memory that takes its time: to connect, to begin, and before each piece."""

    def __init__(
        self, pieces: list[tuple[float, bytes]], *, connect: float = 0, first: float = 0, kind: str = "text/event-stream"
    ) -> None:
        self.pieces, self.connect, self.first, self.closed = list(pieces), connect, first, 0
        self.status, self.headers = 200, {"content-type": kind}

    async def send(self, request: HTTPRequest, connected: Callable[[], None]) -> PacedExchange:
        await anyio.sleep(self.connect)
        connected()
        await anyio.sleep(self.first)
        return self

    headers: Mapping[str, str]

    async def read(self) -> bytes:
        if not self.pieces:
            return b""
        seconds, piece = self.pieces.pop(0)
        await anyio.sleep(seconds)
        return piece

    async def aclose(self) -> None:
        self.closed += 1


async def call(exchange: PacedExchange, *, stream: bool = True, pause: float = 0, **limits: float | None) -> str:
    dialect = ChatDialect("m", provider="p", stream=stream)
    model = RemoteModel(dialect, base_url="http://x", exchange=exchange, limits=CallLimits(**limits))
    async with model.stream(Request(transcript=Transcript([UserMessage("hi")]))) as reply:
        async for _ in reply:
            await anyio.sleep(pause)
        return reply.reply.message.content
    raise AssertionError


@pytest.mark.parametrize(
    ("exchange", "error", "at"),
    [
        (lambda: PacedExchange([], connect=math.inf), ConnectTimeout(10, "connect_seconds"), 10),
        (lambda: PacedExchange([], first=math.inf), StreamIdle(120, "first_byte_seconds"), 120),
        (lambda: PacedExchange([], connect=9, first=math.inf), StreamIdle(120, "first_byte_seconds"), 129),
        (lambda: PacedExchange([(math.inf, b"")]), StreamIdle(60, "idle_seconds"), 60),
        (lambda: PacedExchange([(59, event("a")), (math.inf, b"")]), StreamIdle(60, "idle_seconds"), 119),
        (lambda: PacedExchange([(50, b": ping\n\n")] * 9), StreamIdle(120, "content_idle_seconds"), 120),
        (lambda: PacedExchange([(50, event(""))] * 9), StreamIdle(120, "content_idle_seconds"), 120),
        (
            lambda: PacedExchange([(50, b": ping\n\n"), (50, event("a")), *[(50, b": ping\n\n")] * 9]),
            StreamIdle(120, "content_idle_seconds"),
            220,
        ),
    ],
    ids=["connect", "first byte", "slow connect", "silence", "silence later", "comments", "empty chunks", "comments later"],
)
async def test_a_limit_of_a_stream_passes_at_exactly_its_time(
    fake_clock: FakeClock, exchange: Callable[[], PacedExchange], error: DeadlinePassed, at: float
) -> None:
    with pytest.raises(type(error)) as caught:
        await call(exchange())
    assert caught.value.args == error.args
    assert fake_clock.now == at


async def test_a_shorter_limit_after_a_longer_one_is_exact_too(fake_clock: FakeClock) -> None:
    """The watching task sleeps for the connection's limit when the first byte's begins."""
    with pytest.raises(StreamIdle):
        await call(PacedExchange([], connect=3, first=math.inf), connect_seconds=100, first_byte_seconds=2)
    assert fake_clock.now == 5


async def test_a_call_that_is_not_streamed_has_one_limit(fake_clock: FakeClock) -> None:
    with pytest.raises(CallTimeout) as caught:
        await call(PacedExchange([], first=math.inf, kind="application/json"), stream=False)
    assert caught.value.args == (120, "call_seconds")
    assert fake_clock.now == 120


async def test_a_stream_that_brings_content_has_no_end_unless_it_is_set(fake_clock: FakeClock) -> None:
    pieces = [(50.0, event("a"))] * 100
    assert await call(PacedExchange([*pieces, (0, END)])) == "a" * 100
    assert fake_clock.now == 5000
    with pytest.raises(CallTimeout) as caught:
        await call(PacedExchange([*pieces, (0, END)]), stream_seconds=520)
    assert caught.value.args == (520, "stream_seconds")
    assert fake_clock.now == 5520


async def test_a_slow_consumer_never_makes_a_limit_pass(fake_clock: FakeClock) -> None:
    exchange = PacedExchange([*[(1, event("a"))] * 5, (0, END)])
    assert await call(exchange, pause=1000) == "aaaaa"
    body = json.dumps({"choices": [{"index": 0, "message": {"content": "a"}, "finish_reason": "stop"}]}).encode()
    assert await call(PacedExchange([(1, body)], kind="application/json"), stream=False, pause=1000) == "a"


async def test_a_limit_still_passes_after_a_slow_consumer(fake_clock: FakeClock) -> None:
    with pytest.raises(StreamIdle):
        await call(PacedExchange([(1, event("a")), (math.inf, b"")]), pause=1000)
    assert fake_clock.now == 1061


async def test_no_limit_means_none(fake_clock: FakeClock) -> None:
    off = dict.fromkeys(("connect_seconds", "first_byte_seconds", "idle_seconds", "content_idle_seconds"))
    exchange = PacedExchange([(10_000, event("a")), (10_000, END)], connect=10_000, first=10_000)
    assert await call(exchange, **off) == "a"


async def test_the_end_of_the_body_is_not_waited_for_long(fake_clock: FakeClock) -> None:
    """A server that keeps the connection open after [DONE] costs a second, and the connection."""
    exchange = PacedExchange([(0, event("a") + END), (math.inf, b"")])
    assert await call(exchange) == "a"
    assert (fake_clock.now, exchange.closed) == (1, 1)


async def test_a_stop_from_outside_closes_and_keeps_its_cause(fake_clock: FakeClock) -> None:
    exchange = PacedExchange([(1, event("a")), (math.inf, b"")])
    with pytest.raises(Cancelled, match="enough"), Scope(5, Cancelled("enough")):
        await call(exchange)
    assert (fake_clock.now, exchange.closed) == (5, 1)


@pytest.mark.parametrize("seconds", [-1, math.nan])
async def test_a_limit_that_is_none_is_refused(seconds: float) -> None:
    with pytest.raises(ConfigError, match="idle_seconds must be 0 or more"):
        CallLimits(idle_seconds=seconds)


def test_a_limit_is_called_as_its_user_knows_it() -> None:
    known = CallLimits(told_as=(("idle_seconds", "--idle-seconds"), ("stream_seconds", "--call-seconds")))
    streamed, whole = (_Plan.of(known, streamed=each) for each in (True, False))
    told = [str(each.late).rpartition(" (")[2] for each in (streamed.idle, streamed.whole, whole.whole, streamed.content)]
    assert told == ["--idle-seconds)", "--call-seconds)", "call_seconds)", "content_idle_seconds)"]
