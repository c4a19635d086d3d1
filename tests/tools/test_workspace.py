"""The working folder: nothing leads out of it, links and races included, and no writer loses another's change."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaveto.errors import ToolError, ToolFatal
from heaveto.tools.files import locks, replacing
from heaveto.tools.files.openat import Opener, open_beneath, open_by_kernel, open_by_walk
from heaveto.tools.files.replacing import ChangedMeanwhile, Seen, replace_file
from heaveto.tools.files.workspace import MAX_FILE_BYTES, NotThere, Workspace, hash_of

SECRET = b"from outside"

OPENERS = [open_by_walk] + ([open_by_kernel] if sys.platform == "linux" else [])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working folder with a file in a folder, and a secret beside it."""
    work = (tmp_path / "work").resolve()
    (work / "src").mkdir(parents=True)
    (work / "src" / "a.py").write_bytes(b"inside\n")
    (tmp_path / "secret").write_bytes(SECRET)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.py").write_bytes(SECRET)
    return work


@pytest.fixture(params=OPENERS, ids=lambda opener: opener.__name__)
def workspace(folder: Path, request: pytest.FixtureRequest) -> Workspace:
    opener: Opener = request.param
    return Workspace(folder, opener)


def write(workspace: Workspace, path: str, data: bytes = b"new") -> None:
    workspace.rewrite(path, lambda before: data)


@pytest.mark.parametrize("path", ["src/a.py", "./src//a.py", "{folder}/src/a.py", "src/./a.py"])
def test_paths_that_stay_inside(workspace: Workspace, path: str) -> None:
    """Relative, or absolute below the folder."""
    path = path.format(folder=workspace.folder)
    assert workspace.resolve(path) == ("src", "a.py")
    assert workspace.read(path) == b"inside\n"
    write(workspace, path)
    assert workspace.read("src/a.py") == b"new"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("..", r'"\.\." has "\.\." in it; give a path below'),
        ("../secret", "give a path below the working folder"),
        ("src/../../secret", 'has ".." in it'),
        ("src/..", 'has ".." in it'),
        ("/etc/passwd", "is outside the working folder"),
        ("{folder}/../secret", 'has ".." in it'),
        ("{folder}-other/x", "is outside the working folder"),
        ("/proc/self/root/etc/passwd", "is outside the working folder"),
        ("src/a.py\0.txt", "NUL byte"),
        ("a\ud800", "half a character"),
    ],
)
def test_paths_that_lead_out_by_their_text(workspace: Workspace, path: str, words: str) -> None:
    """Refused for reading and for writing, before anything is opened."""
    path = path.format(folder=workspace.folder)
    for attempt in (workspace.read, lambda path: write(workspace, path)):
        with pytest.raises(ToolError, match=words):
            attempt(path)


@given(st.lists(st.sampled_from(["..", ".", "", "src", "a.py", "/", "proc", "\\", "~", "%2e%2e", " .."]), max_size=6))
def test_any_path_stays_inside_or_is_refused(pieces: list[str]) -> None:
    """Whatever the text, no part of what is left goes up or names another place."""
    try:
        parts = Workspace(Path("/some/folder")).resolve("/".join(pieces))
    except ToolError:
        return
    assert all(part not in ("", ".", "..") and "/" not in part for part in parts)


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("../secret", "link"),
        ("../outside", "link/a.py"),
        ("/etc", "link/passwd"),
        ("/proc/self/root", "link/etc/passwd"),
        ("/proc/self/cwd", "link/pyproject.toml"),
        ("src/../../secret", "link"),
    ],
)
def test_links_that_lead_out(workspace: Workspace, target: str, path: str) -> None:
    """Neither read nor written, and a folder is not made beyond them."""
    os.symlink(target, workspace.folder / "link")
    with pytest.raises(ToolError, match=r"leads (out of the working folder|through a link)"):
        workspace.read(path)
    with pytest.raises(ToolError, match=r"leads through a link"):
        write(workspace, path)
    with pytest.raises(ToolError, match=r"leads through a link|not a folder"):
        write(workspace, "link/new/file")
    assert (workspace.folder.parent / "secret").read_bytes() == SECRET
    assert not (workspace.folder.parent / "outside" / "new").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="links are followed only where the kernel can keep them inside")
