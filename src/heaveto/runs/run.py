"""A run: a loop with a journal and a scope, driven by this process."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Generic

import anyio

from ..causes import Cancelled, Described, SaveTimeout, Shutdown, Stop, StoppedFromOutside
from ..errors import RunDeadline, Waiting
from ..journal.records import RunFinished
from ..loop.forecast import total_of
from ..loop.log import Log
from ..loop.outcome import Outcome, Report, branches, conclude, describe, is_resumable, kind_of
from ..loop.shared_budget import Budget
from ..loop.turn import Loop
from ..loop.warnings import limit_uses
from ..messages import Limits
from ..scopes import Scope, deadline, finish, graced
from .program import stopped_runs
from .watchers import Events, Watchers

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=None)
else:
    from typing import TypeVar

    T = TypeVar("T")

__all__ = ["Run", "carrying", "cause_of"]

SAVE_SECONDS = 15.0  # to write the end down; the store's own limit is 10, this one is for a store that has none
RELEASE_SECONDS = 5.0  # to let another process have the run at once
END_SECONDS = SAVE_SECONDS + RELEASE_SECONDS + 1.0  # never reached, unless a bug of ours waits for something else


class Run(Generic[T]):
    """A run under way, or ended. `Agent.start` and `Agent.reopen` give one.

    Attributes:
        outcome: How it ended; None while it is under way.
    """

    def __init__(
        self, log: Log, watchers: Watchers, loop: Loop, *, grace_seconds: float, budget: Budget | None = None
    ) -> None:
        self._log, self._state, self._watchers, self._loop = log, log.state, watchers, loop
        self._grace_seconds, self._budget = grace_seconds, budget
        self._scope = Scope()
        self._began = anyio.current_time()
        self._ended = anyio.Event()
        self.outcome: Outcome[T] | None = None

    @property
    def id(self) -> str:
        return self._state.run_id

    def cancel(self, cause: Stop | None = None) -> None:
        """Stop the run with a cause; `Cancelled()` by default. The first cause is kept; a second call ends a grace period.

        Call it from the loop's thread. It returns at once; `wait` tells when the run has ended.
        """
        self._scope.cancel(cause or Cancelled())

    def events(self) -> Events:
        """What happens in the run, as it happens; the durable events so far come first."""
        return self._watchers.watch()

    def report(self) -> Report:
        """The run as far as it has come."""
        return self.outcome.report if self.outcome else self._report(self._seconds(), resumable=True)

    def _report(self, seconds: float, *, resumable: bool) -> Report:
        return Report.of(self._state, limits=limit_uses(self._state, seconds, self._budget), resumable=resumable)

    def _seconds(self) -> float:
        """The time driven, over all resumes."""
        return self._state.seconds + anyio.current_time() - self._began

    async def wait(self) -> Outcome[T]:
        """Wait until the run has ended. A stop of the waiter does not stop the run. Never raises for the run's own end."""
        await self._ended.wait()
        if self.outcome is None:
            raise AssertionError("a run ends with an outcome")
        return self.outcome

    async def drive(self) -> None:
        """Drive the run to its end and write that down. Raises only what came from outside: a wider stop, an exit."""
        try:
            with self._scope:
                await self._within_limits()
        except Exception as error:  # boundary: whatever it was, the run ends with an outcome
            await finish(END_SECONDS, self._conclude, error)
        except BaseException as error:
            await finish(END_SECONDS, self._conclude, cause_of(error, self._scope.cause))
            raise
        else:
            await finish(END_SECONDS, self._conclude, None)

    async def _within_limits(self) -> None:
        budget, state = self._budget, self._state
        with budget.driven(state.run_id, total_of(state)) if budget else nullcontext():
            left, late = self._time_left()
            with deadline(left, late):
                async with graced(self._grace_seconds, Shutdown):
                    await self._loop.run()

    def _time_left(self) -> tuple[float, RunDeadline | None]:
        """The seconds that the run may be driven, by its own limit or a shared one, and the cause when they passed."""
        left, late = math.inf, None
        for limits, used in self._times():
            if limits.seconds is not None and limits.seconds - used < left:
                left, late = limits.seconds - used, RunDeadline(limits.seconds, limits.setting("seconds"))
        return left, late

    def _times(self) -> Iterator[tuple[Limits, float]]:
        yield self._state.limits, self._state.seconds
        if self._budget is not None:
            yield self._budget.limits, self._budget.seconds

    async def _conclude(self, error: BaseException | None) -> None:
        """Answer what will not run any more, write the end down, and tell the watchers."""
        try:
            error = await self._save_end(error)
        finally:
            self.outcome = self._outcome(error)
            if self.outcome.kind == "shutdown" and (stopped := stopped_runs.get()) is not None:
                stopped.append(self.id)
            self._watchers.close()
            self._ended.set()

    async def _save_end(self, error: BaseException | None) -> BaseException | None:
        """Write the end down; returns why the run ended, which is the failure to do so when there is one."""
        seconds = self._seconds()
        try:
            await self._write_end(error, seconds)
        except Exception as failed:  # boundary: the journal is gone, and that has to be told all the same
            error = _unsaved_because(failed, error)
            finished = self._finished(error, seconds)
            self._state.finished = finished
            self._log.tell(finished)
        try:
            with deadline(RELEASE_SECONDS):
                await self._log.release()
        except Exception:  # noqa: S110 - boundary: the end is told; others have the run when this process is gone
            pass
        return error

    async def _write_end(self, error: BaseException | None, seconds: float) -> None:
        if error is not None and not isinstance(error, Waiting) and self._log.broken is None:
            self._loop.answering.answer_not_run(describe(error))
        self._log.add(self._finished(error, seconds))
        with deadline(SAVE_SECONDS, SaveTimeout(SAVE_SECONDS)):
            await self._log.commit()

    def _finished(self, error: BaseException | None, seconds: float) -> RunFinished:
        return conclude(self._state, error, seconds, limit_uses(self._state, seconds, self._budget))

    def _outcome(self, error: BaseException | None) -> Outcome[T]:
        report = self._report(self._state.seconds, resumable=is_resumable(error))
        kind = kind_of(error)
        for each in branches(error):
            if isinstance(each, Described):
                each.report = report
        cause = error if isinstance(error, Stop) else None
        answered = kind == "answered"
        return Outcome(
            kind=kind,
            text=self._state.answer or "" if answered else "",
            output=self._loop.answers.value if answered else None,
            cause=cause,
            error=None if cause else error,
            report=report,
        )


def cause_of(error: BaseException, cause: Stop | None) -> BaseException:
    """The error itself; of a cancellation its cause, as a copy, since one cause may stop many runs."""
    if not isinstance(error, anyio.get_cancelled_exc_class()):
        return error
    return copy.copy(cause) if cause is not None else StoppedFromOutside()


@contextmanager
def carrying(report: Callable[[], Report]) -> Iterator[None]:
    """A block whose cancellation carries the run's report outward; the scope that was stopped puts it on what it raises.

    So does an error that passes through and has none yet. One cause may stop many runs, and it is not the cause that has it.
    """
    try:
        yield
    except BaseException as error:
        if getattr(error, "report", None) is None and isinstance(error, (Stop, anyio.get_cancelled_exc_class())):
            error.report = report()  # type: ignore[attr-defined]
        raise


def _unsaved_because(failed: Exception, error: BaseException | None) -> Exception:
    """The failure to write the end down, with a note of what the end was."""
    if error is not None and failed is not error:
        failed.add_note(f"while saving how the run ended: {describe(error)}")
    return failed
