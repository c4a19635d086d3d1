"""The built-in file tools, line by line of what they promise."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaveto.causes import Cancelled
from heaveto.errors import BadArguments, ToolError
from heaveto.scopes import Scope, tasks
from heaveto.tools import Call, file_tools
from heaveto.tools.files.edits import replace_once
from heaveto.tools.files.file_tools import edit_file, list_files, read_file, search_files, write_file
from heaveto.tools.files.kept import contents_of
from heaveto.tools.files.searching import MAX_LINE_CHARS, PatternTooSlow, open_searcher
from heaveto.tools.files.workspace import NotThere, hash_of
from heaveto.tools.protocol import Check, Tool


@pytest.fixture
def call(tmp_path: Path) -> Call:
    return Call(folder=tmp_path.resolve())


def put(call: Call, files: dict[str, str | bytes]) -> None:
    for name, content in files.items():
        path = call.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def content_of(call: Call, path: str) -> bytes:
    return (call.folder / path).read_bytes()


def test_names_effects_and_what_runs_alone() -> None:
    assert [(each.name, each.effect, each.alone) for each in file_tools()] == [
        ("list_files", "read", False),
        ("read_file", "read", False),
        ("search_files", "read", False),
        ("edit_file", "write", True),
        ("write_file", "write", True),
        ("apply_patch", "write", True),
        ("move_file", "write", True),
        ("delete_file", "write", True),
    ]
    for each in file_tools():
        assert each.description
        assert all(node["description"] for node in each.schema["properties"].values())
        assert "call" not in each.schema["properties"]


# --- list_files -----------------------------------------------------------------------------------------------------


def test_list_is_sorted_and_recursive(call: Call) -> None:
    put(call, {"b.py": "", "a/z.py": "", "a/b/c.txt": "", "a-b/x": "", ".env": ""})
    assert list_files(call).splitlines() == [".env", "a-b/x", "a/b/c.txt", "a/z.py", "b.py"]
    assert list_files(call, "a").splitlines() == ["a/b/c.txt", "a/z.py"]
    assert list_files(call, str(call.folder / "a/b")) == "a/b/c.txt"


def test_list_leaves_out_what_nobody_wrote(call: Call) -> None:
    """Git's own, caches, environments by name and by their marker, and our temporary files."""
    left_out = [".git/config", "__pycache__/a.pyc", "node_modules/x/i.js", ".venv/a", "env/pyvenv.cfg", "c/CACHEDIR.TAG"]
    put(call, dict.fromkeys([*left_out, "src/__pycache__/a.pyc", ".heaveto-1-0.tmp", "src/a.py"], ""))
    assert list_files(call) == "src/a.py"


def test_list_obeys_gitignore(call: Call) -> None:
    """Nested ones too, the nearest opinion counts, an ignored folder is not looked into, and nonsense is passed over."""
    put(
        call,
        {
            ".gitignore": "*.log\nbuild/\n/top.txt\n!\n",
            "sub/.gitignore": "!keep.log\n*.tmp\nbuild2\n",
            **dict.fromkeys(["a.log", "a.txt", "top.txt", "build/a.txt", "sub/build/b.txt"], ""),
            **dict.fromkeys(["sub/a.log", "sub/keep.log", "sub/b.tmp", "sub/top.txt", "sub/deep/c.tmp", "b.tmp"], ""),
            "sub/build2/.gitignore": "!*\n",
            "sub/build2/x": "",
        },
    )
    assert list_files(call).splitlines() == [
        ".gitignore", "a.txt", "b.tmp", "sub/.gitignore", "sub/keep.log", "sub/top.txt",
    ]  # fmt: skip
    assert list_files(call, "sub").splitlines() == ["sub/.gitignore", "sub/keep.log", "sub/top.txt"]
    assert list_files(call, "build") == "build/a.txt"  # asked for by name


def test_list_shows_links_that_stay_inside_once(call: Call) -> None:
    """Links to folders are not followed, so that a circle ends, and links that lead out are not shown."""
    put(call, {"src/a.py": ""})
    os.symlink("src/a.py", call.folder / "inside")
    os.symlink("/etc/passwd", call.folder / "outside")
    os.symlink("..", call.folder / "src" / "circle")
    os.symlink("nowhere", call.folder / "dangling")
    expected = ["inside", "src/a.py"] if os.uname().sysname == "Linux" else ["src/a.py"]
    assert list_files(call).splitlines() == expected


