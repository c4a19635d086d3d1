"""Our own lint: the source passes, and each rule has programs that break it and programs that do not."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from heaveto.testing.lint import RULES, check_file, check_source, python_files

SOURCE = Path(__file__).parents[1] / "src"
IMPORTS = """
import asyncio, logging
import anyio, trio
from contextlib import asynccontextmanager, suppress
from heaveto.scopes import Scope, deadline, finish, tasks
log = logging.getLogger(__name__)
"""

BAD = {
    "raw-tasks": [
        "async def f(): asyncio.create_task(g())",
        "async def f(): asyncio.get_running_loop().create_task(g())",
        "async def f():\n  async with anyio.create_task_group() as group: ...",
        "from asyncio import ensure_future as soon\nasync def f(): soon(g())",
        "async def f():\n  async with trio.open_nursery(): ...",
        "async def f(): await asyncio.shield(g())",
    ],
    "raw-scope": [
        "async def f():\n  with anyio.move_on_after(1): ...",
        "async def f():\n  with anyio.fail_after(1) as scope: scope.cancel()",
        "async def f(): await asyncio.wait_for(g(), 1)",
        "from trio import CancelScope as Native\nscope = Native()",
    ],
    "run-below-top": [
        "async def f(): anyio.run(g)",
        "async def f(): asyncio.run(g())",
        "async def f(agent): agent.run_sync('hello')",
    ],
    "scope-not-entered": [
        "async def f(): deadline(5)",
        "async def f():\n  scope = Scope()\n  await g()",
        "async def f():\n  group = tasks()\n  await g()",
        "async def f():\n  scope: Scope = deadline(5)\n  await g()",
    ],
    "yield-in-scope": [
        "async def f():\n  with deadline(5): yield 1",
        "async def f():\n  async with tasks() as group:\n    for x in y: yield x",
        "@pytest.fixture\nasync def f():\n  with Scope() as scope: yield scope",
    ],
    "await-while-stopped": [
        "async def f():\n  try: ...\n  finally: await g()",
        "async def f():\n  try: ...\n  except anyio.get_cancelled_exc_class():\n    await g()\n    raise",
        "async def f():\n  try: ...\n  except BaseException:\n    async with g(): ...\n    raise",
        "async def f():\n  try: ...\n  finally:\n    x = [y async for y in g()]",
    ],
    "swallowed-stop": [
        "async def f():\n  try: await g()\n  finally: return 1",
        "async def f():\n  while True:\n    try: await g()\n    finally: break",
        "async def f():\n  while True:\n    try: await g()\n    finally:\n      if h(): continue",
        "async def f():\n  try: ...\n  except BaseException: pass",
        "async def f():\n  try: ...\n  except:\n    if g(): raise",
        "async def f():\n  try: ...\n  except (ValueError, asyncio.CancelledError): return 1",
        "async def f():\n  try: ...\n  except anyio.get_cancelled_exc_class():\n    if g(): return\n    raise",
        "async def f():\n  while True:\n    try: ...\n    except BaseException:\n      if g(): break\n      raise",
        "async def f():\n  with suppress(asyncio.CancelledError): await g()",
        "async def f():\n  with suppress(ValueError, anyio.get_cancelled_exc_class()): await g()",
    ],
    "timeout-parameter": ["async def f(timeout): ...", "async def f(*, timeout=None): ..."],
    "from-none": ["def f():\n  try: ...\n  except KeyError: raise ValueError from None"],
    "broad-except": [
        "def f():\n  try: ...\n  except Exception: return 1",
        "def f():\n  try: ...\n  except (KeyError, Exception) as error: log.error(error)",
        "def f():\n  try: ...\n  except Exception: return 1  # boundary:",
        "def f():\n  with suppress(Exception): g()",
    ],
    "oserror-around-await": [
        "async def f():\n  try: await g()\n  except OSError: return 1",
        "async def f():\n  try:\n    async with g(): ...\n  except (ValueError, OSError): return 1",
        "async def f():\n  try: await g()\n  except* OSError: pass",
        "async def f():\n  with suppress(OSError): await g()",
        "import socket\nasync def f():\n  try: await g()\n  except socket.error: return 1",
    ],
    "error-text": [
        "def f():\n  try: ...\n  except ValueError as error:\n    if 'busy' in str(error): return 1\n    raise",
        "def f():\n  try: ...\n  except ValueError as error:\n    return error.args[0] == 'busy'",
        "def f():\n  try: ...\n  except ValueError as error:\n    return str(error).lower().startswith('busy')",
    ],
    "logged-and-raised": [
        "def f():\n  try: ...\n  except ValueError:\n    log.exception('no')\n    raise",
        "def f():\n  try: ...\n  except ValueError as error:\n    log.error('no')\n    raise error",
    ],
    "allow-reason": ["async def f(): asyncio.create_task(g())  # heaveto: allow raw-tasks"],
    "unused-allow": ["x = 1  # heaveto: allow raw-tasks because", "x = 1  # heaveto: allow no-such-rule because"],
    "syntax": ["def f(:"],
}

GOOD = {
    "raw-tasks": [
        "async def f():\n  async with tasks() as group: group.start_soon(g)",
        "async def f(): asyncio.create_task(g())  # heaveto: allow raw-tasks the loop keeps it",
    ],
    "raw-scope": ["async def f():\n  with deadline(1): ...", "def f(scope: anyio.CancelScope): ..."],
    "run-below-top": [
        "def main(): anyio.run(g)",
        "async def f(): await anyio.to_thread.run_sync(g)",
        "async def f(): await trio.to_thread.run_sync(g)",
    ],
    "scope-not-entered": [
        "held = None\ndef f():\n  global held\n  held = Scope()",
        "def f():\n  held = None\n  def g():\n    nonlocal held\n    held = Scope()\n  g()\n  return held",
        "async def f():\n  scope = Scope()\n  with scope: ...",
        "async def f():\n  mine = yours = Scope()\n  with yours: ...",
        "async def f(self):\n  self.scope = scope = Scope()\n  await g()",
        "async def f():\n  scope = Scope()\n  def stop(): scope.cancel(why)\n  return stop",
        "import celery\ncelery.deadline(5)",
    ],
    "yield-in-scope": [
        "@asynccontextmanager\nasync def f():\n  with deadline(5): yield 1",
        "async def f():\n  with deadline(5): x = await g()\n  yield x",
        "async def f():\n  with open(p) as file: yield file",
        "async def f():\n  with deadline(5):\n    def inner(): yield 1",
    ],
    "await-while-stopped": [
        "async def f():\n  try: ...\n  finally: await finish(5, g)",
        "async def f():\n  try: ...\n  finally: close()",
        "async def f():\n  try: ...\n  except ValueError: await g()",
        "async def f():\n  try: ...\n  finally:\n    async def later(): await g()",
        "async def f():\n  try: ...\n  finally:\n    with Scope(5, shield=True): await g()",
    ],
    "swallowed-stop": [
        "async def f():\n  try: await g()\n  finally:\n    for each in h():\n      if each: break",
        "async def f():\n  try: await g()\n  finally:\n    def h(): return 1",
        "async def f():\n  try: ...\n  except BaseException:\n    g()\n    raise",
        "async def f():\n  try: ...\n  except BaseException as error:\n    if g(): raise ValueError\n    else: raise",
        "async def f():\n  try: ...\n  except ValueError: pass",
        "async def f():\n  try: ...\n  except BaseException:\n    for x in y:\n      if x: break\n    raise",
        "async def f():\n  with suppress(ValueError): await g()",
    ],
    "timeout-parameter": ["def f(timeout): ...", "async def f(seconds): ..."],
    "from-none": ["def f():\n  try: ...\n  except KeyError as error: raise ValueError from error"],
    "broad-except": [
        "def f():\n  try: ...\n  except Exception: return 1  # boundary: a tool's bug is a result",
        "def f():\n  try: ...\n  except Exception as error:\n    error.add_note('here')\n    raise",
        "def f():\n  try: ...\n  except ValueError: return 1",
        "def f():\n  with suppress(KeyError): g()",
    ],
    "oserror-around-await": [
        "async def f():\n  try: g()\n  except OSError: return 1",
        "async def f():\n  try: await g()\n  except TimeoutError: raise\n  except OSError: return 1",
        "async def f():\n  try: await g()\n  except OSError as error:\n    raise ValueError from error",
        "async def f():\n  with suppress(OSError): g()",
    ],
    "error-text": [
        "def f():\n  try: ...\n  except ValueError as error:\n    return error.code == 'busy'",
        "def f():\n  try: ...\n  except ValueError as error:\n    return f'it broke: {error}'",
    ],
    "logged-and-raised": [
        "def f():\n  try: ...\n  except ValueError: log.exception('no')",
        "def f():\n  try: ...\n  except ValueError as error:\n    log.info('again')\n    raise",
        "def f():\n  try: ...\n  except ValueError:\n    log.error('no')\n    raise SystemExit(1)",
    ],
}


def rules_broken(program: str) -> set[str]:
    return {finding.rule for finding in check_source(IMPORTS + textwrap.dedent(program))}


def programs(table: dict[str, list[str]]) -> list[pytest.ParameterSet]:
    return [pytest.param(rule, each, id=f"{rule}-{n}") for rule, several in table.items() for n, each in enumerate(several)]


@pytest.mark.parametrize(("rule", "program"), programs(BAD))
def test_a_program_that_breaks_the_rule_is_found(rule: str, program: str) -> None:
    assert rule in rules_broken(program)


@pytest.mark.parametrize(("rule", "program"), programs(GOOD))
def test_a_program_that_keeps_the_rule_is_not(rule: str, program: str) -> None:
    assert rule not in rules_broken(program)


def test_every_rule_has_a_bad_and_a_good_program() -> None:
    assert set(RULES) <= set(BAD)
    assert set(RULES) == set(GOOD)


@pytest.mark.parametrize("path", [*python_files([SOURCE])], ids=lambda path: str(path.relative_to(SOURCE)))
def test_our_own_source_passes(path: Path) -> None:
    assert [str(finding) for finding in check_file(path)] == []


def test_the_command_names_place_and_rule(tmp_path: Path) -> None:
    """Exit 1 with findings, 0 without, 2 when it was called in a wrong way."""
    (tmp_path / "bad.py").write_text("import anyio\nasync def f(): await g()\nscope = anyio.CancelScope()\n")
    (tmp_path / "good.py").write_text("x = 1\n")
    status, output, _ = lint(tmp_path)
    assert status == 1
    assert output.startswith(f"{tmp_path / 'bad.py'}:3: raw-scope anyio.CancelScope stops without a cause; use ")
    assert lint(tmp_path / "good.py") == (0, "", "")
    assert lint(tmp_path / "none.py") == (2, "", f"no such file or folder: {tmp_path / 'none.py'}\n")
    assert lint()[0] == 2
    assert lint(Path("--help"))[:2] == (0, lint()[2].strip() + "\n")


def test_a_folder_is_read_but_for_what_is_not_its_own(tmp_path: Path) -> None:
    """Hidden folders, environments, broken links and pipes are left out; a named file is read whatever it is called."""
    bad = "import anyio\nscope = anyio.CancelScope()\n"
    for name in (".hidden/a.py", "environment/lib/b.py", "own/c.py", "own/script"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(bad)
    (tmp_path / "environment/pyvenv.cfg").touch()
    (tmp_path / "own/folder.py").mkdir()
    (tmp_path / "own/link.py").symlink_to("nowhere")
    os.mkfifo(tmp_path / "own/pipe.py")
    assert list(python_files([tmp_path])) == [tmp_path / "own/c.py"]
    assert list(python_files([tmp_path / ".hidden"])) == [tmp_path / ".hidden/a.py"]
    assert lint(tmp_path / "own/script")[0] == 1


def test_where_there_is_nothing_to_check_it_does_not_say_that_all_is_well(tmp_path: Path) -> None:
    notebook = tmp_path / "a.ipynb"
    notebook.write_text("{}")
    assert lint(tmp_path) == (2, "", f"there are no Python files in {tmp_path}\n")
    said = f"a notebook is no Python file, export it as a script first: {notebook}\n"
    assert lint(notebook) == (2, "", said)
    os.mkfifo(pipe := tmp_path / "pipe.py")
    assert lint(pipe) == (2, "", f"neither a file nor a folder: {pipe}\n")


@pytest.mark.parametrize(
    ("content", "finding"),
    [
        (b'# -*- coding: latin-1 -*-\nx = "caf\xe9"\n', ""),
        (b"\xef\xbb\xbfx = 1\n", ""),
        (b"import asyncio\r\nasync def f(): asyncio.create_task(g())  # heaveto: allow raw-tasks CRLF\r\n", ""),
        (b'x = "caf\xe9"\n', "1: syntax "),
        (b"# -*- coding: klingon -*-\n", "1: syntax unknown encoding"),
        (b"# -*- coding: rot13 -*-\nk = 1\n", "1: syntax 'rot13' is not a text encoding"),
        (b"x = 1\0\n", "1: syntax source code string cannot contain null bytes"),
        (b"\nprint 'Python 2'\n", "2: syntax Missing parentheses"),
        (b"x = " + b"+".join([b"1"] * 50_000), "1: syntax "),
        (b"x = " + b"(" * 300 + b")" * 300, "1: syntax "),
    ],
    ids=["latin-1", "mark", "crlf", "no utf-8", "no such encoding", "no text", "null", "Python 2", "long", "deep"],
)
def test_a_file_that_is_no_python_is_told_by_its_name(tmp_path: Path, content: bytes, finding: str) -> None:
    path = tmp_path / "program.py"
    path.write_bytes(content)
    found = [str(each) for each in check_file(path)]
    assert len(found) == bool(finding)
    for each in found:
        assert each.startswith(f"{path}:{finding}")


def test_a_file_that_cannot_be_read_is_told_and_the_others_are_checked(tmp_path: Path) -> None:
    (finding,) = check_file(tmp_path / "gone.py")
    assert str(finding) == f"{tmp_path / 'gone.py'}:1: unreadable No such file or directory"


def lint(*paths: Path) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "heaveto.testing.lint", *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr
