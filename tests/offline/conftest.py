"""A project in memory with the built-in tools' contract, and a loop that plays the program's side of the conversation.

Tests run in this process: the project's modules are executed from their text, by unittest, under names that are taken out
of `sys.modules` again.
"""

from __future__ import annotations

import io
import json
import sys
import traceback
import types
import unittest
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from heaveto.offline.engine import answer

NAMES = ("list_files", "read_file", "search_files", "edit_file", "write_file", "run_tests")
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in NAMES]
PROMPT = [{"role": "system", "content": "You mend programs."}, {"role": "user", "content": "make the tests pass"}]


class Project:
    """Modules by path, all in one folder; what a tool says is what the real one says."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = dict(files)
        self.test_runs = 0

    def list_files(self) -> str:
        return "\n".join(sorted(self.files))

    def read_file(self, path: str, first_line: int = 1) -> str:
        if path not in self.files:
            return f'there is no "{path}"'
        lines = self.files[path].splitlines()
        shown = [f"{number}\t{line}" for number, line in enumerate(lines, 1) if number >= first_line]
        return "\n".join([f"{path}, lines {first_line}-{len(lines)} of {len(lines)}", *shown])

    def edit_file(self, path: str, old: str, new: str) -> str:
        if self.files[path].count(old) != 1:
            return f"old occurs {self.files[path].count(old)} times in {path}; make it unique"
        self.files[path] = self.files[path].replace(old, new)
        return f"edited {path}, line 1: 1 line replaced by 1"

    def run_tests(self) -> str:
        self.test_runs += 1
        with self._imported() as modules:
            suite = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromModule(module) for module in modules)
            result = unittest.TextTestRunner(stream=io.StringIO()).run(suite)
        bad = [*result.failures, *result.errors]
        if result.testsRun == 0:
            return "no tests were found"
        if not bad:
            return f"tests passed: {result.testsRun}"
        head = f"tests failed: {len(bad)} failed, {result.testsRun - len(bad)} passed"
        return "\n\n".join([head, *(f"FAIL {test.id()}\n{text.replace('/project/', '')}" for test, text in bad)])[:6000]

    def call(self, call: Mapping[str, Any]) -> str:
        function = call["function"]
        done: str = getattr(self, function["name"])(**json.loads(function["arguments"]))
        return done

    def _imported(self) -> _Imported:
        return _Imported(self.files)


class _Imported:
    """The project's modules, importable by each other while the block lasts."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.sources = {path.removesuffix(".py"): text for path, text in files.items() if path.endswith(".py")}

    def __enter__(self) -> list[types.ModuleType]:
        modules = {}
        for name in sorted(self.sources, key=lambda name: name.startswith("test_")):
            module = types.ModuleType(name)
            sys.modules[name] = modules[name] = module
            try:
                exec(compile(self.sources[name], f"/project/{name}.py", "exec", dont_inherit=True), module.__dict__)
            except Exception:
                module.__dict__["Broken"] = _failing_case(name, traceback.format_exc())
        return [module for name, module in modules.items() if name.startswith("test_") or "Broken" in module.__dict__]

    def __exit__(self, *_: object) -> None:
        for name in self.sources:
            sys.modules.pop(name, None)


def _failing_case(name: str, text: str) -> type:
    def test_import(self: unittest.TestCase) -> None:
        raise ImportError(text)

    return type("Broken", (unittest.TestCase,), {"test_import": test_import})


class Driver:
    """The program's side: ask the engine, run its calls, append the answers."""

    def __init__(self, project: Project, messages: list[dict[str, Any]] | None = None) -> None:
        self.project = project
        self.messages = list(messages or PROMPT)

    def turn(self, answer_call: Callable[[Mapping[str, Any]], str] | None = None) -> dict[str, Any]:
        message = answer({"messages": self.messages, "tools": TOOLS})
        self.messages.append(message)
        for call in message.get("tool_calls", ()):
            content = (answer_call or self.project.call)(call)
            self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
        return message

    def run(self, most_turns: int = 100) -> str:
        for _ in range(most_turns):
            message = self.turn()
            if "tool_calls" not in message:
                return str(message["content"])
        raise AssertionError(f"no end within {most_turns} turns")


SHOP = """\
def total(prices, percent):
    before = sum(prices)
    return before + before * percent / 100


def cheapest(prices):
    return min(prices)
"""
SHOP_TESTS = """\
import unittest

from shop import cheapest, total


class ShopTest(unittest.TestCase):
    def test_discount(self):
        self.assertEqual(total([50, 50], 10), 90)

    def test_no_discount(self):
        self.assertEqual(total([1, 2], 0), 3)

    def test_cheapest(self):
        self.assertEqual(cheapest([3, 1]), 1)
"""


@pytest.fixture
def shop() -> Project:
    """A discount that is added."""
    return Project({"shop.py": SHOP, "test_shop.py": SHOP_TESTS})


@pytest.fixture
def driver(shop: Project) -> Driver:
    return Driver(shop)


@pytest.fixture
def project() -> type[Project]:
    return Project


@pytest.fixture
def drive() -> type[Driver]:
    return Driver


@pytest.fixture
def tools() -> list[dict[str, Any]]:
    return TOOLS
