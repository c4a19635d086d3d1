"""Several files changed as one: all of them, or none.

First every new content is written beside its file, where most of what can go wrong does. Then each file changes places with
its new content in a single system call, and the old one stays beside it until all have; so going back needs no room on the
disk. A kill between two of these calls leaves some changed and others not: whoever asked for it has noted what each was.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .replacing import (
    ChangedMeanwhile,
    Seen,
    move_file,
    new_temp,
    place_temp,
    remove_file,
    remove_temp,
    replace_file,
    write_temp,
)

__all__ = ["NotChanged", "PartlyChanged", "Step", "change_together"]


@dataclass(slots=True)
class Step:
    """One file's change.

    Attributes:
        folder: The descriptor of the folder that it is in.
        seen: The file as it was read; None when there was none.
        data: Its new content; None for no file.
        mode: The permissions of one that is new at its place; None for what any program would give it.
        writer: The run that it is for; empty for none.
    """

    parts: tuple[str, ...]
    folder: int
    seen: Seen | None
    data: bytes | None
    mode: int | None = None
    writer: str = ""
    temp: str = ""
    old_is_beside: bool = False

    def prepare(self) -> None:
        """Write the new content beside the file."""
        self.temp = new_temp(self.folder, self.writer)
        if self.data is not None:
            write_temp(self.folder, self.temp, self.seen, self.data, self.mode)

    def make(self) -> None:
        """Make the change."""
        if self.data is not None:
            self.old_is_beside = place_temp(self.folder, self.temp, self.parts[-1], self.seen)
        elif self.seen is not None:
            move_file(self.folder, self.parts[-1], self.folder, self.temp, self.seen)

    def take_back(self) -> None:
        """Make it as it was, unless somebody has changed it meanwhile."""
        name = self.parts[-1]
        if self.data is None and self.seen is not None:
            move_file(self.folder, self.temp, self.folder, name, self.seen)
        elif self.data is not None and self.seen is None:
            remove_file(self.folder, name, self._now(), self.writer)
        elif self.data is not None and self.seen is not None and self.old_is_beside:
            place_temp(self.folder, self.temp, name, self._now())
        elif self.data is not None and self.seen is not None:
            replace_file(self.folder, name, self._now(), self.seen.data, self.writer)

    def _now(self) -> Seen:
        assert self.data is not None, "a file that was made"  # noqa: S101 - for the type checker
        return Seen(os.stat(self.parts[-1], dir_fd=self.folder, follow_symlinks=False), self.data)


class NotChanged(Exception):
    """The change of this file could not be made, for the reason that it comes from. None is made."""

    def __init__(self, parts: tuple[str, ...]) -> None:
        super().__init__(parts)
        self.parts = parts


class PartlyChanged(Exception):
    """These files were changed and could not be changed back."""

    def __init__(self, stuck: Sequence[tuple[str, ...]]) -> None:
        super().__init__(stuck)
        self.stuck = stuck


def change_together(steps: Sequence[Step]) -> None:
    """Make all the changes, or none.

    Raises:
        NotChanged: From a ChangedMeanwhile or an OSError.
        PartlyChanged: One could not be made, and going back went wrong too.
    """
    try:
        for step in steps:
            _do(step, step.prepare)
        _make_all(steps)
    finally:
        for step in steps:
            if step.temp:
                remove_temp(step.folder, step.temp)
    for folder in dict.fromkeys(step.folder for step in steps):
        os.fsync(folder)


def _make_all(steps: Sequence[Step]) -> None:
    made: list[Step] = []
    try:
        for step in steps:
            _do(step, step.make)
            made.append(step)
    except BaseException as error:
        if stuck := [step.parts for step in reversed(made) if not _is_taken_back(step)]:
            raise PartlyChanged(stuck) from error
        raise


def _do(step: Step, act: Callable[[], None]) -> None:
    try:
        act()
    except (ChangedMeanwhile, OSError) as error:
        raise NotChanged(step.parts) from error


def _is_taken_back(step: Step) -> bool:
    try:
        step.take_back()
    except (ChangedMeanwhile, OSError):
        return False
    return True
