"""The request's messages as steps: each tool call with its answer, and where the current task begins."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Page", "Step", "read_page", "steps_of", "text_of", "tool_names", "unseen_in"]

PAGE_HEAD = re.compile(r"(?P<path>.+), lines (?P<first>\d+)-(?P<last>\d+) of (?P<total>\d+)$")


@dataclass(frozen=True, slots=True)
class Step:
    """One tool call and its answer.

    Attributes:
        turn: The number of the reply that asked for it, from 0, within the task.
    """

    turn: int
    name: str
    arguments: Mapping[str, Any]
    answer: str


@dataclass(frozen=True, slots=True)
class Page:
    """Some lines of a file, as `read_file` gives them."""

    path: str
    first: int
    total: int
    lines: tuple[str, ...]

    @property
    def last(self) -> int:
        return self.first + len(self.lines) - 1


def tool_names(request: Mapping[str, Any]) -> set[str]:
    return {tool["function"]["name"] for tool in request.get("tools") or () if "function" in tool}


def steps_of(messages: Sequence[Mapping[str, Any]]) -> list[Step]:
    """The current task's calls with their answers, in the order in which they ran."""
    answers = {m["tool_call_id"]: text_of(m.get("content")) for m in messages if m.get("role") == "tool"}
    steps: list[Step] = []
    for turn, message in enumerate(_current_task(messages)):
        for call in message.get("tool_calls") or ():
            function = call["function"]
            steps.append(Step(turn, function["name"], _arguments(function["arguments"]), answers.get(call["id"], "")))
    return steps


def _current_task(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The assistant's messages since the last prompt that followed a final answer; a word put in between begins nothing."""
    spoken: list[Mapping[str, Any]] = []
    answered = False
    for message in messages:
        if message.get("role") == "assistant":
            spoken.append(message)
            answered = not message.get("tool_calls")
        elif message.get("role") == "user" and answered:
            spoken, answered = [], False
    return spoken


def text_of(content: Any) -> str:
    """A message's text, also where it comes as parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, Iterable):
        return "".join(part.get("text", "") for part in content if isinstance(part, Mapping))
    return ""


def unseen_in(messages: Sequence[Mapping[str, Any]]) -> int:
    """How many images and files the people of this conversation have given."""
    contents = [message.get("content") for message in messages if message.get("role") == "user"]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return sum(isinstance(part, Mapping) and part.get("type") != "text" for part in parts)


def _arguments(text: str) -> Mapping[str, Any]:
    try:
        arguments = json.loads(text or "{}")
    except ValueError:  # not of our making; its answer says that it was refused
        return {}
    return arguments if isinstance(arguments, dict) else {}


def read_page(answer: str) -> Page | None:
    """The lines in a result of `read_file`, or None when it is an error."""
    head, _, rest = answer.partition("\n")
    match = PAGE_HEAD.match(head)
    if not match:
        return None
    first, total = int(match["first"]), int(match["total"])
    lines: list[str] = []
    for line in rest.split("\n") if total else ():
        number, tab, text = line.partition("\t")
        if not tab or number.strip() != str(first + len(lines)):
            break  # the note that says how to read on
        lines.append(text)
    return Page(match["path"], first, total, tuple(lines))
