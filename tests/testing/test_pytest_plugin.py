"""The pytest plugin where it is misused: a test that would run in real time is refused before it begins."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

USED_RIGHT = """
import anyio
import pytest
from heaveto import deadline

pytestmark = pytest.mark.anyio

@pytest.fixture
def anyio_backend(fake_clock):
    return fake_clock.backend

async def test_years(fake_clock):
    with pytest.raises(TimeoutError), deadline(1e8):
        await anyio.sleep_forever()
    assert fake_clock.now == 1e8
"""
WITHOUT_THE_BACK_END = USED_RIGHT.replace("return fake_clock.backend", "return 'asyncio'")
WITHOUT_THE_MARK = USED_RIGHT.replace("pytestmark =", "other =").replace("fake_clock.backend", "'asyncio'")
UNDER_ANOTHER = USED_RIGHT.replace("return fake_clock", "return __import__('heaveto.testing').testing.FakeClock('trio')")
WITH_HYPOTHESIS = """
import pytest
from hypothesis import given, settings, strategies

@pytest.mark.anyio
@given(strategies.integers())
async def test_years(fake_clock, number):
    assert False, "it began"
"""
SYNC = """
import anyio

def test_years(fake_clock):
    fake_clock.run(anyio.sleep, 1e8)
    assert fake_clock.now == 1e8

def test_it_may_do_without(fake_clock):
    assert fake_clock.now == 0
"""
# As pytest-asyncio does in its mode "auto": its items run every coroutine function themselves.
TAKES_ALL = """
import asyncio
import inspect
import pytest

class Mine(pytest.Function):
    def runtest(self):
        asyncio.run(self.obj(**{name: self.funcargs[name] for name in self._fixtureinfo.argnames}))

@pytest.hookimpl(hookwrapper=True)
def pytest_pycollect_makeitem(collector, name, obj):
    outcome = yield
    if inspect.iscoroutinefunction(obj) and (items := outcome.get_result()):
        outcome.force_result(
            [
                Mine.from_parent(item.parent, name=item.name, callspec=getattr(item, "callspec", None), callobj=item.obj,
                                 fixtureinfo=item._fixtureinfo, keywords=item.keywords, originalname=item.originalname)
                for item in items
            ]
        )
"""


MODULES = {
    "used_right": USED_RIGHT,
    "sync": SYNC,
    "without_the_back_end": WITHOUT_THE_BACK_END,
    "without_the_mark": WITHOUT_THE_MARK,
    "under_another": UNDER_ANOTHER,
    "with_hypothesis": WITH_HYPOTHESIS,
}


def run(folder: Path, modules: dict[str, str]) -> str:
    for name, source in modules.items():
        (folder / f"{name}.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder), "--rootdir", str(folder)]
    options = ["-o", "python_files=*.py", "--timeout=30"]
    return subprocess.run([*command, *options], cwd=folder, capture_output=True, text=True, check=False).stdout


def test_an_async_test_that_would_run_in_real_time_is_refused_before_it_begins(tmp_path: Path) -> None:
    output = run(tmp_path, MODULES)
    assert "6 passed, 10 errors" in output, output
    wrong = {"without_the_back_end", "without_the_mark", "under_another", "with_hypothesis"}
    assert {name for name in MODULES if f"ERROR {name}.py" in output} == wrong, output
    words = "names fake_clock and would run in real time: mark it with pytest.mark.anyio, and let the fixture anyio_backend"
    assert output.count(words) >= 10, "once for each, and where CI is set in full in the summary too"


def test_a_plugin_that_runs_it_elsewhere_is_named(tmp_path: Path) -> None:
    output = run(tmp_path, {"conftest": TAKES_ALL, "used_right": USED_RIGHT})
    assert "2 errors" in output, output
    assert "conftest runs test_years[asyncio] in a loop of its own, in real time and not under fake_clock" in output


LEAKS_A_TASK = """
import asyncio

kept = []

async def leave_one(seconds):
    kept.append(asyncio.create_task(asyncio.sleep(seconds)))

async def test_leaves_a_task(no_leaks):
    await leave_one(60)

async def test_leaves_nothing(no_leaks):
    await leave_one(0)
    await kept[-1]

class TestOfAClass:
    async def test_leaves_a_task(self, no_leaks):
        await leave_one(60)
"""


def test_a_task_that_is_left_in_another_plugin_s_loop_is_found(tmp_path: Path) -> None:
    """Such a loop is closed, and its tasks with it, before any fixture's end."""
    output = run(tmp_path, {"conftest": TAKES_ALL, "leaks": LEAKS_A_TASK})
    assert "2 failed, 1 passed" in output, output
    assert output.count("LeakedError: left over: task") >= 2, output
