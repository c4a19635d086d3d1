"""Model calls: attempts, what is void, what was spent, and replies that cannot be used."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import anyio
import pytest

from heaveto.causes import AttemptTimeout, CallTimeout, Cancelled, Shutdown, StreamIdle
from heaveto.errors import (
    APIError,
    EmptyReply,
    GaveUp,
    IncompleteStream,
    OutputFiltered,
    OutputTruncated,
    Refused,
    TransportFailed,
)
from heaveto.journal import MemoryStore
from heaveto.journal.records import CallSpent, Replied, Retried
from heaveto.loop import ReasoningPiece, TextPiece, TurnStarted
from heaveto.loop.shared_budget import Budget
from heaveto.messages import AssistantMessage, Delta, ReasoningDelta, Reply, TextDelta, Usage
from heaveto.models import Request
from heaveto.retry import RetryPolicy
from heaveto.runs import Agent, Run, read_records
from heaveto.testing.clocks import FakeClock
from heaveto.testing.scripted_model import USAGE, scripted

pytestmark = pytest.mark.anyio

BUSY = APIError("p", 503, "busy")
RETRY = RetryPolicy(attempts=3, base_seconds=4)


class Cut:
    """A model whose replies end as they are told after some words; each word spends a token."""

    name, reports_cost = "cut:model", True

    def __init__(self, *ends: BaseException | None, words: int = 2, pause_seconds: float = 1) -> None:
        self.ends, self.words, self.pause_seconds = list(ends), words, pause_seconds
        self.closed = 0

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[CutStream]:
        try:
            yield CutStream(self.ends.pop(0), self.words, self.pause_seconds)
        finally:
            self.closed += 1

    async def aclose(self) -> None: ...


class CutStream:
    def __init__(self, end: BaseException | None, words: int, pause_seconds: float) -> None:
        self._end, self._words, self._pause_seconds = end, words, pause_seconds
        self._told = 0

    @property
    def spent(self) -> Usage:
        return Usage(
            input_tokens=10, output_tokens=self._told, cost_usd=Decimal(self._told) / 100, estimated=self._end is not None
        )

    @property
    def reply(self) -> Reply:
        return Reply(message=AssistantMessage("word " * self._words), finish="answer", usage=self.spent)

    def __aiter__(self) -> CutStream:
        return self

    async def __anext__(self) -> Delta:
        await anyio.sleep(self._pause_seconds)
        if self._told == self._words:
            if self._end is not None:
                raise self._end
            raise StopAsyncIteration
        self._told += 1
        return TextDelta("word ") if self._told > 1 else ReasoningDelta("hm ")


async def drive_model(model: Any, *, during: Any = None, **options: Any) -> Any:
    agent = Agent(model=model, store=MemoryStore(), **options)
    async with agent.start("go", run_id="run") as run:
        events = run.events()
        if during:
            await during(run)
        outcome = await run.wait()
    return outcome, [event async for event in events]


def bodies(events: list[Any], *kinds: type[Any]) -> list[Any]:
    return [event.body for event in events if isinstance(event.body, kinds)]


# --- attempts -------------------------------------------------------------------------------------------------------


async def test_a_retry_voids_what_the_attempt_before_it_streamed() -> None:
    model = Cut(IncompleteStream(), StreamIdle(60), None)
    outcome, events = await drive_model(model, retry=RETRY)
    told = bodies(events, TurnStarted, TextPiece, ReasoningPiece, Retried, Replied)
    assert [(type(body).__name__, getattr(body, "attempt", 0)) for body in told] == [
        ("TurnStarted", 0),
        ("ReasoningPiece", 1),
        ("TextPiece", 1),
        ("Retried", 1),
        ("ReasoningPiece", 2),
        ("TextPiece", 2),
        ("Retried", 2),
        ("ReasoningPiece", 3),
        ("TextPiece", 3),
        ("Replied", 0),
    ]
    first, second = bodies(events, Retried)
    assert (first.turn, first.of, first.error["code"], second.error["code"]) == (1, 3, "incomplete_stream", "stream_idle")
    assert 0 <= first.wait_seconds <= 4
    assert outcome.text == "word word "
    assert model.closed == 3


async def test_each_attempts_spend_is_counted_once() -> None:
    outcome, events = await drive_model(Cut(IncompleteStream(), StreamIdle(60), None), retry=RETRY)
    spend = outcome.report.spend
    assert (spend.calls, spend.input_tokens, spend.output_tokens) == (3, 30, 6)
    assert spend.cost_usd == Decimal("0.06")
    assert spend.estimated_calls == 2
    assert bodies(events, CallSpent) == []


async def test_a_call_that_came_to_nothing_is_counted_all_the_same() -> None:
    outcome, events = await drive_model(Cut(*[IncompleteStream()] * 3), retry=RETRY)
    assert isinstance(outcome.error, GaveUp)
    assert (outcome.kind, outcome.exit_status) == ("gave_up", 75)
    assert (outcome.report.spend.calls, outcome.report.spend.output_tokens) == (3, 6)
    (spent,) = bodies(events, CallSpent)
    assert (spent.turn, spent.error["code"]) == (1, "gave_up")
    assert outcome.report.turns == 0
    assert events[-1].body.spend == outcome.report.spend


async def test_a_call_that_was_refused_at_once_has_no_spend() -> None:
    outcome, events = await drive_model(scripted(APIError("p", 400, "too long")))
    assert isinstance(outcome.error, APIError), "a first error that is permanent comes as it is"
    assert (outcome.kind, outcome.report.spend.calls, bodies(events, CallSpent)) == ("failed", 0, [])


async def test_a_cut_call_is_counted_with_the_cause_that_cut_it() -> None:
    async def stop(run: Run) -> None:
        await anyio.sleep(1.5)
        run.cancel(Cancelled("lunch", "ada"))

    model = Cut(None)
    outcome, events = await drive_model(model, during=stop)
    (spent,) = bodies(events, CallSpent)
    assert (spent.usage.output_tokens, spent.error["text"]) == (1, "cancelled by ada: lunch")
    assert (outcome.report.spend.calls, outcome.report.spend.cost_usd) == (1, Decimal("0.01"))
    assert model.closed == 1


async def test_no_attempt_follows_a_stop(fake_clock: FakeClock) -> None:
    async def stop(run: Run) -> None:
        await anyio.sleep(2)
        run.cancel(Cancelled("lunch"))

    model = scripted(BUSY, BUSY, "never")
    outcome, events = await drive_model(
        model, retry=RetryPolicy(attempts=3, base_seconds=0.1, max_wait_seconds=100), during=None
    )
    assert outcome.text == "never"
    slow = scripted(APIError("p", 429, "slow down", 30.0), "never")
    began = fake_clock.now
    outcome, events = await drive_model(slow, during=stop)
    assert outcome.why == "cancelled: lunch"
    assert (fake_clock.now - began, len(slow.requests)) == (pytest.approx(2), 1)
    assert len(bodies(events, Retried)) == 1, "it was going to be retried, and that is told"


async def test_a_call_that_waits_for_its_share_is_not_made_within_a_grace(fake_clock: FakeClock) -> None:
    """The run beside it has all of the budget, since nobody knows what a call costs, and gives it back within the grace."""
    model = Cut(None, None, words=3)
    agent = Agent(model=model, store=MemoryStore(), budget=Budget(usd=1))
    async with agent.start("go") as first:
        await anyio.sleep(1)
        async with agent.start("go") as second:
            await anyio.sleep(1)
            second.cancel(Shutdown("SIGTERM"))
            assert (await first.wait()).kind == "answered"
            assert (await second.wait()).kind == "shutdown"
    assert len(model.ends) == 1


async def test_a_wait_can_be_seen_while_it_lasts(fake_clock: FakeClock) -> None:
    store, seen = MemoryStore(), list[Any]()
    agent = Agent(model=scripted(APIError("p", 429, "slow down", 30.0), "fine"), store=store)
    async with agent.start("go", run_id="run") as run:
        events = run.events()
        async for event in events:
            if isinstance(event.body, Retried):
                seen.append((fake_clock.now, event.durable, event.body.wait_seconds))
                kept = [record for record in await read_records(store, "run") if isinstance(record, Retried)]
                assert len(kept) == 1, "what the attempt had cost is on disk before the wait"
        assert (await run.wait()).text == "fine"
    assert (seen, fake_clock.now) == ([(0, True, 30)], 30)


async def test_the_servers_wait_is_honoured(fake_clock: FakeClock) -> None:
    outcome, events = await drive_model(scripted(APIError("p", 429, "slow down", 30.0), "fine"))
    (retried,) = bodies(events, Retried)
    assert (outcome.text, retried.wait_seconds, fake_clock.now) == ("fine", 30, 30)


@pytest.mark.parametrize(
    "error",
    [BUSY, TransportFailed("POST", "http://x", "reset"), CallTimeout(120), ConnectionResetError(), AttemptTimeout(3)],
)
async def test_what_may_pass_is_tried_again_and_given_up_in_the_end(error: Exception) -> None:
    outcome, _ = await drive_model(scripted(error, "fine"))
    assert outcome.text == "fine"
    outcome, _ = await drive_model(scripted(*[error] * 4))
    assert isinstance(outcome.error, GaveUp)
    assert (outcome.error.attempts, outcome.error.last) == (4, error)
    assert (outcome.kind, outcome.exit_status, outcome.report.resumable) == ("gave_up", 75, True)


async def test_a_permanent_error_after_a_passing_one_is_no_case_for_later() -> None:
    outcome, _ = await drive_model(scripted(BUSY, APIError("p", 401, "no such key")))
    assert isinstance(outcome.error, GaveUp)
    assert (outcome.kind, outcome.exit_status) == ("failed", 1)
    assert outcome.why.endswith("p: 401 Unauthorized: no such key")


async def test_an_attempt_has_its_limit(fake_clock: FakeClock) -> None:
    policy = RetryPolicy(attempts=2, base_seconds=0, attempt_seconds=5)
    outcome, _ = await drive_model(Cut(None, None, pause_seconds=4), retry=policy)
    assert isinstance(outcome.error, GaveUp)
    assert isinstance(outcome.error.last, AttemptTimeout)
    assert fake_clock.now == 10
    assert outcome.report.spend.output_tokens == 2


# --- replies that cannot be used ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("finish", "wanted", "kind"),
    [
        ("truncated", OutputTruncated, "failed"),
        ("filtered", OutputFiltered, "failed"),
        ("refused", Refused, "failed"),
        ("incomplete", IncompleteStream, "gave_up"),
        ("empty", EmptyReply, "gave_up"),
    ],
)
async def test_a_reply_that_cannot_be_used_ends_the_run_and_is_no_part_of_it(
    drive: Any, finish: Any, wanted: type[Exception], kind: str
) -> None:
    bad = Reply(message=AssistantMessage("half a sen"), finish=finish, native_finish="stop_it", usage=USAGE, refusal="")
    driven = await drive(bad)
    assert type(driven.outcome.error) is wanted
    assert driven.outcome.kind == kind
    assert (driven.outcome.report.spend.calls, driven.outcome.report.turns) == (1, 1), "it was paid for"
    assert driven.of(Replied)[0].message.content == "half a sen", "and it can be looked at"
    assert [message.content for message in driven.messages] == ["do it"]
    resumed = await drive("whole", resume="run", store=driven.store)
    assert resumed.outcome.text == "whole"
    assert [message.content for message in resumed.model.requests[0]] == ["do it"]
    assert (resumed.outcome.report.turns, resumed.outcome.report.spend.calls) == (2, 2)


async def test_the_text_says_what_the_api_said(drive: Any) -> None:
    filtered = Reply(message=AssistantMessage(), finish="filtered", native_finish="content_filter", usage=USAGE)
    assert (await drive(filtered)).outcome.why == "the reply was blocked by a content filter: content_filter"
    refused = Reply(message=AssistantMessage(), finish="refused", refusal="I would rather not", usage=USAGE)
    assert (await drive(refused)).outcome.why == "the model refused: I would rather not"


async def test_a_bug_in_a_model_is_called_unexpected(drive: Any) -> None:
    driven = await drive(KeyError("choices"))
    assert (driven.outcome.kind, driven.outcome.why) == ("failed", "unexpected error: KeyError: 'choices'")
    assert len(driven.model.requests) == 1
