"""Several files changed as one: all, or none; and what somebody else wrote meanwhile is never lost."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from heaveto.errors import ToolError
from heaveto.tools.files import replacing
from heaveto.tools.files.replacing import ChangedMeanwhile, Seen
from heaveto.tools.files.together import NotChanged, PartlyChanged, Step, change_together
from heaveto.tools.files.workspace import NotThere, Wanted, Workspace, hash_of

BEFORE = {"a": b"a", "b": b"b", "d": b"d"}
AFTER = {"a": b"A", "c": b"C", "d": b"D"}


@pytest.fixture(params=["renameat2", "without"])
def folder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """With the system call that exchanges, and where there is none."""
    if request.param == "without":
        monkeypatch.setattr(replacing, "_renameat2", lambda: None)
    for name, data in BEFORE.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "a").chmod(0o751)
    return tmp_path


@pytest.fixture
def root(folder: Path) -> Iterator[int]:
    fd = os.open(folder, os.O_RDONLY)
    yield fd
    os.close(fd)


def steps(folder: Path, root: int) -> list[Step]:
    """One of each kind: replaced, removed, new, replaced."""

    def seen(name: str) -> Seen:
        return Seen((folder / name).stat(), (folder / name).read_bytes())

    return [
        Step(("a",), root, seen("a"), b"A"),
        Step(("b",), root, seen("b"), None),
        Step(("c",), root, None, b"C", 0o600),
        Step(("d",), root, seen("d"), b"D"),
    ]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_all_are_changed_and_modes_kept(folder: Path, root: int) -> None:
    change_together(steps(folder, root))
    assert files(folder) == AFTER
    assert [stat.S_IMODE((folder / name).stat().st_mode) for name in "ac"] == [0o751, 0o600]


def test_none_is_changed_where_one_was_meanwhile(folder: Path, root: int) -> None:
    for name, theirs in (("d", b"theirs"), ("c", b"theirs"), ("b", b"theirs"), ("b", None)):
        for each, data in BEFORE.items():
            (folder / each).write_bytes(data)
        (folder / "c").unlink(missing_ok=True)
        each_step = steps(folder, root)
        if theirs is None:
            (folder / name).unlink()
        else:
            (folder / name).write_bytes(theirs)
        before = files(folder)
        with pytest.raises(NotChanged) as caught:
            change_together(each_step)
        assert caught.value.parts == (name,)
        assert isinstance(caught.value.__cause__, ChangedMeanwhile)
        assert files(folder) == before
        assert stat.S_IMODE((folder / "a").stat().st_mode) == 0o751


class Spoiler(Step):
    """Cannot be made; and somebody writes to other files right before."""

    meanwhile: Callable[[], object] = staticmethod(lambda: None)

    def make(self) -> None:
        self.meanwhile()
        raise OSError(28, "no space left")


def spoiled(folder: Path, root: int, meanwhile: Callable[[], object]) -> list[Step]:
    spoiler = Spoiler(("e",), root, None, b"E")
    spoiler.meanwhile = meanwhile  # type: ignore[method-assign]
    return [*steps(folder, root), spoiler]


def test_an_error_in_the_middle_takes_back_what_was_made(folder: Path, root: int) -> None:
    with pytest.raises(NotChanged) as caught:
        change_together(spoiled(folder, root, lambda: None))
    assert caught.value.parts == ("e",)
    assert files(folder) == BEFORE
    assert stat.S_IMODE((folder / "a").stat().st_mode) == 0o751


def test_what_cannot_be_taken_back_is_named_and_left_as_somebody_made_it(folder: Path, root: int) -> None:
    def meanwhile() -> None:
        (folder / "a").write_bytes(b"theirs")
        (folder / "b").write_bytes(b"theirs too")

    with pytest.raises(PartlyChanged) as caught:
        change_together(spoiled(folder, root, meanwhile))
    assert caught.value.stuck == [("b",), ("a",)]
    assert files(folder) == {"a": b"theirs", "b": b"theirs too", "d": b"d"}


def test_in_a_workspace_folders_are_made_and_unmade_and_each_refusal_has_words(folder: Path) -> None:
    workspace = Workspace(folder)
    before = files(folder)
    good = [Wanted("a", hash_of(b"a"), b"A"), Wanted("x/y/new", None, b"new", 0o640)]
    for bad, kind, words in (
        (Wanted("b", hash_of(b"?"), None), ToolError, '"b" was changed since this call was planned'),
        (Wanted("none", hash_of(b"?"), None), NotThere, 'there is no "none" any more'),
        (Wanted("d", None, b"D"), ToolError, 'there is a "d" already'),
        (Wanted("../out", None, b"D"), ToolError, r'has "\.\." in it'),
        (Wanted(".git/hooks/x", None, b"D"), ToolError, "belongs to git"),
        (Wanted("x/y/new/z", None, b"D"), ToolError, '"x/y/new" '),
        (Wanted("a/z", None, b"D"), ToolError, "is not a folder|has a file where"),
        (Wanted("x/" + "n" * 300, None, b"D"), ToolError, "name too long"),
    ):
        with pytest.raises(kind, match=words):
            workspace.change_together([*good, bad])
        assert files(folder) == before
    workspace.change_together(good)
    assert workspace.hashes(["a", "x/y/new", "none"]) == {"a": hash_of(b"A"), "x/y/new": hash_of(b"new"), "none": None}
    assert stat.S_IMODE((folder / "x/y/new").stat().st_mode) == 0o640
    workspace.change_together([Wanted("x/y/new", hash_of(b"new"), None)])
    workspace.remove_empty([("x",), ("x", "y")])
    assert not (folder / "x").exists()
