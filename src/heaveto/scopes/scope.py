"""Scopes that can be stopped, each stop with a cause.

The rules of this file:
- The first stop of a scope is kept; later ones change nothing. A deadline counts from its time, not from when the loop
  noticed it, so in busy code a passed deadline comes before a later `cancel`.
- What stops the code in a scope is the earliest stop among the scopes that it can see: itself and the wider ones up to a
  shield. On a tie the nearest wins. It is worked out when asked for, from our own links: AnyIO's `reason` differs between
  the two back ends (measured: parent stopped first, Trio tells the parent's, asyncio the child's), so it is for people.
- AnyIO's scope delivers the stop to every await. Ours raises the cause, but only when the native scope caught the
  cancellation: finished work is not undone by a late stop.
- A scope keeps its loop's clock, so that a cause can be read in a thread that has no loop.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from contextvars import ContextVar, Token
from threading import get_ident
from types import TracebackType
from typing import NamedTuple, Self

import anyio

from ..causes import DeadlinePassed, Stop, text_of
from ..errors import NotEnoughTime
from .clock import Clock, loop_clock
from .moving_limit import MovingLimit

__all__ = ["Scope", "check_stop", "current_cause", "deadline", "need", "number_of", "pending_cause", "time_left"]

_current: ContextVar[Scope | None] = ContextVar("heaveto_scope", default=None)
_order = itertools.count()
PASSED = -1  # the order of a passed deadline: before any stop by hand of the same time


class Stopped(NamedTuple):
    """When a scope was stopped (the loop's clock), the order among equal times, and why."""

    at: float
    order: int
    cause: Stop


class Grace(NamedTuple):
    """How long a scope holds wider stops off, and which."""

    seconds: float
    kinds: tuple[type[Stop], ...]


class Scope:
    """A block of code that can be stopped: `with Scope() as scope: ...`, and `scope.cancel(cause)` from the loop.

    Args:
        seconds: The block's time limit; infinite by default.
        late: The cause when that passes; a plain `DeadlinePassed` by default.
        shield: Whether wider stops stay outside.
        quiet: Whether the block just ends, without raising, when it was stopped.

    Raises:
        Stop: When the block was stopped, and not `quiet`: a fresh copy of the cause, whose `__context__` tells where the
            work was.
        TypeError, ValueError: `seconds` is no number or NaN, or `late` no stop.
    """

    native: anyio.CancelScope

    def __init__(
        self, seconds: float = math.inf, late: Stop | None = None, *, shield: bool = False, quiet: bool = False
    ) -> None:
        seconds = number_of(seconds, "a scope's seconds")
        if late is not None:
            _refuse_no_stop(late)
        self._seconds, self._late, self._shield, self._quiet = seconds, late, shield, quiet
        self._stop: Stopped | None = None
        self._hurry: list[anyio.Event] = []  # ends the grace periods inside this scope
        self._grace: Grace | None = None
        self._early: Stop | None = None  # a stop that came before the block began
        self._moving: MovingLimit | None = None
        self._until = math.inf  # until the block begins, which has no wider ones until then either
        self._parent: Scope | None = None
        self._entered = self._over = False

    def __enter__(self) -> Self:
        if self._entered:
            raise RuntimeError("a scope is entered once: make another for another block")
        self._clock: Clock = loop_clock()
        self._until = self._clock() + self._seconds if self._seconds != math.inf else math.inf
        self.native = anyio.CancelScope(shield=self._shield, deadline=self._until)  # heaveto: allow raw-scope made here only
        self._thread = get_ident()
        self._parent = _current.get()
        self._token: Token[Scope | None] = _current.set(self)
        self.native.__enter__()
        self._entered = True
        if self._early is not None:
            self.cancel(self._early)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        try:
            _current.reset(self._token)
        except ValueError as misplaced:
            raise RuntimeError("a scope ends in the task in which it began") from misplaced
        stop, self._over = self._latch(), True
        if self._moving is not None:
            self._moving.close()
        # The native scope alone may not know yet that the deadline has passed: asyncio's does not look, Trio's does.
        if stop and (stop.order == PASSED or self.native.cancel_called) and error is not None and not _is_a_stop(error):
            error.add_note(f"while stopping: {text_of(stop.cause)}")  # an error in the clean-up does not hide the cause
        swallowed = bool(self.native.__exit__(kind, error, traceback))
        if stop and self.native.cancelled_caught and not self._quiet:
            fresh = _fresh(stop.cause)
            fresh.report = getattr(error, "report", fresh.report)  # the run that the cancellation came from
            raise fresh
        return swallowed

    def cancel(self, cause: Stop) -> None:
        """Stop what is inside, from the next await on. A second call keeps the first cause and ends any grace period; one
        before the block begins waits for it, one after its end does nothing.

        Call it from the loop's thread; from another one or a signal handler, hand it to the loop: `wake = loop_waker()` in
        the loop, and `wake(lambda: scope.cancel(cause))` there.

        Raises:
            RuntimeError: It was called from another thread. Nothing was changed.
        """
        _refuse_no_stop(cause)
        if self._over:
            return
        if not self._entered:
            self._early = self._early or cause
            return
        self._refuse_another_thread()
        if not self.note(cause):
            for event in self._hurry:
                event.set()
        self.native.cancel(reason=text_of(cause))

    def limit(self, until: float, late: Stop) -> None:
        """Move the block's time limit, as often as one likes; nothing once it was stopped or left, or its limit passed.

        Call it inside the block, in the loop's thread.

        Args:
            until: By the loop's clock; infinite for none.
            late: The cause when that passes.
        """
        _refuse_no_stop(late)
        until = number_of(until, "the time of a limit")
        if self._over:
            return
        if not self._entered:
            raise RuntimeError("a scope's limit is moved inside its block: enter it first")
        self._refuse_another_thread()
        if self._latch() is not None or self.native.cancel_called:
            self.native.cancel()  # the loop may not have noticed yet
            return
        if self._moving is None:
            self._moving = MovingLimit(self.native)
        self._until, self._late = until, late
        self._moving.move(until)

    def note(self, cause: Stop) -> bool:
        """Keep the cause of a stop that something else is about to deliver; False when it is too late for that."""
        if self._over or self._latch() is not None:
            return False
        self._stop = Stopped(self._clock(), next(_order), cause)
        return True

    def _refuse_another_thread(self) -> None:
        if get_ident() != self._thread:
            raise RuntimeError("a scope is stopped in its loop's thread: hand the call to the loop, see loop_waker()")

    @property
    def cause(self) -> Stop | None:
        """Why the code directly inside this scope is stopped; None while it is not."""
        return _earliest(self.visible())

    @property
    def own_cause(self) -> Stop | None:
        """Why this very scope was stopped; None when it was not, whatever happened to wider ones."""
        stop = self._latch()
        return stop.cause if stop else None

    def visible(self, *, through_grace: bool = False) -> Iterator[Scope]:
        """This scope and the wider ones whose stops reach the code inside; also those held off, `through_grace`."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = None if scope._shield and not (through_grace and scope._grace is not None) else scope._parent

    def _latch(self) -> Stopped | None:
        if self._stop is None and not self._over and self._until != math.inf and self._clock() >= self._until:
            self._stop = Stopped(self._until, PASSED, self._late or DeadlinePassed(self._seconds))
        return self._stop


def deadline(seconds: float, cause: Stop | None = None) -> Scope:
    """A block with a time limit: `with deadline(120, CallTimeout(120)): ...`.

    Args:
        seconds: The limit; infinite for none.
        cause: What is raised when it passes.
    """
    return Scope(seconds, cause)


def current_cause() -> Stop | None:
    """Why the code that asks is being stopped; None while it is not. Works in any code below a scope, threads too."""
    scope = _current.get()
    return scope.cause if scope is not None else None


def pending_cause() -> Stop | None:
    """Like `current_cause`, but it also sees a stop that a grace period still holds off: begin nothing new after it."""
    scope = _current.get()
    return _earliest(scope.visible(through_grace=True)) if scope is not None else None


def check_stop() -> None:
    """Raise the cause if the code that asks is being stopped. For sync code in a thread, which no await can stop.

    Raises:
        Stop: The cause, as a fresh copy.
    """
    if (cause := current_cause()) is not None:
        raise _fresh(cause)


def time_left() -> float:
    """Seconds until the nearest deadline that reaches the code, or its grace's end; infinite without, 0 once stopped."""
    scope = _current.get()
    if scope is None:
        return math.inf
    if scope.cause is not None:
        return 0.0
    now = scope._clock()
    ends = (end for each in scope.visible(through_grace=True) for end in (each._until, grace_end(each)))
    return max(0.0, min(ends) - now)


def grace_end(scope: Scope) -> float:
    """When a scope's grace period is over, counted from the stop that it holds off; infinite while there is none."""
    if scope._grace is None or scope._parent is None:
        return math.inf
    stop = _earliest_stop(scope._parent.visible(through_grace=True), scope._grace.kinds)
    return math.inf if stop is None else stop.at + scope._grace.seconds


def need(seconds: float, what: str = "") -> None:
    """Refuse work that cannot finish in the time left.

    Args:
        seconds: How long the work usually takes.
        what: Its name, for the text.

    Raises:
        NotEnoughTime: With both numbers. Nothing was begun.
        TypeError, ValueError: `seconds` is no number, or NaN.
    """
    seconds = number_of(seconds, "the seconds needed")
    left = time_left()
    if left < seconds:
        raise NotEnoughTime(seconds, left, what)


def _refuse_no_stop(cause: object) -> None:
    """Raises: TypeError: Before it is too late to say where it came from."""
    if not isinstance(cause, Stop):
        raise TypeError(f"a cause is a Stop, such as Cancelled('why'), not {cause!r}")


def number_of(seconds: float, what: str) -> float:
    """What was given as seconds, as a number that a clock's can be added to: a Decimal's or a Fraction's cannot.

    Raises:
        TypeError, ValueError: It is none, or NaN, which no comparison would notice, or no float can hold it.
    """
    try:
        nan = math.isnan(seconds)
    except TypeError as error:
        raise TypeError(f"{what} must be a number, such as 5 or 0.5, not {seconds!r}") from error
    except OverflowError as error:
        raise ValueError(f"{what} must be below 1e308; math.inf is no limit at all") from error
    if nan:
        raise ValueError(f"{what} must be a number, not NaN")
    return seconds if isinstance(seconds, int) else float(seconds)


def _fresh(cause: Stop) -> Stop:
    """A copy with notes of its own, since one cause may stop many runs.

    Made without `__init__`, which in somebody's own class may take other arguments than `args` has.
    """
    fresh = type(cause).__new__(type(cause))
    fresh.args = cause.args
    vars(fresh).update(vars(cause))
    if notes := getattr(cause, "__notes__", None):
        fresh.__notes__ = list(notes)
    fresh.__cause__, fresh.__suppress_context__ = cause.__cause__, False  # its context tells where the work was
    return fresh


def _is_a_stop(error: BaseException) -> bool:
    return isinstance(error, (Stop, anyio.get_cancelled_exc_class()))


def _earliest(scopes: Iterator[Scope]) -> Stop | None:
    stop = _earliest_stop(scopes)
    return stop.cause if stop else None


def _earliest_stop(scopes: Iterator[Scope], kinds: tuple[type[Stop], ...] = (Stop,)) -> Stopped | None:
    first: Stopped | None = None
    for scope in scopes:
        stop = scope._latch()
        if stop and isinstance(stop.cause, kinds) and (first is None or stop[:2] < first[:2]):  # ties stay with the nearest
            first = stop
    return first
