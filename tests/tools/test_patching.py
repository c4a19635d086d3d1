"""`apply_patch`: several files as one, what is refused and in which words, and what becomes of a patch that was cut off."""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaveto.errors import OutcomeUnknown, ToolError
from heaveto.journal import MemoryStore
from heaveto.journal.records import ToolResolved
from heaveto.runs import Agent, read_records
from heaveto.testing import every_await
from heaveto.testing.scripted_model import calls, scripted
from heaveto.tools import Call, file_tools
from heaveto.tools.files.hunks import apply_hunks
from heaveto.tools.files.patch_format import parse_patch
from heaveto.tools.files.patching import apply_patch
from heaveto.tools.protocol import Check

APP = "import os\n\n\nclass A:\n    def run(self):\n        pass\n\n\nclass B:\n    def run(self):\n        pass\n"
BEFORE = {"app.py": APP, "dos.txt": "one\r\ntwo\r\n", "old.txt": "old", "gone.txt": "gone\n"}
PATCH = """\
*** Begin Patch
*** Update File: app.py
@@ class B:
@@     def run(self):
-        pass
+        return os.name
*** Update File: dos.txt
 one
-two
+2
+3
*** Add File: new/deep.txt
+first

+third
*** Delete File: gone.txt

*** Update File: old.txt
*** Move to: new/moved.txt
@@
-old
+new
*** End Patch
"""
AFTER = {
    "app.py": APP[: -len("pass\n")] + "return os.name\n",
    "dos.txt": "one\r\n2\r\n3\r\n",
    "new/deep.txt": "first\n\nthird\n",
    "new/moved.txt": "new",
}
SAID = """\
patched 5 files
edited app.py: 1 added, 1 removed
edited dos.txt: 2 added, 1 removed
added new/deep.txt: 3 lines
deleted gone.txt
moved old.txt to new/moved.txt: 1 added, 1 removed"""


@pytest.fixture
def call(tmp_path: Path) -> Call:
    put(tmp_path, BEFORE)
    (tmp_path / "old.txt").chmod(0o751)
    return Call(folder=tmp_path.resolve(), call_id="call_1")


def put(folder: Path, files: Mapping[str, str]) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())


def files(call: Call) -> dict[str, str]:
    found = (path for path in call.folder.rglob("*") if path.is_file())
    return {str(path.relative_to(call.folder)): path.read_bytes().decode() for path in found}


def patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def planned(call: Call, text: str = PATCH) -> Call:
    return replace(call, facts=anyio.run(apply_patch.plan, call, {"patch": text}))


def look(call: Call) -> Check:
    seen = anyio.run(apply_patch.check, call, {"patch": PATCH})
    assert seen is not None
    return seen


def test_all_kinds_of_change_are_made_as_one_with_line_ends_and_modes(call: Call) -> None:
    begun = planned(call)
    assert files(call) == BEFORE
    assert look(begun) == Check("not_done", "all files are as they were")
    assert apply_patch(begun, PATCH) == SAID
    assert files(call) == AFTER
    assert stat.S_IMODE((call.folder / "new/moved.txt").stat().st_mode) == 0o751
    assert look(begun) == Check("done", SAID)


def app(*lines: str) -> str:
    return patch("*** Update File: app.py", *lines)


