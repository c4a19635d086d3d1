"""Asking the person at the terminal: whether a call may run, and what an MCP server wants to know."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import anyio

from ..loop.toolbox import Approve
from ..messages import ToolCall
from ..scopes import call_in_thread
from .output import is_terminal
from .texts import printable

if TYPE_CHECKING:
    from ..tools.mcp import Elicit, Question

__all__ = ["asker", "questioner"]

YES, NO = ("y", "yes"), ("", "n", "no")


def asker() -> Approve | None:
    """What asks at the terminal; None where there is none: then the run waits, and is saved."""
    return _ask if is_terminal(0) and is_terminal(2) else None


async def _ask(call: ToolCall) -> bool | str:
    """A stop does not wait for the answer."""
    question = f"\n{printable(call.name)} {printable(call.arguments)}\nallow this? [y/N, or why not] "
    async with _one_at_a_time():
        answer = await _ask_line(question)
    if answer.lower() in YES:
        return True
    return False if answer.lower() in NO else answer


def questioner() -> Elicit | None:
    """What puts a server's questions to the terminal; None where there is none: then the servers are told that."""
    return _answer if is_terminal(0) and is_terminal(2) else None


async def _answer(question: Question) -> Mapping[str, Any] | None:
    """The answer's fields; None declines. It is an approval like any other: nothing is said without a yes."""
    async with _one_at_a_time():
        return await _ask_question(question)


async def _ask_question(question: Question) -> Mapping[str, Any] | None:
    head = f"\nMCP server {printable(question.server)} asks: {printable(question.message)}"
    if question.url is not None:
        opened = await _ask_line(f"{head}\n{printable(question.url)}\nhave you opened it, and are done there? [y/N] ")
        return {} if opened.lower() in YES else None
    if (await _ask_line(f"{head}\nanswer it? Give no passwords or keys. [y/N] ")).lower() not in YES:
        return None
    schema = question.schema or {}
    fields: dict[str, Any] = {}
    for name, field in schema.get("properties", {}).items():
        value = await _ask_field(name, field, needed=name in schema.get("required", ()))
        if value is not None:
            fields[name] = value
    return fields


async def _ask_field(name: str, field: Mapping[str, Any], *, needed: bool) -> Any:
    """One field's value, asked until it is right; None where it is left out."""
    choices = field.get("enum") or [each.get("const") for each in field.get("oneOf", ())]
    kind = "/".join(map(str, choices)) if choices else field.get("type", "string")
    about = f": {printable(field['description'])}" if field.get("description") else ""
    left_out = "" if needed else ", empty to leave it out"
    while True:
        line = await _ask_line(f"  {printable(name)}{about} ({printable(kind)}{left_out}) ")
        if not line and not needed:
            return None
        try:
            return to_value(line, field.get("type", "string"), choices)
        except ValueError as error:
            sys.stderr.write(f"  {error}\n")


def to_value(line: str, kind: str, choices: Sequence[Any] = ()) -> Any:
    """What was typed, as the field's type.

    Raises:
        ValueError: It is none.
    """
    if choices:
        by_text = {str(each): each for each in choices}
        if line not in by_text:
            raise ValueError(f"give one of {', '.join(by_text)}")
        return by_text[line]
    if kind == "boolean":
        if line.lower() not in (*YES, *NO, "true", "false"):
            raise ValueError("give yes or no")
        return line.lower() in (*YES, "true")
    if kind in ("integer", "number"):
        try:
            value = json.loads(line)
        except ValueError:
            value = None
        if isinstance(value, bool) or not isinstance(value, int if kind == "integer" else (int, float)):
            raise ValueError("give a whole number" if kind == "integer" else "give a number")
        return value
    return line


@functools.cache
def _one_at_a_time() -> anyio.Lock:
    """Held while something is asked: calls of one reply may ask at the same time."""
    return anyio.Lock()


async def _ask_line(question: str) -> str:
    return (await call_in_thread(_read_line, question)).strip()


def _read_line(question: str) -> str:
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline()
