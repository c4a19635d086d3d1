"""Undoing what a run changed in its folder: every file as it was before, or none.

All is looked at before anything is touched, the undo is written down before it begins, and the files are changed as one.
After a kill in the middle the same undo, called again, does what is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..errors import ConfigError, ToolError, ToolFatal
from ..journal import Store
from ..journal.records import Record, UndoFinished, UndoneFile, UndoStarted, encode_record, unseal
from ..journal.seals import decode_entries, last_seal, seal
from ..journal.state import RunState, fold
from ..loop.log import summarize
from ..scopes import call_in_thread, finish, wall_time
from ..tools.files.workspace import PartlyChanged, Wanted, Workspace, hash_of
from .changes import FileChange, RunChanges, changes_of
from .hold import RELEASE_SECONDS, take
from .leftovers import remove_leftovers

__all__ = ["Undone", "put_back", "undo_run"]

UNDO_SECONDS = 60.0  # for all files together; each takes about a millisecond


@dataclass(frozen=True, slots=True)
class Undone:
    """What an undo did.

    Attributes:
        files: What is as it was before the run again; of an earlier undo where `before_this` is true.
        at: When, in seconds since 1970.
        by: Who had it done.
        before_this: Whether it had been undone before, and the run has changed nothing since.
    """

    run_id: str
    folder: str
    files: tuple[UndoneFile, ...]
    at: float
    by: str
    before_this: bool = False


async def undo_run(store: Store, run_id: str, who: str = "") -> Undone:
    """Put the files that a run changed back as they were before it; nobody may be driving it.

    A stop before the first file is changed leaves all as it is; after that it waits until all are.

    Args:
        run_id: The run's name, or the beginning of it.
        who: The person, for the journal.

    Raises:
        RunNotFound, RunTaken, JournalNewer, JournalDamaged: The run cannot be taken up.
        ConfigError: A file was changed since, or its content was not kept, each by its name; nothing was touched.
    """
    run_id = await store.find(run_id)
    hold = await take(store, run_id)
    try:
        entries = await store.read(run_id)
        records = list(decode_entries(run_id, entries))
        journal = _Journal(store, hold.epoch, fold(records), last_seal(entries))
        return await _undo(journal, records, who)
    finally:
        await finish(RELEASE_SECONDS, hold.release)


class _Journal:
    """The run's journal, for a few records of nobody's drive."""

    def __init__(self, store: Store, epoch: int, state: RunState, sealed: bytes) -> None:
        self._store, self._epoch, self.state, self._seal = store, epoch, state, sealed

    async def append(self, record: Record) -> None:
        self.state.apply(record)
        bodies = seal([encode_record(record)], self._seal)
        self._seal = unseal(bodies[-1])[1]
        await self._store.append(self.state.run_id, self._epoch, bodies, summarize(self.state))


async def _undo(journal: _Journal, records: Sequence[Record], who: str) -> Undone:
    state = journal.state
    workspace = Workspace(Path(state.started.folder), writer=state.run_id)
    await remove_leftovers(records, workspace)
    try:
        changes, wanted = await call_in_thread(_plan, records, workspace, state.run_id)
    except ToolFatal as error:
        raise ConfigError(f"run {state.run_id} cannot be undone: {error}", "its files were in that folder") from error
    done = partial(Undone, state.run_id, state.started.folder)
    if changes.undoing is None and not changes.files:
        if changes.undone is not None:
            return done(changes.undone.files, changes.undone.at, changes.undone.by, True)
        raise ConfigError(f"run {state.run_id} changed no files by its file tools", "there is nothing to undo")
    files = tuple(UndoneFile(path=each.path, before=each.before, after=each.after) for each in changes.files)
    if changes.undoing is None:
        await journal.append(UndoStarted(files=files, by=who))
    undone = await finish(UNDO_SECONDS, _put_back, journal, workspace, changes, wanted, files, who)
    return done(undone.files, undone.at, who)


async def _put_back(
    journal: _Journal,
    workspace: Workspace,
    changes: RunChanges,
    wanted: Sequence[Wanted],
    files: tuple[UndoneFile, ...],
    who: str,
) -> UndoFinished:
    try:
        await call_in_thread(put_back, workspace, changes, wanted)
    except PartlyChanged as error:
        stuck = ", ".join("/".join(parts) for parts in error.stuck)
        raise ConfigError(f"the undo stopped in the middle, at {stuck}", "put that right, and undo again") from error
    except (ToolError, ToolFatal) as error:
        await journal.append(UndoFinished(files=files, at=wall_time(), by=who, problem=str(error)))
        raise ConfigError(f"nothing was undone: {error}", _REMEDY) from error
    finished = UndoFinished(files=files, at=wall_time(), by=who)
    await journal.append(finished)
    return finished


def put_back(workspace: Workspace, changes: RunChanges, wanted: Sequence[Wanted]) -> None:
    """Change the files, and remove the folders that the run made and that are empty then."""
    workspace.change_together(wanted)
    made = {
        parts[:depth]
        for file in changes.files
        if file.before is None
        for parts in (workspace.resolve(file.path),)
        for depth in range(len(parts) - file.made_folders, len(parts))
    }
    workspace.remove_empty(sorted(made))


_REMEDY = "put these right by hand, or see heaveto show RUN --diff for what the run did"


class _Now:
    """The files as they are, each looked at once."""

    def __init__(self, workspace: Workspace, paths: Iterable[str]) -> None:
        self._workspace = workspace
        self.hashes: dict[str, str | None] = {}
        self.problems: dict[str, str] = {}
        for path in paths:
            try:
                self.hashes |= workspace.hashes([path])
            except ToolError as error:
                self.problems[path] = str(error)

    def find(self, digest: str) -> bytes | None:
        """A content that is in one of the files, where the run moved it."""
        path = next((path for path, each in self.hashes.items() if each == digest), None)
        data = None if path is None else self._workspace.read(path)
        return data if hash_of(data) == digest else None


def _plan(records: Sequence[Record], workspace: Workspace, run_id: str) -> tuple[RunChanges, list[Wanted]]:
    """What is to be done to which file; nothing to one that is as it was already.

    Raises:
        ConfigError: With each file that stands in the way.
    """
    told = changes_of(records)
    now = _Now(workspace, sorted(told.touched))
    begun = {} if told.undoing is None else {file.path: file.after for file in told.undoing.files}
    changes = changes_of(records, now.hashes | begun)
    wanted, problems = list[Wanted](), [f"whether {call} changed it is not known" for call in changes.unknown]
    for file in changes.files:
        try:
            wanted += _wanted(file, changes, now)
        except ToolError as error:
            problems.append(str(error))
    if problems:
        raise ConfigError(f"run {run_id} cannot be undone, and nothing was touched: {'; '.join(problems)}", _REMEDY)
    return changes, wanted


def _wanted(file: FileChange, changes: RunChanges, now: _Now) -> Iterator[Wanted]:
    if problem := now.problems.get(file.path):
        raise ToolError(problem)
    current = now.hashes[file.path]
    if current == file.before:
        return
    if current != file.after:
        raise ToolError(f'"{file.path}" {_since(current, file.after)} since')
    if file.interrupted:
        raise ToolError(f'"{file.path}" was changed by something else between two of the run\'s changes')
    data = None if file.before is None else _content(file.before, changes, now)
    if file.before is not None and data is None:
        raise ToolError(f'"{file.path}" cannot be put back: its content was not kept, since {file.not_kept}')
    yield Wanted(file.path, file.after, data, file.mode)


def _content(digest: str, changes: RunChanges, now: _Now) -> bytes | None:
    kept = changes.contents.get(digest)
    return now.find(digest) if kept is None else kept


def _since(current: str | None, left: str | None) -> str:
    if current is None:
        return "was deleted"
    return "was made again" if left is None else "was changed"