def test_list_is_bounded(call: Call) -> None:
    put(call, {f"{n:04}": "" for n in range(503)})
    lines = list_files(call).splitlines()
    assert len(lines) == 501
    assert lines[499:] == ["0499", "... 3 more; list a folder of it"]


def test_no_folder_is_too_deep(call: Call) -> None:
    """One that a test has made by mistake, say; the other files are found all the same, and so is the nearest name."""
    deep = "/".join("d" * 1500)
    put(call, {"a.py": "x = 1\n"})
    try:
        write_file(call, f"{deep}/b.py", "x = 2\n")
        assert list_files(call).split() == ["a.py", f"{deep}/b.py"]
        assert len(search_files(call, "x =").splitlines()) == 2
        with pytest.raises(NotThere, match="did you mean"):
            read_file(call, "b/a.py")
    finally:
        subprocess.run(["rm", "-rf", str(call.folder / "d")], check=True)  # pytest cannot: that recurses


def test_list_of_odd_places(call: Call) -> None:
    put(call, {"a.py": "", "src/main.py": ""})
    with pytest.raises(ToolError, match=r'"a.py" is a file; read_file shows it'):
        list_files(call, "a.py")
    with pytest.raises(NotThere, match=r'there is no "scr"; list_files shows what there is'):
        list_files(call, "scr")
    (call.folder / "empty").mkdir()
    assert list_files(call, "empty") == 'no files below "empty"'


def test_names_that_are_no_text(call: Call) -> None:
    """A line stays a line, and bytes that are no UTF-8 become a sign."""
    for name in (b"two\nlines", b"latin-\xe9"):
        (Path(os.fsdecode(os.fsencode(call.folder) + b"/" + name))).touch()
    assert list_files(call).splitlines() == ["latin-\ufffd", "two\ufffdlines"]


# --- read_file ------------------------------------------------------------------------------------------------------


def test_read_numbers_the_lines(call: Call) -> None:
    put(call, {"src/a.py": "one\n\ttwo\n\nfour"})
    assert read_file(call, "./src/a.py") == "src/a.py, lines 1-4 of 4\n1\tone\n2\t\ttwo\n3\t\n4\tfour"
    assert read_file(call, "src/a.py", 2, 3) == "src/a.py, lines 2-3 of 4\n2\t\ttwo\n3\t"
    assert read_file(call, "src/a.py", first_line=4, last_line=99) == "src/a.py, lines 4-4 of 4\n4\tfour"


def test_read_of_other_texts(call: Call) -> None:
    """An empty file, a byte order mark, CRLF; form feeds and U+2028 end no line."""
    put(call, {"empty": "", "bom": "\ufeffa\r\nb\r\n", "feed": "a\x0cb\u2028c\n"})
    assert read_file(call, "empty") == "empty, lines 0-0 of 0"
    assert read_file(call, "bom") == "bom, lines 1-2 of 2\n1\ta\n2\tb"
    assert read_file(call, "feed") == "feed, lines 1-1 of 1\n1\ta\x0cb\u2028c"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0,), "has 3 lines; first_line must be from 1 to 3, not 0"),
        ((4,), "first_line must be from 1 to 3, not 4"),
        ((2, 1), r"last_line must not be before first_line \(2\), and is 1"),
        ((1, 0), r"last_line must not be before first_line \(1\), and is 0"),
    ],
)
def test_read_of_a_wrong_range(call: Call, arguments: tuple[int, ...], words: str) -> None:
    put(call, {"a": "1\n2\n3\n"})
    with pytest.raises(ToolError, match=words):
        read_file(call, "a", *arguments)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x89PNG\r\n\x1a\n", r'"a" is a PNG image \(8 bytes\), not text; only UTF-8 text is read and edited'),
        (b"%PDF-1.7 text", "is a PDF document"),
        (b"PK\x03\x04rest", "is a ZIP archive"),
        (b"\x7fELF\x02", r"is a program \(ELF\)"),
        ("text".encode("utf-16"), "is UTF-16 text"),
        (b"ab\0cd", r"is binary data \(5 bytes\)"),
        (b"one\ncaf\xe9\n", r'"a" is not UTF-8 text: byte 0xe9 in line 2 \(Latin-1, perhaps\); convert it to UTF-8 first'),
    ],
)
def test_binary_and_other_encodings_are_refused(call: Call, data: bytes, words: str) -> None:
    """With their kind, for reading and for editing."""
    put(call, {"a": data})
    for attempt in (lambda: read_file(call, "a"), lambda: edit_file(call, "a", "t", "u")):
        with pytest.raises(ToolError, match=words):
            attempt()
    assert content_of(call, "a") == data


