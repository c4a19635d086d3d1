"""A script for the interpreter of somebody's project: `python inside.py UNTIL SCRATCH ONLY` in its folder.

- It runs the tests with pytest where this interpreter has it, else with unittest, and tells what happens on what was its
  standard output, one JSON object a line. What the tests themselves print goes to standard error.
- At UNTIL, by the machine's monotonic clock, the interpreter writes every thread's stack to the same place and ends. That
  works from C, so also where a test holds the interpreter's lock. The last line before it names the test.
- No bytecode of the project is read or written: Python compares a source file's size and second, so after an edit of the
  same size within a second it would run the old code. That of libraries is read: without it pytest takes seconds to start.
- Standard library only, and nothing newer than Python 3.9: the project's interpreter may be old.
"""

# ruff: noqa: N802 - the methods of a test result have unittest's names

from __future__ import annotations

import faulthandler
import importlib
import importlib.machinery as machinery
import importlib.util
import json
import os
import sys
import time
import traceback
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

EXIT_SECONDS = 3.0  # a thread of a test that does not end must not hold the results, which are all out by then
MAX_TEXT = 20_000  # characters of one failure that are handed on
NO_TESTS = 5  # pytest's exit status for it
SKIPPED_FOLDERS = {"__pycache__", "node_modules", "site-packages", "build", "dist"}


