"""Which calls may run without a person: a mode, and rules by tool and argument.

A rule is a tool's name, or one with a pattern for its paths, or for its first argument if it has none:
`run_command(git diff*)`, `write_file(docs/*)`, `apply_patch(docs/*)`. A denial wins over a question, and that over a
permission. Of several paths a permission has to fit each, a denial or a question only one, in any spelling. A permission
with a pattern is not given to a text that a shell would take for more than one command, since `git diff*` fits
`git diff; rm -r .` too; a denial is.
"""

from __future__ import annotations

import copy
import fnmatch
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self, TypeAlias, get_args

from ..errors import ConfigError
from ..messages import ToolCall
from ..tools import Tool
from ..tools.json_text import NotArguments, decode_arguments
from ..tools.protocol import Hides
from .touched import Touched, find_touched, fold, forms_of, reaches_of

__all__ = ["Mode", "Permissions"]

Mode: TypeAlias = Literal["ask", "accept-edits", "auto", "deny"]

_RULE = re.compile(r"(?P<tool>[A-Za-z0-9_*-]+)(?:\((?P<pattern>.*)\))?", re.DOTALL)
_SHELL = frozenset(";&|<>`$()\n\r\\")
_FORBIDDEN = "a rule of the user's forbids it"
_NOT_ASKED = "the user allows no such calls; go on without them"


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

    def is_for(self, name: str) -> bool:
        return fnmatch.fnmatchcase(name, self.tool)

    def fits(self, text: str) -> bool:
        """Whether it is for a text as that stands."""
        return self.pattern is None or fnmatch.fnmatchcase(text, self.pattern)

    def reaches(self, path_spellings: Collection[str]) -> bool:
        """Whether it is for a path in any of its spellings; absolute ones only if it is absolute itself."""
        pattern = fold(self.pattern or "*")
        return any(fnmatch.fnmatchcase(each, pattern) for each in path_spellings if each[:1] != "/" or pattern[:1] == "/")


class Permissions:
    """What `Agent(permit=...)` asks about each call.

    Args:
        mode: "ask": a person, about all that does not only read. "accept-edits": about tools that say that they need an
            approval. "auto": about nothing. "deny": what would be asked about is denied.
        allow: Rules for calls that may run.
        deny: Rules for calls that may not. The files that they name are not listed or searched either.
        ask: Rules for calls that a person is asked about, whatever the mode and the permissions say.

    Raises:
        ConfigError: When the mode or a rule cannot be read.
    """

    def __init__(
        self,
        mode: Mode = "accept-edits",
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
        ask: Sequence[str] = (),
    ) -> None:
        if mode not in get_args(Mode):
            raise ConfigError(f'there is no permission mode "{mode}"', f"use one of {', '.join(get_args(Mode))}")
        self._mode = mode
        self._allow, self._deny, self._ask = [[_Rule.read(each) for each in rules] for rules in (allow, deny, ask)]
        self._folder: Path | None = None

    def within(self, folder: Path) -> Self:
        """The same for paths from a folder, whose links are looked at; the agent does it with its own."""
        bound = copy.copy(self)
        bound._folder = folder.resolve()
        return bound

    def __call__(self, tool: Tool, call: ToolCall) -> bool | str | None:
        """True: it may run. A text: it may not, and why. None: a person has to say."""
        if (why := self.forbids(tool, call)) is not None:
            return why
        touched = _touched_by(tool, call)
        if self._reached(self._ask, tool.name, touched):
            return _NOT_ASKED if self._mode == "deny" else None
        if self._allowed(tool.name, touched):
            return True
        asks = tool.effect != "read" if self._mode == "ask" else tool.approval
        if self._mode == "auto" or not asks:
            return True
        return _NOT_ASKED if self._mode == "deny" else None

    def forbids(self, tool: Tool, call: ToolCall) -> str | None:
        """Why the call may not run, whoever allows it; None where no denial is for it."""
        is_denied = bool(self._deny) and self._reached(self._deny, tool.name, _touched_by(tool, call))
        return _FORBIDDEN if is_denied else None

    def hidden_from(self, tool: Tool, call: ToolCall) -> Hides | None:
        """Whether a file is not for this call, which does not name it: None where no rule says so of any.

        Files that a person would be asked about are not either, unless the call itself was asked about.
        """
        rules = _with_pattern(self._deny, tool.name)
        asking = _with_pattern(self._ask, tool.name)
        if asking and not self._reached(asking, tool.name, _touched_by(tool, call)):
            rules += asking
        if not rules:
            return None
        return lambda path: _any_reaches(rules, reaches_of(path, self._folder))

    def _reached(self, rules: Sequence[_Rule], name: str, touched: Touched) -> bool:
        """Whether a rule is for any of what a call names."""
        found = [rule for rule in rules if rule.is_for(name)]
        if not found or not touched.is_clear or any(rule.fits(touched.first) for rule in found):
            return bool(found)
        named = [*touched.paths, *touched.folders]
        if not touched.is_list and not re.search(r"\s", touched.first):
            named.append(touched.first)  # such as a test's file
        return any(_any_reaches(found, reaches_of(path, self._folder)) for path in named if path)

    def _allowed(self, name: str, touched: Touched) -> bool:
        """Whether the permissions fit all that a call names."""
        usable = [rule for rule in self._allow if rule.is_for(name)]
        if not _is_plain(touched):
            usable = [rule for rule in usable if rule.pattern is None]
        texts = [form for path in touched.paths for form in forms_of(path, self._folder)] if usable else []
        return all(any(rule.fits(text) for rule in usable) for text in texts or [touched.first])


def _touched_by(tool: Tool, call: ToolCall) -> Touched:
    try:
        return find_touched(tool.schema, decode_arguments(call.arguments))
    except NotArguments:
        return Touched(first=call.arguments, is_clear=False)


def _is_plain(touched: Touched) -> bool:
    """Whether a shell would take each text for one plain word or command."""
    if touched.is_list and not touched.paths:
        return True
    return touched.is_clear and not any(_SHELL & set(text) for text in touched.paths or [touched.first])


def _with_pattern(rules: Sequence[_Rule], name: str) -> list[_Rule]:
    return [rule for rule in rules if rule.pattern is not None and rule.is_for(name)]


def _any_reaches(rules: Sequence[_Rule], path_spellings: Collection[str]) -> bool:
    return any(rule.reaches(path_spellings) for rule in rules)