def test_read_says_how_to_read_on(call: Call) -> None:
    """A long file is cut at a line, and reading on as it says gives the rest, each line once."""
    put(call, {"long": "".join(f"line {n} {'x' * 90}\n" for n in range(1, 1001))})
    numbers: list[int] = []
    first = 1
    while first:
        header, *lines = read_file(call, "long", first).splitlines()
        going_on = re.fullmatch(r"\.\.\. cut after line (\d+); read on with first_line=(\d+)", lines[-1])
        if going_on:
            lines.pop()
        numbers += [int(line.split("\t")[0]) for line in lines]
        assert header == f"long, lines {first}-{numbers[-1]} of 1000"
        first = int(going_on[2]) if going_on else 0
    assert numbers == list(range(1, 1001))


def test_a_very_long_line_is_shortened(call: Call) -> None:
    put(call, {"long": "x" * 30_000 + "\nnext\n"})
    lines = read_file(call, "long").splitlines()
    assert lines[1] == "1\t" + "x" * 10_000 + " ... (20000 more characters)"
    assert lines[2] == "2\tnext"


def test_a_missing_file_names_the_nearest(call: Call) -> None:
    """By its name anywhere, else by its path, else not at all."""
    put(call, {"src/app/main.py": "", "README.md": ""})
    with pytest.raises(NotThere, match=r'there is no "main.py"; did you mean "src/app/main.py"\?'):
        read_file(call, "main.py")
    with pytest.raises(NotThere, match=r'there is no "src/app/mian.py"; did you mean "src/app/main.py"\?'):
        edit_file(call, "src/app/mian.py", "a", "b")
    with pytest.raises(NotThere, match=r'there is no "zzz"; list_files shows what there is'):
        read_file(call, "zzz")


# --- search_files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", ["def \\w+", "def f|def g", "(def) (f|g)"])
def test_search_finds_lines(call: Call, pattern: str) -> None:
    """The same whether the pattern is matched here or in a process of its own."""
    put(call, {"b.py": "x\ndef f():\r\n", "a/a.py": "  def g():\n", "c.bin": b"def f\0", "d.txt": b"def f \xe9\n"})
    assert search_files(call, pattern).splitlines() == [
        "a/a.py:1:   def g():", "b.py:2: def f():", "d.txt:1: def f \ufffd",
    ]  # fmt: skip
    assert search_files(call, pattern, "a") == "a/a.py:1:   def g():"
    assert search_files(call, pattern, "b.py") == "b.py:2: def f():"


@pytest.mark.parametrize("pattern", ["^$", "(a|b)*"])
def test_a_file_without_a_line_has_no_match(call: Call, pattern: str) -> None:
    put(call, {"a": "", "b": "\n"})
    assert search_files(call, pattern) == "b:1: "


@pytest.mark.parametrize("pattern", ["x", "x|x|x"])
def test_search_is_bounded(call: Call, pattern: str) -> None:
    put(call, {"a": "x\n" * 150, "b": "x\n" * 50})
    assert len(search_files(call, pattern).splitlines()) == 200
    put(call, {"b": "x\n" * 51})
    lines = search_files(call, pattern).splitlines()
    assert lines[199:] == ["b:50: x", "... more; narrow the pattern"]


@pytest.mark.parametrize("pattern", ["needle", "needle|nadel|ago"])
def test_search_without_a_match_and_with_long_lines(call: Call, pattern: str) -> None:
    """Lines that are too long are left out, and it says so."""
    put(call, {"a": "hay\n", "min.js": "needle" + "x" * MAX_LINE_CHARS})
    expected = "no matches\n(1 lines longer than 2000 characters were not searched)"
    assert search_files(call, pattern) == expected
    assert search_files(call, pattern, "a") == "no matches"


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("f(", r'the pattern "f\(" is wrong at position 1: .*; escape what is meant as text'),
        ("a**", "is wrong at position 2"),
        ("[z-a]", "is wrong at position 1"),
        ("a{99999999999}", "is too large"),
    ],
)
def test_bad_patterns(call: Call, pattern: str, words: str) -> None:
    with pytest.raises(ToolError, match=words):
        search_files(call, pattern)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(a?){40}a{40}$"])
