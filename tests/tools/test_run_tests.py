"""The tool `run_tests`, on small real projects: unittest on both back ends, pytest (slow to start) on one."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heaveto.causes import Cancelled, TestsTimedOut
from heaveto.errors import BadArguments, ConfigError, ToolError
from heaveto.scopes import Scope
from heaveto.tools.project_tests.events import TestEvents
from heaveto.tools.project_tests.interpreters import find_interpreter
from heaveto.tools.project_tests.reports import shorten, write_report, write_stack
from heaveto.tools.project_tests.run_tests import check_only, run_tests_tool
from heaveto.tools.protocol import Call

pytestmark = pytest.mark.anyio
on_one_back_end = pytest.mark.parametrize("anyio_backend", ["asyncio"])

# Whatever plugins are installed beside us are not the project's, and take seconds to load.
PLAIN_PYTEST = "[pytest]\naddopts = -p no:hypothesispytest -p no:anyio -p no:timeout -p no:heaveto -p no:platformdirs\n"
CALC = "def add(a, b):\n    return a - b\n\n\ndef double(a):\n    return 2 * a\n"


def write(folder: Path, **files: str) -> Path:
    """Write files; `tests__test_calc` is tests/test_calc.py."""
    for name, text in files.items():
        path = folder / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    (folder / "pytest.ini").write_text(PLAIN_PYTEST)
    return folder


async def run(
    folder: Path, only: str = "", *, python: str | None = None, seconds: float = 60, said: list[str] | None = None
) -> str:
    tool = run_tests_tool(interpreter=python or sys.executable, seconds=seconds)
    call = Call(folder=folder, progress=(said if said is not None else []).append)
    return await tool.run(call, {"only": only})


UNITTESTS = """
    import unittest
    import calc

    class TestAdd(unittest.TestCase):
        def test_adds(self):
            print("looking")
            self.assertEqual(calc.add(1, 2), 3)

        def test_double(self):
            self.assertEqual(calc.double(2), 4)

        def test_each(self):
            for number in range(3):
                with self.subTest(number=number):
                    self.assertEqual(number, 1)

        def test_raises(self):
            {}["x"]

        @unittest.skip("later")
        def test_later(self):
            raise AssertionError
