"""Moving and deleting files: what is refused, whose change is kept, and how a cut-off call is settled."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from heaveto.errors import ToolError
from heaveto.testing import every_await
from heaveto.tools import Call
from heaveto.tools.files import replacing
from heaveto.tools.files.moving import delete_file, move_file
from heaveto.tools.files.replacing import ChangedMeanwhile, Seen
from heaveto.tools.files.workspace import NotThere
from heaveto.tools.protocol import Check


@pytest.fixture
def call(tmp_path: Path) -> Call:
    (tmp_path / "work").mkdir()
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "work/a.txt").write_text("one\r\n")
    (tmp_path / "work/b.txt").write_text("two\n")
    return Call(folder=(tmp_path / "work").resolve())


@pytest.fixture(params=["renameat2", "without"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the system call that refuses to replace, and where there is none."""
    if request.param == "without":
        monkeypatch.setattr(replacing, "_renameat2", lambda: None)


def files(call: Call) -> dict[str, str]:
    found = (path for path in call.folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(call.folder)): path.read_bytes().decode() for path in found}


@pytest.mark.usefixtures("either")
def test_a_file_is_moved_with_its_mode_and_folders_are_made(call: Call) -> None:
    (call.folder / "a.txt").chmod(0o751)
    assert move_file(call, "a.txt", "x/y/c.txt") == "moved a.txt to x/y/c.txt"
    assert files(call) == {"b.txt": "two\n", "x/y/c.txt": "one\r\n"}
    assert stat.S_IMODE((call.folder / "x/y/c.txt").stat().st_mode) == 0o751


@pytest.mark.usefixtures("either")
def test_a_file_is_deleted(call: Call) -> None:
    assert delete_file(call, "./a.txt") == "deleted a.txt"
    assert files(call) == {"b.txt": "two\n"}


@pytest.mark.usefixtures("either")
def test_nothing_is_replaced(call: Call) -> None:
    (call.folder / "link").symlink_to("nowhere")
    before = files(call)
    for to in ("b.txt", "link", "a.txt"):
        with pytest.raises(ToolError, match=f'there is a "{to}" already; give another path'):
            move_file(call, "a.txt", to)
    assert files(call) == before
    assert os.readlink(call.folder / "link") == "nowhere"


PATHS = [
    "..",
    "../secret",
    "/etc/passwd",
    "out/secret",
    "inside",
    "hard",
    "fifo",
    ".git/config",
    ".",
    "",
    "sub",
    "none",
    "\0",
]


@pytest.mark.parametrize("path", PATHS)
def test_what_is_no_plain_file_inside_is_refused(call: Call, path: str) -> None:
    """For deleting and moving away; and for moving there, but where nothing is yet."""
    outside = call.folder.parent
    (call.folder / "out").symlink_to("..")
    (call.folder / "inside").symlink_to("a.txt")
    (call.folder / "sub").mkdir()
    (call.folder / ".git").mkdir()
    (call.folder / ".git/config").write_text("")
    os.link(outside / "secret", call.folder / "hard")
    os.mkfifo(call.folder / "fifo")
    before = files(call)
    actions: list[Callable[[], str]] = [lambda: delete_file(call, path), lambda: move_file(call, path, "new")]
    if path != "none":
        actions.append(lambda: move_file(call, "a.txt", path))
    for action in actions:
        with pytest.raises(ToolError) as caught:
            action()
        assert str(caught.value)
    assert files(call) == before
    assert (outside / "secret").read_text() == "secret"
    assert sorted(os.listdir(outside)) == ["secret", "work"]


@pytest.mark.usefixtures("either")
def test_someone_elses_change_is_kept(call: Call) -> None:
    path = call.folder / "a.txt"
    seen = Seen(path.stat(), b"what it was")
    fd = os.open(call.folder, os.O_RDONLY)
    try:
        for act in (
            lambda: replacing.remove_file(fd, "a.txt", seen),
            lambda: replacing.move_file(fd, "a.txt", fd, "c", seen),
        ):
            with pytest.raises(ChangedMeanwhile):
                act()
    finally:
        os.close(fd)
    assert files(call) == {"a.txt": "one\r\n", "b.txt": "two\n"}


def plan(each: Any, call: Call, **arguments: str) -> Call:
    return replace(call, facts=anyio.run(each.plan, call, arguments))


def test_a_change_since_the_plan_is_refused(call: Call) -> None:
    planned = plan(delete_file, call, path="a.txt"), plan(move_file, call, path="a.txt", to="c")
    (call.folder / "a.txt").write_text("newer")
    for act in (lambda: delete_file(planned[0], "a.txt"), lambda: move_file(planned[1], "a.txt", "c")):
        with pytest.raises(ToolError, match="was changed since this call was planned"):
            act()
    assert files(call)["a.txt"] == "newer"
    with pytest.raises(NotThere):
        plan(delete_file, call, path="none")


@pytest.mark.parametrize("name", ["delete_file", "move_file"])
def test_a_cut_off_call_is_settled_by_looking(call: Call, name: str) -> None:
    each, arguments = (
        (delete_file, {"path": "a.txt"}) if name == "delete_file" else (move_file, {"path": "a.txt", "to": "c/d"})
    )
    planned = plan(each, call, **arguments)

    def look() -> Check:
        seen: Check = anyio.run(each.check, planned, arguments)
        return seen

    assert look() == Check("not_done", '"a.txt" is where it was')
    text = each(planned, **arguments)  # type: ignore[operator]
    assert look() == Check("done", text)
    (call.folder / "a.txt").write_text("somebody's")
    assert look().verdict == "unknown"
    assert '"a.txt" is there (SHA-256' in look().text
    if name == "move_file":
        (call.folder / "a.txt").unlink()
        (call.folder / "c/d").write_text("somebody's")
        assert look().verdict == "unknown"
    assert anyio.run(each.check, call, arguments) is None


def test_a_stop_at_any_await_leaves_it_here_or_there(call: Call) -> None:
    async def whole() -> str:
        for path in call.folder.rglob("*.txt"):
            path.unlink()
        (call.folder / "a.txt").write_text("one")
        await move_file.plan(call, {"path": "a.txt", "to": "c.txt"})
        text = await move_file.run(call, {"path": "a.txt", "to": "c.txt"})
        return text + await delete_file.run(call, {"path": "c.txt"})

    for run in every_await(whole, again_after=()):
        assert run.left_running == (), run
        assert files(call) in ({}, {"a.txt": "one"}, {"c.txt": "one"}), run
        assert files(call) == {} or isinstance(run.error, type(run.cause)), run
