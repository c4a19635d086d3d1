"""Whether the ground floor's tests notice when it is broken: `scopes/` is changed in small ways, one at a time.

    python benchmarks/mutants.py [--sample N [--seed S]] [--only WORD]       `make mutants`

Each mutant is written to a copy of the package in a temporary folder, never to the work tree, and tested in a fork of this
process, which has loaded everything but heaveto. A failed test kills it, and so does a hang. A survivor is a missing test,
unless `mutants_explained.toml` says why nothing can tell it from the original. Needs `os.fork`.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import anyio.pytest_plugin
import hypothesis.strategies
import msgspec
import pytest
import pytest_timeout
import trio.testing
import xdist.plugin
from mutations import Mutant, mutants_of

__all__ = ["main"]

ROOT = Path(__file__).parent.parent
FLOOR = Path("src/heaveto/scopes")
TESTS = Path("tests/scopes")
EXPLAINED = Path(__file__).with_name("mutants_explained.toml")
QUICK_FIRST = [
    "callees",
    "groups",
    "moving_limit",
    "callbacks",
    "foreign",
    "apart",
    "finishing",
    "scope",
    "threads",
    "clock",
    "numbers",
    "slots",
    "rate_limit",
]
OPTIONS = ["-q", "-x", "-n0", "-mnot slow", "--assert=plain", "--hypothesis-seed=0"]
TEST_SECONDS = 10  # a test that takes longer hangs; the slowest takes 3 s on a busy machine
MUTANT_SECONDS = 180  # for a hang that pytest's own limit does not end; all tests take 70 s on a very busy machine
MAX_BYTES = 4_000_000_000  # a mutant that gathers memory without end is stopped before it harms the machine
NOT_TESTED = 99  # an exit code that pytest does not have
KILLED = {
    1,
    2,
    3,
    -signal.SIGKILL,
}  # a test failed, nothing could be loaded, pytest broke, a hang; else nothing was tested
LOADED = (anyio.pytest_plugin, hypothesis.strategies, msgspec, pytest_timeout, trio.testing, xdist.plugin)  # before the fork


class Place(NamedTuple):
    """A mutant and the module it is one of."""

    module: str
    mutant: Mutant
    line_text: str

    def __str__(self) -> str:
        return f"{FLOOR / self.module}:{self.mutant.line}: {self.mutant.change}"

    @property
    def key(self) -> tuple[str, str, str]:
        """Its identity while lines above it come and go."""
        return self.module, self.line_text, self.mutant.change


def places(only: str) -> list[Place]:
    """All mutants of the modules whose names contain a word."""
    found = []
    for path in sorted((ROOT / FLOOR).glob("*.py")):
        if only in path.name:
            lines = path.read_text().splitlines()
            found += [Place(path.name, each, lines[each.line - 1].strip()) for each in mutants_of(path.read_text())]
    return found


def explained() -> dict[tuple[str, str, str], str]:
    """Why known survivors are as good as the original."""
    entries: list[dict[str, str]] = tomllib.loads(EXPLAINED.read_text())["mutant"]
    return {(each["module"], each["line"], each["change"]): each["why"] for each in entries}


def tests_of(module: str) -> list[str]:
    """The tests in the order in which they are likely to fail soonest: the module's own, then the quick ones."""
    own = module.removesuffix(".py")
    return [str(TESTS / f"test_{name}.py") for name in sorted(QUICK_FIRST, key=lambda name: name != own)]