"""


async def test_unittest_tells_each_failure_with_its_place_and_words(tmp_path: Path, bare_python: str) -> None:
    folder = write(tmp_path, calc=CALC, tests__test_calc=UNITTESTS)
    head, blank, *report = (await run(folder, python=bare_python)).splitlines()
    assert (head, blank) == ("tests failed: 4 failed, 1 passed, 1 skipped", "")
    assert [line for line in report if line.startswith("FAIL")] == [
        "FAIL tests.test_calc.TestAdd.test_adds",
        "FAIL tests.test_calc.TestAdd.test_each (number=0)",
        "FAIL tests.test_calc.TestAdd.test_each (number=2)",
        "FAIL tests.test_calc.TestAdd.test_raises",
    ]
    assert '  File "tests/test_calc.py", line 8, in test_adds' in report
    assert "AssertionError: -1 != 3" in report
    assert "looking" in report
    assert "KeyError: 'x'" in report


@on_one_back_end
async def test_pytest_tells_each_failure_with_its_place_and_words(tmp_path: Path) -> None:
    tests = """
        import pytest
        import calc

        @pytest.fixture
        def broken():
            raise OSError("no such thing")

        @pytest.fixture
        def untidy():
            yield
            raise OSError("cannot tidy up")

        def test_adds():
            print("looking")
            assert calc.add(1, 2) == 3

        def test_double(): assert calc.double(2) == 4
        def test_setup(broken): pass
        def test_teardown(untidy): pass

        @pytest.mark.skip
        def test_later(): assert False

        @pytest.mark.parametrize("n", [1, 2])
        def test_each(n): assert n == 1
    """
    folder = write(tmp_path, calc=CALC, tests__test_calc=tests, tests__test_import="import nothing_like_it", conftest="")
    head, blank, *report = (await run(folder)).splitlines()
    assert (head, blank) == ("tests failed: 5 failed, 2 passed, 1 skipped", "")
    assert [line for line in report if line.startswith("FAIL")] == [
        "FAIL tests/test_import.py",
        "FAIL tests/test_calc.py::test_adds",
        "FAIL tests/test_calc.py::test_setup",
        "FAIL tests/test_calc.py::test_teardown",
        "FAIL tests/test_calc.py::test_each[2]",
    ]
    for line in (
        "E   ModuleNotFoundError: No module named 'nothing_like_it'",
        "tests/test_calc.py:16: in test_adds",
        "E   assert -1 == 3",
        "looking",
        "in the setup of the test:",
        "E   OSError: cannot tidy up",
    ):
        assert line in report
    assert not [path for path in folder.rglob("*") if path.name in ("__pycache__", ".pytest_cache")]


@on_one_back_end
async def test_pytest_runs_what_is_asked_for(tmp_path: Path) -> None:
    tests = "def test_one(): pass\ndef test_two(): pass\nclass TestIt:\n    def test_one(self): pass\n"
    folder = write(tmp_path, tests__test_a=tests, tests__test_b=tests)
    assert await run(folder, "tests.test_b.TestIt.test_one") == "tests passed: 1"
    assert await run(folder, "test_two") == "tests passed: 2"
    with pytest.raises(ToolError, match='no tests match "test_three"'):
        await run(folder, "test_three")


@pytest.mark.parametrize(
    ("only", "passed"),
    [
        ("tests/test_a.py", 2),
        ("tests/test_a.py::TestOne::test_x", 1),
        ("tests.test_b", 2),
        ("TestOne", 4),
        ("TestOne.test_x", 2),
        ("tests", 4),
    ],
)
async def test_unittest_runs_what_is_asked_for(tmp_path: Path, bare_python: str, only: str, passed: int) -> None:
    tests = "import unittest\nclass TestOne(unittest.TestCase):\n    def test_x(self): pass\n    def test_y(self): pass\n"
    folder = write(tmp_path, tests__test_a=tests, tests__test_b=tests)
    assert await run(folder, only, python=bare_python) == f"tests passed: {passed}"


async def test_unittest_finds_tests_wherever_they_are(tmp_path: Path, bare_python: str) -> None:
    """At the top, in packages, in plain folders, twice under one name; not in an environment or a hidden folder."""
    tests = "import unittest\nclass T(unittest.TestCase):\n    def test_x(self): pass\n"
    folder = write(
        tmp_path, test_a=tests, tests__test_a=tests, pkg____init__="", pkg__test_c=tests, tests__deep__test_d=tests
    )
    write(tmp_path, _hidden__test_e="1/0", env__test_f="1/0")
    (folder / "_hidden").rename(folder / ".hidden")
    (folder / "env" / "pyvenv.cfg").touch()
    assert await run(folder, python=bare_python) == "tests passed: 4"


async def test_unittest_reports_a_file_that_cannot_be_imported(tmp_path: Path, bare_python: str) -> None:
    folder = write(
        tmp_path,
        tests__test_bad="import os\nimport calc\n",
        calc="def f(:\n",
        tests__test_skip="import unittest\nraise unittest.SkipTest('x')",
    )
    lines = (await run(folder, python=bare_python)).splitlines()
    assert lines[:3] == ["tests failed: 1 failed, 0 passed, 1 skipped", "", "FAIL tests/test_bad.py"]
    assert '  File "tests/test_bad.py", line 2, in <module>' in lines
    assert '  File "calc.py", line 1' in lines
    assert not [line for line in lines if "importlib" in line or "project_tests" in line]


HANGS = """
    import re, signal, os, time, unittest
    class T(unittest.TestCase):
        def test_a(self): pass
        def test_b(self): wait()
    def wait():
        {how}
"""


@on_one_back_end
async def test_a_hung_test_is_named_with_the_place_where_it_hangs(tmp_path: Path, bare_python: str) -> None:
    """Also one that never lets go of the interpreter's lock."""
    how = "re.match('(a+)+$', 'a' * 60 + 'b')"
    folder = write(tmp_path, tests__test_it=HANGS.format(how=how))
    with pytest.raises(ToolError) as caught:
        await run(folder, python=bare_python, seconds=3)
    lines = str(caught.value).splitlines()
    assert lines[:3] == [
        "tests timed out after 2.25 s while running tests.test_it.T.test_b",
        "tests/test_it.py:5: in test_b",
        "    def test_b(self): wait()",
    ]
    assert lines[3:5] == ["tests/test_it.py:7: in wait", f"    {how}"]
    assert lines[-1] == "before that: 0 failed, 1 passed"


@on_one_back_end
async def test_pytest_too_names_the_hung_test(tmp_path: Path) -> None:
    """Also after a failure, where pytest cancels such timers."""
    tests = "import time\ndef test_a(): assert False\ndef test_b():\n    time.sleep(60)\n"
    folder = write(tmp_path, tests__test_it=tests)
    with pytest.raises(ToolError) as caught:
        await run(folder, seconds=6)
    text = str(caught.value)
    assert text.startswith(
        "tests timed out after 4.5 s while running tests/test_it.py::test_b\ntests/test_it.py:4: in test_b\n"
    )
    assert "before that: 1 failed, 0 passed" in text
    assert "FAIL tests/test_it.py::test_a" in text