WRONG = [
    ("hello", 'the patch does not begin with "*** Begin Patch"; it looks like'),
    ("*** Begin Patch\n*** Delete File: app.py", 'the patch does not end with "*** End Patch"'),
    (patch("--- a/app.py"), 'line 2 of the patch is "--- a/app.py"; want "*** Update File: path"'),
    (patch("*** Update File: app.py"), "has no change"),
    (app(" import os"), 'line 3 of the patch has no line that begins with "-" or "+"'),
    (
        app("*import os"),
        'line 3 of the patch is "*import os"; a line of a change begins with " "',
    ),
    (patch("*** Add File: x", "text"), 'line 3 of the patch is "text"; each line of a new file begins with "+"'),
    (patch("*** Delete File: app.py", "-import os"), "comes the next file"),
    (app("-import os", "*** Move to: b.py"), "comes right after"),
    (patch("*** Update File: ap.py", "-import os"), 'there is no "ap.py"; did you mean "app.py"?'),
    (patch("*** Delete File: none/x.txt"), 'there is no "none/x.txt"'),
    (patch("*** Add File: app.py", "+x"), 'there is a "app.py" already; update it'),
    (patch("*** Update File: old.txt", "*** Move to: app.py"), 'there is a "app.py" already'),
    (patch("*** Add File: ../x", "+x"), 'has ".." in it'),
    (patch("*** Add File: .git/hooks/pre-commit", "+x"), "belongs to git"),
    (patch("*** Delete File: app.py", "*** Delete File: ./app.py"), '"app.py" is in the patch twice'),
    (app("-import os", "+import os"), 'the changes of "app.py" leave it as it is'),
    (app("+x"), "only adds lines and does not say where"),
    (app("-        pass"), "matches at lines 6, 11; add lines around it"),
    (app("@@ def run(self):", "-        pass"), 'which is at lines 5, 10; put "@@"'),
    (
        app("@@ class C:", "-        pass"),
        'no such line follows; the nearest line is "class B:"',
    ),
    (app("-import sys"), 'differs at line 1, where the patch has "import sys":\n1\timport os'),
    (
        app(" class A:", "-    def walk(self):"),
        'line 5, where the patch has "    def walk(self):"',
    ),
    (
        app("-\timport os"),
        'differs at line 1, where the patch has "\timport os":\n1\timport os',
    ),
    (app("-zzzzzzz"), "none of its lines is in the file; read it again"),
    (app("@@", "-class B:", "@@", "-class A:"), "its lines are at line 4, above the place"),
    (app("-class A:", "*** End of File"), "its lines are at line 4, which is not the end"),
]


@pytest.mark.parametrize(("text", "words"), WRONG)
def test_what_is_wrong_is_said_and_nothing_is_changed(call: Call, text: str, words: str) -> None:
    good = "*** Begin Patch\n*** Update File: dos.txt\n-two\n+2\n"
    both = text.replace("*** Begin Patch\n", good, 1)
    for each in (text, both):
        with pytest.raises(ToolError) as caught:
            apply_patch(call, each)
        assert words in str(caught.value) or each is both
    assert files(call) == BEFORE


def test_a_patch_of_nothing_is_refused(call: Call) -> None:
    with pytest.raises(ToolError, match="the patch is empty; it looks like"):
        planned(call, patch())
    with pytest.raises(ToolError, match="has 51 files, and 50 is the most"):
        planned(call, patch(*(f"*** Delete File: {number}" for number in range(51))))


def test_a_change_since_the_plan_is_refused_and_kept(call: Call) -> None:
    begun = planned(call)
    (call.folder / "dos.txt").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    with pytest.raises(ToolError, match=r'"dos\.txt" was changed since this call was planned'):
        apply_patch(begun, PATCH)
    assert files(call) == BEFORE | {"dos.txt": "one\r\ntwo\r\nthree\r\n"}


def test_what_could_not_be_put_back_is_patched_alone(call: Call) -> None:
    (call.folder / ".env").write_text("A=b\n")
    alone = ("*** Update File: .env", "-A=b", "+A=c")
    with pytest.raises(ToolError, match=r'"\.env" cannot be changed together with others, since a file of that name holds'):
        planned(call, patch(*alone, "*** Delete File: app.py"))
    assert apply_patch(planned(call, patch(*alone)), patch(*alone)).startswith("patched 1 file\n")


@pytest.mark.parametrize("made", range(1, 6))
def test_of_a_patch_that_was_cut_off_the_made_part_is_taken_back(call: Call, made: int) -> None:
    begun = planned(call)
    names = [*AFTER, "old.txt", "gone.txt"]
    half = {name: (AFTER if at < made else BEFORE).get(name) for at, name in enumerate(names)}
    put(call.folder, {name: text for name, text in half.items() if text is not None})
    assert look(begun).verdict == "unknown"
    assert '"app.py" is changed' in look(begun).text
    undo = apply_patch.recovery.undo
    assert undo is not None
    assert anyio.run(undo, begun, {}).startswith("put back: app.py")
    assert files(call) == BEFORE
    assert anyio.run(undo, begun, {}) == "put back: nothing"
    (call.folder / "app.py").write_text("theirs")
    with pytest.raises(ToolError, match=r"changed since by someone else: app\.py"):
        anyio.run(undo, begun, {})