class Channel:
    """What was standard output: only ours, and children that the tests start do not inherit it."""

    def __init__(self) -> None:
        self.descriptor = os.dup(1)
        os.dup2(2, 1)

    def tell(self, event: str, test: str = "", text: str = "") -> None:
        if len(text) > MAX_TEXT:
            text = text[: MAX_TEXT // 2] + "\n...\n" + text[-MAX_TEXT // 2 :]
        line = json.dumps({"event": event, "test": test, "text": text}).encode() + b"\n"
        while line:
            line = line[os.write(self.descriptor, line) :]


class Limit:
    """The time after which the interpreter shows where it is, and ends."""

    def __init__(self, until: float, channel: Channel) -> None:
        self._until, self._channel = until, channel

    def arm(self) -> None:
        """There is one such timer in a process, and others cancel it (pytest does, after a failure): so again and again."""
        left = max(0.001, self._until - time.monotonic())
        faulthandler.dump_traceback_later(left, exit=True, file=self._channel.descriptor)


class FreshLoader(machinery.SourceFileLoader):
    """Compiles what it loads: without a file's time and size there is no bytecode to trust, nor to write."""

    def path_stats(self, path: Any) -> Any:
        raise OSError("no bytecode is used")


def use_no_bytecode(scratch: str) -> None:
    """Load the project's modules, and have the Pythons that tests start load theirs, from source."""
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    os.environ["PYTHONPYCACHEPREFIX"] = scratch
    load_from = machinery.FileFinder.path_hook(
        (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES),
        (FreshLoader, machinery.SOURCE_SUFFIXES),
        (machinery.SourcelessFileLoader, machinery.BYTECODE_SUFFIXES),
    )
    project = os.getcwd()

    def load_from_project(path: str) -> Any:
        if not is_inside(path, project) or "site-packages" in path:
            raise ImportError("not the project's")
        return load_from(path)

    sys.path_hooks.insert(0, load_from_project)
    sys.path_importer_cache.clear()


def is_inside(path: str, folder: str) -> bool:
    return (os.path.abspath(path) + os.sep).startswith(folder.rstrip(os.sep) + os.sep)


# --- pytest ---------------------------------------------------------------------------------------------------------


class PytestReporter:
    """A pytest plugin that tells how each test went."""

    def __init__(self, channel: Channel, limit: Limit) -> None:
        self._channel, self._limit = channel, limit

    def pytest_collectstart(self, collector: Any) -> None:
        self._limit.arm()
        self._channel.tell("collecting", collector.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._channel.tell("failed", report.nodeid or "collecting the tests", report.longreprtext)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._limit.arm()
        self._channel.tell("started", nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            where = "" if report.when == "call" else f"in the {report.when} of the test:\n"
            self._channel.tell("failed", report.nodeid, where + report.longreprtext + printed(report.capstdout))
        elif report.skipped:
            self._channel.tell("skipped", report.nodeid)
        elif report.when == "call" and report.passed:
            self._channel.tell("passed", report.nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._channel.tell("finished", nodeid)


def printed(text: str) -> str:
    return "\nprinted:\n" + text[-1000:] if text.strip() else ""


def run_pytest(pytest: Any, channel: Channel, limit: Limit, scratch: str, only: str) -> int:
    keep_rewritten_tests_in(scratch)
    arguments = ["-q", "--tb=short", "--color=no", "--rootdir=.", "--continue-on-collection-errors"]
    # A cache elsewhere, rather than no plugin for it, which projects with `cache_dir` or `--lf` in their settings need.
    arguments += ["-o", "cache_dir=" + os.path.join(scratch, "cache"), "-o", "faulthandler_timeout=0"]
    if only:
        node = to_node_id(only)
        arguments += [node] if is_path(node.partition("::")[0]) else ["-k", only]
    return int(pytest.main(arguments, plugins=[PytestReporter(channel, limit)]))


def keep_rewritten_tests_in(scratch: str) -> None:
    """pytest keeps bytecode of its own for the test files, with the same weakness."""
    from _pytest.assertion import rewrite

    if (usual := getattr(rewrite, "get_cache_dir", None)) is not None:
        project = os.getcwd() + os.sep

        def cache_dir(file_path: Path) -> Path:
            inside = str(file_path).startswith(project) and "site-packages" not in str(file_path)
            return type(file_path)(scratch) / "rewritten" if inside else usual(file_path)

        rewrite.get_cache_dir = cache_dir
    else:
        sys.pycache_prefix = scratch  # slower: it hides the libraries' bytecode too


def is_path(text: str) -> bool:
    return "/" in text or text.endswith(".py") or os.path.exists(text)


def to_node_id(only: str) -> str:
    """unittest's `tests.test_calc.TestAdd.test_x` in pytest's words; anything else as it is."""
    parts = [] if is_path(only.partition("::")[0]) else only.split(".")
    for length in range(len(parts), 0, -1):
        path = "/".join(parts[:length]) + ".py"
        if os.path.isfile(path):
            return "::".join([path, *parts[length:]])
    return only


# --- unittest -------------------------------------------------------------------------------------------------------


class UnittestReporter(unittest.TestResult):
    """A result that tells how each test went."""

    def __init__(self, channel: Channel, limit: Limit) -> None:
        super().__init__()
        self.buffer = True  # what a test prints is shown with its failure
        self._channel, self._limit = channel, limit
        self._failed = False

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self._limit.arm()
        self._failed = False
        self._channel.tell("started", name_of(test))

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        self._channel.tell("finished", name_of(test))

    def addSuccess(self, test: unittest.TestCase) -> None:
        super().addSuccess(test)
        self._channel.tell("passed", name_of(test))

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addFailure(test, err)
        self._channel.tell("failed", name_of(test), self.failures[-1][1])

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        super().addError(test, err)
        self._channel.tell("failed", name_of(test), self.errors[-1][1])

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            problems = self.failures if issubclass(err[0], test.failureException) else self.errors
            self._channel.tell("failed", name_of(subtest), problems[-1][1])

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        self._channel.tell("skipped", name_of(test))

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addExpectedFailure(test, err)
        self._channel.tell("skipped", name_of(test))

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        super().addUnexpectedSuccess(test)
        self._channel.tell("failed", name_of(test), "it was expected to fail, and passed")


def name_of(test: unittest.TestCase) -> str:
    """The test's name as `python -m unittest NAME` in the folder takes it, also where its module was found further down."""
    module = sys.modules.get(type(getattr(test, "test_case", test)).__module__)  # a subtest knows its test
    file = getattr(module, "__file__", None)
    name = str(test.id())
    if file and module is not None and name.startswith(module.__name__ + "."):
        path = os.path.relpath(file)
        if not path.startswith(os.pardir):
            return str(os.path.splitext(path)[0].replace(os.sep, ".")) + name[len(module.__name__) :]
    return name


def run_unittest(channel: Channel, limit: Limit, only: str) -> int:
    wanted = only.replace("/", ".").replace(".py::", ".").replace("::", ".")
    wanted = wanted.removesuffix(".py")
    suite, broken = unittest.TestSuite(), 0
    for path in sorted(find_test_files(".")):
        inside = os.path.splitext(path)[0].replace("/", ".")
        if os.path.isfile(only) and os.path.normpath(only) != path:
            continue
        limit.arm()
        channel.tell("collecting", path)
        module, problem = load(path)
        if module is None:
            if is_meant(inside, wanted):
                broken += 1
                channel.tell("failed", path, problem)
            continue
        if problem:
            channel.tell("skipped", path)
        suite.addTests(test for test in each_test(module) if is_meant(name_of(test), wanted))
    result = UnittestReporter(channel, limit)
    suite.run(result)
    if not result.testsRun and not result.skipped and not broken:
        return NO_TESTS
    return 0 if result.wasSuccessful() and not broken else 1


def is_meant(name: str, wanted: str) -> bool:
    """Whether `wanted` is some of the name's neighbouring parts."""
    return not wanted or "." + wanted + "." in "." + name + "."


def find_test_files(folder: str) -> Iterator[str]:
    for inside, folders, files in os.walk(folder):
        folders[:] = [each for each in folders if is_searched(os.path.join(inside, each))]
        for name in files:
            if name.startswith("test") and name.endswith(".py"):
                yield os.path.relpath(os.path.join(inside, name), folder)


def is_searched(folder: str) -> bool:
    name = os.path.basename(folder)
    environment = os.path.exists(os.path.join(folder, "pyvenv.cfg"))
    return not (name.startswith(".") or name in SKIPPED_FOLDERS or environment)


def load(path: str) -> tuple[Any | None, str]:
    """Import a test file as a module of the outermost package that it is in.

    Returns the module, or what stands for it, with a reason to skip it; or None, with what went wrong.
    """
    top, name = module_name(path)
    if top not in sys.path:
        sys.path.insert(1, top)
    known = sys.modules.get(name)
    try:
        if known is not None and os.path.abspath(getattr(known, "__file__", None) or "") != os.path.abspath(path):
            return load_beside(path), ""
        return importlib.import_module(name), ""
    except unittest.SkipTest as skip:
        return unittest.TestSuite(), str(skip) or "skipped"
    except Exception as error:  # boundary: whatever an import raises is that file's failure
        return None, import_trouble(error)


def module_name(path: str) -> tuple[str, str]:
    """The folder that has to be in `sys.path` for a file, and its name as a module from there."""
    top, file = os.path.split(os.path.abspath(path))
    name = os.path.splitext(file)[0]
    while os.path.exists(os.path.join(top, "__init__.py")):
        top, package = os.path.split(top)
        name = package + "." + name
    return top, name


def load_beside(path: str) -> Any:
    """Import a file whose name as a module another file in another folder has already."""
    name = os.path.splitext(path)[0].replace(os.sep, ".")
    spec = importlib.util.spec_from_file_location(name, path, loader=FreshLoader(name, path))
    assert spec is not None  # noqa: S101 - for the type checker
    assert spec.loader is not None  # noqa: S101 - likewise
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def import_trouble(error: BaseException) -> str:
    """The traceback without our own frames and those of the import system."""
    frames = traceback.extract_tb(error.__traceback__)
    kept = [each for each in frames if each.filename != __file__ and "importlib" not in each.filename]
    lines = ["Traceback (most recent call last):\n"] if kept else []
    lines += traceback.format_list(kept) + traceback.format_exception_only(type(error), error)
    return "".join(lines)


def each_test(module: Any) -> Iterator[unittest.TestCase]:
    """The tests of a module; of a skipped one none."""
    found = module if isinstance(module, unittest.TestSuite) else unittest.TestLoader().loadTestsFromModule(module)
    for each in found:
        if isinstance(each, unittest.TestSuite):
            yield from each_test(each)
        else:
            yield each


# --- both -----------------------------------------------------------------------------------------------------------


def find_pytest() -> Any:
    try:
        import pytest
    except ImportError:
        return None
    return pytest


def main() -> None:
    until, scratch, only = float(sys.argv[1]), sys.argv[2], sys.argv[3]
    sys.path[0] = os.getcwd()  # as `python -m` has it, instead of the folder of this file
    sys.argv[1:] = []
    channel = Channel()
    limit = Limit(until, channel)
    limit.arm()
    use_no_bytecode(scratch)
    pytest = find_pytest()
    channel.tell("runner", text="pytest" if pytest else "unittest")
    status = run_pytest(pytest, channel, limit, scratch, only) if pytest else run_unittest(channel, limit, only)
    channel.tell("ended", text=str(status))
    faulthandler.dump_traceback_later(EXIT_SECONDS, exit=True)
    sys.exit(status)


if __name__ == "__main__":
    main()
