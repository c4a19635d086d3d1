"""The model over its child process: a real call, and that the child ends with whoever started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from heaveto.errors import ConfigError
from heaveto.messages import SystemMessage, ToolMessage, Transcript, UserMessage
from heaveto.models.protocol import Request, ToolSpec
from heaveto.offline import OfflineServer, model

pytestmark = pytest.mark.anyio
TOOLS = [ToolSpec(name, "", {"type": "object"}) for name in ("list_files", "read_file", "edit_file", "run_tests")]


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and waits to be collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def wait_until_gone(pid: int) -> None:
    with anyio.fail_after(10):
        while is_alive(pid):
            await anyio.sleep(0.02)


async def test_two_turns_and_the_end() -> None:
    """A conversation through the real client: streamed deltas, calls, usage at no cost; closing ends the child."""
    offline = model(chunk_seconds=0)
    transcript = Transcript([SystemMessage("You mend."), UserMessage("make the tests pass")])
    async with offline.stream(Request(transcript=transcript, tools=TOOLS)) as stream:
        deltas = [delta async for delta in stream]
    first = stream.reply
    pid = offline.server.pid
    assert pid is not None
    assert len(deltas) > 5
    assert [call.name for call in first.message.tool_calls] == ["list_files", "run_tests"]
    assert stream.spent.cost_usd == 0
    assert stream.spent.input_tokens > 0
    transcript.append(first.message)
    for call, said in zip(first.message.tool_calls, ("a.py", "tests passed: 2"), strict=True):
        transcript.append(ToolMessage(call.id, call.name, said))
    async with offline.stream(Request(transcript=transcript, tools=TOOLS)) as stream:
        _ = [delta async for delta in stream]
    assert stream.reply.finish == "answer"
    assert "All 2 tests pass already" in stream.reply.message.content
    assert offline.server.pid == pid
    await offline.aclose()
    assert not is_alive(pid)


async def test_is_a_model_that_costs_nothing() -> None:
    offline = model()
    assert offline.name == "offline:repair"
    assert offline.reports_cost
    await offline.aclose()  # never called, so there is nothing to end


async def test_starts_again_after_a_crash() -> None:
    offline = model(chunk_seconds=0)
    request = Request(transcript=Transcript([UserMessage("hello")]), tools=TOOLS)
    try:
        for _ in range(2):
            async with offline.stream(request) as stream:
                _ = [delta async for delta in stream]
            assert stream.reply.finish == "tool_calls"
            pid = offline.server.pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            with anyio.fail_after(10):
                while offline.server.pid is not None:  # its threads end one by one; the kernel tells when all have
                    await anyio.sleep(0.02)
    finally:
        await offline.aclose()


async def test_ctrl_c_does_not_reach_the_child() -> None:
    """It is in a session of its own, and takes no notice of the signal."""
    async with OfflineServer() as server:
        pid = server.pid
        assert pid is not None
        assert os.getsid(pid) == pid
        os.kill(pid, signal.SIGINT)
        await anyio.sleep(0.05)
        assert is_alive(pid)
    assert not is_alive(pid)


async def test_a_stop_while_it_starts_leaves_no_child() -> None:
    server = OfflineServer()
    with anyio.move_on_after(0.01):
        async with server:
            await anyio.sleep(60)
    assert server.pid is None


async def test_the_child_ends_when_its_parent_is_killed() -> None:
    """kill -9 of the program leaves nothing behind."""
    code = "from heaveto.offline import OfflineServer; s = OfflineServer(); s.start(); print(s.pid, flush=True); input()"
    parent = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with parent:
        assert parent.stdout is not None
        child = int(await anyio.to_thread.run_sync(parent.stdout.readline))
        assert is_alive(child)
        parent.kill()
    await wait_until_gone(child)


async def test_the_token_is_not_on_the_command_line() -> None:
    async with OfflineServer() as server:
        assert server.token not in Path(f"/proc/{server.pid}/cmdline").read_text()


@pytest.mark.parametrize("text", ["slow", "-1", "nan", "1000"])
def test_a_pace_that_is_none(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEAVETO_OFFLINE_CHUNK_SECONDS", text)
    with pytest.raises(ConfigError, match="HEAVETO_OFFLINE_CHUNK_SECONDS"):
        model()


def test_the_pace_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEAVETO_OFFLINE_CHUNK_SECONDS", "0.25")
    assert model().server.chunk_seconds == 0.25