@on_one_back_end
async def test_a_hang_of_an_import_names_the_file(tmp_path: Path, bare_python: str) -> None:
    folder = write(tmp_path, test_it="import time\ntime.sleep(60)\n")
    with pytest.raises(ToolError, match=r"while running collecting test_it.py\ntest_it.py:2: in <module>"):
        await run(folder, python=bare_python, seconds=3)


async def test_the_outer_limit_ends_what_the_inner_cannot(tmp_path: Path, bare_python: str) -> None:
    folder = write(tmp_path, test_it=HANGS.format(how="os.kill(os.getpid(), signal.SIGSTOP)"))
    with pytest.raises(TestsTimedOut) as caught:
        await run(folder, python=bare_python, seconds=1)
    assert caught.value.seconds == 1
    assert caught.value.__notes__ == ["while running test_it.T.test_b"]


async def test_a_stop_ends_the_tests_and_goes_on(tmp_path: Path, bare_python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(line: str) -> None:
        scope.cancel(Cancelled(line))

    folder = write(
        tmp_path,
        test_it=HANGS.format(how="print('x'); time.sleep(60)").replace(
            "test_a(self): pass", "test_a(self): time.sleep(1.2)"
        ),
    )
    tool = run_tests_tool(interpreter=bare_python)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    with pytest.raises(Cancelled, match="1 passed, 0 failed"), Scope() as scope:
        await tool.run(Call(folder=folder, progress=stop), {"only": ""})
    assert list(scratch.iterdir()) == []


async def test_a_test_that_takes_the_process_along_has_failed(tmp_path: Path, bare_python: str) -> None:
    folder = write(tmp_path, test_it=HANGS.format(how="os.kill(os.getpid(), signal.SIGSEGV)"))
    text = await run(folder, python=bare_python)
    assert text.startswith(
        "tests failed: 1 failed, 1 passed\n\nFAIL test_it.T.test_b\nthe test process ended here: signal 11 (SIGSEGV)"
    )


@on_one_back_end
async def test_what_the_tests_leave_running_does_not_hold_the_result(tmp_path: Path, bare_python: str) -> None:
    """Neither a thread that the interpreter would wait for, nor a process that holds the output open."""
    tests = """
        import subprocess, threading, time, unittest, warnings
        warnings.simplefilter("ignore")
        class T(unittest.TestCase):
            def test_a(self):
                threading.Thread(target=time.sleep, args=(60,)).start()
                subprocess.Popen(["sleep", "60"], start_new_session=True)
    """
    folder = write(tmp_path, test_it=tests)
    began = time.monotonic()
    assert await run(folder, python=bare_python) == "tests passed: 1"
    assert time.monotonic() - began < 20


async def test_no_tests_is_an_error_that_says_what_is_looked_for(tmp_path: Path, bare_python: str) -> None:
    with pytest.raises(ToolError, match=r"no tests found; unittest looks for TestCase classes in files test\*.py"):
        await run(write(tmp_path, calc=CALC), python=bare_python)


@on_one_back_end
async def test_pytest_that_cannot_run_is_an_error_with_its_words(tmp_path: Path) -> None:
    folder = write(tmp_path, test_it="def test_a(): pass", conftest="import nothing_like_it")
    with pytest.raises(ToolError, match=r"the tests could not be run \(exit status 4\)\n(.|\n)*nothing_like_it"):
        await run(folder)


@on_one_back_end
async def test_a_failing_run_without_a_failing_test_is_no_success(tmp_path: Path) -> None:
    """As a plugin makes of a coverage that is too low."""
    conftest = "def pytest_sessionfinish(session):\n    print('coverage 12 % is below 90 %')\n    session.exitstatus = 1\n"
    text = await run(write(tmp_path, test_it="def test_a(): pass", conftest=conftest))
    assert text.startswith("tests failed: 0 failed, 1 passed\n\npytest ended with exit status 1\n")
    assert "coverage 12 % is below 90 %" in text


async def test_an_edit_of_the_same_size_within_a_second_is_seen(tmp_path: Path, bare_python: str) -> None:
    folder = write(tmp_path)
    tests = "import unittest, mod_{0}\nclass T(unittest.TestCase):\n    def test_x(self): self.assertEqual(mod_{0}.X, 2)\n"
    for number in range(40):
        (folder / f"mod_{number}.py").write_text("X = 1\n")
        (folder / f"test_{number}.py").write_text(tests.format(number))
    paths = [folder / f"mod_{number}.py" for number in range(40)]
    for path in paths:
        os.utime(path, (1_700_000_000, 1_700_000_000))
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, "-m", "py_compile", *map(str, paths)], check=True, env=env)
    assert len(list((folder / "__pycache__").iterdir())) == 40
    for path in paths:
        path.write_text("X = 2\n")
        os.utime(path, (1_700_000_000, 1_700_000_000))
    assert await run(folder, python=bare_python) == "tests passed: 40"


