"""Signals as causes: real signals to this process, whose handlers are put back afterwards."""

from __future__ import annotations

import io
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from heaveto.causes import Interrupted, Shutdown, Stop
from heaveto.journal import MemoryStore
from heaveto.runs import Agent, main
from heaveto.runs.signals import SIGNALS, Signals, cause_of
from heaveto.scopes import tasks
from heaveto.testing import calls, scripted
from heaveto.tools import tool

pytestmark = pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="the main thread alone may have signals"
)


@pytest.fixture(autouse=True)
def handlers_are_put_back() -> Iterator[None]:
    before = [signal.getsignal(signum) for signum in SIGNALS]
    yield
    assert [signal.getsignal(signum) for signum in SIGNALS] == before


def test_each_signal_has_its_cause() -> None:
    assert isinstance(cause_of(signal.SIGINT), Interrupted)
    assert [str(cause_of(signum)) for signum in (signal.SIGTERM, signal.SIGHUP)] == [
        "shutting down: SIGTERM",
        "shutting down: SIGHUP",
    ]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_what_comes_before_there_is_a_target_is_held_for_it(backend: str) -> None:
    seen: list[Stop] = []

    async def work(signals: Signals) -> None:
        signals.hand_to(seen.append)
        signal.raise_signal(signal.SIGINT)
        with anyio.fail_after(5):
            while len(seen) < 2:
                await anyio.sleep(0.01)

    with Signals() as signals:
        signal.raise_signal(signal.SIGTERM)
        anyio.run(work, signals, backend=backend)
    assert [type(cause) for cause in seen] == [Shutdown, Interrupted]


def test_the_third_leaves() -> None:
    left: list[int] = []
    with Signals(left.append):
        for _ in range(2):
            signal.raise_signal(signal.SIGTERM)
        assert left == []
        signal.raise_signal(signal.SIGINT)
    assert left == [130]


def test_a_hangup_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Signals():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_another_thread_has_no_signals_and_runs_all_the_same() -> None:
    answers: list[str] = []
    agent = Agent(model=scripted("hello"), store=MemoryStore())
    thread = threading.Thread(target=lambda: answers.append(agent.run_sync("hi").text))
    thread.start()
    thread.join(30)
    assert answers == ["hello"]


PROGRAM = """
import sys, time, anyio, heaveto
from heaveto.testing import calls, scripted

@heaveto.tool(effect="read")
def look() -> str:
    "Look, for a long time, without ever checking for a stop."
    print("looking", flush=True)
    time.sleep(60)
    return "seen"

model = scripted(calls(("look", {})), "done")
agent = heaveto.Agent(model=model, tools=[look], store=heaveto.MemoryStore(), grace_seconds=0)

async def main():
    await agent.run("go")

if sys.argv[1] == "main":
    heaveto.main(main)
else:
    try:
        agent.run_sync("go")
    except heaveto.Stop as stop:
        print(heaveto.why(stop), stop.report.turns)
"""


@pytest.mark.parametrize("how", ["main", "run_sync"])
@pytest.mark.parametrize(("signum", "status", "says"), [(signal.SIGINT, 130, "SIGINT"), (signal.SIGTERM, 143, "SIGTERM")])
def test_a_program_is_stopped_while_a_sync_tool_holds_its_thread(
    tmp_path: Path, how: str, signum: int, status: int, says: str
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, how], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "looking\n"
    began = time.monotonic()
    process.send_signal(signum)
    output = process.communicate(timeout=30)[0]
    assert says in output
    assert process.returncode == (status if how == "main" else 0)
    assert time.monotonic() - began < 20  # and not the sixty seconds of the tool


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_second_signal_does_not_cut_the_last_line(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    class Slow(io.StringIO):
        def write(self, text: str) -> int:
            if not self.getvalue():
                signal.raise_signal(signal.SIGINT)
            return super().write(text)

    async def work() -> None:
        signal.raise_signal(signal.SIGTERM)
        await anyio.sleep_forever()

    monkeypatch.setattr(sys, "stderr", last := Slow())
    with pytest.raises(SystemExit) as left:
        main(work, backend=backend)
    assert left.value.code == 143
    assert last.getvalue().startswith("shutting down: SIGTERM")


FINISHING = """
import sys, time, anyio, heaveto
from heaveto.testing import calls, scripted

@heaveto.tool(effect="read")
def look() -> str:
    "Look, for a long time, without ever checking for a stop."
    print("looking", flush=True)
    time.sleep(60)
    return "seen"

agent = heaveto.Agent(model=scripted(calls(("look", {}))), tools=[look], store=heaveto.MemoryStore(), grace_seconds=60)

async def finishes():
    print("finishing", heaveto.current_cause(), flush=True)
    await anyio.sleep(60)

async def main():
    try:
        await agent.run("go")
    finally:
        print("stopped by", heaveto.current_cause(), flush=True)
        await heaveto.finish(60, finishes)

heaveto.main(main, backend=sys.argv[1])
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(
    ("signum", "stopped_by_the", "cause"),
    [
        (signal.SIGINT, "first", "interrupted by you (SIGINT)"),
        (signal.SIGTERM, "second", "shutting down: SIGTERM"),
        (signal.SIGHUP, "second", "shutting down: SIGHUP"),
    ],
)
def test_three_signals_while_a_sync_tool_holds_its_thread(
    tmp_path: Path, backend: str, signum: int, stopped_by_the: str, cause: str
) -> None:
    """The first stops, or begins the grace; the second ends that, and cuts no work that must finish; the third leaves."""
    process = subprocess.Popen(
        [sys.executable, "-c", FINISHING, backend], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "looking\n"
    began = time.monotonic()
    process.send_signal(signum)
    if stopped_by_the == "second":
        time.sleep(0.3)
        assert not select.select([process.stdout], [], [], 0)[0], "it did not keep to its grace"
        process.send_signal(signum)
    assert process.stdout.readline() == f"stopped by {cause}\n"
    assert process.stdout.readline() == "finishing None\n"
    if stopped_by_the == "first":
        process.send_signal(signum)
    time.sleep(0.3)
    assert process.poll() is None, "the second signal cut what must finish"
    process.send_signal(signum)
    assert process.communicate(timeout=30)[0] == ""
    assert process.returncode == 128 + signum
    assert time.monotonic() - began < 20  # and not the sixty seconds of anything


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("where", ["here", "beside", "nowhere", "answered"])
def test_the_last_line_speaks_of_a_run_where_one_was_stopped(
    capsys: pytest.CaptureFixture[str], backend: str, where: str
) -> None:
    @tool(effect="read")
    async def look() -> str:
        """Look."""
        signal.raise_signal(signal.SIGTERM)
        await anyio.sleep_forever()
        return "never"

    agent = Agent(model=scripted(calls(("look", {}))), tools=[look], store=MemoryStore(), grace_seconds=0)

    async def work() -> None:
        if where == "here":
            await agent.run("go")
        elif where == "beside":
            async with tasks() as group:
                group.start_soon(agent.run, "go")
        elif where == "answered":
            await Agent(model=scripted("hello"), store=MemoryStore()).run("go")
        signal.raise_signal(signal.SIGTERM)
        await anyio.sleep_forever()

    with pytest.raises(SystemExit):
        main(work, backend=backend)
    resume = ": resume the run when the machine is back" if where in ("here", "beside") else ""
    assert capsys.readouterr().err == f"shutting down: SIGTERM{resume}\n"
