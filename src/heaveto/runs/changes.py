"""What a run changed in its folder, file by file, told from its journal alone. Pure.

A call's marker has notes of what it was to change (`kept.py`), its result whether it did. Of a call whose outcome
nobody knows the next change of the same file tells it; for the last one that is what the file is now.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ..journal.records import DriveStarted, Record, ToolFinished, ToolResolved, ToolStarted, UndoFinished, UndoStarted
from ..messages import Ending
from ..tools.files.kept import Change, contents_of, read_changes

__all__ = ["FileChange", "RunChanges", "changes_of", "diff_lines"]

Hashes: TypeAlias = Mapping[str, str | None]

NOTHING_DONE: frozenset[Ending] = frozenset({"tool_error", "denied", "not_run"})  # the file tools change all or nothing
_NO_NEW_LINE = b"\\ No newline at end of file\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """What a run made of a file, all its calls together.

    Attributes:
        before: The SHA-256 of its content before the run; None where there was no file.
        after: That of what the run left; None where it left none.
        mode: Its permissions before.
        made_folders: How many folders on its way the run made.
        interrupted: Whether something else changed it between two of the run's changes.
        not_kept: Why a content of it is not in the journal; empty where all are.
    """

    path: str
    before: str | None
    after: str | None
    mode: int
    made_folders: int
    interrupted: bool
    not_kept: str


@dataclass(slots=True)
class RunChanges:
    """What a run changed since it began, or since it was undone.

    Attributes:
        files: By path; one that is again what it was is left out.
        contents: What is kept of their contents, by the SHA-256.
        touched: Every path that a call was to change.
        unknown: The calls of which nobody knows whether they changed a file, as "edit_file a.txt (call id)".
        undoing: An undo that was begun and did not end.
        undone: The last one that put files back, where the run has changed nothing since.
    """

    files: list[FileChange] = field(default_factory=list)
    contents: dict[str, bytes] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)
    unknown: list[str] = field(default_factory=list)
    undoing: UndoStarted | None = None
    undone: UndoFinished | None = None


@dataclass(slots=True)
class _Link:
    """One call's change of one file; `sure`: that it was made."""

    change: Change
    sure: bool
    call: str


def changes_of(records: Iterable[Record], now: Hashes | None = None) -> RunChanges:
    """What a run's own drives changed. The turns that a fork begins with are another run's.

    Args:
        now: The hashes of the files as they are, which settle what the journal leaves open.
    """
    reading = _Reading()
    for record in records:
        reading.take(record)
    return reading.conclude(now)


class _Reading:
    """The changes so far, while a run's records are read."""

    def __init__(self) -> None:
        self._is_own = False
        self._begun: dict[str, ToolStarted] = {}
        self._links: list[_Link] = []
        self._changes = RunChanges()

    def take(self, record: Record) -> None:
        match record:
            case DriveStarted():
                self._is_own = True
            case ToolStarted() if self._is_own:
                self._begun[record.call_id] = record
            case ToolFinished(ending="ok"):
                self._end(record.call_id, sure=True)
            case ToolFinished(ending="crashed"):
                self._end(record.call_id, sure=False)
            case ToolFinished(ending=ending) if ending in NOTHING_DONE:
                self._begun.pop(record.call_id, None)
            case ToolResolved(verdict="again"):
                self._begun.pop(record.call_id, None)
            case ToolResolved():
                self._end(record.call_id, sure=record.verdict == "done")
            case UndoStarted():
                self._changes.undoing = record
            case UndoFinished():
                self._take_undo(record)
            case _:
                pass

    def conclude(self, now: Hashes | None) -> RunChanges:
        for call_id in list(self._begun):
            self._end(call_id, sure=False)
        by_path: dict[str, list[_Link]] = {}
        for link in self._links:
            by_path.setdefault(link.change.path, []).append(link)
        self._changes.touched = set(by_path)
        for path, links in sorted(by_path.items()):
            known = self._settle(path, links, now)
            if known and known[0].change.before != known[-1].change.after:
                self._changes.files.append(_joined(path, [link.change for link in known]))
        return self._changes

    def _end(self, call_id: str, *, sure: bool) -> None:
        started = self._begun.pop(call_id, None)
        if started is None:
            return
        for change in read_changes(started.facts):
            self._links.append(_Link(change, sure, f"{started.name} {change.path} ({call_id})"))
            self._changes.undone = None
        self._changes.contents |= contents_of(started.facts)

    def _take_undo(self, record: UndoFinished) -> None:
        self._changes.undoing = None
        if not record.problem:
            self._changes.undone = record
            self._links.clear()
            self._begun.clear()

    def _settle(self, path: str, links: Sequence[_Link], now: Hashes | None) -> list[_Link]:
        """The changes that were made: of one that is not sure, what the file was next says it."""
        made = []
        for at, link in enumerate(links):
            if not link.sure:
                follows = links[at + 1].change.before if at + 1 < len(links) else (now or {}).get(path, "")
                if follows != link.change.after:
                    if follows != link.change.before:
                        self._changes.unknown.append(link.call)
                    continue
            made.append(link)
        return made