def test_a_catastrophic_pattern_ends(pattern: str) -> None:
    """In its time, by name of the file; the process that matched is gone."""
    started = time.monotonic()
    says = r'took more than 0.2 s and was stopped in "slow"; use a simpler one'
    with open_searcher(pattern, 10, seconds=0.2) as searcher, pytest.raises(PatternTooSlow, match=says):
        searcher.find("slow", ["a" * 60 + "!"], 10)
    assert time.monotonic() - started < 5
    assert searcher._child.returncode is not None  # type: ignore[attr-defined]


@pytest.mark.anyio
async def test_a_stop_ends_a_search(call: Call) -> None:
    """Also one that hangs in a single match: the thread is not abandoned, the process is gone."""
    put(call, {"a": "a" * 60 + "!\n"})
    before = set(threading.enumerate())

    async def search_until_stopped() -> None:
        with Scope() as scope:
            async with tasks() as group:
                group.start_soon(search_files.run, call, {"pattern": "(a+)+$"})
                await anyio.sleep(0.2)
                scope.cancel(Cancelled("enough"))

    started = time.monotonic()
    with pytest.raises(Cancelled, match="enough"):
        await search_until_stopped()
    assert time.monotonic() - started < 5
    for thread in set(threading.enumerate()) - before:
        if thread.name.startswith("heaveto:"):
            thread.join(5)
            assert not thread.is_alive()


# --- edit_file ------------------------------------------------------------------------------------------------------


def test_edit(call: Call) -> None:
    """Any number of lines; the result says where and how many."""
    put(call, {"a.py": "one\ntwo\nthree\nfour\n"})
    assert edit_file(call, "a.py", "two\nthree\n", "2\n") == "edited a.py, line 2: 2 lines replaced by 1"
    assert content_of(call, "a.py") == b"one\n2\nfour\n"
    assert edit_file(call, "a.py", "ou", "OU") == "edited a.py, line 3: 1 line replaced by 1"
    assert edit_file(call, "a.py", "2\n", "") == "edited a.py, line 2: 1 line replaced by 0"
    assert content_of(call, "a.py") == b"one\nfOUr\n"


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\nc\r\n"),
        (b"a\r\nb\r\n", "a", "x\ny", b"x\r\ny\r\nb\r\n"),
        (b"a\r\nb\r\n", "a\r\nb", "x\r\ny", b"x\r\ny\r\n"),
        (b"a\nb\n", "a\r\nb", "x\r\ny", b"x\ny\n"),
        (b"\xef\xbb\xbfa\r\nb", "a\nb", "x\n", b"\xef\xbb\xbfx\r\n"),
        (b"a\nb\r\nc\nd\ne\n", "b\nc", "x\ny", b"a\nx\r\ny\nd\ne\n"),
        ("é\n\u2028\n".encode(), "é", "ü", "ü\n\u2028\n".encode()),
    ],
)
def test_edit_keeps_line_ends_and_encoding(call: Call, before: bytes, old: str, new: str, after: bytes) -> None:
    """Written with plain line feeds, matched and put as the file has them."""
    put(call, {"a": before})
    edit_file(call, "a", old, new)
    assert content_of(call, "a") == after


def test_edit_keeps_the_mode(call: Call) -> None:
    put(call, {"run.sh": "#!/bin/sh\necho a\n"})
    (call.folder / "run.sh").chmod(0o750)
    edit_file(call, "run.sh", "echo a", "echo b")
    assert (call.folder / "run.sh").stat().st_mode & 0o7777 == 0o750


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("", "x", '"old" is empty; give the text to replace, or use write_file for a whole file'),
        ("return 1", "return 1", '"old" and "new" are the same; there is nothing to change'),
        ("x", "y", '"old" is in "a.py" 3 times, at lines 1, 4, 5; add lines around it until one fits'),
        ("return  1", "", '"old" is not in "a.py"; the nearest lines are:\n2\t    return 1'),
        ("return 1\nreturn 3", "", '"old" is not in "a.py"; only its first line, up to spaces, is there:\n2\t    return 1'),
        ("2\t    return 1", "", '"old" is not in "a.py"; leave the line numbers of read_file out of it'),
        ("zzzzzzzzzzzz", "", '"old" is not in "a.py"; no line of it is like its first one; read the file again'),
    ],
)
@pytest.mark.anyio
async def test_edits_that_do_not_fit(call: Call, old: str, new: str, words: str) -> None:
    """Refused before anything began, by the plan, and by the call itself with the same words."""
    put(call, {"a.py": "def f(x):\n    return 1\n\nx = 1\nx = 2\n"})
    arguments = {"path": "a.py", "old": old, "new": new}
    for attempt in (edit_file.plan, edit_file.run):
        with pytest.raises(ToolError) as caught:
            await attempt(call, arguments)
        assert str(caught.value) == words
    assert content_of(call, "a.py").startswith(b"def f(x):\n    return 1\n")


