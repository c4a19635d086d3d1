"""What stops a run before it spends more: its own limits, and the budget that it shares with others.

A call is looked at before it is made: what does not fit is cut down to fewer output tokens, or refused before a byte is
sent. While its stream comes it is looked at again, since a forecast may be wrong and a server may ignore what it was asked.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal

import msgspec

from ..errors import BudgetExhausted, ConfigError, CostBudget, TokenBudget
from ..journal.state import RunState
from ..messages import CallDelta, Delta, Limits, Reply, Usage
from ..models import AnswerSchema, Model, Priced, ToolSpec
from .forecast import Amount, Forecast, InputMeter, forecast, refusal, total_of
from .shared_budget import Budget, Reservation

__all__ = ["Allowance", "Budgeting", "check_price", "exhausted"]

CHARACTERS_PER_TOKEN = 5  # more than in any text: a reply is not cut by a guess while it could still fit
LOOK_CHARACTERS = 2000  # a stream is looked at each time that so many have come


def exhausted(state: RunState) -> BudgetExhausted | None:
    """The limit that forbids the next model call whatever it costs; None while there is none. Time is a deadline."""
    return refusal(state.limits, total_of(state), Amount(turns=1))


def check_price(limits: Limits, model: Model) -> None:
    """Refuse a dollar limit that could not be kept, since nobody knows what a call costs.

    Raises:
        ConfigError: Naming the ways out.
    """
    if limits.usd is None:
        return
    if isinstance(model, Priced):
        model.cost(Usage(input_tokens=1))  # may load a price table, which takes a moment: now, and not within a call
    if not model.reports_cost:
        raise ConfigError(
            f"a dollar limit needs a price, and nobody knows what {model.name} costs",
            "give the model its price=, limit turns or tokens instead, or use an API that reports the cost",
        )


class Budgeting:
    """Looks after the model calls of one run."""

    def __init__(
        self,
        model: Model,
        tools: Sequence[ToolSpec],
        shared: Budget | None,
        max_tokens: int | None = None,
        answer: AnswerSchema | None = None,
    ) -> None:
        self._model, self._meter, self._shared = model, InputMeter(tools, answer), shared
        self._max_tokens = max_tokens  # which each call asks for anyway

    @asynccontextmanager
    async def held(self, state: RunState) -> AsyncIterator[Allowance]:
        """A block around one attempt at a call. What it has spent when the block ends, however it ends, is counted.

        Raises:
            MaxTurns, CostBudget, TokenBudget: There is no room for the call. Nothing was sent.
        """
        if (limit := exhausted(state)) is not None:
            raise limit
        if self._shared is None and state.limits.usd is None and state.limits.tokens is None:
            yield Allowance(self._model, state, None, None)
            return
        call = forecast(self._model, self._meter.tokens(state), self._max_tokens)
        if (limit := refusal(state.limits, total_of(state), call.least)) is not None:
            raise limit
        allowance = Allowance(self._model, state, call, await self._reserved(state, call))
        try:
            yield allowance
        finally:
            allowance.close()

    async def _reserved(self, state: RunState, call: Forecast) -> Reservation | None:
        if self._shared is None:
            return None
        output = call.output_within(Amount.allowed_by(state.limits) - total_of(state))
        return await self._shared.reserve(state.run_id, call.least, call.most(output))


class Allowance:
    """What one attempt at a call may use.

    Attributes:
        cap: The most output tokens, to be asked for; None where the model's own limit fits.
    """

    def __init__(self, model: Model, state: RunState, call: Forecast | None, reservation: Reservation | None) -> None:
        self._model, self._state, self._call, self._reservation = model, state, call, reservation
        self._left = Amount.allowed_by(state.limits) - total_of(state)
        self.cap = self._most_output()
        self._spent: Callable[[], Usage] = Usage
        self._answered = False
        self._characters = self._look_at = 0

    def _most_output(self) -> int | None:
        if self._call is None:
            return None
        room = self._left if self._reservation is None else self._left.at_most(self._reservation.room)
        output = self._call.output_within(room)
        return output if output < self._call.largest_output else None

    def spends(self, spent: Callable[[], Usage]) -> None:
        """Say how to find out what the call has spent."""
        self._spent = spent

    def look(self, delta: Delta) -> None:
        """Look at a stream as it comes.

        Raises:
            CostBudget, TokenBudget: It has passed what there was.
        """
        if self._call is None:
            return
        self._characters += len(delta.arguments if isinstance(delta, CallDelta) else delta.text)
        if self._characters < self._look_at:
            return
        self._look_at = self._characters + LOOK_CHARACTERS
        if (passed := self._passed(self._least_spent())) is not None:
            raise passed

    def answered(self, reply: Reply) -> BudgetExhausted | None:
        """The call has its reply. Returns the limit at which our own cap cut it; None when it did not."""
        self._answered = True
        usage = reply.usage
        ours = usage.estimated or not usage.output_tokens or 2 * usage.output_tokens >= (self.cap or 0)
        if self.cap is None or reply.finish != "truncated" or not ours:
            return None
        return self._limit_of(usage)

    def close(self) -> None:
        """The attempt is over, however it ended."""
        if self._reservation is not None:
            self._reservation.settle(Amount.of(self._spent(), turns=self._answered))

    def _least_spent(self) -> Usage:
        """What the call has spent at the least: what the API reported, else what came, at many characters a token."""
        spent = self._spent()
        if not spent.estimated:
            return spent
        least = msgspec.structs.replace(spent, output_tokens=self._characters // CHARACTERS_PER_TOKEN, cost_usd=None)
        cost = self._model.cost(least) if isinstance(self._model, Priced) else None
        return msgspec.structs.replace(least, cost_usd=cost)

    def _passed(self, usage: Usage) -> BudgetExhausted | None:
        spent = Amount.of(usage)
        if not spent.within(self._left):
            return self._limit_of(usage)
        if self._reservation is None or spent.within(self._reservation.room) or self._reservation.extend(spent):
            return None
        return self._limit_of(usage)

    def _limit_of(self, usage: Usage) -> BudgetExhausted:
        """The limit that a call with that spend has come to: its own where it has less room, else the shared one's."""
        limits, before = self._state.limits, total_of(self._state)
        shared, spent = self._reservation, Amount.of(usage)
        if shared is not None and spent.within(self._left) and not self._left.within(shared.room):
            limits, before = shared.budget.limits, shared.budget.spent
        return _limit(limits, before + spent, usage.output_tokens)


def _limit(limits: Limits, used: Amount, cut_at: int) -> BudgetExhausted:
    """The limit that is the nearest to being used up, or the furthest beyond."""
    of_usd = used.usd / limits.usd if limits.usd else Decimal(0)
    of_tokens = Decimal(used.tokens) / limits.tokens if limits.tokens else Decimal(0)
    if limits.usd is not None and (limits.tokens is None or of_usd >= of_tokens):
        return CostBudget(used.usd, limits.usd, limits.setting("usd"), None, cut_at)
    return TokenBudget(int(used.tokens), limits.tokens or 0, limits.setting("tokens"), None, cut_at)
