"""What is worth trying again: the rules in their order."""

from __future__ import annotations

import http.client
import socket
import ssl
from decimal import Decimal

import anyio
import httpx2
import pytest

from heaveto.causes import CallTimeout, Cancelled, DeadlinePassed, Shutdown, StreamIdle, ToolTimeout
from heaveto.errors import (
    APIError,
    ApprovalNeeded,
    CostBudget,
    EmptyReply,
    GaveUp,
    IncompleteStream,
    OutcomeUnknown,
    OutputFiltered,
    ProviderFailed,
    RunDeadline,
    ToolFatal,
    TransportFailed,
)
from heaveto.retry import Decision, classify

RATE_LIMITED = APIError("p", 429, "slow", 7.0)


class Reports(Exception):
    """An error of somebody else's that reports on itself, with methods."""

    def __init__(self, retryable: object, delay: object = None, timeout: object = None) -> None:
        self._retryable, self._delay = retryable, delay
        self.timeout = timeout

    def retryable(self) -> object:
        return self._retryable

    def retry_delay(self) -> object:
        return self._delay


def caused(outer: Exception, inner: BaseException) -> Exception:
    outer.__cause__ = inner
    return outer


@pytest.mark.parametrize(
    ("error", "retry"),
    [
        (None, False),
        (RATE_LIMITED, True),
        (APIError("p", 500, ""), True),
        (APIError("p", 401, ""), False),
        (APIError("p", 500, "", None, False), False),
        (APIError("p", 400, "", None, True), True),
        (StreamIdle(60), True),
        (CallTimeout(120), True),
        (DeadlinePassed(5), True),
        (ToolTimeout(5), True),
        (TimeoutError(), True),
        (TransportFailed("POST", "https://x", "no connection"), True),
        (ProviderFailed(), True),
        (IncompleteStream(), True),
        (EmptyReply(), True),
        (OutputFiltered(), False),
        (Cancelled("enough"), False),
        (Shutdown(), False),
        (ValueError("a bug"), False),
        (ConnectionResetError(), True),
        (BrokenPipeError(), True),
        (ConnectionRefusedError(), True),
        (http.client.RemoteDisconnected(), True),
        (http.client.IncompleteRead(b""), True),
        (anyio.BrokenResourceError(), True),
        (ssl.SSLEOFError(), True),
        (ssl.SSLCertVerificationError(), False),
        (socket.gaierror(socket.EAI_AGAIN, ""), True),
        (socket.gaierror(socket.EAI_NONAME, ""), False),
        (FileNotFoundError(), False),
        (httpx2.ReadError(""), True),
        (httpx2.ConnectTimeout(""), True),
        (httpx2.RemoteProtocolError(""), True),
        (httpx2.UnsupportedProtocol(""), False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_errors(error: BaseException | None, retry: bool) -> None:
    assert classify(error, scope_stopped=False).retry is retry


def test_the_callers_own_stop_comes_before_everything() -> None:
    assert classify(RATE_LIMITED, scope_stopped=True) == Decision(False, "the run is being stopped")


@pytest.mark.parametrize(
    "inner",
    [
        ToolFatal("t", ""),
        OutcomeUnknown("t", "c"),
        ApprovalNeeded("t", "c"),
        CostBudget(Decimal(1), Decimal(1)),
        RunDeadline(9),
    ],
)
def test_what_must_not_be_repeated_comes_before_what_the_error_says(inner: Exception) -> None:
    assert not classify(caused(APIError("p", 500, ""), inner), scope_stopped=False).retry
    assert not classify(ExceptionGroup("g", [TimeoutError(), inner]), scope_stopped=False).retry


def test_the_outermost_report_is_believed_false_included() -> None:
    assert not classify(caused(Reports(False), RATE_LIMITED), scope_stopped=False).retry
    assert classify(caused(Reports(True, 3), APIError("p", 400, "")), scope_stopped=False).after == 3
    assert classify(caused(Reports(None), RATE_LIMITED), scope_stopped=False) == classify(RATE_LIMITED, scope_stopped=False)
    assert classify(caused(ValueError(), RATE_LIMITED), scope_stopped=False).after == 7


def test_what_was_given_up_is_not_retried_further_out() -> None:
    assert not classify(caused(ValueError("outer"), GaveUp(3, RATE_LIMITED)), scope_stopped=False).retry


def test_a_timeout_in_any_branch_counts_when_it_is_true() -> None:
    group = ExceptionGroup("g", [ValueError(), caused(KeyError(), TimeoutError())])
    assert classify(group, scope_stopped=False) == Decision(True, "it timed out")
    assert classify(Reports(None, timeout=True), scope_stopped=False).retry
    assert not classify(Reports(None, timeout=30), scope_stopped=False).retry  # a number of seconds, as others have it


@pytest.mark.parametrize("delay", [None, True, -1, float("nan"), float("inf"), "7", 10**400])
def test_a_delay_that_is_none_is_left_out(delay: object) -> None:
    assert classify(Reports(True, delay), scope_stopped=False).after is None


class ReportsBadly(Exception):
    """A property that fails, and a method that wants an argument: neither is a report."""

    @property
    def retryable(self) -> bool:
        raise RuntimeError("not connected")

    def timeout(self, seconds: float) -> bool:
        return seconds > 0


def test_a_report_that_fails_is_none() -> None:
    assert not classify(ReportsBadly(), scope_stopped=False).retry
    assert classify(caused(ReportsBadly(), ConnectionResetError()), scope_stopped=False) == Decision(
        True, "the network failed"
    )
