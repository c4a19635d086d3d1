"""What a block leaves behind: tasks, threads, child processes, open files and sockets.

    with no_leaks():
        anyio.run(main)

    async with no_leaks():      # also the tasks of the loop that it is in
        await agent.run("go")

What is there before the block is not its business. Tasks can be seen while their loop runs, so in sync code none are:
asyncio and Trio end them with the loop. A process that was detached (its parent is gone) is nobody's child and not seen.
Linux tells all from /proc; elsewhere open files come from /dev/fd and processes from `ps`.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Literal, NamedTuple, Self, TypeAlias

import anyio
import anyio.lowlevel

from ..scopes import abandoned_threads
from ..scopes.clock import on_trio

__all__ = ["Leak", "LeakedError", "no_leaks", "tasks_of_this_loop"]

Kind: TypeAlias = Literal["task", "thread", "process", "file"]
Found: TypeAlias = "dict[object, Leak]"

POLL_SECONDS = 0.001
PROC = Path("/proc")
# Threads of pools wait for the next job for a while, which is no leak: what their innermost frames are then.
IDLE = (
    (("concurrent/futures/thread.py", "_worker"),),
    (("trio/_core/_thread_cache.py", "_work"),),
    (("/queue.py", "get"), ("anyio/_backends/_asyncio.py", "run")),
)


class Leak(NamedTuple):
    """One thing that was left over, and what is known of it."""

    kind: Kind
    what: str

    def __str__(self) -> str:
        return f"{self.kind} {self.what}"


class LeakedError(AssertionError):
    """A block left something behind.

    Args:
        leaks: What it was.
    """

    def __init__(self, leaks: tuple[Leak, ...]) -> None:
        super().__init__(leaks)
        self.leaks = leaks

    def __str__(self) -> str:
        return f"left over: {'; '.join(map(str, self.leaks))}"


class no_leaks:  # noqa: N801 - reads as a word in a `with`
    """A block that must leave nothing behind that was not there before it. What the block raises is not covered up.

    Args:
        seconds: How long, in real time, what is about to end may take for it.

    Raises:
        LeakedError: With all that was left. Threads that were abandoned by a stop are called so.
    """

    def __init__(self, *, seconds: float = 1.0) -> None:
        self._seconds = seconds

    def __enter__(self) -> Self:
        self._before = _everything()
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if kind is None:
            for _ in self._still_left():
                pass

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, kind: object, error: object, traceback: object) -> None:
        if kind is None:
            for _ in self._still_left():
                await anyio.lowlevel.checkpoint()  # no sleep: a fake clock would jump, and end what has not ended

    def _still_left(self) -> Iterator[None]:
        """Yields while there is something left, and raises when that lasts."""
        until = time.monotonic() + self._seconds
        while new := {key: leak for key, leak in _everything().items() if key not in self._before}:
            if time.monotonic() >= until:
                raise LeakedError(tuple(sorted(new.values())))
            yield
            time.sleep(POLL_SECONDS)


def _everything() -> Found:
    return {**dict(tasks_of_this_loop()), **dict(_threads()), **dict(_files()), **dict(_processes())}


def tasks_of_this_loop() -> Iterator[tuple[object, Leak]]:
    """The tasks of the loop that runs here; none without one. The task itself is the key, so its id is not used again."""
    if on_trio():
        import trio

        root = trio.lowlevel.current_root_task()
        running: Iterator[Any] = _below(root) if root else iter(())
    else:
        try:
            running = (task for task in asyncio.all_tasks() if not _is_pytests(task))
        except RuntimeError:  # no loop runs
            return
    for task in running:
        name = task.name if on_trio() else task.get_name()
        yield task, Leak("task", f'"{name}"')


def _is_pytests(task: asyncio.Task[Any]) -> bool:
    """AnyIO's pytest plugin waits in another task for each step of a test: the set-up, the test, the clean-up."""
    return getattr(task.get_coro(), "__qualname__", "").startswith("TestRunner.")


def _below(task: Any) -> Iterator[Any]:
    yield task
    for nursery in task.child_nurseries:
        for child in nursery.child_tasks:
            yield from _below(child)


def _threads() -> Iterator[tuple[object, Leak]]:
    abandoned = abandoned_threads()
    frames = sys._current_frames()
    for thread in threading.enumerate():
        if thread in abandoned:
            yield thread, Leak("thread", f'"{thread.name}", abandoned by a stop and still at work')
        elif not _is_idle(frames.get(thread.ident or 0)):
            yield thread, Leak("thread", f'"{thread.name}"')


def _is_idle(frame: FrameType | None) -> bool:
    """Whether a thread is a pool's and waits for work."""
    while frame is not None and frame.f_code.co_filename.endswith("/threading.py"):  # below a queue
        frame = frame.f_back
    return any(_stands_at(frame, places) for places in IDLE)


def _stands_at(frame: FrameType | None, places: Sequence[tuple[str, str]]) -> bool:
    for file, function in places:
        if frame is None or frame.f_code.co_name != function or not frame.f_code.co_filename.endswith(file):
            return False
        frame = frame.f_back
    return True


def _files() -> Iterator[tuple[object, Leak]]:
    folder = PROC / "self/fd" if PROC.joinpath("self/fd").exists() else Path("/dev/fd")
    for number in _listed(folder):
        try:
            target = os.readlink(folder / number) if folder.is_relative_to(PROC) else _kind_of_file(int(number))
        except OSError:  # it was only open for the listing
            continue
        if target != os.devnull:  # uvloop keeps one, for when it has no other descriptor left
            yield ("file", number, target), Leak("file", f"{number}: {target}")


def _kind_of_file(number: int) -> str:
    status = os.fstat(number)
    return f"device {status.st_dev}, inode {status.st_ino}"


def _processes() -> Iterator[tuple[object, Leak]]:
    children = _children_by_proc if PROC.joinpath("self/stat").exists() else _children_by_ps
    for number, name in children():
        yield ("process", number, name), Leak("process", f"{number}: {name}")


def _children_by_proc() -> Iterator[tuple[int, str]]:
    own = os.getpid()
    for number in filter(str.isdigit, _listed(PROC)):
        try:
            stat = PROC.joinpath(number, "stat").read_text(errors="replace")
        except OSError:  # it has ended meanwhile
            continue
        name, _, rest = stat.partition("(")[2].rpartition(")")
        state, parent = rest.split()[:2]
        if int(parent) == own:
            yield int(number), f"{name} (ended, but nobody has waited for it)" if state == "Z" else name


def _children_by_ps() -> Iterator[tuple[int, str]]:
    try:
        with subprocess.Popen(["ps", "-Ao", "pid=,ppid=,comm="], stdout=subprocess.PIPE, text=True) as ps:  # noqa: S607
            lines = ps.communicate()[0].splitlines()
    except FileNotFoundError:
        warnings.warn("no_leaks sees no processes here: there is neither /proc nor ps", RuntimeWarning, stacklevel=2)
        return
    for line in lines:
        number, parent, name = line.split(None, 2)
        if int(parent) == os.getpid() and int(number) != ps.pid:
            yield int(number), name


def _listed(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))