def test_overlapping_matches_are_several() -> None:
    with pytest.raises(ToolError, match='"old" is in "a" 2 times, at lines 1; '):
        replace_once("a", "aaa", "aa", "b")


@given(st.text("ab\n", max_size=12), st.text("ab\n", min_size=1, max_size=4), st.text("ab\n", max_size=4), st.booleans())
def test_an_edit_replaces_exactly_one_place(text: str, old: str, new: str, crlf: bool) -> None:
    """As `str.replace` does it where there is one place, whatever the ends of line; all else is refused."""
    shown = text.replace("\n", "\r\n") if crlf else text
    places = sum(text.startswith(old, at) for at in range(len(text)))
    if places == 1 and old != new:
        edited = replace_once("a", shown, old, new)
        assert edited.text.replace("\r\n", "\n") == text.replace(old, new)
        assert edited.line == text[: text.index(old)].count("\n") + 1
        assert "\r" not in edited.text or "\n" not in edited.text.replace("\r\n", "")
    else:
        with pytest.raises(ToolError):
            replace_once("a", shown, old, new)


# --- write_file -----------------------------------------------------------------------------------------------------


def test_write(call: Call) -> None:
    """Creates with its folders, or replaces all of it, exactly as given."""
    assert write_file(call, "a/b/c.txt", "one\ntwo") == "wrote a/b/c.txt: 2 lines"
    assert content_of(call, "a/b/c.txt") == b"one\ntwo"
    assert write_file(call, "a/b/c.txt", "") == "wrote a/b/c.txt: 0 lines"
    assert write_file(call, "a/b/c.txt", "x\r\n\ud83d") == "wrote a/b/c.txt: 2 lines"
    assert content_of(call, "a/b/c.txt") == "x\r\n\ufffd".encode()
    with pytest.raises(ToolError, match='"a/b" is a folder'):
        write_file(call, "a/b", "x")
    with pytest.raises(ToolError, match="belongs to git"):
        write_file(call, ".git/hooks/pre-commit", "x")


# --- plan, run, check -----------------------------------------------------------------------------------------------

EDIT: dict[str, Any] = {"path": "a", "old": "1", "new": "2"}
WRITE: dict[str, Any] = {"path": "a", "content": "2\n"}
NEW: dict[str, Any] = {"path": "new/a", "content": "2\n"}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("tool", "arguments", "before", "result"),
    [
        (edit_file, EDIT, b"1\n", "edited a, line 1: 1 line replaced by 1"),
        (write_file, WRITE, b"1\n", "wrote a: 1 line"),
        (write_file, NEW, None, "wrote new/a: 1 line"),
    ],
)
async def test_plan_run_and_check(call: Call, tool: Tool, arguments: Any, before: bytes | None, result: str) -> None:
    """The plan has the hashes and begins nothing; the check tells done from not done from neither."""
    put(call, {"a": "1\n"})
    path = call.folder / arguments["path"]
    facts = await tool.plan(call, arguments)
    (change,) = facts["changes"]
    hashes = {"path": arguments["path"], "before": hash_of(before), "after": hash_of(b"2\n")}
    assert facts == {**hashes, "result": result, "changes": [change]}
    assert {name: change[name] for name in hashes} == hashes
    assert set(contents_of(facts).values()) == {before, b"2\n"} - {None}
    assert json.loads(json.dumps(facts)) == facts
    assert content_of(call, "a") == b"1\n"
    assert not (call.folder / "new").exists()

    planned = Call(folder=call.folder, facts=facts)
    assert await tool.check(planned, arguments) == Check("not_done", f'"{arguments["path"]}" is as it was')
    assert await tool.run(planned, arguments) == result
    assert path.read_bytes() == b"2\n"
    assert await tool.check(planned, arguments) == Check("done", result)

    path.write_bytes(b"3\n")
    check = await tool.check(planned, arguments)
    assert check is not None
    assert check.verdict == "unknown"
    assert re.search(r"is different \(SHA-256 [0-9a-f]{12}\.\.\.\): neither as it was nor as the call", check.text)

    path.unlink()
    check = await tool.check(planned, arguments)
    assert check is not None
    assert check.verdict == ("unknown" if before else "not_done")

    path.mkdir()
    assert await tool.check(planned, arguments) == Check(
        "unknown", f'"{arguments["path"]}" is a folder; name a file in it, list_files shows them'
    )


