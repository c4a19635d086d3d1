"""Stores and exchanges that go wrong where they are told to, and nowhere else."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from heaveto.causes import Cancelled, ConnectTimeout, SaveTimeout, StreamIdle
from heaveto.errors import APIError, GaveUp, IncompleteStream, JournalError, TransportFailed, find
from heaveto.journal import MemoryStore, Summary
from heaveto.messages import Reply, Transcript, UserMessage
from heaveto.models import HTTPRequest, Request, compatible
from heaveto.retry import RetryPolicy
from heaveto.runs import Agent
from heaveto.scopes import Scope, deadline
from heaveto.testing import Answered, Cut, FakeClock, FaultyExchange, FaultyStore, Write, fault_at, faults_at_random
from heaveto.testing.faults import Fault
from heaveto.testing.store_conformance import CHECKS, Check

pytestmark = pytest.mark.anyio

STREAM = b"".join(
    b'data: {"id":"x","choices":[{"index":0,"delta":%s,"finish_reason":%s}]}\n\n' % parts
    for parts in ((b'{"content":"Hello"}', b"null"), (b'{"content":" there"}', b"null"), (b"{}", b'"stop"'))
)
STREAM += b"data: [DONE]\n\n"
HALF = STREAM.index(b" there")


@pytest.fixture
def anyio_backend(fake_clock: FakeClock) -> Any:
    return fake_clock.backend


# --- stores ---------------------------------------------------------------------------------------------------------


async def bodies(store: Any) -> list[bytes]:
    return [entry.body for entry in await store.read("run")] if await store.runs() else []


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_without_faults_it_is_as_good_as_its_store(check: Check) -> None:
    await check(lambda: FaultyStore(MemoryStore()))


@pytest.mark.parametrize(
    ("fault", "kind", "written"),
    [
        ("before", JournalError, False),
        ("full", JournalError, False),
        ("after", JournalError, True),
        ("late", SaveTimeout, True),
    ],
)
async def test_an_append_fails_before_or_after_it_wrote(fault: Fault, kind: type[Exception], written: bool) -> None:
    store = FaultyStore(MemoryStore(), fault_at(2, fault))
    await store.create("run", "", [b"0"], Summary())
    await store.append("run", 1, [b"1"], Summary())
    with pytest.raises(kind):
        await store.append("run", 1, [b"2"], Summary())
    await store.append("run", 1, [b"3"], Summary())
    assert await bodies(store) == [b"0", b"1", *([b"2"] if written else []), b"3"]
    assert store.appends == 3


async def test_creates_and_takes_fail_too() -> None:
    store = FaultyStore(MemoryStore(), fault_at(1, "before", on="create"))
    with pytest.raises(JournalError, match="the disk is gone"):
        await store.create("run", "", [b"0"], Summary())
    assert await store.create("run", "", [b"0"], Summary()) == 1
    store.choose = fault_at(1, "after", on="take")
    with pytest.raises(JournalError):
        await store.take("run", "me")
    assert (await store.runs())[0].epoch == 2


async def test_a_lasting_fault_lasts_until_the_store_is_mended() -> None:
    store = FaultyStore(MemoryStore(), fault_at(2, "full", lasting=True))
    await store.create("run", "", [], Summary())
    await store.append("run", 1, [b"1"], Summary())
    for _ in range(2):
        with pytest.raises(JournalError, match="the disk is full"):
            await store.append("run", 1, [b"2"], Summary())
    store.choose = None
    assert await store.append("run", 1, [b"3"], Summary()) == 2


async def test_a_slow_write_is_made_although_its_caller_is_stopped(fake_clock: FakeClock) -> None:
    store = FaultyStore(MemoryStore(), fault_at(1, "slow"))
    await store.create("run", "", [], Summary())
    with Scope(quiet=True) as scope:
        scope.cancel(Cancelled("lunch"))
        await store.append("run", 1, [b"1"], Summary())
    assert (await bodies(store), fake_clock.now) == ([b"1"], 8)


async def test_a_write_that_hangs_can_be_stopped_and_has_written_nothing() -> None:
    store = FaultyStore(MemoryStore(), fault_at(1, "hangs"))
    await store.create("run", "", [], Summary())
    with pytest.raises(TimeoutError), deadline(30):
        await store.append("run", 1, [b"1"], Summary())
    assert await bodies(store) == []


async def test_a_function_sees_what_is_to_be_written() -> None:
    seen: list[Write] = []

    def choose(write: Write) -> Fault | None:
        seen.append(write)
        return "before" if b"poison" in write.bodies else None

    store = FaultyStore(MemoryStore(), choose)
    await store.create("run", "", [b"0"], Summary())
    with pytest.raises(JournalError):
        await store.append("run", 1, [b"poison"], Summary())
    assert seen == [Write("create", 1, "run", [b"0"]), Write("append", 1, "run", [b"poison"])]


async def test_chance_repeats_itself() -> None:
    writes = [Write("append", number, "run") for number in range(1, 1_001)]
    first = [faults_at_random(1, "before", "late", share=0.2)(write) for write in writes]
    backwards = [faults_at_random(1, "before", "late", share=0.2)(write) for write in reversed(writes)]
    assert first == backwards[::-1]
    assert set(first) == {None, "before", "late"}
    assert 150 < 1_000 - first.count(None) < 250
    assert first != [faults_at_random(2, "before", "late", share=0.2)(write) for write in writes]
    assert "hangs" not in {faults_at_random(3, share=1)(write) for write in writes}


# --- exchanges ------------------------------------------------------------------------------------------------------


async def ask(exchange: FaultyExchange) -> tuple[str, Reply]:
    model = compatible("m", base_url="http://localhost/v1", exchange=exchange)
    text = ""
    async with model.stream(Request(transcript=Transcript([UserMessage("hi")]))) as stream:
        async for delta in stream:
            text += delta.text
    await model.aclose()
    return text, stream.reply


async def test_bytes_are_an_event_stream() -> None:
    exchange = FaultyExchange(STREAM)
    assert (await ask(exchange))[0] == "Hello there"
    (request,) = exchange.requests
    assert (request.method, request.url) == ("POST", "http://localhost/v1/chat/completions")


@pytest.mark.parametrize("place", range(0, len(STREAM) + 1, 7))
async def test_split_anywhere_it_is_the_same_reply(place: int) -> None:
    text, reply = await ask(FaultyExchange(STREAM, Cut("split", place)))
    assert (text, reply.message.content) == ("Hello there", "Hello there")


async def test_closed_reset_and_stalled_in_the_middle(fake_clock: FakeClock) -> None:
    with pytest.raises(IncompleteStream):
        await ask(FaultyExchange(STREAM, Cut("closed", HALF)))
    with pytest.raises(IncompleteStream, match="the connection broke after 5 characters"):
        await ask(FaultyExchange(STREAM, Cut("reset", HALF)))
    assert fake_clock.now == 0
    with pytest.raises(StreamIdle) as caught:
        await ask(FaultyExchange(STREAM, Cut("stalled", HALF)))
    assert (caught.value.setting, fake_clock.now) == ("idle_seconds", 60)


async def test_a_cut_behind_the_body_comes_at_its_end() -> None:
    exchange = FaultyExchange(b"abc", Cut("reset", 100))
    answer = await exchange.send(HTTPRequest("GET", "http://localhost/", {}, b""), lambda: None)
    assert await answer.read() == b"abc"
    with pytest.raises(TransportFailed, match="the connection broke"):
        await answer.read()


async def test_before_there_is_an_answer(fake_clock: FakeClock) -> None:
    with pytest.raises(TransportFailed, match="no connection"):
        await ask(FaultyExchange(STREAM, Cut("refused")))
    with pytest.raises(StreamIdle) as caught:
        await ask(FaultyExchange(STREAM, Cut("unanswered")))
    assert (caught.value.setting, fake_clock.now) == ("first_byte_seconds", 120)


async def test_each_request_has_its_own_fault_and_the_last_ones_none(fake_clock: FakeClock) -> None:
    busy = Answered(b'{"error":{"message":"busy"}}', 503, {"content-type": "application/json", "retry-after": "20"})
    exchange = FaultyExchange(STREAM, Cut("reset", HALF), busy)
    model = compatible("m", base_url="http://localhost/v1", exchange=exchange)
    agent = Agent(model=model, store=MemoryStore(), retry=RetryPolicy(base_seconds=0))
    assert (await agent.run("hi")).text == "Hello there"
    assert (len(exchange.requests), fake_clock.now) == (3, 20)


async def test_a_status_is_the_apis_refusal() -> None:
    exchange = FaultyExchange(Answered(b'{"error":{"message":"no such key"}}', 401, {"content-type": "application/json"}))
    with pytest.raises(APIError) as caught:
        await ask(exchange)
    assert (caught.value.status, caught.value.message) == (401, "no such key")


async def test_whoever_retries_enough_gives_up() -> None:
    exchange = FaultyExchange(STREAM, *[Cut("closed", 0)] * 3)
    model = compatible("m", base_url="http://localhost/v1", exchange=exchange)
    agent = Agent(model=model, store=MemoryStore(), retry=RetryPolicy(attempts=3, base_seconds=0))
    with pytest.raises(GaveUp) as caught:
        await agent.run("hi")
    assert caught.value.attempts == 3


class Inner:
    """A real exchange, as far as anybody can see."""

    def __init__(self) -> None:
        self.pieces = [b"abcd", b"efgh", b"ij"]
        self.closed = 0
        self.status, self.headers = 418, {"x": "y"}

    async def send(self, request: HTTPRequest, connected: Any) -> Inner:
        connected()
        return self

    async def read(self) -> bytes:
        return self.pieces.pop(0) if self.pieces else b""

    async def aclose(self) -> None:
        self.closed += 1


@pytest.mark.parametrize(
    ("cut", "pieces"),
    [
        (Cut("split", 6), [b"abcd", b"ef", b"gh", b"ij", b""]),
        (Cut("split", 8), [b"abcd", b"efgh", b"ij", b""]),
        (Cut("split", 0), [b"abcd", b"efgh", b"ij", b""]),
        (Cut("split", 99), [b"abcd", b"efgh", b"ij", b""]),
        (Cut("closed", 6), [b"abcd", b"ef", b"", b""]),
        (Cut("closed", 0), [b"", b""]),
        (None, [b"abcd", b"efgh", b"ij", b""]),
    ],
)
async def test_over_another_exchange(cut: Cut | None, pieces: list[bytes]) -> None:
    inner, connected = Inner(), list[bool]()
    exchange = FaultyExchange(inner, cut)
    answer = await exchange.send(HTTPRequest("GET", "http://localhost/", {}, b""), lambda: connected.append(True))
    assert (answer.status, answer.headers, connected) == (418, {"x": "y"}, [True])
    assert [await answer.read() for _ in pieces] == pieces
    assert bool(inner.closed) == (cut is not None and cut.how == "closed"), "a cut connection is closed, as it is nobody's"
    await exchange.aclose()


async def test_a_connect_limit_fires_when_the_other_exchange_hangs(fake_clock: FakeClock) -> None:
    class Nowhere(Inner):
        async def send(self, request: HTTPRequest, connected: Any) -> Inner:
            await anyio.sleep_forever()
            return self

    with pytest.raises(ConnectTimeout):
        await ask(FaultyExchange(Nowhere()))
    assert fake_clock.now == 10


async def test_find_sees_the_break_below_what_the_client_says() -> None:
    with pytest.raises(IncompleteStream) as caught:
        await ask(FaultyExchange(STREAM, Cut("reset", HALF)))
    assert find(caught.value, TransportFailed) is not None
