"""Replacing, moving and removing a file in one step: whoever looks sees the old or the new, and nobody's change is lost.

The new content goes to a temporary file beside it, which then changes places with the old one in a single system call; if
what came out is not what was read before, someone else had written meanwhile, and the two change back. Where the system
has no such call, the file is looked at once more right before a plain rename, which leaves a few microseconds.

Owner and mode are kept, access lists and extended attributes are not.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import re
import secrets
import time
from typing import NamedTuple

__all__ = [
    "TEMP_PREFIX",
    "ChangedMeanwhile",
    "Seen",
    "move_file",
    "new_temp",
    "place_temp",
    "read_fd",
    "remove_file",
    "remove_leftovers_of",
    "remove_temp",
    "replace_file",
    "write_temp",
]

TEMP_PREFIX = ".heaveto-"  # so that a listing can leave out what a killed process left behind
_NO_REPLACE, _EXCHANGE = 1, 2  # linux/fs.h
_NOT_SUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
_CHUNK_BYTES = 1 << 20
_TEMP = re.compile(re.escape(TEMP_PREFIX) + r"(?P<process>\d+)-[0-9a-f]{16}(?:\.(?P<writer>.+))?\.tmp", re.DOTALL)
_LEFTOVER_SECONDS = 5.0  # a write takes milliseconds; a writer in another container has process ids that we cannot see


class Seen(NamedTuple):
    """A file as it was read."""

    status: os.stat_result
    data: bytes


class ChangedMeanwhile(Exception):
    """Someone else wrote the file between reading and replacing; theirs is left as it is."""


def replace_file(folder: int, name: str, seen: Seen | None, data: bytes, writer: str = "") -> None:
    """Put new content in a file's place.

    Args:
        folder: The descriptor of the folder that it is in.
        seen: The file as it was read; None when there was none.
        writer: The run that it is for; empty for none.

    Raises:
        ChangedMeanwhile: When it is no longer as it was seen. Nothing was changed.
        OSError: When the system refuses. Nothing was changed, unless the last step, making the folder durable, raised it.
    """
    temp = new_temp(folder, writer)
    try:
        write_temp(folder, temp, seen, data)
        place_temp(folder, temp, name, seen)
    finally:
        remove_temp(folder, temp)
    os.fsync(folder)


def place_temp(folder: int, temp: str, name: str, seen: Seen | None) -> bool:
    """Have a temporary file take a file's place; whether what was there is now under the temporary file's name.

    Raises:
        ChangedMeanwhile: When it is no longer as it was seen. Nothing was changed.
    """
    if _exchange(folder, temp, name, seen) if seen else _place(folder, temp, name):
        return seen is not None
    if _read_named(folder, name) != (seen and seen.data):
        raise ChangedMeanwhile
    os.rename(temp, name, src_dir_fd=folder, dst_dir_fd=folder)
    return False


def move_file(folder: int, name: str, to_folder: int, to_name: str, seen: Seen) -> None:
    """Give a file another name, where nothing has that name yet. It is under the old one or the new at any moment.

    Raises:
        FileExistsError: When something has it.
        ChangedMeanwhile: When the file is no longer as it was seen. It has its old name.
        OSError: When the system refuses. Nothing was changed, unless the last step, making the folders durable, raised it.
    """
    try:
        if not _rename(folder, name, to_name, _NO_REPLACE, to_folder):
            _rename_carefully(folder, name, to_folder, to_name)
    except FileNotFoundError as error:
        raise ChangedMeanwhile from error
    if _read_named(to_folder, to_name) != seen.data:
        _put_back(to_folder, to_name, folder, name)
        raise ChangedMeanwhile
    os.fsync(to_folder)
    os.fsync(folder)


def remove_file(folder: int, name: str, seen: Seen, writer: str = "") -> None:
    """Remove a file. It is looked at under a temporary name first, so that what somebody else wrote meanwhile is put back.

    Raises:
        ChangedMeanwhile: When the file is no longer as it was seen.
        OSError: When the system refuses.
    """
    temp = new_temp(folder, writer)
    move_file(folder, name, folder, temp, seen)
    remove_temp(folder, temp)
    os.fsync(folder)


def read_fd(fd: int) -> bytes:
    """All that is left to read."""
    chunks = []
    while chunk := os.read(fd, _CHUNK_BYTES):
        chunks.append(chunk)
    return b"".join(chunks)


def new_temp(folder: int, writer: str = "") -> str:
    """A name for a temporary file, with the run that it is for. Those of processes that were killed while they wrote are
    removed first.
    """
    _remove_leftovers(folder)
    end = f".{writer}.tmp" if writer else ".tmp"
    return f"{TEMP_PREFIX}{os.getpid()}-{secrets.token_hex(8)}{end}"


def remove_leftovers_of(folder: int, writer: str) -> None:
    """Remove the temporary files of a run of which it is known that nobody writes for it now."""
    for name in os.listdir(folder):
        if (match := _TEMP.fullmatch(name)) and match["writer"] == writer:
            remove_temp(folder, name)


def _rename_carefully(folder: int, name: str, to_folder: int, to_name: str) -> None:
    """Where the system cannot refuse to replace: a look right before, which leaves a few microseconds."""
    try:
        os.stat(to_name, dir_fd=to_folder, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(name, to_name, src_dir_fd=folder, dst_dir_fd=to_folder)
    else:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))


def _put_back(folder: int, name: str, to_folder: int, to_name: str) -> None:
    try:
        if not _rename(folder, name, to_name, _NO_REPLACE, to_folder):
            _rename_carefully(folder, name, to_folder, to_name)
    except FileExistsError:
        pass  # somebody has made a newer one meanwhile, which stands


def write_temp(folder: int, temp: str, seen: Seen | None, data: bytes, mode: int | None = None) -> None:
    """Write a content to a temporary file, durably. A new file gets the mode that any program would give it, or this one;
    one that is to replace another is ours alone until it has that one's owner and mode.
    """
    at_first = 0o666 if seen is None and mode is None else 0o600
    fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, at_first, dir_fd=folder)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(fd, left) :]
        if seen:
            _keep_owner_and_mode(fd, seen.status)
        elif mode is not None:
            os.fchmod(fd, mode)
        os.fsync(fd)
    finally:
        os.close(fd)


def _keep_owner_and_mode(fd: int, status: os.stat_result) -> None:
    own = os.fstat(fd)
    if (own.st_uid, own.st_gid) != (status.st_uid, status.st_gid):
        try:
            os.fchown(fd, status.st_uid, status.st_gid)
        except PermissionError:
            pass  # only root may give a file away; it becomes the writer's, as with any editor
    os.fchmod(fd, status.st_mode & 0o7777)


def _place(folder: int, temp: str, name: str) -> bool:
    try:
        return _rename(folder, temp, name, _NO_REPLACE)
    except FileExistsError as error:
        raise ChangedMeanwhile from error


def _exchange(folder: int, temp: str, name: str, seen: Seen) -> bool:
    try:
        if not _rename(folder, temp, name, _EXCHANGE):
            return False
    except FileNotFoundError as error:
        raise ChangedMeanwhile from error
    if _read_named(folder, temp) != seen.data:
        _rename(folder, temp, name, _EXCHANGE)
        raise ChangedMeanwhile
    return True


def _read_named(folder: int, name: str) -> bytes | None:
    """The content now; None when there is none, or it is no longer a plain file."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return None
    try:
        return read_fd(fd)
    except OSError:
        return None
    finally:
        os.close(fd)


def _rename(folder: int, old: str, new: str, flag: int, to_folder: int | None = None) -> bool:
    """Rename with a condition, into another folder perhaps; whether the system can."""
    function = _renameat2()
    if function is None:
        return False
    to_folder = folder if to_folder is None else to_folder
    if function(folder, os.fsencode(old), to_folder, os.fsencode(new), ctypes.c_uint(flag)) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NOT_SUPPORTED:
        return False
    raise OSError(number, os.strerror(number))


@functools.cache
def _renameat2() -> ctypes._NamedFuncPointer | None:
    return getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)


def _remove_leftovers(folder: int) -> None:
    """Remove the temporary files of processes that were killed while they wrote."""
    for name in os.listdir(folder):
        if (match := _TEMP.fullmatch(name)) and not _is_running(int(match["process"])):
            try:
                is_old = time.time() - os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime > _LEFTOVER_SECONDS
            except FileNotFoundError:
                continue
            if is_old:
                remove_temp(folder, name)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def remove_temp(folder: int, name: str) -> None:
    """Remove a temporary file, if it is still there."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass  # it has taken the file's place