@pytest.mark.anyio
async def test_the_ladder_takes_a_half_made_patch_back_and_makes_it_again(call: Call) -> None:
    """As after a kill between two files: the result never came, and only some are changed."""
    store, killed = MemoryStore(), []

    def lines() -> Any:
        return scripted(calls(("apply_patch", {"patch": PATCH})), "done")

    agent = Agent(model=lines(), tools=file_tools(), store=store, folder=call.folder)
    await agent.run("go", run_id="whole")
    for entry in await store.read("whole"):
        killed.append(entry.body)
        if b'"tool.started"' in entry.body:
            break
    summary = (await store.runs())[0].summary
    await store.create("half", "", _renamed(killed), summary)
    put(call.folder, {**BEFORE, "app.py": AFTER["app.py"]})
    resumed = Agent(model=scripted("done"), tools=file_tools(), store=store, folder=call.folder)
    await resumed.resume("half")
    assert files(call) == AFTER
    rungs = [(each.by, each.verdict) for each in await read_records(store, "half") if isinstance(each, ToolResolved)]
    assert rungs == [("undo", "again")]


def _renamed(bodies: list[bytes]) -> list[bytes]:
    """Another run's records, without their seals."""
    return [body.rpartition(b"\n")[0].replace(b'"run_id":"whole"', b'"run_id":"half"') for body in bodies]


def test_where_going_back_fails_too_the_outcome_is_unknown(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    from heaveto.tools.files import together

    real = together.place_temp

    def place(folder: int, temp: str, name: str, seen: Any) -> bool:
        if name == "dos.txt":
            (call.folder / "app.py").write_text("theirs")
            raise OSError(28, "no space left on device")
        return real(folder, temp, name, seen)

    monkeypatch.setattr(together, "place_temp", place)
    with pytest.raises(OutcomeUnknown, match=r"these could not be changed back: app\.py"):
        apply_patch(planned(call), PATCH)
    assert (call.folder / "app.py").read_text() == "theirs"


def test_a_stop_at_any_await_makes_all_or_none(call: Call) -> None:
    async def whole() -> str:
        put(call.folder, BEFORE)
        await apply_patch.plan(call, {"patch": PATCH})
        return await apply_patch.run(call, {"patch": PATCH})

    for run in every_await(whole, again_after=()):
        assert run.left_running == (), run
        assert files(call) in (BEFORE, AFTER), run
        assert files(call) == AFTER or isinstance(run.error, type(run.cause)), run


def test_a_file_keeps_its_last_line_without_an_end() -> None:
    (file,) = parse_patch(patch("*** Update File: a", "-old", "+new", "+newer"))
    assert apply_hunks("a", "old", file.hunks) == "new\nnewer"
    (file,) = parse_patch(patch("*** Update File: a", " old", "+new", "*** End of File"))
    assert apply_hunks("a", "old", file.hunks) == "old\nnew"
    (file,) = parse_patch(patch("*** Update File: a", "+first"))
    assert apply_hunks("a", "", file.hunks) == "first\n"


text_lines = st.lists(st.sampled_from(["a", "b", "", " a", "\ta", "+", "-", "@@ x", "*** x"]), max_size=12)


@given(before=text_lines, after=text_lines, end=st.sampled_from(["\n", "\r\n"]))
def test_a_diff_of_any_two_texts_makes_one_of_the_other(before: list[str], after: list[str], end: str) -> None:
    """With all lines around each change, so that its place is clear."""
    before = [f"{line} {at}" if line else "" for at, line in enumerate(before)]
    body = [line for line in difflib.ndiff(before, after) if not line.startswith("?")]
    lines = [(line[0] + line[2:]) or " " for line in body]
    if before == after or not before:
        return
    (file,) = parse_patch(patch("*** Update File: a", "@@", *lines, "*** End of File"))
    text = "".join(line + end for line in before)
    assert apply_hunks("a", text, file.hunks) == "".join(line + end for line in after)


def test_links_and_special_files_are_refused(call: Call) -> None:
    (call.folder / "link").symlink_to("app.py")
    os.link(call.folder / "dos.txt", call.folder / "hard")
    os.mkfifo(call.folder / "fifo")
    for name in ("link", "hard", "fifo"):
        with pytest.raises(ToolError):
            apply_patch(call, patch(f"*** Delete File: {name}", "*** Delete File: app.py"))
    assert (call.folder / "app.py").read_text() == APP
