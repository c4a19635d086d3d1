"""A budget that many runs share: its books, whose turn it is, and stops at any moment."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import anyio
import pytest
from counted_model import Writer
from hypothesis import given, settings
from hypothesis import strategies as st

from heaveto.causes import Cancelled
from heaveto.errors import BudgetExhausted, CostBudget, MaxTurns, RunDeadline, TokenBudget
from heaveto.journal import MemoryStore
from heaveto.journal.records import LimitNear
from heaveto.loop import Budget
from heaveto.loop.forecast import Amount
from heaveto.messages import Limits
from heaveto.runs import Agent, read_records
from heaveto.scopes import Scope, deadline, tasks
from heaveto.testing.clocks import Backend, FakeClock
from heaveto.testing.stops import every_await
from heaveto.tools import tool

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend(fake_clock: FakeClock) -> tuple[str, dict[str, Any]]:
    return fake_clock.backend


@tool(effect="read")
async def look() -> str:
    """Look."""
    await anyio.sleep(1)
    return "seen"


def usd(amount: float | str) -> Amount:
    return Amount(1, Decimal(str(amount)))


ONE = Amount(1)


# --- the books ------------------------------------------------------------------------------------------------------


async def test_the_worst_case_is_held_and_the_rest_is_free_again() -> None:
    budget = Budget(usd=10)
    first = await budget.reserve("a", usd(1), usd(6))
    assert budget.statistics()[1:] == (Amount(), Amount(0, Decimal(6)), 0), "a limit that is not set holds nothing"
    first.settle(Amount(1, Decimal(2), 500))
    first.settle(Amount(1, Decimal(2), 500))
    assert budget.statistics()[1:] == (Amount(1, Decimal(2), 500), Amount(0, Decimal(0)), 0), "once"
    assert budget.spent_by("a") == budget.spent


async def test_who_does_not_fit_waits_for_what_others_hold(fake_clock: FakeClock) -> None:
    budget, began = Budget(usd=10), dict[str, tuple[Decimal, float]]()

    async def call(name: str, most: int, seconds: float, used: int) -> None:
        reservation = await budget.reserve(name, usd(1), usd(most))
        began[name] = (reservation.amount.usd, round(fake_clock.now))
        await anyio.sleep(seconds)
        reservation.settle(usd(used))

    async with tasks() as group:
        for name, most, seconds, used in [("a", 8, 5, 4), ("b", 5, 5, 5), ("c", 1, 1, 1)]:
            group.start_soon(call, name, most, seconds, used)
            await anyio.sleep(0.1)
    assert began == {"a": (8, 0), "b": (5, 5), "c": (1, 5)}, "c would have fitted beside a, and does not overtake"
    assert budget.spent == Amount(3, Decimal(10))


async def test_when_nobody_else_holds_anything_a_call_is_cut_down_to_what_is_left() -> None:
    budget = Budget(usd=10)
    (await budget.reserve("a", usd(1), usd(7))).settle(usd(7))
    assert (await budget.reserve("b", usd(1), usd(7))).amount.usd == 3


async def test_what_can_never_fit_is_refused_at_once_and_by_its_limit() -> None:
    budget = Budget(usd=10, turns=2, tokens=100)
    held = await budget.reserve("a", usd(1), usd(8))
    with pytest.raises(CostBudget) as cost:
        await budget.reserve("b", usd(11), usd(12))
    assert (cost.value.spent, cost.value.limit, cost.value.next_call) == (0, 10, 11)
    assert cost.value.setting == "Budget(usd=...)"
    with pytest.raises(TokenBudget):
        await budget.reserve("b", Amount(1, Decimal(0), 101), Amount(1, Decimal(0), 200))
    held.settle(Amount(2, Decimal(1)))
    with pytest.raises(MaxTurns):
        await budget.reserve("b", usd(1), usd(1))


async def test_a_waiter_is_refused_when_nothing_comes_back(fake_clock: FakeClock) -> None:
    budget = Budget(usd=10)
    held = await budget.reserve("a", usd(1), usd(8))
    refused: list[BudgetExhausted] = []

    async def wait() -> None:
        with pytest.raises(CostBudget) as caught:
            await budget.reserve("b", usd(3), usd(5))
        refused.append(caught.value)

    async with tasks() as group:
        group.start_soon(wait)
        await anyio.sleep(1)
        held.settle(usd(8))
    assert [error.args[:2] for error in refused] == [(8, 10)]
    assert budget.statistics().waiting == 0


async def test_an_unknown_price_takes_all_that_is_left_and_so_its_turn_alone() -> None:
    budget = Budget(usd=10)
    unknown = Amount(1, Decimal("Infinity"), 500)
    first = await budget.reserve("a", ONE, unknown)
    assert first.amount.usd == 10
    with pytest.raises(TimeoutError), deadline(1):
        await budget.reserve("b", ONE, unknown)
    first.settle(usd(12))
    with pytest.raises(CostBudget):
        await budget.reserve("b", ONE, unknown)
    assert budget.spent.usd == 12, "one call's overshoot"


async def test_a_stopped_waiter_says_so_and_the_next_one_is_served() -> None:
    budget = Budget(usd=10)
    held = await budget.reserve("a", usd(1), usd(8))
    got: list[Decimal] = []

    async def big(scope: Scope) -> None:
        with pytest.raises(Cancelled) as caught, scope:
            await budget.reserve("b", usd(1), usd(9))
        context = caught.value.__context__
        assert "while waiting for what other runs hold of the budget" in getattr(context, "__notes__", [])

    async def small() -> None:
        got.append((await budget.reserve("c", usd(1), usd(2))).amount.usd)

    scope = Scope()
    with deadline(60):  # who is forgotten would wait for ever
        async with tasks() as group:
            group.start_soon(big, scope)
            await anyio.sleep(0.1)
            group.start_soon(small)
            await anyio.sleep(0.1)
            assert got == []
            scope.cancel(Cancelled("enough"))
    assert got == [2]
    held.settle(Amount())
    assert budget.statistics().waiting == 0


@pytest.mark.parametrize("wrong", [{"usd": -1}, {"usd": math.nan}, {"tokens": -1}, {"turns": -1}, {"seconds": math.nan}])
def test_a_wrong_limit_is_refused_when_it_is_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be 0 or more"):
        Budget(**wrong)


caller = st.tuples(
    st.integers(0, 20),  # least
    st.integers(0, 30),  # beyond it
    st.integers(0, 60),  # what it really uses, which may be more than it held
    st.floats(0, 3),  # when it begins
    st.floats(0, 3),  # how long it takes
    st.none() | st.floats(0, 4),  # when it is stopped
)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_books_are_right_whatever_comes(backend: Backend) -> None:
    """Under random calls, stops and overshoots: nothing below zero, returned and spent are what was reserved, and what is
    spent passes the limit by no more than the overshoots of calls that used more than they held."""

    @settings(max_examples=60, deadline=None)
    @given(st.integers(0, 80), st.lists(caller, max_size=8))
    def check(limit: int, callers: list[tuple[int, int, int, float, float, float | None]]) -> None:
        budget = Budget(tokens=limit)
        reserved, returned, spent, overshoot = 0.0, 0.0, 0.0, 0.0

        async def call(least: int, more: int, use: int, start: float, seconds: float, stop: float | None) -> None:
            nonlocal reserved, returned, spent, overshoot
            with Scope(math.inf if stop is None else stop, quiet=True):
                await anyio.sleep(start)
                try:
                    held = await budget.reserve("r", Amount(0, Decimal(0), least), Amount(0, Decimal(0), least + more))
                except BudgetExhausted:
                    return
                assert least <= held.amount.tokens <= least + more
                reserved += held.amount.tokens
                used = 0
                try:
                    looked()
                    await anyio.sleep(seconds)
                    used = use
                finally:
                    held.settle(Amount(0, Decimal(0), used))
                    spent += used
                    returned += max(0, held.amount.tokens - used)
                    overshoot += max(0, used - held.amount.tokens)
                    looked()

        def looked() -> None:
            books = budget.statistics()
            assert books.reserved.tokens >= 0
            assert books.spent.tokens + books.reserved.tokens <= limit + overshoot

        async def everybody() -> None:
            async with tasks() as group:
                for each in callers:
                    group.start_soon(call, *each)

        FakeClock(backend).run(everybody)
        books = budget.statistics()
        assert (books.reserved, books.waiting) == (Amount(), 0), "nobody is forgotten, and nothing is held for ever"
        assert books.spent.tokens == spent
        assert reserved + overshoot == returned + spent

    check()


# --- runs -----------------------------------------------------------------------------------------------------------


async def run_all(agents: list[Agent]) -> list[Any]:
    outcomes: list[Any] = []

    async def one(number: int, agent: Agent) -> None:
        async with agent.start("go", run_id=f"run{number}") as run:
            outcomes.append(await run.wait())

    async with tasks() as group:
        for number, agent in enumerate(agents):
            group.start_soon(one, number, agent)
    return outcomes


async def test_runs_that_share_a_budget_never_pass_it_together() -> None:
    """Ten of them, each of which would spend four dollars: with their worst cases held, ten dollars are ten dollars."""
    budget, store = Budget(usd="10.00"), MemoryStore()
    models = [Writer(*[-100] * 3, 100, input_tokens=30) for _ in range(10)]
    outcomes = await run_all([Agent(model=model, tools=[look], store=store, budget=budget) for model in models])
    spent = sum(outcome.report.spend.cost_usd for outcome in outcomes)
    assert budget.spent.usd == spent
    assert 9 < spent <= 10
    assert {outcome.kind for outcome in outcomes} <= {"answered", "limit"}
    limited = next(outcome for outcome in outcomes if outcome.kind == "limit")
    assert "Budget(usd=...)" in limited.why
    assert ("usd", "Budget(usd=...)") in {(use.limit, use.setting) for use in limited.report.limits}
    assert budget.statistics()[2:] == (Amount(), 0)
    warned = [each for n in range(10) for each in await read_records(store, f"run{n}") if isinstance(each, LimitNear)]
    assert sorted(each.percent for each in warned) in ([80], [80, 95], [95]), "once for all of them"


async def test_turns_are_shared_too() -> None:
    budget = Budget(turns=5)
    agents = [Agent(model=Writer(*[-1] * 9), tools=[look], store=MemoryStore(), budget=budget) for _ in range(3)]
    outcomes = await run_all(agents)
    assert [type(outcome.error) for outcome in outcomes] == [MaxTurns] * 3
    assert sum(outcome.report.turns for outcome in outcomes) == budget.spent.turns == 5


async def test_time_is_that_in_which_any_of_them_is_driven(fake_clock: FakeClock) -> None:
    @tool(effect="read")
    async def nap() -> str:
        """Sleep."""
        await anyio.sleep(1000)
        return ""

    budget = Budget(seconds=100)
    outcomes = await run_all([Agent(model=Napper(), tools=[nap], store=MemoryStore(), budget=budget) for _ in range(2)])
    assert [outcome.cause.args for outcome in outcomes] == [(100, "Budget(seconds=...)")] * 2
    assert isinstance(outcomes[0].cause, RunDeadline)
    assert fake_clock.now == 100, "both at once, and not one after the other"
    await anyio.sleep(50)
    assert budget.seconds == 100
    (outcome,) = await run_all([Agent(model=Writer(1), store=MemoryStore(), budget=budget)])
    assert (outcome.kind, outcome.report.spend.calls) == ("limit", 0)


async def test_what_a_resumed_run_had_spent_counts_once() -> None:
    store, budget = MemoryStore(), Budget(turns=10)
    first = Agent(model=Writer(-1, -1, Exception("stop")), tools=[look], store=store, budget=budget)
    with pytest.raises(Exception, match="stop"):
        await first.run("go", run_id="run")
    assert budget.spent.turns == 2
    for wanted in (budget, Budget(turns=10)):
        again = Agent(model=Writer(1), tools=[look], store=store, budget=wanted)
        await again.resume("run", say="on")
        assert wanted.spent.turns == wanted.spent_by("run").turns
    assert (budget.spent.turns, wanted.spent.turns) == (3, 4)


async def test_both_limits_hold_and_the_nearer_is_named() -> None:
    budget = Budget(usd=100)
    agent = Agent(model=Writer(9000), store=MemoryStore(), budget=budget, limits=Limits(usd=5))
    with pytest.raises(CostBudget, match=r"of \$5.000000 \(Limits\(usd=...\)\)"):
        await agent.run("go")
    agent = Agent(model=Writer(9000), store=MemoryStore(), budget=Budget(usd=5), limits=Limits(usd=100))
    with pytest.raises(CostBudget, match=r"of \$5.000000 \(Budget\(usd=...\)\)"):
        await agent.run("go")


async def test_a_long_reply_takes_more_of_what_is_free_and_is_cut_where_there_is_no_more() -> None:
    """20,000 tokens: more than was reserved, since nobody knew how long a reply of this model can be."""
    budget = Budget(tokens=100_000)
    agent = Agent(model=Writer(20_000), store=MemoryStore(), budget=budget)
    assert (await agent.run("go")).spend.output_tokens == 20_000
    agent = Agent(model=Writer(200_000), store=MemoryStore(), budget=budget)
    with pytest.raises(TokenBudget) as caught:
        await agent.run("go")
    assert caught.value.report is not None
    assert 0 <= budget.spent.tokens - 100_000 < 30_000, "what came was counted at five characters a token"


# --- stops ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_stop_at_any_await_gives_back_what_was_held_and_keeps_what_was_spent() -> None:
    """Two runs on a budget that has room for one call at a time: one of them waits when it is stopped, or holds."""
    life: dict[str, Any] = {}

    async def both() -> None:
        life["budget"], life["stores"] = Budget(usd=50), [MemoryStore(), MemoryStore()]
        agents = [
            Agent(model=Writer(-40, 60), tools=[look], store=store, budget=life["budget"], grace_seconds=0.5)
            for store in life["stores"]
        ]
        async with tasks() as group:
            for number, agent in enumerate(agents):
                group.start_soon(agent.run, "go", name=f"run {number}")

    for run in every_await(both, ways=("cancel", "shutdown"), again_after=(1,)):
        books = life["budget"].statistics()
        assert books.reserved == Amount(), run
        assert books.waiting == 0, run
        assert 0 <= books.spent.usd <= 50, run
        assert run.left_running == (), run
        assert run.error is None or isinstance(run.error, type(run.cause)), run


class Napper(Writer):
    """Asks for a nap."""

    def __init__(self) -> None:
        super().__init__(-1)

    def stream(self, request: Any) -> Any:
        from heaveto.testing.scripted_model import calls, scripted

        return scripted(calls(("nap", {}))).stream(request)