@on_one_back_end
async def test_pytest_uses_no_stale_bytecode_either(tmp_path: Path) -> None:
    """Neither Python's, of the code, nor pytest's own, of the tests, nor in a child of the tests."""
    tests = """
        import subprocess, sys, mod
        def test_it():
            assert mod.X == 2
            assert subprocess.check_output([sys.executable, "-c", "import mod; print(mod.X)"]) == b"2\\n"
            assert 1 == {}
    """
    folder = write(tmp_path, mod="X = 1\n", test_it=tests.format(2))
    settled = (1_700_000_000, 1_700_000_000)
    for path in folder.glob("*.py"):
        os.utime(path, settled)
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, "-m", "pytest", "-q"], cwd=folder, env=env, capture_output=True, check=False)
    assert len(list((folder / "__pycache__").iterdir())) == 2
    write(folder, mod="X = 2\n", test_it=tests.format(1))
    for path in folder.glob("*.py"):
        os.utime(path, settled)
    assert await run(folder) == "tests passed: 1"


async def test_the_interpreter_is_the_projects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    assert find_interpreter(tmp_path).path == sys.executable
    for name in ("active", "env", ".venv"):
        python = tmp_path / name / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.symlink_to(sys.executable)
        monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "active"))
        found = find_interpreter(tmp_path)
        assert (found.path, found.environment) == (str(python), tmp_path / name)
        assert found.variables["PATH"].startswith(f"{tmp_path / name}/bin:")
    assert find_interpreter(tmp_path, "python3.99").path == "python3.99"
    assert find_interpreter(tmp_path / "elsewhere").path == sys.executable
    with pytest.raises(ToolError, match=r"cannot run python3.99: no such program"):
        await run(tmp_path, python="python3.99")


@pytest.mark.parametrize(("how", "status"), [("pytest.exit('enough', 0)", 0), ("pytest.exit('enough')", 2)])
async def test_a_test_that_ends_all_of_them_is_a_failure(tmp_path: Path, how: str, status: int) -> None:
    """Its exit status may be 0, and what comes behind it is broken."""
    test = f"import pytest\ndef test_a(): pass\ndef test_b(): {how}\ndef test_c(): assert False\n"
    text = await run(write(tmp_path, test_it=test))
    assert text.startswith("tests failed: 1 failed, 1 passed\n\nFAIL test_it.py::test_b\n")
    assert f"pytest was ended in it, with exit status {status}: nothing behind it ran" in text
    assert "enough" in text


@pytest.mark.parametrize(
    "only", ["../test_a.py", "/etc/passwd", "-x", "--pyargs", "link/test_a.py", "tests/../../test_a.py", "a\0b"]
)
def test_only_stays_inside(tmp_path: Path, only: str) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "link").symlink_to("/etc")
    with pytest.raises(ToolError, match=r"outside of the folder|is no test"):
        check_only(only, tmp_path)


def test_only_as_it_is_understood(tmp_path: Path) -> None:
    write(tmp_path, tests__test_a="")
    assert check_only("", tmp_path) == ""
    assert check_only("tests/test_a.py::test_x[a/b]", tmp_path) == "tests/test_a.py::test_x[a/b]"
    assert check_only(f"{tmp_path}/tests/test_a.py", tmp_path) == "tests/test_a.py"
    with pytest.raises(ToolError, match=r'there is no "tests/test_b\.py"'):
        check_only("tests/test_b.py", tmp_path)


def test_the_tool_says_what_it_is() -> None:
    tool = run_tests_tool(seconds=100)
    assert (tool.name, tool.effect, tool.alone, tool.approval) == ("run_tests", "idempotent", True, False)
    assert tool.seconds is not None
    assert tool.seconds > 100
    assert list(tool.schema["properties"]) == ["only"]
    assert tool.parse("{}") in ({}, {"only": ""})
    with pytest.raises(BadArguments):
        tool.parse('{"path": "x"}')


async def command(folder: Path, argv: str | list[str], only: str = "", seconds: float = 20) -> str:
    return await run_tests_tool(command=argv, seconds=seconds).run(Call(folder=folder), {"only": only})


