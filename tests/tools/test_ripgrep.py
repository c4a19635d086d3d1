"""A search with ripgrep finds what one without it finds; what it looks for is never less than what Python's `re` does."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from heaveto.causes import Cancelled
from heaveto.scopes import Scope, tasks
from heaveto.tools import Call
from heaveto.tools.files.file_tools import _search, search_files
from heaveto.tools.files.ripgrep import FIRST_FILES, find_ripgrep, likely_files, widen
from heaveto.tools.files.searching import MAX_LINE_CHARS, open_searcher
from heaveto.tools.files.tree import walk_files
from heaveto.tools.files.workspace import Parts, Workspace

PIECES = (
    "a", "b", "K", "s", " ", "_", "7", "\\.", ".", "\\w", "\\W", "\\d", "\\D", "\\s", "\\S", "[ab]", "[^a]",
    "[^\\W\\d]", "[k-s]", "\\x00", "\\r", "\\t", "é", "ſ", "\u212a", "\ufffd", "[é-ü]", "[^é]", "^", "$", "\\b",
    "\\B", "\\A", "\\Z", "(?!a)", "(?=b)", "(?<=a)", "(?<!b)", "(a|b)\\1", "(?P<n>.)(?P=n)", "(a)?(?(1)b|s)",
    "(?i:k)", "(?i:s)", "(?a:\\w)", "(?-i:K)", "(?s:.)", "[\\n]", "(?>a|ab)", "a++",
)  # fmt: skip
REPEATS = ("*", "+", "?", "*?", "+?", "{2}", "{0,3}", "{2,}", "{30}", "{0}")
atoms = st.sampled_from(PIECES)
expressions = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda each: f"(?:{'|'.join(each)})"),
        st.tuples(inner, st.sampled_from(REPEATS)).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
        inner.map(lambda each: f"(?:{each})"),
    ),
    max_leaves=5,
)
patterns = (
    st.tuples(st.sampled_from(["", "", "(?i)", "(?a)", "(?ai)", "(?m)"]), expressions)
    .map("".join)
    .filter(lambda each: compiles(each))
)
ascii_lines = st.text(st.sampled_from("aAbBkKsS7_ .\t\r\0!"), max_size=40)
contents = st.one_of(
    st.lists(st.text(st.sampled_from("aAbBkKsS7_ .\t\r\n!"), max_size=12), max_size=4).map(
        lambda lines: "\n".join(lines).encode()
    ),
    st.text(st.sampled_from("abkKs \r\néſ\u212a\ufffd\u2028\x85\x0b"), max_size=12).map(str.encode),
    st.lists(st.sampled_from([b"a", b"b", b"\n", b"\xe9", b"\xff", b"\xc3", b"\0", b"k", b"\xef\xbb\xbf"]), max_size=12).map(
        b"".join
    ),
    st.sampled_from(["utf-16", "utf-16-le", "utf-8-sig", "latin-1"]).map("abé ks".encode),
    st.integers(-1, 1).map(lambda more: b"a" * (MAX_LINE_CHARS + more) + b"\r\nb"),
    st.just(b"\0" * 9_000 + b"\nab"),
    st.just(b"x\n" * 5_000 + b"\0ab ks\n"),
)
names = st.sampled_from(["a", "-l", "--", ".hidden", "b c", "n\nl", "sub/-e", "sub/*", "é", "[ab]", ".rgignore", "z.gz"])


def compiles(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


@pytest.fixture(scope="module")
def ripgrep() -> str:
    program = find_ripgrep()
    if program is None:
        pytest.skip("no ripgrep")
    return program


@pytest.fixture(scope="module")
def emptied() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder).resolve()


def search(folder: Path, pattern: str, paths: list[Parts], *, first: int) -> tuple[list[str], int]:
    with open_searcher(pattern, 201) as searcher:
        return _search(Workspace(folder), searcher, likely_files(folder, pattern, paths, first))


# --- the pattern ----------------------------------------------------------------------------------------------------


@settings(max_examples=500)
@given(patterns, ascii_lines)
@example("(?i)\u212a", "k")
@example("(?i)ſ", "S")
@example("a(?!b)", "ac")
@example("(a|b)x\\1", "bxb")
def test_what_ripgrep_looks_for_is_never_less(pattern: str, line: str) -> None:
    wider = widen(pattern)
    if wider is not None and re.search(pattern, line):
        assert re.search(wider, line), wider


@pytest.mark.parametrize("pattern", ["", "a*", "^", "$", "\\b", "(?=a)", "a|", "(?:)", "x{0}", "(a|)\\1"])
def test_a_pattern_that_is_in_every_line_leaves_nothing_out(pattern: str) -> None:
    assert widen(pattern) is None


def test_what_stands_for_a_pattern() -> None:
    """Sets of ASCII, as Python has them."""
    assert widen("a\\d") == "[\\x61-\\x61][\\x30-\\x39]"
    assert widen("^(?i:k)$") == "(?:[\\x4b-\\x4b\\x6b-\\x6b])"
    assert widen("éx|a") == "(?:[\\x80-\\xff][\\x78-\\x78]|[\\x61-\\x61])"
    assert widen("a(?!b)(?<=a)\\b") == "[\\x61-\\x61]"
    assert widen("(.)\\1") == "(?:[\\x00-\\x09\\x0b-\\x7f])[\\x00-\\x09\\x0b-\\x7f]*"
    assert widen("a{3,500}") == "(?:[\\x61-\\x61]){3,}"


# --- the search -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("ripgrep")
@settings(max_examples=150)
@given(patterns, st.dictionaries(names, contents, min_size=1, max_size=5))
@example("k.s", {"a": b"k\xe9s"})
@example("b", {"a": b"a" * (MAX_LINE_CHARS + 1)})
def test_both_find_the_same(emptied: Path, pattern: str, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        path = emptied / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    paths: list[Parts] = sorted(tuple(name.split("/")) for name in files)
    assert search(emptied, pattern, paths, first=0) == search(emptied, pattern, paths, first=len(paths))


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A folder with more files than are read before ripgrep is asked."""
    folder = (tmp_path / "many").resolve()
    for number in range(FIRST_FILES + 40):
        path = folder / f"d{number // 50}" / f"f{number:03}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"straw\n" + (b"a needle\r\n" if number % 110 == 1 else b""))
    (folder / "d9").mkdir()
    (folder / "d9" / ".gitignore").write_text("left.py\n")
    for name in ("left.py", ".seen.py", "latin.py", "wide.py"):
        (folder / "d9" / name).write_bytes({"latin.py": b"\xe9 needle\n", "wide.py": b"x" * 2_001}.get(name, b"needle\n"))
    (folder / "d9" / "utf16.py").write_text("straw", "utf-16")
    (folder / "d9" / "link.py").symlink_to("../d0/f001.py")
    return folder


