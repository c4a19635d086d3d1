"""Folders for what a test run or a sandbox needs for a while, among the temporary files; none is left for good.

Whoever made one holds its lock, which the system lets go of when that process ends, also by `kill -9`. So a folder without
its holder is known by that, whatever has become of the process's number, and goes when the next process makes one.
"""

from __future__ import annotations

import fcntl
import functools
import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["scratch_folder"]

PREFIX = "heaveto-scratch-"
YOUNG_SECONDS = 60.0  # between a folder's making and its lock there are microseconds, or a machine that is suspended


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A block with a fresh folder. The first one of a process removes those of processes that were killed."""
    _remove_left_ones(tempfile.gettempdir())
    folder = tempfile.mkdtemp(prefix=PREFIX)
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # a file system that locks no folders: nobody can tell then, and it stays after a kill
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield Path(folder)
    finally:
        _remove(folder)
        os.close(lock)


@functools.cache
def _remove_left_ones(temporary: str) -> None:
    """Remove the folders of this user's that nobody holds any more."""
    with suppress(OSError), os.scandir(temporary) as entries:
        for name in [entry.name for entry in entries if entry.name.startswith(PREFIX)]:
            with suppress(OSError):
                _remove_if_left(os.path.join(temporary, name))


def _remove_if_left(folder: str) -> None:
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(lock)
        if status.st_uid != os.getuid() or time.time() - status.st_mtime < YOUNG_SECONDS:
            return
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises where its maker is alive
        _remove(folder)
    finally:
        os.close(lock)


def _remove(folder: str) -> None:
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:  # a test has made folders a thousand deep; left, they would fail every later run too
        with suppress(OSError):
            _flatten(folder)
            shutil.rmtree(folder, ignore_errors=True)


def _flatten(folder: str) -> None:
    """Move the folders of all depths to the top of `folder`, without a path that is too long for the system."""
    names = map("{}-moved".format, itertools.count())
    top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        pending = _folders_in(top)
        while pending:
            inner = os.open(pending.pop(), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top)
            try:
                for name in _folders_in(inner):
                    pending.append(next(names))
                    os.rename(name, pending[-1], src_dir_fd=inner, dst_dir_fd=top)
            finally:
                os.close(inner)
    finally:
        os.close(top)


def _folders_in(descriptor: int) -> list[str]:
    with os.scandir(descriptor) as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
