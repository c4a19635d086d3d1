"""What a run may use: looked at before each call, while its stream comes, and after it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import anyio
import pytest
from counted_model import INPUT, INPUT_USD, OUTPUT_USD, Writer, WriterStream

from heaveto.errors import APIError, ConfigError, CostBudget, GaveUp, OutputTruncated, TokenBudget
from heaveto.journal import MemoryStore
from heaveto.journal.records import CallSpent, LimitNear, LimitsChanged, Replied, Retried, RunFinished, RunStarted
from heaveto.journal.state import RunState, fold
from heaveto.loop import Budget, TurnStarted
from heaveto.loop.forecast import InputMeter
from heaveto.messages import Delta, Image, Limits, Usage, UserMessage
from heaveto.models import Priced, Request, fallback
from heaveto.retry import RetryPolicy
from heaveto.runs import Agent, read_records
from heaveto.testing.clocks import FakeClock
from heaveto.tools import tool

pytestmark = pytest.mark.anyio


@tool(effect="read")
async def look() -> str:
    """Look."""
    return "seen"


async def drive(model: Any, limits: Limits | None = None, **options: Any) -> Any:
    options.setdefault("store", MemoryStore())
    agent = Agent(model=model, tools=[look], limits=limits, **options)
    async with agent.start("go", run_id="run") as run:
        events = run.events()
        outcome = await run.wait()
    return outcome, [event.body async for event in events]


def only(bodies: list[Any], kind: type[Any]) -> list[Any]:
    return [body for body in bodies if isinstance(body, kind)]


# --- before the call ------------------------------------------------------------------------------------------------


async def test_a_call_that_fits_goes_out_as_it_is() -> None:
    model = Writer(500)
    assert isinstance(model, Priced)
    outcome, _ = await drive(model, Limits(usd=1000, tokens=100_000))
    assert (outcome.kind, model.caps) == ("answered", [None])


async def test_a_call_that_does_not_fit_is_cut_down_and_its_cut_reply_is_the_budgets_end() -> None:
    model = Writer(10_000, input_tokens=30)
    outcome, bodies = await drive(model, Limits(usd="5.00"))
    (cap,) = model.caps
    assert cap is not None
    assert 400 < cap < 500, "about what five dollars pay for, after a forecast of the input"
    error = outcome.error
    assert isinstance(error, CostBudget), "and not OutputTruncated: it was our own cap"
    assert (outcome.kind, outcome.exit_status) == ("limit", 3)
    assert error.spent == 30 * INPUT_USD + cap * OUTPUT_USD <= 5
    assert outcome.why == (
        f"cost budget reached: spent ${error.spent:.6f} of $5.000000 (Limits(usd=...)), "
        f"so the reply was cut at {cap} tokens: resume with a higher Limits(usd=...)"
    )
    assert only(bodies, Replied)[0].finish == "truncated", "it was paid for, and can be looked at"
    assert outcome.report.spend.cost_usd == error.spent


async def test_a_reply_that_the_api_cut_at_its_own_limit_is_truncated() -> None:
    class Short(Writer):
        largest_output = 100

    model = Short(100, obedient=True)
    model.tokens = [100]

    @asynccontextmanager
    async def short(request: Request) -> AsyncIterator[WriterStream]:
        stream = WriterStream(model, 200, 60, asks=False)
        yield stream

    model.stream = short  # type: ignore[method-assign]
    outcome, _ = await drive(model, Limits(usd="50"))
    assert isinstance(outcome.error, OutputTruncated)


@pytest.mark.parametrize(
    ("limits", "wanted"), [(Limits(usd="0.05"), CostBudget), (Limits(tokens=20), TokenBudget)], ids=["usd", "tokens"]
)
async def test_a_call_for_which_there_is_no_room_is_refused_before_a_byte_is_sent(limits: Limits, wanted: type[Any]) -> None:
    model = Writer(1)
    outcome, bodies = await drive(model, limits)
    assert (model.caps, only(bodies, TurnStarted), outcome.report.spend.calls) == ([], [], 0)
    assert isinstance(outcome.error, wanted)
    assert (outcome.error.spent, outcome.kind, outcome.report.resumable) == (0, "limit", True)
    assert outcome.error.next_call is not None
    assert "and the next call may" in outcome.why


async def test_the_input_is_forecast_from_what_the_api_last_reported() -> None:
    """5,000 tokens reported: so the next call does not fit, though its bytes alone would."""
    model = Writer(-10, 10, input_tokens=5000)
    outcome, _ = await drive(model, Limits(tokens=9000))
    assert isinstance(outcome.error, TokenBudget)
    assert (outcome.error.spent, len(model.caps)) == (5010, 1)
    assert outcome.error.next_call is not None
    assert 5010 + 16 <= outcome.error.next_call < 5100


def test_an_image_is_forecast_by_a_round_figure_and_text_by_its_bytes() -> None:
    def tokens(message: UserMessage) -> int:
        state = RunState.begin(RunStarted(run_id="r", task=""))
        state.transcript.append(message)
        return InputMeter(()).tokens(state)

    nothing = tokens(UserMessage(""))
    assert tokens(UserMessage("x" * 3000)) - nothing == 1000
    image = Image.from_bytes(b"\x89PNG\r\n\x1a\n" + b"x" * 3_000_000)
    assert 1900 < tokens(UserMessage.of("see", image)) - nothing < 2100


async def test_the_dearest_of_models_that_stand_in_for_one_another_counts() -> None:
    class Cheap(Writer):
        name = "cheap:model"

        def cost(self, usage: Usage) -> Decimal | None:
            return Decimal(0)

    both = fallback(Cheap(1), Writer(1))
    assert isinstance(both, Priced)
    assert (both.cost(Usage(output_tokens=100)), both.largest_output, both.least_output) == (1, None, 0)
    assert fallback(Cheap(1), Writer(1, price=False)).cost(Usage()) is None
    outcome, _ = await drive(both, Limits(usd="0.05"))
    assert isinstance(outcome.error, CostBudget)


async def test_the_least_that_a_model_takes_counts() -> None:
    class Thinker(Writer):
        least_output = 1025

    outcome, _ = await drive(Thinker(10), Limits(usd="10.00"))
    assert isinstance(outcome.error, CostBudget)
    assert outcome.error.next_call is not None
    assert outcome.error.next_call > Decimal("10.25")


async def test_a_price_that_only_the_api_knows_means_one_calls_overshoot() -> None:
    model = Writer(-10_000, 1, price=False)
    outcome, _ = await drive(model, Limits(usd="0.50"))
    assert model.caps == [None]
    assert outcome.error.args[:2] == (INPUT * INPUT_USD + 10_000 * OUTPUT_USD, Decimal("0.50"))


async def test_an_unknown_price_is_refused_at_the_start_and_at_a_resume_with_the_ways_out() -> None:
    unknown = Writer(1, price=False, reports=False)
    for refused in ({"limits": Limits(usd=1)}, {"budget": Budget(usd=1)}):
        with pytest.raises(
            ConfigError, match="nobody knows what writer:model costs; give the model its price=, limit turns"
        ):
            Agent(model=unknown, store=MemoryStore(), **refused)
    store = MemoryStore()
    outcome, _ = await drive(Writer(APIError("p", 400, "no")), Limits(usd=1), store=store)
    assert outcome.kind == "failed"
    agent = Agent(model=unknown, store=store)
    for limits in (None, Limits(usd=2)):
        with pytest.raises(ConfigError, match="nobody knows"):
            await agent.resume("run", limits=limits)
    assert (await agent.resume("run", limits=Limits(turns=5))).turns == 1, "the refusal did not keep the run"


# --- while it comes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("counts_early", [False, True], ids=["estimated", "reported"])
@pytest.mark.parametrize(
    ("limits", "wanted"), [(Limits(usd="5.00"), CostBudget), (Limits(tokens=1000), TokenBudget)], ids=["usd", "tokens"]
)
async def test_a_stream_that_passes_the_budget_all_the_same_is_cut(
    limits: Limits, wanted: type[Any], counts_early: bool
) -> None:
    """The server was asked for fewer tokens and does not care."""
    model = Writer(100_000, obedient=False, counts_early=counts_early)
    outcome, bodies = await drive(model, limits)
    assert isinstance(outcome.error, wanted)
    assert model.caps[0] is not None
    (stream,) = model.streams
    assert model.caps[0] <= stream.written < model.caps[0] + 600, "looked at again every 2,000 characters"
    (spent,) = only(bodies, CallSpent)
    assert (spent.usage.output_tokens, spent.usage.estimated) == (stream.written, not counts_early)
    assert spent.error["code"] == wanted.code
    assert outcome.report.spend.output_tokens == stream.written
    assert "retries" not in outcome.report.spend_by, "it is not tried again"


async def test_an_input_that_was_forecast_too_low_is_seen_when_the_api_reports_it() -> None:
    model = Writer(5000, counts_early=True, input_tokens=50_000)
    outcome, _ = await drive(model, Limits(tokens=20_000))
    assert isinstance(outcome.error, TokenBudget)
    assert (model.caps, model.streams[0].written) == ([None], 50), "with the first piece"


async def test_a_reply_that_fits_is_never_cut_by_a_guess() -> None:
    """Its words are long: at four characters a token the guess would be a quarter too high."""
    model = Writer(790)
    outcome, _ = await drive(model, Limits(tokens=1000))
    assert outcome.kind == "answered"


# --- what it counts -------------------------------------------------------------------------------------------------


async def test_each_attempt_is_looked_at_and_a_limit_is_no_case_for_another() -> None:
    class Costly(Writer):
        """Its failures cost half a dollar."""

        @asynccontextmanager
        async def stream(self, request: Request) -> AsyncIterator[WriterStream]:
            async with super().stream(request):
                yield Failing(self, 40, None, asks=False)

    class Failing(WriterStream):
        async def __anext__(self) -> Delta:
            try:
                return await super().__anext__()
            except StopAsyncIteration:
                raise APIError("p", 503, "busy") from None

    model = Costly(*[1] * 9)
    outcome, bodies = await drive(model, Limits(usd="1.15"), retry=RetryPolicy(attempts=9, base_seconds=0))
    assert isinstance(outcome.error, CostBudget), "and not GaveUp"
    assert len(model.caps) == len(only(bodies, Retried)) == 2, "for a third there is no room"
    assert outcome.report.spend_by["retries"].calls == 2
    assert outcome.report.spend.cost_usd == outcome.error.spent


async def test_what_was_spent_and_by_what(fake_clock: FakeClock) -> None:
    store = MemoryStore()
    model = Writer(APIError("p", 503, "busy"), -10, 3000)
    outcome, bodies = await drive(model, Limits(usd="10.00", turns=5), retry=RetryPolicy(base_seconds=0), store=store)
    report = outcome.report
    assert {by: spend.output_tokens for by, spend in report.spend_by.items()} == {"replies": 10 + (model.caps[-1] or 0)}
    uses = {use.limit: (use.of, use.setting) for use in report.limits}
    assert uses == {"turns": (5, "Limits(turns=...)"), "usd": (10, "Limits(usd=...)")}
    (finished,) = only(bodies, RunFinished)
    assert (finished.spend_by, finished.limits) == (report.spend_by, report.limits)
    assert next(use.used for use in report.limits if use.limit == "usd") == pytest.approx(float(report.spend.cost_usd))


async def test_a_journal_says_the_same_as_the_run() -> None:
    """The spend, its parts, the last figures of the API and the warnings: folded again, and in the resumed run."""
    store = MemoryStore()
    outcome, bodies = await drive(Writer(-100, -100, -100), Limits(usd="3.50"), store=store)
    assert isinstance(outcome.error, CostBudget)
    assert [warning.percent for warning in only(bodies, LimitNear)] == [80]
    records = await read_records(store, "run")
    state = fold(records)
    assert (state.spend, state.spend_by) == (outcome.report.spend, outcome.report.spend_by)
    assert (state.reported_tokens, state.reported_messages) == (200, len(state.transcript) - 1)
    assert state.warned == only(bodies, LimitNear)

    agent = Agent(model=Writer(10), store=store, tools=[look])
    with pytest.raises(CostBudget):
        await agent.resume("run")
    assert only(await read_records(store, "run"), LimitNear) == state.warned, "no warning comes twice"

    result = await agent.resume("run", limits=Limits(usd=50))
    records = await read_records(store, "run")
    assert [record.limits.usd for record in only(records, LimitsChanged)] == [50]
    assert (result.turns, result.spend.calls) == (4, 4)
    assert result.spend.cost_usd == sum(record.usage.cost_usd for record in only(records, Replied))


# --- warnings -------------------------------------------------------------------------------------------------------


async def test_each_limit_warns_once_at_80_and_once_at_95_percent() -> None:
    outcome, bodies = await drive(Writer(*[-10] * 24, 1), Limits(turns=25, tokens=110 * 30))
    told = [(warning.limit, warning.percent, warning.used, warning.of) for warning in only(bodies, LimitNear)]
    assert told == [("turns", 80, 20, 25), ("turns", 95, 24, 25), ("tokens", 80, 2640, 3300)]
    assert outcome.kind == "answered"


async def test_of_two_marks_that_are_passed_at_once_the_higher_is_told() -> None:
    _, bodies = await drive(Writer(-970, 1), Limits(tokens=1100))
    assert [(warning.limit, warning.percent) for warning in only(bodies, LimitNear)] == [("tokens", 95)]


async def test_a_higher_limit_warns_again() -> None:
    store = MemoryStore()
    _, bodies = await drive(Writer(*[-10] * 4), Limits(turns=4), store=store)
    assert [warning.percent for warning in only(bodies, LimitNear)] == []
    _, bodies = await drive(Writer(*[-10] * 5), Limits(turns=5), store=MemoryStore())
    assert [warning.percent for warning in only(bodies, LimitNear)] == [80]
    agent = Agent(model=Writer(*[-10] * 4, 1), store=store, tools=[look])
    await agent.resume("run", limits=Limits(turns=10))
    assert [(warning.used, warning.of) for warning in only(await read_records(store, "run"), LimitNear)] == [(8, 10)]


async def test_time_warns_between_two_steps(fake_clock: FakeClock) -> None:
    @tool(effect="read")
    async def nap() -> str:
        """Sleep."""
        await anyio.sleep(45)
        return "rested"

    from heaveto.testing.scripted_model import calls, scripted

    agent = Agent(
        model=scripted(*[calls(("nap", {}))] * 2, "done"), tools=[nap], limits=Limits(seconds=100), store=MemoryStore()
    )
    async with agent.start("go") as run:
        events = run.events()
        outcome = await run.wait()
    assert outcome.kind == "answered"
    (warning,) = only([event.body async for event in events], LimitNear)
    assert (warning.limit, warning.percent, warning.used, warning.setting) == ("seconds", 80, 90, "Limits(seconds=...)")


# --- time -----------------------------------------------------------------------------------------------------------


async def test_a_wait_beyond_the_runs_time_is_not_begun(fake_clock: FakeClock) -> None:
    model = Writer(APIError("p", 429, "slow down", 30.0), 1)
    outcome, _ = await drive(model, Limits(seconds=20))
    assert isinstance(outcome.error, GaveUp)
    assert outcome.error.why == "the wait is beyond the time left (30 s of 20 s)"
    assert (fake_clock.now, len(model.caps), outcome.exit_status) == (0, 1, 75)