@pytest.mark.usefixtures("ripgrep")
@pytest.mark.parametrize("pattern", ["needle", "n[e]+dle|nothing", "straw", "(?i)NEEDLE$", "nothing"])
def test_the_tool_says_the_same_with_and_without(many: Path, pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call = Call(folder=many, hides=lambda path: path.endswith("f331.py"))
    answer = search_files(call, pattern)
    monkeypatch.setenv("PATH", "")
    assert find_ripgrep(many) is None
    assert search_files(call, pattern) == answer


@pytest.mark.usefixtures("ripgrep")
def test_files_are_left_out(many: Path) -> None:
    paths = sorted(walk_files(Workspace(many)))
    likely = ["/".join(parts) for parts in likely_files(many, "needle", paths)][FIRST_FILES:]
    assert likely == ["d6/f331.py", "d9/.seen.py", "d9/latin.py", "d9/link.py", "d9/utf16.py", "d9/wide.py"]


@pytest.mark.usefixtures("ripgrep")
def test_a_file_that_cannot_be_read_leaves_nothing_out(many: Path) -> None:
    paths = [*sorted(walk_files(Workspace(many))), ("gone",)]
    assert list(likely_files(many, "needle", paths)) == paths


@pytest.mark.usefixtures("ripgrep")
def test_paths_that_fill_several_commands(tmp_path: Path) -> None:
    """More than one may have as arguments; each file is named by the same path over and over."""
    (tmp_path / "a").write_bytes(b"needle")
    (tmp_path / "b").write_bytes(b"straw")
    paths: list[Parts] = [(*["."] * 40, name) for name in ("a", "b")] * 15_000
    assert list(likely_files(tmp_path, "needle", paths, first=0)) == paths[::2]


# --- the program ----------------------------------------------------------------------------------------------------


def put_program(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


ANSWERS = 'if [ "$1" = --version ]; then echo "ripgrep 14.1.0"; exit; fi'


@pytest.mark.parametrize("linked", [False, True])
def test_a_program_inside_the_folder_is_never_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, linked: bool) -> None:
    folder, mark = tmp_path / "project", tmp_path / "started"
    put_program(folder / "bin" / "rg", f'touch "{mark}"; {ANSWERS}')
    place = folder / "bin"
    if linked:
        place = tmp_path / "elsewhere"
        place.mkdir()
        (place / "rg").symlink_to(folder / "bin" / "rg")
    monkeypatch.setenv("PATH", f"{place}{os.pathsep}bin{os.pathsep}")
    monkeypatch.chdir(folder)
    assert find_ripgrep(folder) is None
    assert not mark.exists()
    assert find_ripgrep(tmp_path / "other") == str(place / "rg")  # so it is the folder that keeps it out


def test_one_inside_the_folder_does_not_hide_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "project"
    put_program(folder / "rg", ANSWERS)
    put_program(tmp_path / "bin" / "rg", ANSWERS)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}.{os.pathsep}{tmp_path / 'bin'}")
    assert find_ripgrep(folder) == str(tmp_path / "bin" / "rg")


@pytest.mark.parametrize("says", ["rg 1.0: Ruby's", "ripgrep 11.0.2", ""])
def test_another_program_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    put_program(tmp_path / "rg", f'echo "{says}"')
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_ripgrep() is None


def test_one_that_fails_leaves_nothing_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_program(tmp_path / "bin" / "rg", f"{ANSWERS}\nexit 2")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    folder = tmp_path / "project"
    folder.mkdir()
    assert list(likely_files(folder, "needle", [("a",)], first=0)) == [("a",)]
    put_program(tmp_path / "bin" / "rg", f"{ANSWERS}\nexit 1")
    assert list(likely_files(folder, "needle", [("a",)], first=0)) == []


@pytest.mark.anyio
async def test_a_stop_ends_the_program(many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = tmp_path / "pid"
    sleep = shutil.which("sleep")
    put_program(tmp_path / "bin" / "rg", f'{ANSWERS}\necho $$ > "{pid}.new"; /bin/mv "{pid}.new" "{pid}"; exec {sleep} 60')
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    before = set(threading.enumerate())

    async def search_until_stopped() -> None:
        with Scope() as scope:
            async with tasks() as group:
                group.start_soon(search_files.run, Call(folder=many), {"pattern": "needle"})
                while not pid.exists():
                    await anyio.sleep(0.01)
                scope.cancel(Cancelled("enough"))

    started = time.monotonic()
    with pytest.raises(Cancelled, match="enough"):
        await search_until_stopped()
    assert time.monotonic() - started < 4  # before its own time is up
    for thread in set(threading.enumerate()) - before:
        if thread.name.startswith("heaveto:"):
            thread.join(5)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
