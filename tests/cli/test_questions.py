"""An MCP server's question at a terminal: nothing is answered without a yes, and each field as its type."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from typing import Any

import pytest

from heaveto.cli.asking import to_value

PROGRAM = """
import json, sys, anyio
from heaveto.cli.asking import questioner
from heaveto.tools.mcp import Question
ask = questioner()
assert ask is not None
print("RESULT", json.dumps(anyio.run(ask, Question(**json.loads(sys.argv[1])))), flush=True)
"""
SCHEMA = {
    "type": "object",
    "properties": {
        "size": {"type": "integer", "description": "How many?"},
        "colour": {"type": "string", "enum": ["red", "blue"]},
        "note": {"type": "string"},
        "sure": {"type": "boolean"},
    },
    "required": ["size", "colour", "sure"],
}


def answered(question: dict[str, Any], *lines: str) -> tuple[Any, str]:
    """What the program says at a terminal on which these lines are typed; and all that was shown."""
    ours, theirs = os.openpty()
    command = [sys.executable, "-c", PROGRAM, json.dumps(question)]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as process:
        os.close(theirs)
        os.write(ours, "".join(f"{line}\n" for line in lines).encode())
        shown, until = "", time.monotonic() + 60
        while "RESULT " not in shown or not shown.endswith("\n"):
            assert time.monotonic() < until, shown
            if select.select([ours], [], [], 0.1)[0]:
                shown += os.read(ours, 65536).decode().replace("\r\n", "\n")
        process.wait()
    os.close(ours)
    return json.loads(shown.rpartition("RESULT ")[2]), shown


@pytest.mark.skipif(sys.platform != "linux", reason="no terminal as Linux has them")
def test_a_question_is_answered_field_by_field_or_not_at_all() -> None:
    question = {"server": "notes", "message": "Which\x1b[2J one?", "schema": SCHEMA}
    answer, shown = answered(question, "y", "many", "3", "green", "red", "", "yes")
    assert answer == {"size": 3, "colour": "red", "sure": True}
    assert "MCP server notes asks: Which" in shown
    assert "\x1b" not in shown
    assert "size: How many? (integer)" in shown
    assert "give a whole number" in shown
    assert "give one of red, blue" in shown
    assert answered(question, "")[0] is None


@pytest.mark.parametrize(
    ("line", "kind", "value"),
    [
        ("1", "integer", 1),
        ("1.5", "number", 1.5),
        ("no", "boolean", False),
        ("true", "boolean", True),
        ("x y", "string", "x y"),
    ],
)
def test_a_line_is_taken_as_its_type(line: str, kind: str, value: Any) -> None:
    assert to_value(line, kind) == value


@pytest.mark.parametrize(("line", "kind"), [("1.5", "integer"), ("true", "integer"), ("x", "number"), ("maybe", "boolean")])
def test_what_is_of_another_type_is_refused(line: str, kind: str) -> None:
    with pytest.raises(ValueError, match="give"):
        to_value(line, kind)
