"""What to say next, as a pure function of the conversation: the same messages always get the same reply.

The order of the questions below is the engine's whole plan. Nothing is remembered between requests, so a run that was
stopped, killed or resumed elsewhere goes on from what its history says, after reading again whatever that leaves in doubt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from . import wording
from .conversation import steps_of, tool_names, unseen_in
from .knowledge import Knowledge, State, learn
from .patch import changed_lines, replacements
from .reading import files_to_read
from .search import ORIGINAL, next_targets, passing_state

__all__ = ["Said", "ToolUse", "next_reply"]

NEEDED = ("edit_file", "read_file", "run_tests")
PATIENCE = 3  # refusals in a row before giving up: a stop and a resume cost one or two


@dataclass(frozen=True, slots=True)
class ToolUse:
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Said:
    """One reply: without calls it is the final answer."""

    text: str
    calls: tuple[ToolUse, ...] = ()


RUN_TESTS = ToolUse("run_tests", {})


def next_reply(request: Mapping[str, Any]) -> Said:
    """The reply to an OpenAI chat completions request."""
    tools = tool_names(request)
    if missing := [name for name in NEEDED if name not in tools]:
        return Said(wording.missing_tools(missing))
    known = learn(steps_of(request["messages"]))
    if known.turns == 0:
        looks = (ToolUse("list_files", {}),) if "list_files" in tools else ()
        return Said(wording.hello(unseen_in(request["messages"])), (*looks, RUN_TESTS))
    return _in_doubt(known) or _finished(known) or _look(known, tools) or _try(known) or _give_up(known)


def _in_doubt(known: Knowledge) -> Said | None:
    """Settle what is unclear: files that may have been changed, tests that did not run."""
    if known.refusals >= PATIENCE or _hopeless(known):
        return _stop(known, known.last_words)
    if known.doubtful:
        return Said("Reading again what may have changed.", (*_reads(known, sorted(known.doubtful)), RUN_TESTS))
    if known.state not in known.reports:
        return Said("Running the tests of what is there now.", (RUN_TESTS,))
    if ORIGINAL not in known.reports:  # a run that was cut off before its first report, then resumed on an edit of ours
        return Said("Putting the files back to see how the tests began.", tuple(_moves(known, [ORIGINAL])))
    return None


def _hopeless(known: Knowledge) -> bool:
    """Tests that cannot be run at all, said twice, or once where saying it again would not change it."""
    if not known.trouble:
        return False
    return len(known.trouble) >= (2 * PATIENCE if known.reports else PATIENCE) or (
        not known.reports and "no tests" in known.trouble[-1]
    )


def _stop(known: Knowledge, words: str) -> Said:
    if not known.reports and not known.now:
        return Said(wording.no_tests(words))
    if known.state and not known.doubtful and known.refusals < PATIENCE:
        return Said("Putting the files back.", tuple(_edits(known.now, known.originals)))
    return Said(wording.stuck(words, put_back=not known.state and not known.doubtful))


def _finished(known: Knowledge) -> Said | None:
    first, tries = known.reports[ORIGINAL], len(known.reports) - 1
    good = passing_state(known)
    if good is None:
        return None
    if good == ORIGINAL and known.state == ORIGINAL:
        return Said(wording.already_passing(first.passed))
    if good == known.state:
        changes = [_change(path, known.originals[path], text) for path, text in sorted(good)]
        return Said(wording.mended(changes, known.reports[good].passed, tries))
    return Said("Going back to the edit that passed.", tuple(_moves(known, [good])))


def _look(known: Knowledge, tools: set[str]) -> Said | None:
    if known.listing is None and known.listings < PATIENCE and "list_files" in tools:
        return Said("Listing the files.", (ToolUse("list_files", {}),))
    unread = [path for path in sorted(known.asked) if known.unread(path)]
    paths = unread or files_to_read(known, known.reports[ORIGINAL])
    if not paths:
        return None
    return Said(wording.reading(paths), _reads(known, paths))


def _reads(known: Knowledge, paths: list[str]) -> tuple[ToolUse, ...]:
    calls = []
    for path in paths:
        first = None if path in known.doubtful else known.unread(path)
        calls.append(ToolUse("read_file", {"path": path, "first_line": first} if first else {"path": path}))
    return tuple(calls)


def _try(known: Knowledge) -> Said | None:
    targets = next_targets(known)
    if not targets:
        return None
    tries = len(known.reports)
    return Said(
        wording.trying(tries, [target.candidate for target in targets]),
        tuple(_moves(known, [target.state for target in targets])),
    )


def _give_up(known: Knowledge) -> Said:
    if known.state:
        return Said("No edit is left to try; putting the files back.", tuple(_moves(known, [ORIGINAL])))
    return Said(wording.gave_up(len(known.reports) - 1, known.reports[ORIGINAL].failed))


def _moves(known: Knowledge, states: list[State]) -> Iterator[ToolUse]:
    """The edits from one state to the next, and the tests of each."""
    now = dict(known.now)
    for state in states:
        texts = {**known.originals, **dict(state)}
        yield from _edits(now, texts)
        yield RUN_TESTS
        now |= texts


def _edits(now: Mapping[str, str], wanted: Mapping[str, str]) -> Iterator[ToolUse]:
    for path in sorted(now):
        for old, new in replacements(now[path], wanted[path]):
            yield ToolUse("edit_file", {"path": path, "old": old, "new": new})


def _change(path: str, before: str, after: str) -> str:
    line, old, new = changed_lines(before, after)
    return wording.change(path, line, old, new)