def test_links_that_stay_inside_are_read_and_not_written(folder: Path) -> None:
    os.symlink("src/a.py", folder / "file")
    os.symlink("src", folder / "dir")
    workspace = Workspace(folder, open_by_kernel)
    assert workspace.read("file") == workspace.read("dir/a.py") == b"inside\n"
    for path in ("file", "dir/a.py", "dir/new.py"):
        with pytest.raises(ToolError, match="leads through a link; give the path of the real file"):
            write(workspace, path)
    assert (folder / "src" / "a.py").read_bytes() == b"inside\n"


def test_hard_links_are_not_written(workspace: Workspace) -> None:
    """The other name may be outside."""
    os.link(workspace.folder.parent / "secret", workspace.folder / "hard")
    with pytest.raises(ToolError, match="has a second name"):
        write(workspace, "hard")
    assert (workspace.folder.parent / "secret").read_bytes() == SECRET


def test_special_files(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fifo does not hold us up, a socket and a device are refused."""
    os.mkfifo(workspace.folder / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(workspace.folder)  # a socket's address is short
        server.bind("socket")
        for path in ("fifo", "socket"):
            with pytest.raises(ToolError, match="is a special file"):
                workspace.read(path)
            with pytest.raises(ToolError, match="is a special file"):
                write(workspace, path)
    assert stat.S_ISFIFO((workspace.folder / "fifo").stat().st_mode)


def test_a_device_is_refused(folder: Path) -> None:
    """Also where it is the folder's own: /dev/null is below /dev."""
    with pytest.raises(ToolError, match="is a special file"):
        Workspace(Path("/dev")).read("null")


def test_folders_and_missing_files(workspace: Workspace) -> None:
    with pytest.raises(ToolError, match='"src" is a folder; name a file in it'):
        workspace.read("src")
    with pytest.raises(ToolError, match="the path is the working folder itself"):
        write(workspace, ".")
    with pytest.raises(NotThere, match=r'there is no "src/b\.py"'):
        workspace.read("src/b.py")
    with pytest.raises(ToolError, match="has a file where a folder should be"):
        workspace.read("src/a.py/b")
    with pytest.raises(ToolError, match="has a file where a folder should be"):
        write(workspace, "src/a.py/b")
    with pytest.raises(ToolError, match="name too long"):
        workspace.read("x" * 300)


def test_git_is_not_written(workspace: Workspace) -> None:
    """A hook or a setting of git is a command that runs later, outside of any approval."""
    (workspace.folder / ".git").mkdir()
    (workspace.folder / ".git" / "config").write_text("[core]\n")
    assert workspace.read(".git/config") == b"[core]\n"
    for path in (".git/config", ".git/hooks/pre-commit", "sub/.GIT/config"):
        with pytest.raises(ToolError, match="belongs to git"):
            write(workspace, path)


def test_a_folder_that_is_gone_is_fatal(folder: Path) -> None:
    with pytest.raises(ToolFatal, match="is gone: no such file or directory"):
        Workspace(folder / "nowhere").read("a")


def test_files_that_are_too_big(workspace: Workspace) -> None:
    with open(workspace.folder / "big", "wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(ToolError, match=f"more than {MAX_FILE_BYTES} bytes"):
        workspace.read("big")


def test_scan(workspace: Workspace) -> None:
    """Names and kinds, sorted, links as links."""
    os.symlink("src", workspace.folder / "link")
    os.mkfifo(workspace.folder / "fifo")
    (workspace.folder / "b").write_text("")
    assert workspace.scan(()) == [("b", "file"), ("fifo", "other"), ("link", "link"), ("src", "folder")]
    with pytest.raises(NotThere):
        workspace.scan(("nowhere",))
    with pytest.raises(ToolError, match="is not a folder"):
        workspace.scan(("b",))


# --- races ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def swapping(folder: Path) -> Iterator[threading.Event]:
    """`race/` is a folder and a link to the outside by turns, as fast as it goes."""
    (folder / "race").mkdir()
    (folder / "race" / "a.py").write_bytes(b"inside\n")
    os.symlink(folder.parent / "outside", folder / "link")
    over = threading.Event()
    root = os.open(folder, os.O_RDONLY)

    def swap() -> None:
        while not over.is_set():
            assert replacing._rename(root, "race", "link", replacing._EXCHANGE)

    thread = threading.Thread(target=swap)
    thread.start()
    yield over
    over.set()
    thread.join()
    os.close(root)


@pytest.mark.skipif(sys.platform != "linux", reason="needs renameat2 to swap two names")
def test_a_folder_swapped_for_a_link(workspace: Workspace, swapping: threading.Event) -> None:
    """For half a second of trying, nothing from outside is read and nothing outside is written."""
    reads = writes = 0
    until = time.monotonic() + 0.5
    while time.monotonic() < until:
        try:
            data = workspace.read("race/a.py")
        except ToolError:
            pass
        else:
            reads += 1
            assert data.startswith(b"inside")
        try:
            write(workspace, "race/a.py", b"inside, written\n")
        except ToolError:
            pass
        else:
            writes += 1
    assert reads
    assert writes
    outside = workspace.folder.parent / "outside"
    assert os.listdir(outside) == ["a.py"]
    assert (outside / "a.py").read_bytes() == SECRET


def test_a_file_swapped_for_a_link_while_it_is_written(workspace: Workspace) -> None:
    """The link is noticed; its target stays as it is, and so does the link."""
    secret = workspace.folder.parent / "secret"

    def change(before: bytes | None) -> bytes:
        os.unlink(workspace.folder / "src" / "a.py")
        os.symlink(secret, workspace.folder / "src" / "a.py")
        return b"new"

    with pytest.raises(ToolError, match="was changed by someone else; read it again"):
        workspace.rewrite("src/a.py", change)
    assert secret.read_bytes() == SECRET
    assert (workspace.folder / "src" / "a.py").is_symlink()
    assert os.listdir(workspace.folder / "src") == ["a.py"]


@pytest.mark.parametrize("has_exchange", [True, False])
@pytest.mark.parametrize("before", [b"old", None])
def test_someone_elses_change_is_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch, before: bytes | None, has_exchange: bool
) -> None:
    """An editor that takes no lock writes in the last moment: theirs stays, ours is refused, no temporary file is left."""
    if not has_exchange:
        monkeypatch.setattr(replacing, "_renameat2", lambda: None)
    path = folder / "file"
    if before:
        path.write_bytes(before)
    seen = Seen(path.stat(), before) if before else None
    path.write_bytes(b"theirs")
    fd = os.open(folder, os.O_RDONLY)
    with pytest.raises(ChangedMeanwhile):
        replace_file(fd, "file", seen, b"ours")
    os.close(fd)
    assert path.read_bytes() == b"theirs"
    assert sorted(os.listdir(folder)) == ["file", "src"]


# --- writing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("has_exchange", [True, False])
def test_mode_is_kept_and_new_files_get_the_usual_one(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, has_exchange: bool
) -> None:
    if not has_exchange:
        monkeypatch.setattr(replacing, "_renameat2", lambda: None)
    path = workspace.folder / "src" / "a.py"
    path.chmod(0o751)
    write(workspace, "src/a.py")
    assert stat.S_IMODE(path.stat().st_mode) == 0o751
    write(workspace, "new")
    usual = workspace.folder / "usual"
    usual.touch()
    assert (workspace.folder / "new").stat().st_mode == usual.stat().st_mode
    assert sorted(os.listdir(workspace.folder)) == ["new", "src", "usual"]


def test_parents_are_made_only_when_there_is_something_to_write(workspace: Workspace) -> None:
    def refuse(before: bytes | None) -> bytes:
        assert before is None
        raise ToolError("no")

    with pytest.raises(ToolError, match="no"):
        workspace.rewrite("x/y/z", refuse)
    assert not (workspace.folder / "x").exists()
    write(workspace, "x/y/z", b"deep")
    assert (workspace.folder / "x" / "y" / "z").read_bytes() == b"deep"


def test_a_write_that_the_disk_refuses_changes_nothing(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk: the old content stays, the temporary file goes, and the model reads why."""

    def full(*args: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(replacing.os, "write", full)
    with pytest.raises(ToolError, match=r'"src/a\.py" cannot be opened or written: no space left on device'):
        write(workspace, "src/a.py")
    assert os.listdir(workspace.folder / "src") == ["a.py"]
    assert workspace.read("src/a.py") == b"inside\n"


def test_a_reader_sees_the_old_or_the_new(workspace: Workspace) -> None:
    """Never a part, and never nothing."""
    over, seen = threading.Event(), set()
    path = workspace.folder / "src" / "a.py"
    contents = [bytes([letter]) * 200_000 for letter in b"ab"]
    path.write_bytes(contents[0])

    def read() -> None:
        while not over.is_set():
            seen.add(path.read_bytes())

    thread = threading.Thread(target=read)
    thread.start()
    for turn in range(60):
        write(workspace, "src/a.py", contents[turn % 2])
    over.set()
    thread.join()
    assert seen <= set(contents)


def test_leftovers_of_a_killed_process_are_removed(workspace: Workspace) -> None:
    """By the next write beside them; those of running processes and young ones stay."""
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    names = [f".heaveto-{process}-{'0' * 15}{n}.tmp" for n, process in enumerate((dead.pid, dead.pid, os.getpid()))]
    for name, age in zip(names, (60, 0, 60), strict=True):
        path = workspace.folder / "src" / name
        path.touch()
        os.utime(path, (time.time() - age,) * 2)
    write(workspace, "src/a.py")
    assert sorted(os.listdir(workspace.folder / "src")) == sorted([names[1], names[2], "a.py"])


# --- the lock -------------------------------------------------------------------------------------------------------


def test_no_update_is_lost(workspace: Workspace) -> None:
    """Four threads, twenty-five increments each."""
    path = workspace.folder / "count"
    path.write_bytes(b"0")

    def count() -> None:
        for _ in range(25):
            workspace.rewrite("count", lambda before: b"%d" % (int(before or b"") + 1))

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_bytes() == b"100"
    assert sorted(os.listdir(workspace.folder)) == ["count", "src"]


COUNT = """
import sys, pathlib
from heaveto.tools.files.workspace import Workspace
workspace = Workspace(pathlib.Path(sys.argv[1]))
for _ in range(10):
    workspace.rewrite("count", lambda before: b"%d" % (int(before) + 1))
"""


def test_no_update_of_another_process_is_lost(folder: Path) -> None:
    (folder / "count").write_bytes(b"0")
    counters = [subprocess.Popen([sys.executable, "-c", COUNT, str(folder)]) for _ in range(3)]
    assert [counter.wait(30) for counter in counters] == [0, 0, 0]
    assert (folder / "count").read_bytes() == b"30"


def test_where_a_folder_cannot_be_locked_a_file_is(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on NFS: the lock file is among the temporary files, and two cannot hold it."""
    real = fcntl.flock

    def flock(fd: int, operation: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        real(fd, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    root = os.open(folder, os.O_RDONLY)
    with locks.locked(root):
        path = locks.lock_file_path(root)
        other = os.open(path, os.O_RDWR)
        with pytest.raises(BlockingIOError):
            real(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    real(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(other)
    os.close(root)
    assert Path(path).parent == tmp_path
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert os.listdir(folder) == ["src"]


def test_the_best_opener_is_taken(folder: Path) -> None:
    """Either way the same file is opened."""
    root = os.open(folder, os.O_RDONLY)
    fd = open_beneath(root, ("src", "a.py"), os.O_RDONLY, links=False)
    assert os.read(fd, 100) == b"inside\n"
    os.close(fd)
    os.close(root)


def test_hashes() -> None:
    assert hash_of(None) is None
    assert hash_of(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