@pytest.mark.anyio
async def test_no_facts_no_verdict(call: Call) -> None:
    assert await edit_file.check(call, EDIT) is None


@pytest.mark.anyio
@pytest.mark.parametrize(("tool", "arguments"), [(edit_file, EDIT), (write_file, WRITE)])
async def test_a_change_between_plan_and_run_is_refused(call: Call, tool: Tool, arguments: Any) -> None:
    """Someone else's content stays, even where the edit would still fit."""
    put(call, {"a": "1\n"})
    planned = Call(folder=call.folder, facts=await tool.plan(call, arguments))
    put(call, {"a": "1\nmore\n"})
    with pytest.raises(ToolError, match='"a" was changed since this call was planned; read it again'):
        await tool.run(planned, arguments)
    assert content_of(call, "a") == b"1\nmore\n"


@pytest.mark.anyio
async def test_a_file_that_appeared_or_went_between_plan_and_run(call: Call) -> None:
    planned = Call(folder=call.folder, facts=await write_file.plan(call, WRITE))
    put(call, {"a": "theirs"})
    with pytest.raises(ToolError, match="was changed since this call was planned"):
        await write_file.run(planned, WRITE)
    assert content_of(call, "a") == b"theirs"
    planned = Call(folder=call.folder, facts=await write_file.plan(call, WRITE))
    (call.folder / "a").unlink()
    with pytest.raises(ToolError, match="was changed since this call was planned"):
        await write_file.run(planned, WRITE)


def test_concurrent_edits_lose_nothing(call: Call) -> None:
    """Four editors of one file, twenty-five edits each, every one a line of its own."""
    put(call, {"a": "".join(f"line {editor}:0.\n" for editor in range(4))})

    def edit(editor: int) -> None:
        for n in range(25):
            edit_file(call, "a", f"line {editor}:{n}.", f"line {editor}:{n + 1}.")

    editors = [threading.Thread(target=partial(edit, n)) for n in range(4)]
    for editor in editors:
        editor.start()
    for editor in editors:
        editor.join()
    assert content_of(call, "a").decode() == "".join(f"line {editor}:25.\n" for editor in range(4))
    assert os.listdir(call.folder) == ["a"]


@pytest.mark.anyio
@pytest.mark.parametrize("moment", range(6))
async def test_stopped_in_the_middle(call: Call, moment: int) -> None:
    """Whenever the stop comes, the file is whole, the check tells which, and no temporary file is left."""
    before, after = "1" + "x" * 3_000_000, "2" + "x" * 3_000_000
    put(call, {"a": before})
    planned = Call(folder=call.folder, facts=await edit_file.plan(call, EDIT))

    async def edit_until_stopped() -> None:
        with Scope(quiet=True) as scope:
            async with tasks() as group:
                group.start_soon(edit_file.run, planned, EDIT)
                await anyio.sleep(moment * 0.006)
                scope.cancel(Cancelled("enough"))

    await edit_until_stopped()
    for thread in threading.enumerate():
        if thread.name == "heaveto:edit_file":
            await anyio.to_thread.run_sync(thread.join)
    now = content_of(call, "a").decode()
    assert now in (before, after)
    check = await edit_file.check(planned, EDIT)
    assert check is not None
    assert check.verdict == ("done" if now == after else "not_done")
    assert os.listdir(call.folder) == ["a"]


def test_the_models_arguments(call: Call) -> None:
    """What the tools take, as the model sends it."""
    assert read_file.parse('{"path": "a", "first_line": 2}') == {"path": "a", "first_line": 2}
    with pytest.raises(BadArguments, match='missing field "new"'):
        edit_file.parse('{"path": "a", "old": "b"}')
    assert list_files.parse("") == {}
