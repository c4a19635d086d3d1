"""The engine against projects in memory: what it mends, what it says, and how it goes on after an interruption."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from heaveto.offline.engine import answer

CASES = {
    "boundary": ("def adult(age):\n    return age > 18\n", "adult(18)", "True", "adult(17)", "False"),
    "arithmetic": ("def area(a, b):\n    return a + b\n", "area(3, 4)", "12", "area(2, 2)", "4"),
    "missing return": ("def double(n):\n    result = n * 2\n    result\n", "double(4)", "8", "double(0)", "0"),
    "constant": ("def minutes(hours):\n    return hours * 6\n", "minutes(2)", "120", "minutes(0)", "0"),
    "variable": ("def last(first, other):\n    return first\n", "last(1, 2)", "2", "last(5, 5)", "5"),
    "name error": ("def greet(name):\n    return 'hi ' + nam\n", "greet('Al')", "'hi Al'", "greet('')", "'hi '"),
    "index": ("def end(items):\n    return items[0]\n", "end([1, 2])", "2", "end([7])", "7"),
    "method": ("def shout(text):\n    return text.lower()\n", "shout('a')", "'A'", "shout('B')", "'B'"),
    "conversion": ("def add(text, n):\n    return text + n\n", "add('2', 3)", "5", "add('1', 0)", "1"),
    "early return": (
        "def total(items):\n    result = 0\n    for item in items:\n        result += item\n        return result\n",
        "total([1, 2])",
        "3",
        "total([5])",
        "5",
    ),
    "syntax": ("def inc(n)\n    return n + 1\n", "inc(1)", "2", "inc(0)", "1"),
}


def checks_of(one: str, want: str, other: str, also: str) -> str:
    body = "\n".join(
        f"    def test_{name}(self):\n        self.assertEqual(code.{call}, {value})\n"
        for name, call, value in (("one", one, want), ("other", other, also))
    )
    return f"import unittest\n\nimport subject as code\n\n\nclass CodeTest(unittest.TestCase):\n{body}"


@pytest.mark.parametrize("kind", CASES)
def test_mends_one_slip(kind: str, project: Any, drive: Any) -> None:
    source, *checks = CASES[kind]
    tests = checks_of(*checks)
    files = project({"subject.py": source, "test_code.py": tests})
    said = drive(files).run()
    assert said.startswith("All 2 tests pass now"), said
    assert files.run_tests() == "tests passed: 2"
    assert files.files["test_code.py"] == tests


def test_says_that_it_is_no_language_model(driver: Any) -> None:
    """Golden: the sentence that people read first and last."""
    sentence = "I am heaveto's offline repair engine, not a language model: I only search small edits until the tests pass."
    assert driver.turn()["content"] == f"{sentence} First I list the files and run the tests."
    assert sentence in driver.run()


def test_names_what_it_changed(driver: Any) -> None:
    said = driver.run()
    assert (
        "- shop.py line 3: `return before + before * percent / 100` became `return before - before * percent / 100`" in said
    )


def test_begins_with_a_look(driver: Any) -> None:
    """The first reply asks for several things at once, the second for all files that matter."""
    first, second = driver.turn(), driver.turn()
    assert [call["function"]["name"] for call in first["tool_calls"]] == ["list_files", "run_tests"]
    assert [json.loads(call["function"]["arguments"])["path"] for call in second["tool_calls"]] == [
        "test_shop.py",
        "shop.py",
    ]


def test_nothing_to_do(project: Any, drive: Any, shop: Any) -> None:
    shop.files["shop.py"] = shop.files["shop.py"].replace("before +", "before -")
    before = dict(shop.files)
    assert "All 3 tests pass already; nothing was changed." in drive(shop).run()
    assert shop.files == before


def test_no_tests(project: Any, drive: Any) -> None:
    said = drive(project({"a.py": "x = 1\n"})).run()
    assert "The tests could not be run, so there is nothing that I can mend: no tests were found" in said


@pytest.mark.parametrize("missing", ["edit_file", "read_file", "run_tests"])
def test_missing_tools(missing: str, tools: list[Any], driver: Any) -> None:
    rest = [tool for tool in tools if tool["function"]["name"] != missing]
    message = answer({"messages": driver.messages, "tools": rest})
    assert f"I need {missing} among the tools" in message["content"]
    assert "tool_calls" not in message


def test_gives_up_and_puts_back(project: Any, drive: Any) -> None:
    files = {
        "oracle.py": "def wisdom(question):\n    return question\n",
        "test_oracle.py": checks_of("wisdom('a')", "'xyzzy'", "wisdom('b')", "'plugh'").replace("subject", "oracle"),
    }
    there = project(files)
    said = drive(there).run()
    assert "none makes all tests pass; 2 still fail, and the project is as it was." in said
    assert there.files == files


def test_two_slips_in_two_places(project: Any, drive: Any, shop: Any) -> None:
    """An edit that mends some tests and breaks none becomes the base of the next search."""
    shop.files["shop.py"] = shop.files["shop.py"].replace("min(prices)", "max(prices)")
    assert drive(shop).run().startswith("All 3 tests pass now")


def test_same_messages_same_reply(driver: Any, tools: list[Any]) -> None:
    """Nothing is remembered: every reply of a run is given again by a fresh request with the same history."""
    driver.run()
    for number, message in enumerate(driver.messages):
        if message["role"] == "assistant":
            request = json.loads(json.dumps({"messages": driver.messages[:number], "tools": tools}))
            assert answer(request) == message


def test_call_ids_are_unique(driver: Any) -> None:
    driver.run()
    ids = [call["id"] for message in driver.messages for call in message.get("tool_calls", ())]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("words", ["cancelled before it ran: you pressed Ctrl-C", "stopped while it ran: shutting down"])
@pytest.mark.parametrize("turn", range(4))
def test_goes_on_after_a_stop_in_any_turn(turn: int, words: str, driver: Any, drive: Any) -> None:
    """All calls of one turn were stopped; the run resumes elsewhere, from the history alone."""
    for _ in range(turn):
        driver.turn()
    driver.turn(lambda call: words)
    elsewhere = drive(driver.project, copy.deepcopy(driver.messages))
    assert elsewhere.run().startswith("All 3 tests pass now")


def test_goes_on_when_the_stopped_edit_took_effect(driver: Any, drive: Any) -> None:
    """An edit whose result never came is looked for in the file, not made twice."""
    driver.turn(), driver.turn()

    def cut(call: dict[str, Any]) -> str:
        driver.project.call(call)
        return "the outcome is unknown: the process was killed"

    driver.turn(cut)
    message = driver.turn()
    assert [call["function"]["name"] for call in message["tool_calls"]] == ["read_file", "run_tests"]
    assert driver.run().startswith("All 3 tests pass now")


def test_keeps_an_edit_of_somebody_else(driver: Any) -> None:
    """A file that others changed meanwhile becomes the new original."""
    driver.turn(), driver.turn()
    driver.project.files["shop.py"] += "\n\nVERSION = 2\n"
    driver.turn(lambda call: f"shop.py changed since it was read: {call['id']}")
    assert driver.run().startswith("All 3 tests pass now")
    assert driver.project.files["shop.py"].rstrip().endswith("VERSION = 2")


def test_gives_up_when_edits_are_denied(driver: Any) -> None:
    before = dict(driver.project.files)

    def deny(call: dict[str, Any]) -> str:
        done = driver.project.call
        return "edit_file was denied: hands off" if call["function"]["name"] == "edit_file" else str(done(call))

    for _ in range(20):
        message = driver.turn(deny)
        if "tool_calls" not in message:
            break
    assert "I cannot go on (edit_file was denied: hands off)" in message["content"]
    assert driver.project.files == before


def test_a_second_prompt_begins_anew(driver: Any) -> None:
    driver.run()
    driver.messages.append({"role": "user", "content": "and again"})
    assert "All 3 tests pass already" in driver.run()


def test_a_word_in_between_begins_nothing(driver: Any) -> None:
    """A message that a person puts into a run under way does not make the engine forget what it tried."""
    driver.turn(), driver.turn(), driver.turn()
    driver.messages.append({"role": "user", "content": "hurry"})
    names = [call["function"]["name"] for call in driver.turn().get("tool_calls", ())]
    assert "list_files" not in names


def test_reads_on_where_a_file_was_cut(driver: Any) -> None:
    """A long file comes in two parts."""
    source = driver.project.files["shop.py"]
    driver.turn()
    lines = source.splitlines()

    def in_parts(call: dict[str, Any]) -> str:
        arguments = json.loads(call["function"]["arguments"])
        if arguments.get("path") != "shop.py" or arguments.get("first_line", 1) > 1:
            return str(driver.project.call(call))
        shown = "\n".join(f"{number}\t{line}" for number, line in enumerate(lines[:4], 1))
        return f"shop.py, lines 1-4 of {len(lines)}\n{shown}\n... cut after line 4; read on with first_line=5"

    driver.turn(in_parts)
    message = driver.turn(in_parts)
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == {"path": "shop.py", "first_line": 5}
    assert driver.run().startswith("All 3 tests pass now")
