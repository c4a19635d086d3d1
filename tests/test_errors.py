"""Errors: their texts and figures, what can be tried again, and the search through chains and groups."""

from __future__ import annotations

from decimal import Decimal
from typing import Protocol, runtime_checkable

import pytest

from heaveto.causes import CallTimeout, Cancelled, DeadlinePassed
from heaveto.errors import (
    AgentError,
    APIError,
    BadArguments,
    BudgetExhausted,
    ConfigError,
    CostBudget,
    Denied,
    GaveUp,
    IncompleteStream,
    JournalError,
    JournalNewer,
    MaxTurns,
    NotEnoughTime,
    OutcomeUnknown,
    OutputFiltered,
    RunDeadline,
    RunTaken,
    TokenBudget,
    ToolCrashed,
    ToolError,
    TransportFailed,
    UnknownTool,
    Waiting,
    find,
    walk,
)

TEXTS = {
    CostBudget(Decimal("0.012345"), Decimal("0.01")): "cost budget reached: spent $0.012345 of $0.010000",
    MaxTurns(20): "turn limit reached: 20",
    TokenBudget(12_345, 10_000): "token budget reached: used 12,345 of 10,000",
    RunDeadline(600): "the run's time is used up: 600 s (max_seconds)",
    APIError("openrouter", 429, "slow down"): "openrouter: 429 Too Many Requests: slow down",
    APIError("anthropic", 529, "overloaded"): "anthropic: 529: overloaded",
    TransportFailed("POST", "https://host/v1", "reset"): "POST https://host/v1: reset",
    GaveUp(1, IncompleteStream()): "gave up after 1 attempt: no attempts left: the stream ended before the reply did",
    GaveUp(3, OutputFiltered("x"), "the wait is beyond the time left"): (
        "gave up after 3 attempts: the wait is beyond the time left: the reply was blocked by a content filter: x"
    ),
    NotEnoughTime(120, 7.25): "not enough time: needs 120 s, 7.25 s left",
    OutcomeUnknown("pay", "c1", "the server left"): "pay (c1): outcome unknown: the server left",
    UnknownTool("raed_file", ["write_file", "read_file"]): (
        'no tool named "raed_file"; did you mean read_file? the tools are read_file, write_file'
    ),
    UnknownTool("zzz", []): 'no tool named "zzz"; there are no tools',
    BadArguments("add", "$.a: got text, want a number", '{"a": 1}'): (
        'bad arguments for add: $.a: got text, want a number; send JSON like {"a": 1}'
    ),
    ToolCrashed("add", "KeyError", "'a'"): (
        "add failed with an internal error (KeyError: 'a'); try another way, or report it"
    ),
    Denied("run", "not today"): "run was denied: not today",
    ConfigError("no model", "say --model"): "no model; say --model",
    RunTaken("r1", "host:7"): "run r1 is being driven by host:7",
    JournalNewer(3, 2): "the journal has format 3; this version reads up to 2",
}


@pytest.mark.parametrize(("error", "text"), TEXTS.items(), ids=[type(error).__name__ for error in TEXTS])
def test_the_text_tells_the_figures(error: AgentError, text: str) -> None:
    assert str(error) == text


@pytest.mark.parametrize(
    ("error", "families"),
    [
        (RunDeadline(1), (BudgetExhausted, DeadlinePassed, TimeoutError)),
        (OutcomeUnknown("a", "b"), (Waiting,)),
        (UnknownTool("a", []), (ToolError,)),
        (RunTaken("a", "b"), (JournalError,)),
    ],
)
def test_one_question_one_except(error: AgentError, families: tuple[type[BaseException], ...]) -> None:
    assert all(isinstance(error, family) for family in (*families, AgentError))


@pytest.mark.parametrize(
    ("status", "asked", "retryable"),
    [
        *[(status, None, True) for status in (408, 409, 425, 429, 500, 503, 529, 599)],
        *[(status, None, False) for status in (400, 401, 402, 403, 404, 413, 422, 600)],
        (503, False, False),
        (400, True, True),
    ],
)
def test_which_statuses_are_worth_another_try(status: int, asked: bool | None, retryable: bool) -> None:
    assert APIError("p", status, "m", 2.5, asked).retryable is retryable
    assert APIError("p", status, "m", 2.5, asked).retry_delay == 2.5


def test_what_was_given_up_is_not_tried_again() -> None:
    assert GaveUp(3, IncompleteStream()).retryable is False
    assert (IncompleteStream().retryable, OutputFiltered().retryable) == (True, None)


def test_the_model_reads_exactly_a_tools_error() -> None:
    assert ToolError("The file is empty.").for_model == "The file is empty."


# --- searching ------------------------------------------------------------------------------------------------------


def chained(outer: BaseException, inner: BaseException, *, explicit: bool = True) -> BaseException:
    try:
        try:
            raise inner
        except BaseException as error:
            if explicit:
                raise outer from error
            raise outer  # noqa: B904 - its context is the point
    except BaseException as error:
        return error


@pytest.mark.parametrize("explicit", [True, False])
def test_find_looks_through_causes_and_contexts(explicit: bool) -> None:
    error = chained(ValueError("outer"), chained(KeyError("middle"), CallTimeout(5)), explicit=explicit)
    assert isinstance(find(error, CallTimeout), CallTimeout)
    assert find(error, Cancelled) is None
    assert find(None, Cancelled) is None


def test_find_looks_into_every_branch_of_groups_and_into_what_was_given_up() -> None:
    given_up = GaveUp(2, APIError("p", 503, "busy"))
    error = ExceptionGroup(
        "all", [ValueError("a"), ExceptionGroup("some", [KeyError("b"), chained(OSError("c"), given_up)])]
    )
    found = find(error, APIError)
    assert found is given_up.last


def test_find_takes_the_outermost() -> None:
    error = chained(Cancelled("outer"), Cancelled("inner"))
    assert str(find(error, Cancelled)) == "cancelled: outer"


def test_find_takes_a_protocol() -> None:
    @runtime_checkable
    class Timeout(Protocol):
        @property
        def timeout(self) -> bool: ...

    assert find(chained(ValueError(), CallTimeout(5)), Timeout) is not None  # type: ignore[type-abstract]


def test_what_was_hidden_on_purpose_stays_hidden() -> None:
    error = chained(ValueError("outer"), CallTimeout(5), explicit=False)
    error.__suppress_context__ = True
    assert find(error, CallTimeout) is None


def test_walk_tells_each_once_also_around_a_circle() -> None:
    first, second = ValueError("first"), KeyError("second")
    first.__cause__, second.__cause__ = second, first
    assert list(walk(ExceptionGroup("all", [first, second])))[1:] == [first, second]
