"""What a block leaves behind is seen, and nothing else."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import anyio.abc
import anyio.from_thread
import anyio.to_thread
import pytest

from heaveto.causes import Cancelled
from heaveto.scopes import Scope, call_in_thread, deadline, tasks
from heaveto.testing import LeakedError, no_leaks
from heaveto.testing import leaks as module

QUICK = 0.05  # seconds: what is left stays left


@pytest.fixture
def done() -> Iterator[threading.Event]:
    """For threads that wait for the end of the test."""
    event = threading.Event()
    yield event
    event.set()


def left_by(block: no_leaks) -> list[tuple[str, str]]:
    with pytest.raises(LeakedError) as caught:
        block.__exit__(None, None, None)
    return [tuple(leak) for leak in caught.value.leaks]


def test_nothing_is_left_of_nothing() -> None:
    with no_leaks(seconds=0):
        pass


def test_a_thread_is_seen_by_its_name(done: threading.Event) -> None:
    block = no_leaks(seconds=QUICK).__enter__()
    threading.Thread(target=done.wait, name="forgotten", daemon=True).start()
    assert left_by(block) == [("thread", '"forgotten"')]


def test_a_thread_that_is_about_to_end_has_a_moment() -> None:
    with no_leaks():
        threading.Timer(0.05, lambda: None).start()


def test_what_was_there_before_is_not_ours(done: threading.Event, tmp_path: Path) -> None:
    threading.Thread(target=done.wait, daemon=True).start()
    with (tmp_path / "before").open("w"), no_leaks(seconds=0):
        pass


def test_an_open_file_is_seen_by_its_path(tmp_path: Path) -> None:
    block = no_leaks(seconds=QUICK).__enter__()
    with (tmp_path / "forgotten").open("w") as file:
        ((kind, what),) = left_by(block)
        assert (kind, what.partition(": ")[0]) == ("file", str(file.fileno()))
    if sys.platform == "linux":
        assert what.endswith(str(tmp_path / "forgotten"))


def test_a_socket_that_took_the_number_of_another_is_seen() -> None:
    first = socket.socket()
    number = first.fileno()
    block = no_leaks(seconds=QUICK).__enter__()
    first.close()
    with socket.socket() as second:
        assert second.fileno() == number, "else this test is none"
        assert [kind for kind, _ in left_by(block)] == ["file"]


def test_a_child_is_seen_also_when_it_has_ended() -> None:
    block = no_leaks(seconds=QUICK).__enter__()
    with subprocess.Popen(["sleep", "30"], stdin=subprocess.DEVNULL) as child:
        assert ("process", f"{child.pid}: sleep") in left_by(block)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        ((kind, what),) = left_by(block)
        assert kind == "process"
        if sys.platform == "linux":
            assert what == f"{child.pid}: sleep (ended, but nobody has waited for it)"
    block.__exit__(None, None, None)


def test_without_proc_children_come_from_ps_and_files_from_dev_fd(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if not Path("/dev/fd").exists():
        pytest.skip("no /dev/fd")
    monkeypatch.setattr(module, "PROC", tmp_path)
    with no_leaks(seconds=0):
        pass
    block = no_leaks(seconds=QUICK).__enter__()
    with (tmp_path / "file").open("w"):
        assert [kind for kind, _ in left_by(block)] == ["file"]


def test_children_as_ps_lists_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ps = tmp_path / "ps"
    ps.write_text(
        f"#!/bin/sh\necho '  17 {os.getpid()} /bin/some thing'\necho '  18 1 other'\necho \"$$ {os.getpid()} ps\"\n"
    )
    ps.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert list(module._children_by_ps()) == [(17, "/bin/some thing")]


def test_where_processes_cannot_be_seen_that_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.warns(RuntimeWarning, match="sees no processes here"):
        assert list(module._children_by_ps()) == []


def test_the_error_of_the_block_is_not_covered_up(done: threading.Event) -> None:
    with pytest.raises(KeyError), no_leaks(seconds=0):
        threading.Thread(target=done.wait, daemon=True).start()
        raise KeyError


def test_threads_of_pools_that_wait_for_work_are_not_left_over(done: threading.Event) -> None:
    with ThreadPoolExecutor(1) as pool:
        with no_leaks():
            pool.submit(int).result()
        block, began = no_leaks(seconds=QUICK).__enter__(), threading.Event()
        pool.submit(lambda: (began.set(), done.wait()))
        began.wait()
        try:
            assert [kind for kind, _ in left_by(block)] == ["thread"], "but one at work is"
        finally:
            done.set()
    for backend in ("asyncio", "trio"):
        with no_leaks():
            anyio.run(anyio.to_thread.run_sync, int, backend=backend)


@pytest.mark.anyio
async def test_an_idle_worker_of_the_loop_is_not_left_over_and_a_busy_one_is(done: threading.Event) -> None:
    async with no_leaks():
        await anyio.to_thread.run_sync(int)
    with pytest.raises(LeakedError, match="thread"):
        async with no_leaks(seconds=QUICK):
            with anyio.CancelScope() as scope:
                await anyio.to_thread.run_sync(
                    lambda: (anyio.from_thread.run_sync(scope.cancel), done.wait()), abandon_on_cancel=True
                )


@pytest.mark.anyio
async def test_a_thread_that_was_abandoned_is_called_so(done: threading.Event) -> None:
    def ignores_stops() -> None:
        done.wait()

    with pytest.raises(LeakedError, match=r'left over: thread "heaveto:ignores_stops", abandoned by a stop and still'):
        async with no_leaks(seconds=QUICK):
            with pytest.raises(TimeoutError), deadline(0.01):
                await call_in_thread(ignores_stops, moment=0)


@pytest.mark.anyio
async def test_a_task_that_goes_on_is_seen(anyio_backend_name: str) -> None:
    async def forgotten() -> None:
        await anyio.sleep_forever()

    scope = Scope(quiet=True)

    async def in_scope(*, task_status: anyio.abc.TaskStatus[None]) -> None:
        with scope:
            task_status.started()
            await forgotten()

    async with tasks() as group:
        with pytest.raises(LeakedError, match=r'task ".*in_scope"'):
            async with no_leaks(seconds=QUICK):
                await group.start(in_scope)
        scope.cancel(Cancelled("the test is over"))


@pytest.mark.anyio
async def test_what_ends_with_the_next_turns_of_the_loop_is_not_left_over() -> None:
    async with no_leaks():
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        address = listener.extra(anyio.abc.SocketAttribute.local_address)
        async with tasks() as group:
            scope = Scope(quiet=True)

            async def serve() -> None:
                with scope:
                    await listener.serve(lambda client: client.aclose())

            group.start_soon(serve)
            async with await anyio.connect_tcp(*address) as stream:
                with pytest.raises(anyio.EndOfStream):
                    await stream.receive()
            scope.cancel(Cancelled("done"))
        await listener.aclose()


def test_a_raw_task_of_asyncio_is_seen() -> None:
    async def main() -> None:
        with pytest.raises(LeakedError, match='task "forgotten"'):
            async with no_leaks(seconds=QUICK):
                left = asyncio.create_task(asyncio.sleep(60), name="forgotten")
        left.cancel()

    asyncio.run(main())


# --- the fixture ----------------------------------------------------------------------------------------------------


def test_the_fixture_fails_the_test_that_leaves_something(tmp_path: Path) -> None:
    (tmp_path / "test_cases.py").write_text(
        "import anyio, asyncio, pytest, threading\n"
        "from heaveto.scopes import tasks\n"
        "kept = []\n"
        "@pytest.mark.anyio\n"
        "async def test_clean(no_leaks): await anyio.sleep(0)\n"
        "@pytest.mark.anyio\n"
        "@pytest.mark.parametrize('anyio_backend', ['asyncio'])\n"
        "async def test_task(no_leaks, anyio_backend): kept.append(asyncio.create_task(asyncio.sleep(60), name='mine'))\n"
        "@pytest.mark.anyio\n"
        "async def test_file(no_leaks): kept.append(open(__file__))\n"
        "def test_thread(no_leaks): threading.Thread(target=threading.Event().wait, name='mine', daemon=True).start()\n"
        "def test_sync_clean(no_leaks): pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path), "--rootdir", str(tmp_path)]
    result = subprocess.run([*command, "-c", "/dev/null"], capture_output=True, text=True, cwd=tmp_path)
    assert "7 passed, 4 errors" in result.stdout, result.stdout + result.stderr
    errors = [line for line in result.stdout.splitlines() if line.startswith("ERROR")]
    assert sorted(line.split("::")[1].split(" ")[0] for line in errors) == [
        "test_file[asyncio]", "test_file[trio]", "test_task[asyncio]", "test_thread",
    ]  # fmt: skip
