"""Scratch folders: gone at their end, and after a kill -9 with the next process's first one. Nobody else's go."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from heaveto.tools import scratch
from heaveto.tools.scratch import PREFIX, scratch_folder

HOLD = """
import sys
from heaveto.tools.scratch import scratch_folder
with scratch_folder() as folder:
    (folder / "kept").touch()
    print(folder, flush=True)
    sys.stdin.read()
"""
RUN_TESTS = """
import anyio, sys
from pathlib import Path
from heaveto.tools import Call, run_tests_tool
tool = run_tests_tool(interpreter=sys.executable)
anyio.run(tool.run, Call(folder=Path(sys.argv[1])), {"only": ""})
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of temporary files of its own, in which this process has made none yet."""
    (folder := tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    scratch._remove_left_ones.cache_clear()
    return folder


def start(temporary: Path, program: str, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, *args],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@contextmanager
def killed_at_the_end(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    try:
        with process:
            yield process
            process.kill()
    finally:
        process.kill()


def grow_old(folder: Path) -> None:
    os.utime(folder, (time.time() - 3600,) * 2)


def until(seen: Callable[[], object]) -> None:
    end = time.monotonic() + 30
    while not seen():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)


def test_it_is_gone_at_the_end(temporary: Path) -> None:
    with scratch_folder() as folder:
        (folder / "file").touch()
        assert list(temporary.iterdir()) == [folder]
    assert not list(temporary.iterdir())


def test_that_of_a_killed_process_goes_and_that_of_a_live_one_stays(temporary: Path) -> None:
    """Whatever their numbers are now: the killed one's lock went with it."""
    with killed_at_the_end(start(temporary, HOLD)) as live, killed_at_the_end(start(temporary, HOLD)) as dead:
        assert live.stdout is not None
        assert dead.stdout is not None
        held, left = (Path(process.stdout.readline().strip()) for process in (live, dead))  # type: ignore[union-attr]
        dead.send_signal(signal.SIGKILL)
        dead.wait()
        for each in (held, left):
            grow_old(each)
        with scratch_folder() as ours:
            assert set(temporary.iterdir()) == {held, ours}
        assert (held / "kept").exists()


def test_what_is_young_or_no_folder_of_ours_stays(temporary: Path, tmp_path: Path) -> None:
    young, other, elsewhere = temporary / f"{PREFIX}young", temporary / "heaveto-tests-old", tmp_path / "elsewhere"
    for folder in (young, other, elsewhere):
        folder.mkdir()
        (folder / "file").touch()
    (link := temporary / f"{PREFIX}link").symlink_to(elsewhere)
    (file := temporary / f"{PREFIX}file").touch()
    for path in (other, elsewhere, file):
        grow_old(path)
    with scratch_folder():
        pass
    assert set(temporary.iterdir()) == {young, other, link, file}
    assert (elsewhere / "file").exists()


def test_another_users_stays(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (theirs := temporary / f"{PREFIX}theirs").mkdir()
    grow_old(theirs)
    monkeypatch.setattr(os, "getuid", lambda: theirs.stat().st_uid + 1)
    with scratch_folder():
        pass
    assert list(temporary.iterdir()) == [theirs]


def test_run_tests_that_was_killed_leaves_none_for_good(temporary: Path, tmp_path: Path) -> None:
    (project := tmp_path / "project").mkdir()
    (project / "pytest.ini").write_text(
        "[pytest]\naddopts = -p no:hypothesispytest -p no:anyio -p no:timeout -p no:heaveto\n"
    )
    (project / "test_it.py").write_text(
        "import time\nfrom pathlib import Path\n\n\ndef test_it():\n    Path('here').touch()\n    time.sleep(60)\n"
    )
    with killed_at_the_end(start(temporary, RUN_TESTS, str(project))) as process:
        until((project / "here").exists)
        process.send_signal(signal.SIGKILL)
        process.wait()
    (left,) = temporary.glob(f"{PREFIX}*")
    grow_old(left)
    with scratch_folder() as ours:
        until(lambda: list(temporary.glob(f"{PREFIX}*")) == [ours])


def test_a_folder_that_is_too_deep_for_rmtree_goes_too(temporary: Path) -> None:
    """Also one whose process was killed: it must not fail every later one."""
    with scratch_folder() as folder:
        make_deep(folder)
        os.rename(folder, temporary / f"{PREFIX}left")
        folder.mkdir()
        make_deep(folder)
    os.utime(temporary / f"{PREFIX}left", (1, 1))
    scratch._remove_left_ones.cache_clear()
    with scratch_folder() as folder:
        assert os.listdir(temporary) == [folder.name]


def make_deep(folder: Path) -> None:
    """A path of 6,000 characters, which no system call takes in one."""
    descriptor = os.open(folder, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=descriptor)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
        inner = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)
