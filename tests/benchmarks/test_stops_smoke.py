"""The experiments on stops come out as they must: exact times by the fake clock, requests, ends, and texts."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def stops() -> Iterator[ModuleType]:
    """The benchmark, which is no package: `make bench` runs it as a program."""
    sys.path.insert(0, str(BENCHMARKS))
    yield importlib.import_module("stops")
    sys.path.remove(str(BENCHMARKS))


@pytest.mark.parametrize(
    ("name", "seconds", "requests", "ended", "says"),
    [
        ("quiet_stream", 240, 4, "gave_up (75)", "the stream went quiet for 60 s (idle_seconds)"),
        ("quiet_once", 60, 2, "answered (0)", "the model answered"),
        ("comments_alone", 480, 4, "gave_up (75)", "the stream went quiet for 120 s (content_idle_seconds)"),
        ("mute_stream", 480, 4, "gave_up (75)", "the stream went quiet for 120 s (first_byte_seconds)"),
        ("mute_call", 480, 4, "gave_up (75)", "the model call timed out after 120 s (call_seconds)"),
        ("cancelled_in_the_silence", 5, 1, "stopped (5)", "cancelled by ada: enough"),
        ("too_many", 6, 4, "gave_up (75)", "gave up after 4 attempts: no attempts left: api: 429"),
        ("too_many_under_a_retry", 6, 4, "gave_up (75)", "gave up after 4 attempts: no attempts left: api: 429"),
        ("hours", 0, 1, "gave_up (75)", "10800 s"),
        ("reset_midway", 0, 4, "gave_up (75)", "the connection broke after 5 characters"),
        ("three_failures", 0.3, 1, "failed (1)", "fatal: failure 1; fatal: failure 2; fatal: failure 3"),
        ("cancelled_in_the_second", 1, 1, "stopped (5)", "cancelled by ada: user pressed stop"),
        ("turns", 0, 3, "limit (3)", "turn limit reached: 3"),
    ],
)
def test_an_experiment(stops: Any, name: str, seconds: float, requests: int, ended: str, says: str) -> None:
    found = stops.run_experiment(getattr(stops, name))
    assert (found.seconds, found.requests, found.outcome) == (seconds, requests, ended)
    assert says in found.says


def test_no_bad_ending_is_an_answer(stops: Any) -> None:
    for name in stops.ENDINGS:
        found = stops.run_experiment(stops.ending(name))
        assert found.outcome in ("failed (1)", "gave_up (75)"), found
        assert found.spent != "nothing"


def test_the_spend_of_a_call_that_was_cut_is_counted_and_flagged(stops: Any) -> None:
    assert "1 of 1 estimated" in stops.run_experiment(stops.cancelled_in_the_silence).spent


def test_the_model_reads_what_was_wrong_and_goes_on(stops: Any) -> None:
    for name in stops.BAD_CALLS:
        found = stops.run_experiment(stops.bad_call(name))
        assert (found.outcome, len(found.reads)) == ("answered (0)", 1)
