"""What holds for the whole suite.

A test that cannot run here because a part is missing skips with a reason that begins with "no ": `pytest.skip("no bwrap")`,
`pytest.importorskip("mcp", reason="no mcp")`. The suite's last line counts those and every other skip; where `CI` is set,
where every part can be installed, a missing part is a failure.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator

import pytest

left_out: Counter[str] = Counter()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    count_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    count_skip(report)
    return report


def count_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Count a skip under its reason; where CI is set and a part is missing, make a failure of it."""
    if not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = skip_reason(report)
    left_out[reason] += 1
    if os.environ.get("CI") and reason.startswith("no "):
        report.outcome = "failed"
        report.longrepr = f"left out where it must run: {reason}; .ci/run installs what is missing"


def skip_reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, None, None]:
    yield  # the terminal reporter writes its closing line in here
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.write_line(left_out_line(left_out))


def left_out_line(reasons: Counter[str]) -> str:
    if not reasons:
        return "left out: nothing"
    parts = ", ".join(f"{reason}: {count}" for reason, count in sorted(reasons.items()))
    return f"left out: {reasons.total()} ({parts})"
