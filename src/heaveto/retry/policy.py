"""How often and after how long: pure, so that tests need not wait."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import ConfigError

__all__ = ["RetryPolicy"]

LONGEST_EXPONENT = 60  # 2.0 ** 1024 overflows; no cap is above 2 ** 60 seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """When to try again.

    The wait after attempt n is uniform between 0 and min(cap_seconds, base_seconds * 2 ** (n - 1)): full jitter, so that
    many callers that failed together do not come back together. A wait that the server asked for is the least.

    Attributes:
        attempts: At most, the first included.
        base_seconds: The longest wait after the first attempt.
        cap_seconds: The longest wait after any.
        attempt_seconds: A limit for each attempt; None for none.
        max_wait_seconds: The longest wait that a server may ask for; beyond it there is no further attempt.
    """

    attempts: int = 4
    base_seconds: float = 1.0
    cap_seconds: float = 20.0
    attempt_seconds: float | None = None
    max_wait_seconds: float = 120.0

    def __post_init__(self) -> None:
        if not _is_number(self.attempts) or not self.attempts >= 1:  # NaN is not either, and would be no end
            raise ConfigError(f"attempts must be 1 or more, not {self.attempts!r}")
        for name in ("base_seconds", "cap_seconds"):
            if getattr(self, name) in (math.inf, None):  # infinity times a jitter of 0 is no number
                raise ConfigError(f"{name} must be a number of seconds, not {getattr(self, name)}")
        for name in ("base_seconds", "cap_seconds", "attempt_seconds", "max_wait_seconds"):
            seconds = getattr(self, name)
            if seconds is None and name == "attempt_seconds":
                continue
            if not _is_number(seconds) or not seconds >= 0:  # NaN is not either
                raise ConfigError(f"{name} must be 0 or more, not {seconds!r}")

    def delay(self, attempt: int, random: Callable[[], float]) -> float:
        """Seconds of backoff after attempt `attempt` (from 1); `random` gives a number from 0 to 1."""
        longest = self.base_seconds * 2.0 ** min(attempt - 1, LONGEST_EXPONENT)
        return random() * min(self.cap_seconds, longest)

    def wait(self, attempt: int, asked: float | None, random: Callable[[], float]) -> float:
        """Seconds to wait after attempt `attempt`: the backoff, and at least what the server asked for."""
        return max(self.delay(attempt, random), asked or 0.0)

    def refusal(self, attempt: int, asked: float | None, wait: float, left: float = math.inf) -> str | None:
        """Why there is no further attempt; None when there is one.

        Args:
            attempt: The one that failed, from 1.
            wait: The wait that would come first.
            left: The time left, in seconds.
        """
        if attempt >= self.attempts:
            return "no attempts left"
        if asked is not None and asked > self.max_wait_seconds:
            return f"a wait of {asked:.6g} s was asked for, more than max_wait_seconds ({self.max_wait_seconds:.6g} s)"
        return f"the wait is beyond the time left ({wait:.6g} s of {left:.6g} s)" if wait >= left else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
