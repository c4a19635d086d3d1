"""Bugs that the simulation must find: each is put into a throw-away copy of the product, one at a time."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import heaveto

__all__ = ["BUGS", "Bug", "copy_with"]

PRODUCT = Path(heaveto.__file__).parent


class Bug(NamedTuple):
    """A line of a module, and what it is instead."""

    what: str
    module: str
    line: str
    instead: str


BUGS = (
    Bug("no marker before a call", "loop/answering.py", "            self._mark(ready)\n", ""),
    Bug(
        "results that nobody writes down before they are shown",
        "loop/turn.py",
        "        await self._log.commit()  # the results of the last turn, before anything new is spent\n",
        "",
    ),
    Bug("the check's word is not asked for", "loop/rungs.py", "keyed, checked, undone", "keyed, undone"),
    Bug(
        "a write is run again",
        "loop/rungs.py",
        'if known.effect is None or known.effect == "write" or known.marked == "write":',
        "if known.effect is None:",
    ),
    Bug("a key for each try", "loop/answering.py", "key=marker.key if marker else", "key=str(id(entry)) if not marker else"),
    Bug("a call that never ran is said nothing of", "loop/answering.py", 'if entry.state == "asked" or', "if"),
    Bug(
        "a call that may have run is said never to have",
        "loop/answering.py",
        "        if entry.may_have_run:\n            continue\n",
        "",
    ),
    Bug(
        "a call begins within a grace",
        "loop/answering.py",
        "            if pending_cause() is not None:\n                return",
        "            if False:\n                return",
    ),
    Bug(
        "a cut call costs nothing",
        "loop/calling.py",
        "                self._log.add(CallSpent(",
        "                (CallSpent(",
    ),
    Bug(
        "a killed call costs nothing",
        "runs/opening.py",
        "    if state.finished is None and not state.open_calls and state.answer is None:\n",
        "    if False:\n",
    ),
    Bug("a driver that lost the run goes on writing", "journal/memory.py", "if run.epoch != epoch:", "if False:"),
    Bug(
        "what is said meanwhile is lost",
        "journal/state.py",
        "if entry.answer), *self.said_meanwhile)\n",
        "if entry.answer))\n",
    ),
    Bug(
        "answers in the order in which they came",
        "journal/state.py",
        "        entry.state = after\n",
        "        entry.state = after\n        self.open_calls[call_id] = self.open_calls.pop(call_id)\n",
    ),
    Bug(
        "a word for other arguments",
        "journal/state.py",
        "entry.call = ToolCall(entry.call.id, entry.call.name, record.arguments)",
        "pass",
    ),
    Bug("one attempt too many", "retry/policy.py", "if attempt >= self.attempts:", "if attempt > self.attempts:"),
)


def copy_with(bug: Bug, folder: Path) -> None:
    """A copy of the product in a folder, with the bug in it.

    Raises:
        AssertionError: The line is not there, or not once: the product has changed, and so must the bug.
    """
    copied = folder / "heaveto"
    shutil.copytree(PRODUCT, copied, ignore=shutil.ignore_patterns("__pycache__"))
    path = copied / bug.module
    text = path.read_text()
    if text.count(bug.line) != 1:
        raise AssertionError(f"{bug.module} has the line {text.count(bug.line)} times: {bug.line!r}")
    path.write_text(text.replace(bug.line, bug.instead))
