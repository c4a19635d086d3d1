"""What holds for the whole suite.

A test that cannot run here because a part is missing skips with a reason that begins with "no ": `pytest.skip("no bwrap")`,
`pytest.importorskip("mcp", reason="no mcp")`. The suite's last line counts those and every other skip; where `CI` is set,
where every part can be installed, a missing part is a failure.

HEAVETO_TEST_LOOP=uvloop runs the tests that have the real clock on uvloop; with =eager asyncio starts tasks eagerly, under
fake clocks too.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
import venv
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from heaveto.testing.clocks import LOOP_VARIABLE, start_eagerly
from heaveto.testing.stops import stop_points

# Nothing depends on how fast the machine is.
settings.register_profile("heaveto", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("heaveto")

GO_EVERYWHERE = {"every_await", "stopped_everywhere"}  # what a test that stops at every await calls
began = time.monotonic()
left_out: Counter[str] = Counter()
points_elsewhere: list[int] = []  # of the other processes that share the suite


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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--stop-points", type=int, metavar="LEAST", help="run only what stops at every await, and fail below so many points"
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `--stop-points`, do not load what has no such test: that would take longer than many of the tests."""
    if config.getoption("--stop-points") is None or collection_path.suffix != ".py":
        return None
    text = collection_path.read_text(encoding="utf-8")
    return None if any(name in text for name in GO_EVERYWHERE) else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--stop-points") is None:
        return
    chosen = [item for item in items if stops_at_every_await(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen


def pytest_collection_finish(session: pytest.Session) -> None:
    """What the collection made stays to the end: each later sweep of the garbage collector need not look at it again."""
    import hypothesis  # noqa: F401 - it asks the collector for a reference, and would be told of none that is frozen

    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """AnyIO's own, but for HEAVETO_TEST_LOOP."""
    return request.param, loop_options() if request.param == "asyncio" else {}


def loop_options() -> dict[str, Any]:
    match os.environ.get(LOOP_VARIABLE, ""):
        case "":
            return {}
        case "uvloop":
            return {"use_uvloop": True}
        case "eager":
            return {"loop_factory": eager_loop}
        case other:
            raise pytest.UsageError(f"{LOOP_VARIABLE} is uvloop or eager, not {other}")


def eager_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    start_eagerly(loop)
    return loop


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter without pytest, whatever is installed beside us: what projects in tests run their own with."""
    folder = tmp_path_factory.mktemp("bare") / "env"
    venv.create(folder, with_pip=False, symlinks=True)
    return str(folder / "bin" / "python")


@pytest.fixture
def second_stops(request: pytest.FixtureRequest) -> tuple[int, ...]:
    """How many awaits after a cancel a second one comes: a few, or with `--stop-points` many."""
    return (2,) if request.config.getoption("--stop-points") is None else (1, 3)


@pytest.fixture
def seeds(request: pytest.FixtureRequest) -> tuple[int, ...]:
    """The orders of tasks that Trio's scheduler goes through: one, or with `--stop-points` many."""
    return (1,) if request.config.getoption("--stop-points") is None else (1, 2, 3)


def stops_at_every_await(item: pytest.Item) -> bool:
    """Whether a test goes through `every_await`; by itself, or by its module's own function `stopped_everywhere`."""
    code = getattr(getattr(item, "function", None), "__code__", None)
    return code is not None and bool(GO_EVERYWHERE & set(code.co_names))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, None, None]:
    if (worker := getattr(session.config, "workeroutput", None)) is not None:
        worker["left_out"] = dict(left_out)  # several processes share the suite: this one's is sent in the next line
        worker["stop_points"] = stop_points()
    yield  # the terminal reporter writes its closing line in here
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    reporter.write_line(left_out_line(left_out))
    if (least := session.config.getoption("--stop-points")) is not None:
        points, seconds = stop_points() + sum(points_elsewhere), time.monotonic() - began
        if points < least:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        reporter.write_line(
            f"stop points: {points:,} of at least {least:,}, in {seconds:.0f} s, {session.testsfailed} tests failed"
        )


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A process of pytest-xdist has ended."""
    output = getattr(node, "workeroutput", {})
    left_out.update(output.get("left_out", {}))
    points_elsewhere.append(output.get("stop_points", 0))


def left_out_line(reasons: Counter[str]) -> str:
    if not reasons:
        return "left out: nothing"
    parts = ", ".join(f"{reason}: {count}" for reason, count in sorted(reasons.items()))
    return f"left out: {reasons.total()} ({parts})"
