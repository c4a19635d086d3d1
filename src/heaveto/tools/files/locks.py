"""One writer at a time in a folder, threads and processes alike.

The lock is on the folder itself: nothing is left in it, and every path to it, from another container too, meets the same
lock. File systems that lock only files open for writing (NFS) get a lock file among the temporary files instead.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ...scopes import check_stop

__all__ = ["lock_file_path", "locked", "wait_for_lock"]

_POLL_SECONDS = 0.003  # a write takes about a millisecond, and a blocking `flock` could not be stopped


@contextmanager
def locked(folder: int) -> Iterator[None]:
    """A block that holds the folder's lock; `folder` is a descriptor. A stop while waiting takes none."""
    fd = _open_lock(folder)
    try:
        wait_for_lock(fd)
        yield
    finally:
        os.close(fd)  # lets go of the lock, and so does the end of the process


def wait_for_lock(fd: int) -> None:
    """Take the lock of an open file, looking for a stop meanwhile."""
    while not _try_lock(fd):
        check_stop()
        time.sleep(_POLL_SECONDS)


def lock_file_path(folder: int) -> str:
    """Where the lock file of a folder is that cannot be locked itself."""
    status = os.fstat(folder)
    return os.path.join(tempfile.gettempdir(), f"heaveto-{os.getuid()}-{status.st_dev:x}-{status.st_ino:x}.lock")


def _open_lock(folder: int) -> int:
    own = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)  # a lock belongs to one opening
    try:
        if _try_lock(own):
            fcntl.flock(own, fcntl.LOCK_UN)
        return own
    except OSError:
        os.close(own)
        return os.open(lock_file_path(folder), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