class Copy:
    """A copy of the package and its tests, in which one mutant at a time lives."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        without = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "src", folder / "src", ignore=without)
        shutil.copytree(ROOT / TESTS, folder / TESTS, ignore=without)
        for name in ("tests/conftest.py", "pyproject.toml"):
            shutil.copy2(ROOT / name, folder / name)

    def start(self, tests: list[str], *, keep_bytecode: bool = False) -> int:
        """Run tests in a process group of its own; its id."""
        pid = os.fork()
        if pid == 0:
            self._test(tests, keep_bytecode)
        return pid

    def put(self, module: str, source: str) -> None:
        path = self._folder / FLOOR / module
        path.rename(path.with_suffix(".original"))  # not from the work tree later, where somebody may be at work
        path.write_text(source)

    def restore(self, module: str) -> None:
        path = self._folder / FLOOR / module
        path.with_suffix(".original").rename(path)

    def _test(self, tests: list[str], keep_bytecode: bool) -> NoReturn:
        code = NOT_TESTED
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
            nowhere = os.open(os.devnull, os.O_RDWR)
            for stream in range(3):
                os.dup2(nowhere, stream)
            os.chdir(self._folder)
            sys.path.insert(0, str(self._folder / "src"))
            os.environ["PYTHONPATH"] = sys.path[0]  # for programs that tests start
            sys.dont_write_bytecode = not keep_bytecode  # else two mutants of one second and length are mixed up
            code = _pytest(self._folder, tests)
        finally:
            os._exit(code)


def _pytest(folder: Path, tests: list[str]) -> int:
    try:
        module = importlib.import_module("heaveto.testing.pytest_plugin")
    except Exception:  # boundary: a mutant that cannot be loaded is noticed by everyone
        return 1
    if not Path(str(module.__file__)).is_relative_to(folder):
        return NOT_TESTED
    try:
        return int(pytest.main([*OPTIONS, f"--timeout={TEST_SECONDS}", *tests]))
    except BaseException:  # pytest does not end so by itself
        return int(pytest.ExitCode.INTERNAL_ERROR)


class Running(NamedTuple):
    place: Place
    copy: Copy
    ends: float


def survivors(found: list[Place], copies: list[Copy]) -> Iterator[Place]:
    """Test the mutants, as many at once as there are copies; yields those that no test noticed."""
    running: dict[int, Running] = {}
    try:
        yield from _survivors(found[::-1], list(copies), running)
    finally:
        for pid in running:  # Ctrl-C: they have process groups of their own
            _end(pid)


def _survivors(waiting: list[Place], free: list[Copy], running: dict[int, Running]) -> Iterator[Place]:
    while waiting or running:
        while waiting and free:
            place, copy = waiting.pop(), free.pop()
            copy.put(place.module, place.mutant.source)
            running[copy.start(tests_of(place.module))] = Running(place, copy, time.monotonic() + MUTANT_SECONDS)
        for pid, one in list(running.items()):
            code = _code(pid, late=time.monotonic() > one.ends)
            if code is None:
                continue
            if code == -signal.SIGKILL:
                print(f"{one.place}\n    did not end: killed, unless the machine was too busy", flush=True)
            del running[pid]
            one.copy.restore(one.place.module)
            free.append(one.copy)
            if code == 0:
                yield one.place
            elif code not in KILLED:
                raise SystemExit(f"{one.place}: could not be tested (exit code {code})")
        time.sleep(0.01)


def _code(pid: int, *, late: bool) -> int | None:
    """How a process ended; None while it has not. One that is late is ended."""
    if late:
        _end(pid)
    ended, status = os.waitpid(pid, 0 if late else os.WNOHANG)
    if not ended:
        return None
    _end(pid)  # what it may have left
    return os.waitstatus_to_exitcode(status)


def _end(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _check_the_original(copies: list[Copy]) -> None:
    """All must pass unchanged; and once for all mutants, everything is compiled. One by one, for the bytecode's sake."""
    for copy in copies:
        _, status = os.waitpid(copy.start(tests_of("scope.py"), keep_bytecode=True), 0)
        if status:
            raise SystemExit(f"the tests fail on the unchanged package (exit code {os.waitstatus_to_exitcode(status)})")


def _arguments(arguments: list[str]) -> Any:
    parser = argparse.ArgumentParser(description="Whether the ground floor's tests notice when it is broken.")
    parser.add_argument("--sample", type=int, metavar="N", help="only N of the mutants, chosen at random")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="chooses the sample; 0 by default")
    parser.add_argument("--only", default="", metavar="WORD", help="only modules with this in their names")
    parser.add_argument("--processes", type=int, default=2, metavar="N", help="how many at once; 2 by default")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    options = _arguments(arguments)
    found = places(options.only)
    if options.sample is not None and options.sample < len(found):
        found = random.Random(options.seed).sample(found, options.sample)
    known = explained()
    alive = []
    with tempfile.TemporaryDirectory(prefix="heaveto-mutants-") as folder:
        copies = [Copy(Path(folder) / str(n)) for n in range(options.processes)]
        _check_the_original(copies)
        for place in survivors(found, copies):
            alive.append(place)
            print(f"{place}\n    {known.get(place.key, 'UNEXPLAINED')}", flush=True)
    unexplained = [place for place in alive if place.key not in known]
    killed, excused = len(found) - len(alive), len(alive) - len(unexplained)
    print(f"mutants: {killed} killed of {len(found)}, {excused} explained, {len(unexplained)} unexplained")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
