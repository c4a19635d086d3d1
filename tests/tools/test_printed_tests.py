"""What test runners print, told as counts and failures: by what they printed once, and by those that are installed here.

`printed/` has what cargo 1.95, go 1.19, node 20, jest 30 and vitest 4 said of small projects with failures of each kind.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaveto.errors import ToolError
from heaveto.tools import Call, run_tests_tool
from heaveto.tools.project_tests.output import recognize
from heaveto.tools.project_tests.reports import count_line, write_report
from heaveto.tools.sandbox import find_sandbox

PRINTED = Path(__file__).with_name("printed")


class Told(NamedTuple):
    """What is to come of a file: counts, and of each failure its name and some of its words."""

    runner: str
    counts: tuple[int, int, int]  # passed, failed, skipped
    failures: dict[str, str]
    running: tuple[str, ...] = ()


JEST_BAD = "j2/bad.test.js > Test suite failed to run"
EXPECTED = {
    "cargo": Told(
        "cargo test",
        (1, 2, 1),
        {
            "tests::raises": "panicked at src/lib.rs:27:14:\ncalled `Option::unwrap()` on a `None` value",
            "tests::adds": "assertion `left == right` failed: 2 and 3\n  left: -1\n right: 5",
        },
    ),
    "cargo_build": Told("cargo test", (0, 1, 0), {"src/lib.rs:2:9": "error[E0425]: cannot find value `c` in this scope"}),
    "node_tap": Told(
        "node --test", (2, 2, 1), {"adds": "-1 !== 5\n", "suite > inner fails": "error: 'boom'\nTestContext.<anonymous>"}
    ),
    "node_spec": Told("node --test", (2, 2, 1), {"adds": "at t/calc.test.js:3:1", "inner fails": "Error: boom\n"}),
    "jest": Told(
        "jest",
        (1, 3, 1),
        {
            "j2/calc.test.js > adds": "Expected: 5\n    Received: -1",
            "j2/calc.test.js > suite › inner fails": "boom\n",
            JEST_BAD: "SyntaxError: ",
        },
    ),
    "vitest": Told(
        "vitest",
        (1, 2, 1),
        {"v/calc.test.ts > adds": "expected -1 to be 5", "v/calc.test.ts > suite > inner fails": "❯ v/calc.test.ts:5:61"},
    ),
    "go": Told(
        "go test",
        (0, 4, 0),
        {
            "TestAdd": "calc_test.go:7: got -1, want 5",
            "TestEach/one": "calc_test.go:18: no",
            "TestPanics": "panic: assignment to entry in nil map",
            "example.com/calc/bad (build)": "bad/bad.go:3:23: undefined: undefined",
        },
    ),
    "go_verbose": Told("go test", (3, 2, 1), {"TestAdd": "got -1, want 5", "TestEach/one": "calc_test.go:18: no"}),
    "go_hung": Told(
        "go test",
        (1, 2, 0),
        {"TestPanics": "/project/panics/p_test.go:9", "example.com/calc/bad (build)": "undefined: undefined"},
        ("TestHang",),
    ),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_failures_are_found_with_their_words(name: str) -> None:
    text = (PRINTED / f"{name}.txt").read_text()
    told, expected = recognize(text, ""), EXPECTED[name]
    assert told is not None
    assert told.runner == expected.runner
    assert (told.passed, told.failed, told.skipped) == expected.counts
    assert tuple(told.running) == expected.running
    found = dict(told.failures)
    assert sorted(found) == sorted(expected.failures)
    for failure, words in expected.failures.items():
        assert words in found[failure]
    report = write_report(told.failures, Path("/project"), 3000)
    assert len(report) <= 3000
    assert "/project/" not in report
    assert report.splitlines()[0] == f"FAIL {told.failures[0][0]}"


def test_every_recorded_file_is_tested() -> None:
    assert {path.stem for path in PRINTED.iterdir()} == set(EXPECTED)


def test_pytests_own_output_is_known_too() -> None:
    text = (
        "____ TestA.test_x ____\n\n    assert f() == 1\nE   assert 2 == 1\n\na.py:3: AssertionError\n"
        "==== short test summary info ====\nFAILED a.py::TestA::test_x - assert 2 == 1\nERROR b.py - ImportError: no\n"
        "==== 1 failed, 2 passed, 1 error in 0.12s ====\n"
    )
    told = recognize(text, "")
    assert told is not None
    assert count_line(told) == "tests failed: 2 failed, 2 passed"
    assert told.failures == [
        ("a.py::TestA::test_x", "    assert f() == 1\nE   assert 2 == 1\n\na.py:3: AssertionError"),
        ("b.py", "ImportError: no"),
    ]


@pytest.mark.parametrize("text", ["", "hello\n", "error\n", "ok\n", "FAIL\n", "make: *** [test] Error 2\n", "not ok\n"])
def test_what_no_runner_printed_is_none(text: str) -> None:
    assert recognize(text, text) is None


ALL_LINES = sorted({line for path in PRINTED.iterdir() for line in path.read_text().splitlines()})


@given(st.integers(0, 2**32))
def test_lines_in_any_order_are_no_error(seed: int) -> None:
    """Runners are cut, and mixed with what tests print."""
    chosen = random.Random(seed).choices(ALL_LINES, k=60)
    told = recognize("\n".join(chosen), "")
    assert told is None or told.failed >= len(told.failures)


# --- real runners -----------------------------------------------------------------------------------------------------

anyio_on_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])
RUST = """\
pub fn add(a: i32, b: i32) -> i32 { a - b }
#[test]
fn adds() { assert_eq!(add(2, 3), 5); }
#[test]
fn zero() { assert_eq!(add(0, 0), 0); }
"""
NODE = """\
const {test} = require('node:test');
test('adds', () => { require('node:assert').strictEqual(2 - 3, 5); });
test('zero', () => {});
"""


def needs(program: str) -> None:
    """Counted, and no failure where CI is set: what these print is recorded."""
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")


async def run(folder: Path, command: str, only: str = "", seconds: float = 120) -> str:
    return await run_tests_tool(command=command, seconds=seconds).run(Call(folder=folder), {"only": only})


@anyio_on_asyncio
@pytest.mark.anyio
async def test_cargo_here_and_in_the_sandbox(tmp_path: Path) -> None:
    needs("cargo")
    (tmp_path / "Cargo.toml").write_text('[package]\nname = "calc"\nversion = "0.1.0"\nedition = "2021"\n')
    (tmp_path / "src").mkdir()
    (tmp_path / "src/lib.rs").write_text(RUST)
    text = await run(tmp_path, "cargo test --lib {only}")
    assert text.startswith("tests failed: 1 failed, 1 passed\n\nFAIL adds\n"), text
    assert "panicked at src/lib.rs:3:13:\nassertion `left == right` failed\n  left: -1\n right: 5" in text
    (tmp_path / "src/lib.rs").write_text(RUST.replace("a - b", "a + b"))
    kept = run_tests_tool(command="cargo test --lib", sandbox=find_sandbox())
    assert await kept.run(Call(folder=tmp_path), {"only": ""}) == "tests passed: 2"


@anyio_on_asyncio
@pytest.mark.anyio
async def test_node_here(tmp_path: Path) -> None:
    needs("node")
    (tmp_path / "calc.test.js").write_text(NODE)
    text = await run(tmp_path, "node --test")
    assert text.startswith("tests failed: 1 failed, 1 passed\n\nFAIL adds\n"), text
    assert "-1 !== 5" in text
    assert str(tmp_path) not in text


HANGS = """\
echo "=== RUN   TestFine"; echo "--- PASS: TestFine (0.00s)"; echo "=== RUN   TestHang"; exec sleep 60
"""


@pytest.mark.anyio
async def test_the_test_that_hung_is_named_where_the_runner_told_that_it_began(tmp_path: Path) -> None:
    (tmp_path / "run").write_text(HANGS)
    with pytest.raises(ToolError) as caught:
        await run(tmp_path, "sh run", seconds=0.8)
    assert str(caught.value) == "tests timed out after 0.6 s while running TestHang\nbefore that: 0 failed, 1 passed"
    (tmp_path / "run").write_text("echo compiling; exec sleep 60")
    with pytest.raises(ToolError, match=r"tests timed out after 0\.6 s; the last that was printed:\ncompiling"):
        await run(tmp_path, "sh run", seconds=0.8)


@pytest.mark.anyio
async def test_a_runner_that_ran_out_of_its_own_time_is_told_as_that(tmp_path: Path) -> None:
    shutil.copy(PRINTED / "go_hung.txt", tmp_path)
    (tmp_path / "run").write_text('cat go_hung.txt; echo "$GOFLAGS" > flags; exit 1')
    with pytest.raises(
        ToolError, match=r"tests timed out after 27 s while running TestHang\nbefore that: 2 failed, 1 passed\n"
    ):
        await run(tmp_path, "sh run", seconds=40)
    assert (tmp_path / "flags").read_text() == "-count=1 -v -timeout=27.000s\n"
