"""Opening paths that cannot leave a folder, not even when a folder on the way is swapped for a link meanwhile.

Linux does it in one system call (`openat2`), which follows links that stay inside where that is asked for. Elsewhere, and
where a sandbox forbids the call, each part of the path is opened from the one before it, and no link is followed.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import stat
import sys
from collections.abc import Sequence
from typing import Protocol

__all__ = ["Opener", "open_beneath", "open_by_kernel", "open_by_walk"]

_OPENAT2 = 437  # the same number on every architecture that Linux added it to
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08  # linux/openat2.h
_TRIES = 100  # the kernel answers EAGAIN when something was renamed under it; an attacker may go on, we do not
# Whatever is opened: not in a child, never as our terminal, and a fifo without a writer must not hold us up.
_ALWAYS = os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK


class Opener(Protocol):
    def __call__(self, root: int, parts: Sequence[str], flags: int, *, links: bool) -> int:
        """Open a path below the folder `root`, a descriptor; `links`: whether links that stay inside are followed.

        Raises:
            OSError: EXDEV when it leads out of the folder, ELOOP when a link is in the way, and the usual ones.
        """
        ...


def open_beneath(root: int, parts: Sequence[str], flags: int, *, links: bool) -> int:
    """Open a path below a folder by the best means that the system has."""
    opener = open_by_kernel if _has_openat2() else open_by_walk
    return opener(root, parts, flags, links=links)


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_by_kernel(root: int, parts: Sequence[str], flags: int, *, links: bool) -> int:
    resolve = _BENEATH | _NO_MAGICLINKS | (0 if links else _NO_SYMLINKS)
    how = _How(flags | _ALWAYS, 0, resolve)
    path = os.fsencode("/".join(parts) or ".")
    for _ in range(_TRIES):
        fd = _libc().syscall(ctypes.c_long(_OPENAT2), root, path, ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how)))
        if fd >= 0:
            return int(fd)
        if (number := ctypes.get_errno()) not in (errno.EAGAIN, errno.EINTR):
            raise OSError(number, os.strerror(number))
    raise OSError(errno.EAGAIN, "folders are being renamed all the time")


def open_by_walk(root: int, parts: Sequence[str], flags: int, *, links: bool) -> int:  # noqa: ARG001 - the protocol's
    """Part by part; no link is followed even if `links` would allow it."""
    folder = os.dup(root)
    try:
        for part in parts[:-1]:
            inner = _open_part(folder, part, os.O_RDONLY | os.O_DIRECTORY)
            os.close(folder)
            folder = inner
        return _open_part(folder, parts[-1] if parts else ".", flags)
    finally:
        os.close(folder)


def _open_part(folder: int, part: str, flags: int) -> int:
    try:
        return os.open(part, flags | os.O_NOFOLLOW | _ALWAYS, dir_fd=folder)
    except NotADirectoryError as error:  # what a link gives where a folder was wanted
        if stat.S_ISLNK(os.stat(part, dir_fd=folder, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from error
        raise


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


@functools.cache
def _has_openat2() -> bool:
    if sys.platform != "linux":
        return False
    root = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.close(open_by_kernel(root, (), os.O_RDONLY, links=False))
    except OSError:  # ENOSYS before Linux 5.6; EPERM in some containers
        return False
    else:
        return True
    finally:
        os.close(root)
