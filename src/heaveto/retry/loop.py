"""The one loop around an attempt.

The rules of this file:
- A stop is never retried and never waited out: not during an attempt, not during a wait, not while a grace holds it off.
- What each attempt spent is handed over exactly once: with its result, with its notice, or when nothing came of it.
- What an attempt streamed is void when it fails; whoever handed it on learns that from the notice.
"""

from __future__ import annotations

import copy
import random as random_numbers
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

import anyio
import anyio.lowlevel
import msgspec

from ..causes import AttemptTimeout
from ..errors import GaveUp
from ..messages import Usage
from ..scopes import deadline, pending_cause, time_left
from .classify import NEVER, classify
from .policy import RetryPolicy

__all__ = ["Attempt", "RetryNotice", "retrying"]

T = TypeVar("T")


class RetryNotice(msgspec.Struct, frozen=True):
    """An attempt failed, and another follows.

    Attributes:
        attempt: The one that failed, from 1.
        of: How many there are at most.
        after: The wait before the next one, in seconds.
        why: Why it is worth it, in a few words.
        spent: What the failed attempt spent; None when it never said how to find out.
    """

    attempt: int
    of: int
    after: float
    why: str
    error: Exception
    spent: Usage | None = None


class Attempt:
    """One attempt, as the function that makes it sees it.

    Attributes:
        number: From 1.
        of: How many there are at most.
    """

    def __init__(self, number: int, of: int) -> None:
        self.number, self.of = number, of
        self._spent: Callable[[], Usage] | None = None

    def spends(self, spent: Callable[[], Usage]) -> None:
        """Say how to find out what this attempt has spent, however it ends."""
        self._spent = spent

    @property
    def spent(self) -> Usage | None:
        return self._spent() if self._spent is not None else None


def _ignore(told: object) -> None: ...


async def _nothing() -> None: ...


async def retrying(
    make: Callable[[Attempt], Awaitable[T]],
    policy: RetryPolicy,
    *,
    on_retry: Callable[[RetryNotice], None] = _ignore,
    before_wait: Callable[[], Awaitable[object]] = _nothing,
    on_lost: Callable[[Usage], None] = _ignore,
    random: Callable[[], float] = random_numbers.random,
) -> T:
    """Make attempts until one returns.

        async def once(attempt):
            async with model.stream(request) as stream:
                attempt.spends(lambda: stream.spent)
                async for delta in stream: ...
                return stream.reply

    Args:
        make: Makes one attempt.
        on_retry: Called before the wait for each further attempt; what the failed one streamed is void.
        before_wait: Called after that, for what must be awaited, such as writing the notice down.
        on_lost: Called with what the last attempt spent when nothing came of it, also when a stop cut it.
        random: For the jitter: a number from 0 to 1.

    Raises:
        GaveUp: The policy had enough; its `last` is the last attempt's error.
        Exception: The first error, as it is, when trying again cannot help; a later one comes with GaveUp around it, unless
            it is one that is never retried, such as a budget that has no room for another attempt.
        Stop: The code around was stopped. No attempt and no wait begins after that.
    """
    number = 1
    while True:
        await _begin_nothing_after_a_stop()
        attempt = Attempt(number, policy.attempts)
        lost = True
        try:
            with _limit(policy.attempt_seconds):
                value = await make(attempt)
            lost = False
            return value
        except Exception as error:  # boundary: the boundary that classifies; what is not retried goes on
            await _begin_nothing_after_a_stop()
            notice = _notice(attempt, error, policy, random)
            lost = False
        finally:
            if lost and (spent := attempt.spent) is not None:
                on_lost(spent)
        on_retry(notice)
        await before_wait()
        await anyio.sleep(notice.after)
        number += 1


def _notice(attempt: Attempt, error: Exception, policy: RetryPolicy, random: Callable[[], float]) -> RetryNotice:
    """The notice of the next attempt; raises when there is none."""
    decision = classify(error, scope_stopped=False)
    if not decision.retry:
        if attempt.number == 1 or isinstance(error, NEVER):
            raise error
        raise GaveUp(attempt.number, error, decision.why) from error
    wait = policy.wait(attempt.number, decision.after, random)
    if (why := policy.refusal(attempt.number, decision.after, wait, time_left())) is not None:
        raise GaveUp(attempt.number, error, why) from error
    return RetryNotice(attempt.number, attempt.of, wait, decision.why, error, attempt.spent)


async def _begin_nothing_after_a_stop() -> None:
    if (cause := pending_cause()) is not None:
        await anyio.lowlevel.checkpoint()  # a stop that is not held off comes out here, as itself
        raise copy.copy(cause)


def _limit(seconds: float | None) -> AbstractContextManager[object]:
    return nullcontext() if seconds is None else deadline(seconds, AttemptTimeout(seconds))
