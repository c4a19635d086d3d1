"""The arithmetic of a forecast: what is asked for always fits, and nothing that would fit is given away."""

from __future__ import annotations

import math
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from heaveto.errors import CostBudget, MaxTurns, TokenBudget
from heaveto.journal.records import RunStarted
from heaveto.journal.state import RunState
from heaveto.loop.forecast import INFINITE, Amount, Forecast, InputMeter, forecast, refusal
from heaveto.messages import Limits, Sampling, Usage
from heaveto.models import AnswerSchema, Price, compatible
from heaveto.testing import scripted

tokens = st.integers(0, 200_000)
dollars = st.decimals(0, 1000, places=6)
prices = st.decimals(0, 1, places=9)
calls = st.builds(
    Forecast,
    input_tokens=tokens,
    largest_output=st.integers(1, 64_000),
    least_output=st.integers(0, 2000),
    input_usd=st.none() | dollars,
    output_usd=prices,
)
rooms = st.builds(
    Amount, turns=st.just(math.inf), usd=st.just(INFINITE) | dollars, tokens=st.just(math.inf) | st.integers(0, 300_000)
)


@given(calls, rooms)
def test_the_most_output_for_which_there_is_room(call: Forecast, room: Amount) -> None:
    output = call.output_within(room)
    assert output <= call.largest_output
    known = call.input_usd is not None

    def fits(output_tokens: int) -> bool:
        need = call.most(output_tokens)
        return need.tokens <= room.tokens and (not known or need.usd <= room.usd)

    if output >= 0:
        assert fits(output)
        assert output == call.largest_output or not fits(output + 1), "a token more would not fit"
    else:
        assert not fits(0)


@given(calls, st.none() | dollars, st.none() | tokens, dollars, tokens)
def test_a_call_is_refused_exactly_when_the_least_of_it_does_not_fit(
    call: Forecast, usd: Decimal | None, most_tokens: int | None, spent: Decimal, used: int
) -> None:
    limits = Limits(turns=None, usd=usd, tokens=most_tokens)
    room = Amount.allowed_by(limits) - Amount(0, spent, used)
    refused = refusal(limits, Amount(0, spent, used), call.least)
    used_up = (usd is not None and spent >= usd) or (most_tokens is not None and used >= most_tokens)
    assert (refused is None) == (not used_up and call.least.within(room))
    assert refused is None or isinstance(refused, CostBudget | TokenBudget)
    if refused is None and call.least_output <= call.largest_output:
        assert call.output_within(room) >= call.least_output


def test_the_first_limit_that_is_reached_is_named() -> None:
    limits = Limits(turns=1, usd=1, tokens=1)
    assert isinstance(refusal(limits, Amount(1, Decimal(1), 1), Amount(1)), MaxTurns)
    assert refusal(limits, Amount(0, Decimal("0.5"), 0), Amount(1)) is None


def test_the_input_is_priced_at_its_dearest() -> None:
    class Known:
        name, reports_cost, largest_output, least_output = "known", True, 5000, 0
        price = Price(Decimal(3), Decimal(15), Decimal("0.3"), Decimal("3.75"))

        def cost(self, usage: Usage) -> Decimal:
            return self.price.cost(usage)

    call = forecast(Known(), 1_000_000)  # type: ignore[arg-type] - only its price is asked for
    assert (call.input_usd, call.output_usd) == (Decimal("3.75"), Decimal("0.000015"))
    assert (call.largest_output, call.usd(1_000_000)) == (5000, Decimal("18.75"))


def test_what_a_call_asks_for_anyway_is_the_most_that_it_can_have() -> None:
    """As `Sampling(max_tokens=...)` does, of a model that says how much it can write, and of one that does not."""
    asked = [forecast(model, 100, max_tokens) for model in (scripted(), PRICED) for max_tokens in (None, 5, 100, 20_000)]
    assert [(each.largest_output, each.least_output) for each in asked] == [
        *[(8192, 16), (5, 5), (100, 16), (20_000, 16)],
        *[(500, 16), (5, 5), (100, 16), (500, 16)],
    ]


def test_a_schema_that_each_request_has_is_part_of_its_input() -> None:
    state = RunState.begin(RunStarted(run_id="r", task="go"))
    schema = AnswerSchema("answer", {"type": "object", "description": "x" * 3000})
    assert InputMeter((), schema).tokens(state) >= InputMeter(()).tokens(state) + 1000


PRICED = compatible("m", base_url="http://localhost:1/v1", price=(1, 1), sampling=Sampling(max_tokens=500))
