"""Which calls may run without a person: a mode, and rules by tool and argument. Pure.

A rule is a tool's name, or one with a pattern for the call's first text: `run_command(git diff*)`, `write_file(docs/*)`. A
denial wins over a permission. A permission with a pattern is not given to a text that a shell would take for more than one
command, since `git diff*` fits `git diff; rm -r .` too; a denial is.
"""

from __future__ import annotations

import fnmatch
import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from ..errors import ConfigError
from ..messages import ToolCall
from ..tools import Tool

__all__ = ["Mode", "Permissions"]

Mode: TypeAlias = Literal["ask", "accept-edits", "auto", "deny"]

_RULE = re.compile(r"(?P<tool>[A-Za-z0-9_*-]+)(?:\((?P<pattern>.*)\))?", re.DOTALL)
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
        text, is_one = _text_of(call)
        for rule in self._deny:
            if rule.fits(tool.name, text):
                return "a rule of the user's forbids it"
        if any(rule.fits(tool.name, text) and (rule.pattern is None or is_one) for rule in self._allow):
            return True
        asks = tool.effect != "read" if self._mode == "ask" else tool.approval
        if self._mode == "auto" or not asks:
            return True
        return "the user allows no such calls; go on without them" if self._mode == "deny" else None


def _text_of(call: ToolCall) -> tuple[str, bool]:
    """A call's first text, for a pattern; and whether a shell would take it for one plain command."""
    try:
        values = json.loads(call.arguments or "{}")
    except ValueError:
        return call.arguments, False
    first = next(iter(values.values()), "") if isinstance(values, dict) else values
    if isinstance(first, list):
        return shlex.join(map(str, first)), True
    text = str(first)
    return text, not _SHELL & set(text)
