"""The turn: what a run does next, and the doing of it, until the model has answered.

`next_step` decides, in sync code, from the state alone; so a run that was taken up again does what it would have done.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, TypeAlias

import anyio

from ..causes import Cancelled
from ..journal.state import RunState
from ..messages import Sampling
from ..models import Model, ToolSpec
from ..retry import RetryPolicy
from ..scopes import Slots, Tasks, tasks
from .answering import Answering, raise_pending_stop
from .budget import exhausted
from .calling import Calling
from .final_answer import FinalAnswers
from .ladder import settle
from .log import Log
from .shared_budget import Budget
from .toolbox import Toolbox
from .warnings import warnings_due

__all__ = ["Loop", "Step", "next_step"]

Step: TypeAlias = Literal["settle", "answer", "call", "done"]


def next_step(state: RunState) -> Step:
    """What comes next: settle calls in doubt, answer calls, call the model, or nothing more."""
    if state.in_doubt():
        return "settle"
    if state.asked():
        return "answer"
    return "call" if state.answer is None else "done"


class Loop:
    """Drives one run. Everything that it knows is in the log's state, and on disk before it matters."""

    def __init__(
        self,
        log: Log,
        model: Model,
        toolbox: Toolbox,
        specs: Sequence[ToolSpec],
        retry: RetryPolicy,
        model_slots: Slots,
        budget: Budget | None = None,
        answers: FinalAnswers | None = None,
        sampling: Sampling | None = None,
    ) -> None:
        self._log, self._toolbox, self._budget = log, toolbox, budget
        self.answering = Answering(log, toolbox)
        self.answers = answers or FinalAnswers()
        self._calling = Calling(
            log, model, specs, retry, model_slots, budget, sampling, self.answers.schema, toolbox.secret_schemas
        )
        self._has_background = False

    async def run(self) -> None:
        """Take turns until the model has answered.

        Raises:
            Stop, AgentError: Why there is no answer.
        """
        async with tasks() as beside:
            self.answering.background = lambda fn: self._start(beside, fn)
            try:
                await self._take_turns()
            finally:
                self.answering.background = None
                if self._has_background:
                    beside.scope.cancel(Cancelled("the run has ended", "the run"))

    def _start(self, beside: Tasks, fn: Callable[[], Awaitable[object]]) -> None:
        self._has_background = True
        beside.start_soon(fn, name="background")

    async def _take_turns(self) -> None:
        began = anyio.current_time()
        while (step := self._next_step()) != "done":
            raise_pending_stop()
            self._warn(self._log.state.seconds + anyio.current_time() - began)
            match step:
                case "settle":
                    await settle(self._log, self._toolbox)
                case "answer":
                    await self.answering.answer()
                case "call":
                    await self._call_within_budget()

    def _next_step(self) -> Step:
        """What comes next; an answer that does not fit has gone back to the model."""
        state = self._log.state
        if next_step(state) == "done" and (rejected := self.answers.rejection(state)) is not None:
            self._log.add(rejected)
        return next_step(state)

    def _warn(self, seconds: float) -> None:
        """Tell which limits are nearly used up; it is written down with whatever is next."""
        for warning in warnings_due(self._log.state, seconds, self._budget):
            self._log.add(warning)
            if self._budget is not None:
                self._budget.warned.append(warning)  # of its own limits; that those of a run are there too does no harm

    async def _call_within_budget(self) -> None:
        self.answers.check_patience(self._log.state)
        if (limit := exhausted(self._log.state)) is not None:
            raise limit
        await self._log.commit()  # the results of the last turn, before anything new is spent
        raise_pending_stop()
        await self._calling.call()
