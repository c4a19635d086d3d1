"""What the engine knows, folded from the task's steps.

A *state* of the project is what differs from the original: `{path: text}`. Every report of the tests is kept under the
state that it was made of, so that what to try next needs no memory but the conversation. A file is *doubtful* after a call
that may or may not have changed it, and until it has been read again no report counts for anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from .conversation import Step, read_page
from .patch import occurs_once
from .reports import Report, parse_report
from .source import is_test_file

__all__ = ["Knowledge", "State", "learn"]

State = frozenset[tuple[str, str]]


@dataclass
class Knowledge:
    """Everything that the conversation tells.

    Attributes:
        listing: The project's files; None before they were listed.
        originals: Each read file's text as it was when the task began.
        now: The same files as they are, as far as known.
        asked: How often each file was asked for, readable or not.
        listings: How often the list was asked for.
        doubtful: Files that must be read again.
        reports: State -> what the tests said of it.
        trouble: The last words of tests that could not be run, and how many times in a row.
        refusals: Edits and readings that failed, in a row; `last_words` is what the last failure said.
        turns: Replies so far.
    """

    listing: list[str] | None = None
    originals: dict[str, str] = field(default_factory=dict)
    now: dict[str, str] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    listings: int = 0
    doubtful: set[str] = field(default_factory=set)
    reports: dict[State, Report] = field(default_factory=dict)
    trouble: list[str] = field(default_factory=list)
    refusals: int = 0
    last_words: str = ""
    turns: int = 0
    pages: dict[str, list[str]] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)
    ours: dict[str, set[str]] = field(default_factory=dict)

    @property
    def state(self) -> State:
        return frozenset((path, text) for path, text in self.now.items() if text != self.originals[path])

    @property
    def sources(self) -> dict[str, str]:
        """The files that may be edited, as they were."""
        return {path: text for path, text in self.originals.items() if _is_source(path)}

    @property
    def tests(self) -> dict[str, str]:
        return {path: text for path, text in self.originals.items() if path.endswith(".py") and is_test_file(path)}

    def unread(self, path: str) -> int | None:
        """The first line of a file that was cut when it was read and that is still missing."""
        have = len(self.pages.get(path, ()))
        return have + 1 if have < self.totals.get(path, 0) else None


def _is_source(path: str) -> bool:
    return path.endswith(".py") and not is_test_file(path) and path != "setup.py"


def learn(steps: Iterable[Step]) -> Knowledge:
    """Fold the steps into what is known after them."""
    known = Knowledge()
    for step in steps:
        known.turns = step.turn + 1
        match step.name:
            case "list_files":
                _learn_listing(known, step.answer)
            case "read_file":
                _learn_file(known, step)
            case "edit_file":
                _learn_edit(known, step)
            case "run_tests":
                _learn_report(known, step.answer)
    return known


def _learn_listing(known: Knowledge, answer: str) -> None:
    known.listings += 1
    lines = [line for line in answer.split("\n") if line and not line.startswith("... ")]
    if any(path.endswith(".py") for path in lines):  # an error's sentence names no path of its own on a line
        known.listing = lines


def _learn_file(known: Knowledge, step: Step) -> None:
    path, page = str(step.arguments.get("path", "")), read_page(step.answer)
    known.asked[path] += 1
    if page is None:
        if path in known.doubtful:
            _refused(known, step.answer)
        return
    if page.first <= 1:  # an empty file has the lines 0-0
        known.pages[path] = list(page.lines)
    elif page.first == len(known.pages.get(path, ())) + 1:
        known.pages[path] += page.lines
    known.totals[path] = page.total
    if len(known.pages.get(path, ())) >= page.total:
        _settle_file(known, path, "\n".join(known.pages[path]))


def _settle_file(known: Knowledge, path: str, text: str) -> None:
    """A file's text is known. One that is neither the original nor of our making is somebody else's: begin anew on it."""
    known.doubtful.discard(path)
    if path in known.originals and text not in known.ours[path]:
        known.originals[path] = text
        known.reports.clear()
    known.originals.setdefault(path, text)
    known.ours.setdefault(path, {known.originals[path]}).add(text)
    known.now[path] = text


def _learn_edit(known: Knowledge, step: Step) -> None:
    path, old, new = (str(step.arguments.get(name, "")) for name in ("path", "old", "new"))
    before = known.now.get(path)
    if before is None or not occurs_once(before, old):
        known.doubtful.add(path)
        return
    after = before.replace(old, new)
    known.ours[path].add(after)
    if step.answer.startswith(f"edited {path}"):
        known.now[path] = after
        known.refusals = 0
    else:
        known.doubtful.add(path)
        _refused(known, step.answer)


def _refused(known: Knowledge, answer: str) -> None:
    known.refusals += 1
    known.last_words = answer


def _learn_report(known: Knowledge, answer: str) -> None:
    report = parse_report(answer)
    if report is None:
        known.trouble.append(answer)
        known.last_words = answer
        report = _broken(known)
    else:
        known.trouble.clear()
    if report is not None and not known.doubtful:
        known.reports[known.state] = report


def _broken(known: Knowledge) -> Report | None:
    """An edit after which the runner cannot start, said twice, is a bad edit: the tests did run before it."""
    twice = known.trouble[-2:] == [known.last_words] * 2
    return Report(1, 0) if twice and known.state and frozenset() in known.reports else None
