"""A budget that any number of runs share. Each call reserves the worst case before it is made and gives back the rest.

The rules of this file:
- Between two awaits the books are right: reserved is what is under way, spent is what came of it, and no call that could
  pass a limit is under way. Only what nobody could foresee passes it, by one call: an unknown price, a wrong estimate.
- Who waits is served in order. A call waits only for what others hold and may give back; what can never fit is refused.
- A stop gives the reservation back, and what the cut call spent stays spent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import NamedTuple

import anyio

from ..errors import BudgetExhausted
from ..journal.records import LimitNear
from ..messages import Limits
from .forecast import Amount, refusal

__all__ = ["Budget", "BudgetStatistics", "Reservation"]

NOTHING = Amount()


class BudgetStatistics(NamedTuple):
    """The books of a budget; `waiting` is how many calls wait for what others hold."""

    limits: Limits
    spent: Amount
    reserved: Amount
    waiting: int


class Budget:
    """What several runs may use up together: `Agent(budget=budget)` for each agent that shares it.

    A run's own `Limits` hold besides. Use it from one event loop at a time.

    Args:
        turns: Model calls that were answered. None is no limit, 0 allows nothing, for all of these.
        usd: Dollars, as a number or as people write them ("5.00").
        tokens: Input and output tokens together.
        seconds: Time in which at least one of the runs is driven.

    Attributes:
        spent: What the calls of all runs have used.
        warned: The warnings that there have been.

    Raises:
        ValueError: When a limit is negative or not a number.
    """

    def __init__(
        self,
        *,
        turns: int | None = None,
        usd: Decimal | str | float | None = None,
        tokens: int | None = None,
        seconds: float | None = None,
    ) -> None:
        names = {name: f"Budget({name}=...)" for name in ("turns", "usd", "tokens", "seconds")}
        self.limits = Limits(turns=turns, usd=usd, tokens=tokens, seconds=seconds, told_as=names)
        self._allowed = Amount.allowed_by(self.limits)
        self.spent, self._reserved = NOTHING, NOTHING
        self._open = 0  # reservations
        self._waiting: dict[anyio.Event, _Wish] = {}  # ordered, and quick to leave
        self._of_runs: dict[str, Amount] = {}
        self.warned: list[LimitNear] = []
        self._seconds, self._since, self._drivers = 0.0, 0.0, 0

    def statistics(self) -> BudgetStatistics:
        return BudgetStatistics(self.limits, self.spent, self._reserved, len(self._waiting))

    def spent_by(self, run_id: str) -> Amount:
        """What one run has used of it."""
        return self._of_runs.get(run_id, NOTHING)

    # --- calls --------------------------------------------------------------------------------------------------

    async def reserve(self, run_id: str, least: Amount, most: Amount) -> Reservation:
        """Reserve up to `most` for one call, waiting for what other calls give back; at least `least`.

        Every reservation must be settled. A stop while waiting reserves nothing.

        Raises:
            MaxTurns, CostBudget, TokenBudget: There will never be room for the call.
        """
        wish = _Wish(run_id, self._counted(least), self._counted(most))
        if self._waiting or not self._decide(wish):
            await self._wait(wish)
        if wish.refused is not None:
            raise wish.refused
        if wish.granted is None:
            raise AssertionError("a wish that was decided is granted or refused")
        return wish.granted

    async def _wait(self, wish: _Wish) -> None:
        turn = anyio.Event()
        self._waiting[turn] = wish
        try:
            await turn.wait()
        except BaseException as error:
            error.add_note("while waiting for what other runs hold of the budget")
            if wish.granted is not None:
                wish.granted.settle(NOTHING)  # it was granted in the same moment
            else:
                self._waiting.pop(turn, None)
                self._serve()
            raise

    def _decide(self, wish: _Wish) -> bool:
        """Grant or refuse a wish; False when it has to wait."""
        wish.refused = refusal(self.limits, self.spent, wish.least)
        if wish.refused is not None:
            return True
        free = self._allowed - self.spent - self._reserved
        if not (wish.most.within(free) or (not self._open and wish.least.within(free))):
            return False
        amount = wish.most.at_most(free)
        self._reserved, self._open = self._reserved + amount, self._open + 1
        wish.granted = Reservation(self, wish.run_id, amount)
        return True

    def _serve(self) -> None:
        while self._waiting:
            turn, wish = next(iter(self._waiting.items()))
            if not self._decide(wish):
                return
            del self._waiting[turn]
            turn.set()

    def _counted(self, amount: Amount) -> Amount:
        """The amount without what no limit is set on: an infinite wish for dollars would stay infinite in the books."""
        return amount.where(self.limits, Amount())

    def _settle(self, reservation: Reservation, used: Amount) -> None:
        self._reserved, self._open = self._reserved - reservation.amount, self._open - 1
        self._count(reservation.run_id, used)
        self._serve()

    def _extend(self, reservation: Reservation, amount: Amount) -> bool:
        more = (self._counted(amount) - reservation.amount).at_least(NOTHING)
        if not more.within(self._allowed - self.spent - self._reserved):
            return False
        self._reserved += more
        reservation.amount += more
        return True

    def _count(self, run_id: str, used: Amount) -> None:
        self.spent += used
        self._of_runs[run_id] = self.spent_by(run_id) + used

    # --- runs ---------------------------------------------------------------------------------------------------

    @contextmanager
    def driven(self, run_id: str, used: Amount) -> Iterator[None]:
        """A block in which a run is driven. What it had used before counts too, once.

        Args:
            used: What the run has used so far.
        """
        self._count(run_id, (used - self.spent_by(run_id)).at_least(NOTHING))
        if not self._drivers:
            self._since = anyio.current_time()
        self._drivers += 1
        try:
            yield
        finally:
            self._drivers -= 1
            if not self._drivers:
                self._seconds += anyio.current_time() - self._since

    @property
    def seconds(self) -> float:
        """The time in which at least one run was driven."""
        return self._seconds + (anyio.current_time() - self._since if self._drivers else 0.0)


class _Wish:
    """A call that asks for a part of the budget, and what was decided."""

    def __init__(self, run_id: str, least: Amount, most: Amount) -> None:
        self.run_id, self.least, self.most = run_id, least, most
        self.granted: Reservation | None = None
        self.refused: BudgetExhausted | None = None


class Reservation:
    """A part of the budget that is held for one call.

    Attributes:
        amount: How much; 0 where the budget has no limit.
    """

    def __init__(self, budget: Budget, run_id: str, amount: Amount) -> None:
        self.budget, self.run_id, self.amount = budget, run_id, amount
        self._settled = False

    def extend(self, amount: Amount) -> bool:
        """Hold so much in all, if it is free; whether it is."""
        return self.budget._extend(self, amount)

    def settle(self, used: Amount) -> None:
        """The call is over: what it used is spent, the rest is free. A second time changes nothing."""
        if not self._settled:
            self._settled = True
            self.budget._settle(self, used)

    @property
    def room(self) -> Amount:
        """What the call may use by it: what is held, and without bound where the budget has no limit."""
        return self.amount.where(self.budget.limits, self.budget._allowed)
