"""The waits, without waiting."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaveto.errors import ConfigError
from heaveto.retry import RetryPolicy


@given(st.integers(1, 5000), st.floats(0, 1), st.floats(0, 100), st.floats(0, 100))
def test_a_backoff_lies_between_nothing_and_the_cap(attempt: int, number: float, base: float, cap: float) -> None:
    policy = RetryPolicy(base_seconds=base, cap_seconds=cap)
    assert 0 <= policy.delay(attempt, lambda: number) <= cap
    assert policy.delay(attempt, lambda: 0.0) == 0
    assert policy.delay(attempt, lambda: 1.0) >= policy.delay(attempt, lambda: number)


def test_the_longest_backoff_doubles_up_to_the_cap() -> None:
    policy = RetryPolicy(base_seconds=1, cap_seconds=10)
    assert [policy.delay(attempt, lambda: 1.0) for attempt in range(1, 7)] == [1, 2, 4, 8, 10, 10]


@given(st.floats(0, 100), st.floats(0, 1))
def test_what_the_server_asked_for_is_the_least(asked: float, number: float) -> None:
    assert RetryPolicy().wait(1, asked, lambda: number) >= asked
    assert RetryPolicy().wait(1, None, lambda: number) == RetryPolicy().delay(1, lambda: number)


@pytest.mark.parametrize(
    ("attempt", "asked", "wait", "left", "why"),
    [
        (1, None, 1, math.inf, None),
        (3, None, 1, math.inf, None),
        (4, None, 0, math.inf, "no attempts left"),
        (1, None, 5, 4, "the wait is beyond the time left (5 s of 4 s)"),
        (1, None, 5, 5, "the wait is beyond the time left (5 s of 5 s)"),
        (1, 3600, 3600, math.inf, "a wait of 3600 s was asked for, more than max_wait_seconds (120 s)"),
        (4, 3600, 3600, 0, "no attempts left"),
    ],
)
def test_when_there_is_no_further_attempt(
    attempt: int, asked: float | None, wait: float, left: float, why: str | None
) -> None:
    assert RetryPolicy().refusal(attempt, asked, wait, left) == why


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0},
        {"attempts": math.nan},
        {"base_seconds": -1},
        {"cap_seconds": math.nan},
        {"cap_seconds": math.inf},
        {"attempt_seconds": -0.1},
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        RetryPolicy(**wrong)
