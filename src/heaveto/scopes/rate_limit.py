"""A bound on how much is begun per time, in requests and in tokens, shared by as many agents as one likes.

Each caller is given a time at once, in the order of the calls, and sleeps until then; so nobody is overtaken and no wake-up
can be lost. A turn that is given up because of a stop stays used up: that errs on the side of asking less of the server.
"""

from __future__ import annotations

import math
from threading import Lock
from time import monotonic
from typing import NamedTuple
from weakref import WeakKeyDictionary

import anyio

from .clock import fake_clock, loop_clock

__all__ = ["RateLimit", "RateLimitStatistics"]


class RateLimitStatistics(NamedTuple):
    """What a limit is doing now.

    Attributes:
        waiting: How many wait for their time.
        given_up: How many turns were used up without being used.
        requests_left: What may begin at once; negative while there are waiters. Infinite without such a limit.
    """

    waiting: int
    given_up: int
    requests_left: float
    tokens_left: float


class RateLimit:
    """At most so many requests and tokens per time, in one loop or in loops of several threads, whatever their clocks.

    Args:
        requests: How many requests may begin in `per_seconds`; None for no limit.
        tokens: How many tokens they may take together; None for no limit.
        per_seconds: The time that both are counted over.
        burst: How many requests may begin at once after a quiet time.
        token_burst: How many tokens those may take; what two seconds bring, at most all of `tokens`, by default.
        name: What a waiter was waiting for, in the notes of its stop.

    Raises:
        ValueError: When a limit is not a number above 0.
    """

    def __init__(
        self,
        *,
        requests: float | None = None,
        tokens: float | None = None,
        per_seconds: float = 60.0,
        burst: int = 1,
        token_burst: float | None = None,
        name: str = "rate limit",
    ) -> None:
        given = {
            "requests": requests,
            "tokens": tokens,
            "per_seconds": per_seconds,
            "burst": burst,
            "token_burst": token_burst,
        }
        for setting, value in given.items():
            if value is not None and not (_is_number(value) and 0 < value < math.inf):
                none = "; use None for no limit" if setting in ("requests", "tokens") else ""
                raise ValueError(f"{setting} must be a finite number above 0, not {value!r}{none}")
        per_token, per_request = (math.inf if of is None else of / per_seconds for of in (tokens, requests))
        if not per_token or not per_request:
            raise ValueError(f"so few per {per_seconds:g} s are none at all for a float; take fewer per_seconds")
        self._requests = _Bucket(per_request, burst)
        self._tokens = _Bucket(per_token, token_burst or min(tokens or math.inf, 2 * per_token))
        self._waiting = self._given_up = 0
        self._lock, self._time = Lock(), _SharedTime()
        self.name = name

    async def wait(self, tokens: float = 0) -> None:
        """Wait until one more request may begin.

        A stop ends the wait at once; its turn is used up.

        Args:
            tokens: What the request is expected to take; `correct` it when that is known better.

        Raises:
            ValueError: That is no number of tokens. Nothing was taken.
        """
        if not (_is_number(tokens) and 0 <= tokens < math.inf):
            raise ValueError(f"tokens must be 0 or more, not {tokens!r}")
        with self._lock:
            now = self._time.now()
            seconds = max(self._requests.take(1, now), self._tokens.take(tokens, now))
            self._waiting += seconds > 0
        if seconds > 0:
            await self._sleep(seconds)

    def correct(self, tokens: float) -> None:
        """Take more tokens, or give back, when a request took others than it was expected to: the difference.

        Raises:
            ValueError: That is no number of tokens. Nothing was taken.
        """
        if not (_is_number(tokens) and math.isfinite(tokens)):
            raise ValueError(f"tokens must be a number, not {tokens!r}")
        with self._lock:
            self._tokens.take(tokens, self._time.now())

    def statistics(self) -> RateLimitStatistics:
        """What it is doing; read in a loop, since time goes on there."""
        with self._lock:
            now = self._time.now()
            return RateLimitStatistics(self._waiting, self._given_up, self._requests.level(now), self._tokens.level(now))

    async def _sleep(self, seconds: float) -> None:
        try:
            await anyio.sleep(seconds)
        except BaseException as error:
            error.add_note(f"while waiting for the {self.name} ({seconds:.6g} s)")
            self._waited(given_up=1)
            raise
        self._waited(given_up=0)

    def _waited(self, given_up: int) -> None:
        with self._lock:
            self._waiting -= 1
            self._given_up += given_up


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float))


class _SharedTime:
    """One time for all loops that ask: Trio's clocks begin anywhere, fake ones at 0, and several loops may run at once.

    It is the first loop's. A later one joins it where real time has brought it by then, one with a fake clock where the last
    one left it. It never goes back.
    """

    def __init__(self) -> None:
        self._ahead: WeakKeyDictionary[object, float] = WeakKeyDictionary()  # of a loop or a clock of Trio's
        self._began: float | None = None
        self._latest = 0.0

    def now(self) -> float:
        clock = loop_clock()
        time, owner = clock(), getattr(clock, "__self__", clock)
        ahead = self._ahead.get(owner)
        if ahead is None:
            ahead = self._ahead[owner] = self._join(time)
        self._latest = max(self._latest, time + ahead)
        return self._latest

    def _join(self, time: float) -> float:
        """How far a new loop's time is to be put ahead."""
        real = monotonic()
        if self._began is None:
            self._began = real - time
            return 0.0  # and not what rounding makes of it: fake clocks are exact
        return (self._latest if fake_clock() else max(self._latest, real - self._began)) - time


class _Bucket:
    """Fills at a rate up to what it can hold; who takes more than is there is told how long that takes to come in."""

    def __init__(self, per_second: float, capacity: float) -> None:
        self._per_second, self._capacity = per_second, capacity
        self._level, self._at = capacity, 0.0

    def level(self, now: float) -> float:
        if self._per_second == math.inf:
            return math.inf
        return min(self._capacity, self._level + (now - self._at) * self._per_second)

    def take(self, amount: float, now: float) -> float:
        """Take an amount, now or as a debt; returns the seconds until it has come in."""
        if self._per_second == math.inf:
            return 0.0
        self._level, self._at = min(self._capacity, self.level(now) - amount), now
        return max(0.0, -self._level / self._per_second)