async def test_a_command_is_judged_by_its_exit_status(tmp_path: Path) -> None:
    assert await command(tmp_path, "true") == "tests passed: true ended with exit status 0"
    text = await command(tmp_path, ["sh", "-c", 'echo "$PWD/calc.c:3: bad"; exit 2'])
    assert text.endswith("ended with exit status 2\n\ncalc.c:3: bad")
    assert text.startswith("tests failed: sh -c ")
    text = await command(tmp_path, ["sh", "-c", "echo first; yes x | head -n 50000; echo last; exit 1"])
    assert "\nfirst\n" in text
    assert text.endswith("\nlast")
    assert len(text) <= 6000


async def test_a_command_that_says_nothing_is_an_error_with_its_stderr(tmp_path: Path) -> None:
    with pytest.raises(ToolError) as caught:
        await command(tmp_path, ["sh", "-c", "echo ' no rule to make target  ' >&2; exit 2"])
    assert str(caught.value) == "no rule to make target"
    with pytest.raises(ToolError, match="the test command said nothing: exit status 7"):
        await command(tmp_path, ["sh", "-c", "exit 7"])
    with pytest.raises(ToolError, match="cannot run no-such-runner: no such program"):
        await command(tmp_path, "no-such-runner --all")
    with pytest.raises(ToolError, match=r"tests timed out after 0\.15 s; nothing was printed"):
        await command(tmp_path, "sleep 60", seconds=0.2)


async def test_a_command_takes_only_where_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="runs all tests; call run_tests without only"):
        await command(tmp_path, "true", "TestAdd")
    assert await command(tmp_path, "echo -run={only} {only}", "TestAdd") == (
        "tests passed: echo -run=TestAdd TestAdd ended with exit status 0"
    )
    assert await command(tmp_path, "echo {only}") == "tests passed: echo ended with exit status 0"


@pytest.mark.parametrize("argv", ["", [], "echo 'x"])
def test_a_command_that_is_none_is_refused(argv: str | list[str]) -> None:
    with pytest.raises(ConfigError):
        run_tests_tool(command=argv)


def test_the_report_has_room_for_names_after_texts() -> None:
    text = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\nAssertionError: ' + "x" * 900
    report = write_report([(f"tests.test_{number}", text) for number in range(400)], Path("/p"), 6000)
    assert len(report) <= 6000
    assert report.count("AssertionError") >= 4
    assert report.splitlines()[-1].endswith("more failed")
    assert "FAIL tests.test_60" in report


def test_a_long_traceback_keeps_the_innermost_frame_and_the_projects() -> None:
    frames = [f"calc.py:{n}: in f{n}\n    f{n + 1}()\n" for n in range(50)]
    library = ["/usr/lib/python3/json/decoder.py:1: in decode\n    raise\n"] * 40
    shown = shorten("".join([*frames, *library]) + "E   ValueError: no\n", 400)
    assert len(shown) <= 400
    assert shown.startswith("...\n")
    assert shown.endswith("/usr/lib/python3/json/decoder.py:1: in decode\n    raise\nE   ValueError: no\n")
    assert "calc.py:49: in f49" in shown
    assert shown.count("decoder.py") == 1


long_text = st.builds(str.__mul__, st.text(max_size=30), st.integers(0, 300))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(long_text, long_text), max_size=60), st.integers(1000, 6000))
def test_a_report_keeps_its_bound(failures: list[tuple[str, str]], max_chars: int) -> None:
    assert len(write_report(failures, Path("/project"), max_chars)) <= max_chars


TOLD = b"""{"event": "runner", "test": "", "text": "pytest"}
{"event": "started", "test": "a", "text": ""}
{"event": "passed", "test": "a", "text": ""}
{"event": "failed", "test": "a", "text": "teardown"}
{"event": "finished", "test": "a", "text": ""}
{"event": "started", "test": "b", "text": ""}
Timeout (0:00:01)!
  File "/p/calc.py", line 3 in f
"""


@settings(deadline=None, max_examples=50)
@given(st.sets(st.integers(0, len(TOLD))))
def test_events_may_come_in_any_pieces(cuts: set[int]) -> None:
    events = TestEvents()
    for begin, end in itertools.pairwise([0, *sorted(cuts), len(TOLD)]):
        events.feed(TOLD[begin:end])
    assert (events.runner, events.passed, events.failed, events.under_way) == ("pytest", 0, 1, "b")
    assert events.failures == {"a": "teardown"}
    assert write_stack(events.stack, Path("/p")) == "calc.py:3: in f"
