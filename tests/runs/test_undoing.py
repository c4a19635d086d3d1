"""What a run changed in its folder, told from the journal, and taken back: all of it or nothing, and only once."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from heaveto.errors import ConfigError, RunTaken
from heaveto.journal import MemoryStore, Summary, this_process
from heaveto.journal.records import FORMAT, Record, ToolFinished, UndoFinished, encode_record
from heaveto.journal.seals import seal
from heaveto.loop.events import Event
from heaveto.runs import Agent, changes_of, diff_lines, fork_run, read_records, replay, undo_run
from heaveto.testing import every_await
from heaveto.testing.scripted_model import calls, scripted
from heaveto.tools import file_tools

pytestmark = pytest.mark.anyio

SECRET = "sk-0123456789abcdef"
BEFORE = {"a.txt": b"one\r\ntwo\r\n", "run.sh": b"#!/bin/sh\nexit 1\n", "old.txt": b"old\n", "gone.bin": b"\0\1\2"}
AFTER = {"a.txt": b"1\r\n2\r\n", "run.sh": b"#!/bin/sh\nexit 0\n", "x/y/new.txt": b"new", "far/moved.txt": b"old\n"}
PLAN = [
    calls(("edit_file", {"path": "a.txt", "old": "one", "new": "1"})),
    calls(
        ("edit_file", {"path": "a.txt", "old": "two", "new": "2"}), ("edit_file", {"path": "a.txt", "old": "-", "new": ""})
    ),
    calls(("edit_file", {"path": "run.sh", "old": "exit 1", "new": "exit 0"})),
    calls(
        ("write_file", {"path": "x/y/new.txt", "content": "newer"}),
        ("write_file", {"path": "x/y/new.txt", "content": "new"}),
    ),
    calls(("write_file", {"path": "x/brief", "content": "-"}), ("delete_file", {"path": "x/brief"})),
    calls(("delete_file", {"path": "gone.bin"})),
    calls(("move_file", {"path": "old.txt", "to": "far/moved.txt"})),
    "done",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (folder := tmp_path / "work").mkdir()
    put(folder)
    return folder


def put(folder: Path) -> None:
    for name, data in BEFORE.items():
        (folder / name).write_bytes(data)
    (folder / "run.sh").chmod(0o751)
    (folder / "gone.bin").chmod(0o640)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def work(folder: Path, *lines: Any, store: MemoryStore | None = None) -> MemoryStore:
    store = store or MemoryStore()
    agent = Agent(model=scripted(*(lines or PLAN)), tools=file_tools(), store=store, folder=folder)
    await agent.run("go", run_id="run")
    return store


async def test_every_file_is_as_it_was_with_its_mode_and_without_new_folders(folder: Path) -> None:
    store = await work(folder)
    assert files(folder) == AFTER
    undone = await undo_run(store, "ru", "ada")
    assert [file.path for file in undone.files] == sorted(AFTER | BEFORE)
    assert files(folder) == BEFORE
    assert [stat.S_IMODE((folder / name).stat().st_mode) for name in ("run.sh", "gone.bin")] == [0o751, 0o640]
    assert sorted(os.listdir(folder)) == sorted(BEFORE), "no folder of the run's, and no temporary file, is left"
    records = await read_records(store, "run")
    assert [record.__struct_config__.tag for record in records[-2:]] == ["undo.started", "undo.finished"]
    assert replay(records) == []


async def test_undone_twice_says_so_and_touches_nothing(folder: Path) -> None:
    store = await work(folder)
    first = await undo_run(store, "run", "ada")
    (folder / "a.txt").write_text("mine now")
    second = await undo_run(store, "run", "bob")
    assert second.before_this
    assert (second.by, second.at, second.files) == ("ada", first.at, first.files)
    assert (folder / "a.txt").read_text() == "mine now"


async def test_what_was_changed_since_is_refused_by_name_before_anything_is_touched(folder: Path) -> None:
    store = await work(folder)
    (folder / "a.txt").write_text("mine")
    (folder / "old.txt").write_text("mine too")
    (folder / "x/y/new.txt").unlink()
    (folder / "run.sh").unlink()
    (folder / "run.sh").symlink_to("a.txt")
    before, records = files(folder), await read_records(store, "run")
    with pytest.raises(ConfigError) as caught:
        await undo_run(store, "run")
    text = str(caught.value)
    assert text.startswith("run run cannot be undone, and nothing was touched: ")
    assert '"a.txt" was changed since' in text
    assert '"old.txt" was made again since' in text
    assert '"run.sh" leads through a link' in text
    assert '"x/y/new.txt" was deleted since' not in text, "it is as it was before the run"
    assert "gone.bin" not in text
    assert files(folder) == before
    assert await read_records(store, "run") == records


async def test_what_else_changed_a_file_in_between_is_not_lost(folder: Path) -> None:
    edit = [calls(("edit_file", {"path": "a.txt", "old": old, "new": new})) for old, new in (("one", "1"), ("two", "2"))]

    def meanwhile(_: Any) -> Any:
        (folder / "a.txt").write_bytes((folder / "a.txt").read_bytes() + b"three\r\n")
        return edit[1]

    store = await work(folder, edit[0], meanwhile, "done")
    with pytest.raises(ConfigError, match=r'"a.txt" was changed by something else between two of the run\'s changes'):
        await undo_run(store, "run")
    assert (folder / "a.txt").read_bytes() == b"1\r\n2\r\nthree\r\n"


async def test_what_holds_a_secret_or_is_too_large_is_not_kept_and_said(folder: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("SOME_API_KEY", SECRET)
    monkeypatch.setattr("heaveto.tools.files.kept.MAX_KEPT_CHARS", 1000)
    kept = {"a.txt": f"key = {SECRET}\n".encode(), ".env": b"A=b\n", "big": os.urandom(1000), "moved": os.urandom(1000)}
    for name, data in kept.items():
        (folder / name).write_bytes(data)
    clear = [calls(("write_file", {"path": name, "content": ""})) for name in ("a.txt", ".env", "big")]
    store = await work(folder, *clear, calls(("move_file", {"path": "moved", "to": "there"})), "done")
    with pytest.raises(ConfigError) as caught:
        await undo_run(store, "run")
    text = str(caught.value)
    assert '"a.txt" cannot be put back: its content was not kept, since it holds a secret' in text
    assert '".env" cannot be put back: its content was not kept, since a file of that name holds secrets' in text
    assert '"big" cannot be put back: its content was not kept, since it is too large (1,000 bytes)' in text
    assert "moved" not in text, "its content is where the run moved it"
    assert not any(SECRET.encode() in entry.body for entry in await store.read("run"))
    shown = b"".join(diff_lines(changes_of(await read_records(store, "run")))).decode()
    assert ".env: not shown, since a file of that name holds secrets\n" in shown
    for name in ("a.txt", ".env", "big"):
        (folder / name).write_bytes(kept[name])
    await undo_run(store, "run")
    assert files(folder) == BEFORE | kept


async def test_the_diff_is_told_from_the_journal_and_git_applies_it(folder: Path, tmp_path: Path) -> None:
    store = await work(folder)
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    shown = b"".join(diff_lines(changes_of(await read_records(store, "run"))))
    assert b"rename from old.txt\nrename to far/moved.txt\n" in shown
    assert b"--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-one\r\n-two\r\n+1\r\n+2\r\n" in shown
    assert b"+new\n\\ No newline at end of file\n" in shown
    assert b"brief" not in shown
    (again := tmp_path / "again").mkdir()
    for name in ("a.txt", "run.sh", "old.txt"):
        (again / name).write_bytes(BEFORE[name])
    (again / "run.sh").chmod(0o751)
    without = b"".join(part for part in _by_file(shown) if b"gone.bin" not in part)
    subprocess.run(["git", "init", "-q", "."], cwd=again, check=True)
    subprocess.run(["git", "apply", "-"], cwd=again, input=without, check=True)
    assert {name: data for name, data in files(again).items() if not name.startswith(".git/")} == AFTER


def _by_file(diff: bytes) -> list[bytes]:
    return [b"diff --git" + part for part in diff.split(b"diff --git")[1:]]


async def test_who_watches_does_not_get_the_contents(folder: Path) -> None:
    store = await work(folder)
    for record in await read_records(store, "run"):
        shown = str(Event("1", "run", 0.0, True, record).to_data())
        assert "'content': 'eJ" not in shown
        assert "'then'" not in shown


async def test_a_resumed_run_is_told_and_its_later_changes_are_undone_alone(folder: Path) -> None:
    store = await work(folder, PLAN[0], "done")
    await undo_run(store, "run")
    model = scripted(calls(("write_file", {"path": "b", "content": "b"})), "done")
    agent = Agent(model=model, tools=file_tools(), store=store, folder=folder)
    await agent.resume("run", say="go on")
    assert "put the files that you had changed back as they were before: a.txt" in str(model.requests[0][-2])
    assert replay(await read_records(store, "run")) == []
    (folder / "a.txt").write_text("mine")
    undone = await undo_run(store, "run")
    assert [file.path for file in undone.files] == ["b"]
    assert files(folder) == BEFORE | {"a.txt": b"mine"}


async def test_a_fork_has_changed_nothing(folder: Path) -> None:
    store = await work(folder)
    await undo_run(store, "run")
    await fork_run(store, "run", 2, "fork")
    with pytest.raises(ConfigError, match="run fork changed no files by its file tools"):
        await undo_run(store, "fork")


async def test_a_run_that_is_driven_or_whose_folder_is_gone_is_refused(folder: Path) -> None:
    store = await work(folder)
    epoch = await store.take("run", this_process())
    with pytest.raises(RunTaken):
        await undo_run(store, "run")
    await store.release("run", epoch)
    folder.rename(folder.with_name("elsewhere"))
    with pytest.raises(ConfigError, match=r"run run cannot be undone: .* is gone"):
        await undo_run(store, "run")


@pytest.mark.parametrize("done", [True, False])
async def test_of_a_call_in_doubt_the_file_tells_whether_it_was_made(folder: Path, done: bool) -> None:
    """The last result is lost, as by a kill; with it, or without, the file is as the call was to make it or not."""
    store = await work(folder, PLAN[0], PLAN[3], "done")
    records = await read_records(store, "run")
    last = max(at for at, record in enumerate(records) if isinstance(record, ToolFinished))
    cut = await stored(records[:last])
    if not done:
        (folder / "x/y/new.txt").write_text("newer")
    await undo_run(cut, "run")
    assert files(folder) == BEFORE
    put_anything = folder / "x/y/new.txt"
    put_anything.parent.mkdir(parents=True)
    put_anything.write_text("neither")
    with pytest.raises(ConfigError, match=r"whether write_file x/y/new.txt \(call_\d+\) changed it is not known"):
        await undo_run(await stored(records[:last]), "run")


async def stored(records: list[Record]) -> MemoryStore:
    store = MemoryStore()
    await store.create("run", "", seal([encode_record(record) for record in records], b""), Summary())
    return store


async def test_an_undo_that_was_cut_off_is_finished_by_the_next_one(folder: Path) -> None:
    """Whatever part of the files a kill left as they were before the run."""
    first = await work(folder)
    await undo_run(first, "run")
    begun = (await read_records(first, "run"))[:-1]
    with pytest.raises(ConfigError, match="an undo of run run was cut off; finish it first: heaveto undo run"):
        await Agent(model=scripted("x"), store=await stored(begun), folder=folder).resume("run", say="go on")
    names = sorted(BEFORE | AFTER)
    for part in range(len(names) + 1):
        fill(folder, {name: BEFORE.get(name) if at < part else AFTER.get(name) for at, name in enumerate(names)})
        store = await stored(begun)
        undone = await undo_run(store, "run")
        assert files(folder) == BEFORE
        assert (len(undone.files), undone.before_this) == (len(names), False)
        assert (await undo_run(store, "run")).before_this
    fill(folder, {"a.txt": BEFORE["a.txt"], "run.sh": b"mine"})
    with pytest.raises(ConfigError, match=r'"run\.sh" was changed since'):
        await undo_run(await stored(begun), "run")


def fill(folder: Path, contents: Mapping[str, bytes | None]) -> None:
    """Make these the files of the folder."""
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    for name, data in contents.items():
        if data is not None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)


async def test_nothing_is_undone_where_one_file_cannot_be(folder: Path) -> None:
    """A folder stands in the way of one of the last files: those before it are changed back again."""
    store = await work(folder, *PLAN[:3], PLAN[5], "done")
    changed = files(folder)
    (folder / "run.sh").chmod(0o751)
    (folder / "gone.bin").mkdir()
    with pytest.raises(ConfigError, match=r'"gone\.bin" is a folder'):
        await undo_run(store, "run")
    assert files(folder) == changed


def test_a_stop_at_any_await_leaves_all_or_nothing(folder: Path) -> None:
    lines = PLAN[0], PLAN[3], "done"
    records = anyio.run(_records_of, folder, *lines)
    changed, stores = files(folder), list[MemoryStore]()

    async def undo() -> None:
        fill(folder, changed)
        stores.append(await stored(records))
        await undo_run(stores[-1], "run")

    for run in every_await(undo, again_after=()):
        assert run.left_running == (), run
        tags = [record.__struct_config__.tag for record in anyio.run(read_records, stores[-1], "run")]
        if tags[-1] == "undo.finished":
            assert files(folder) == {**BEFORE}
        else:
            assert files(folder) == changed, run
            assert isinstance(run.error, type(run.cause)), run


async def _records_of(folder: Path, *lines: Any) -> list[Record]:
    return await read_records(await work(folder, *lines), "run")


def test_an_older_version_refuses_a_run_that_was_undone() -> None:
    data = msgspec.json.decode(encode_record(UndoFinished(files=(), at=1.0)))
    assert data["format"] == FORMAT == 2
