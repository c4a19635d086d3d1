"""Which calls may run without a person: a mode, and rules by tool and argument. Pure.

A rule is a tool's name, or one with a pattern for its first argument, or for its paths: `run_command(git diff*)`,
`write_file(docs/*)`, `apply_patch(docs/*)`. Of several paths a permission has to fit each, a denial only one. A denial wins
over a permission. A permission with a pattern is not given to a text that a shell would take for more than one command,
since `git diff*` fits `git diff; rm -r .` too; a denial is.
"""

from __future__ import annotations

import fnmatch
import json
import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from ..errors import ConfigError
from ..messages import ToolCall
from ..tools import Tool

__all__ = ["Mode", "Permissions"]

Mode: TypeAlias = Literal["ask", "accept-edits", "auto", "deny"]

_RULE = re.compile(r"(?P<tool>[A-Za-z0-9_*-]+)(?:\((?P<pattern>.*)\))?", re.DOTALL)
_PATCHED = re.compile(r"^\*\*\* (?:(?:Add|Delete|Update) File|Move to): *(.*\S)\s*$", re.MULTILINE)
_SHELL = frozenset(";&|<>`$()\n\r\\")


@dataclass(frozen=True, slots=True)
class _Rule:
    tool: str
    pattern: str | None

    @classmethod
    def read(cls, text: str) -> _Rule:
        match = _RULE.fullmatch(text.strip())
        if match is None:
            raise ConfigError(f'"{text}" is no rule', "give a tool's name, or one with a pattern: run_command(git diff*)")
        return cls(match["tool"], match["pattern"])

    def fits(self, name: str, text: str) -> bool:
        if not fnmatch.fnmatchcase(name, self.tool):
            return False
        return self.pattern is None or fnmatch.fnmatchcase(text, self.pattern)


class Permissions:
    """What `Agent(permit=...)` asks about each call.

    Args:
        mode: "ask": a person, about all that does not only read. "accept-edits": about tools that say that they need an
            approval. "auto": about nothing. "deny": what would be asked about is denied.
        allow: Rules for calls that may run.
        deny: Rules for calls that may not.

    Raises:
        ConfigError: When the mode or a rule cannot be read.
    """

    def __init__(self, mode: Mode = "accept-edits", allow: Sequence[str] = (), deny: Sequence[str] = ()) -> None:
        if mode not in get_args(Mode):
            raise ConfigError(f'there is no permission mode "{mode}"', f"use one of {', '.join(get_args(Mode))}")
        self._mode = mode
        self._allow, self._deny = [[_Rule.read(each) for each in rules] for rules in (allow, deny)]

    def __call__(self, tool: Tool, call: ToolCall) -> bool | str | None:
        """True: it may run. A text: it may not, and why. None: a person has to say."""
        texts, is_one = _texts_of(tool, call)
        if any(rule.fits(tool.name, text) for rule in self._deny for text in _with_ends(texts)):
            return "a rule of the user's forbids it"
        usable = [rule for rule in self._allow if rule.pattern is None or is_one]
        if all(any(rule.fits(tool.name, text) for rule in usable) for text in texts):
            return True
        asks = tool.effect != "read" if self._mode == "ask" else tool.approval
        if self._mode == "auto" or not asks:
            return True
        return "the user allows no such calls; go on without them" if self._mode == "deny" else None


def _texts_of(tool: Tool, call: ToolCall) -> tuple[list[str], bool]:
    """What of a call a pattern is for; and whether a shell would take each for one plain word or command.

    The paths of a call that has some, or else its first argument: first by the tool's schema, since the model may write them
    in any order.
    """
    try:
        values = json.loads(call.arguments or "{}")
    except ValueError:
        return [call.arguments], False
    if not isinstance(values, dict):
        return [str(values)], False
    if not (texts := list(_paths_in(values))):
        declared = tool.schema.get("properties", {})
        first = next((values[name] for name in (*declared, *values) if name in values), "")
        if isinstance(first, list):
            return [shlex.join(map(str, first))], True
        texts = [str(first)]
    return texts, not any(_SHELL & set(text) for text in texts)


def _paths_in(values: dict[str, Any]) -> Iterator[str]:
    """The files that a call names, in one spelling; those of a patch too."""
    paths = [values[name] for name in ("path", "to") if isinstance(values.get(name), str)]
    if isinstance(patch := values.get("patch"), str):
        paths += _PATCHED.findall(patch)
    for path in paths:
        yield path if "://" in path else posixpath.normpath(path)


def _with_ends(texts: Sequence[str]) -> list[str]:
    """The texts, and of an absolute path what it may be relative to the folder: a denial reaches that too."""
    parts = [text.split("/") for text in texts if text.startswith("/")]
    return [*texts, *("/".join(each[at:]) for each in parts for at in range(1, len(each)))]