def _joined(path: str, changes: Sequence[Change]) -> FileChange:
    first, last = changes[0], changes[-1]
    return FileChange(
        path=path,
        before=first.before,
        after=last.after,
        mode=first.mode,
        made_folders=first.made_folders,
        interrupted=any(one.after != next_.before for one, next_ in itertools.pairwise(changes)),
        not_kept=next((each.not_kept for each in changes if each.not_kept), ""),
    )


def diff_lines(changes: RunChanges) -> Iterator[bytes]:
    """The changes as one unified diff, with git's words for files that are new, gone or moved."""
    moved = dict(_moves(changes.files))
    for file in changes.files:
        if file.path in moved.values():
            continue  # it is told where it went
        if (to := moved.get(file.path)) is not None:
            yield from _in_utf8(f"diff --git a/{file.path} b/{to}", "similarity index 100%")
            yield from _in_utf8(f"rename from {file.path}", f"rename to {to}")
        else:
            yield from _file_diff(file, changes.contents)


def _moves(files: Sequence[FileChange]) -> Iterator[tuple[str, str]]:
    gone = {file.before: file.path for file in files if file.after is None}
    for file in files:
        if file.before is None and (path := gone.pop(file.after, None)) is not None:
            yield path, file.path


def _file_diff(file: FileChange, contents: Mapping[str, bytes]) -> Iterator[bytes]:
    old, new = f"a/{file.path}", f"b/{file.path}"
    yield from _in_utf8(f"diff --git {old} {new}")
    if file.before is None:
        yield from _in_utf8("new file mode 100644")
        old = "/dev/null"
    elif file.after is None:
        yield from _in_utf8(f"deleted file mode 100{file.mode:o}")
        new = "/dev/null"
    sides = [b"" if side is None else contents.get(side) for side in (file.before, file.after)]
    before, after = sides
    if before is None or after is None:
        yield from _in_utf8(f"{file.path}: not shown, since {file.not_kept or 'its content is not in the journal'}")
    elif b"\0" in before or b"\0" in after:
        yield from _in_utf8(f"Binary files {old} and {new} differ")
    else:
        lines = difflib.diff_bytes(
            difflib.unified_diff, _split(before), _split(after), old.encode(*_AS_IT_IS), new.encode(*_AS_IT_IS)
        )
        for line in lines:
            yield line if line.endswith(b"\n") else line + b"\n" + _NO_NEW_LINE


_AS_IT_IS = ("utf-8", "surrogateescape")  # a path may have any bytes


def _in_utf8(*lines: str) -> Iterator[bytes]:
    for line in lines:
        yield line.encode(*_AS_IT_IS) + b"\n"


def _split(data: bytes) -> list[bytes]:
    """The lines with their ends, of which only a line feed is one, as for git."""
    lines = [line + b"\n" for line in data.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]
