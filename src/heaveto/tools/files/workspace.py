"""The working folder, which no path leads out of.

The rules of this file:
- A path is taken apart as text first: `..`, another absolute path and NUL bytes are refused there, with words.
- What counts is what the system opens, beneath the folder's own descriptor: nothing is looked at by path and then opened.
- Reading follows links that stay inside; writing follows none and goes to plain files with one name only.
- What remains: someone who may rename folders on this machine can move one out while a write into it is under way.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from ...errors import ToolError, ToolFatal
from ...scopes import check_stop
from .locks import locked
from .openat import Opener, open_beneath
from .replacing import ChangedMeanwhile, Seen, move_file, remove_file, remove_leftovers_of, replace_file
from .together import NotChanged, PartlyChanged, Step, change_together

__all__ = ["MAX_FILE_BYTES", "Entry", "NotThere", "PartlyChanged", "Parts", "Wanted", "Workspace", "hash_of"]

Parts: TypeAlias = tuple[str, ...]
Change: TypeAlias = Callable[[bytes | None], bytes]
Look: TypeAlias = Callable[[bytes], object]  # what it raises changes nothing

MAX_FILE_BYTES = 20_000_000  # no text that a model works on is longer; a log or a dump would fill the memory
_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_CHUNK_BYTES = 1 << 20  # read between two looks at the stop


class NotThere(ToolError):
    """There is no such file or folder."""

    code = "not_there"


class Entry(NamedTuple):
    """What a folder holds under a name."""

    name: str
    kind: Literal["file", "folder", "link", "other"]


class Wanted(NamedTuple):
    """What a file is to be, as one of several.

    Attributes:
        before: The SHA-256 that its content must have now; None where nothing may be.
        data: Its content then; None for no file.
        mode: The permissions of a file that is new at its place; None for what any program would give it.
    """

    path: str
    before: str | None
    data: bytes | None
    mode: int | None = None


class Workspace:
    """Opens, reads and replaces files in one folder.

    Args:
        folder: Absolute and without links.
        opener: How to open what is beneath it.
        writer: The run that it is opened for; empty for none.
    """

    def __init__(self, folder: Path, opener: Opener = open_beneath, *, writer: str = "") -> None:
        self.folder, self.writer = folder, writer
        self._opener = opener

    def resolve(self, path: str) -> Parts:
        """The parts of a path inside the folder; none for the folder itself.

        Raises:
            ToolError: When the path leads out, as far as its text tells.
        """
        if "\0" in path:
            raise ToolError("the path has a NUL byte; give one without it")
        try:
            os.fsencode(path)
        except UnicodeEncodeError as error:
            raise ToolError("the path has half a character; give one that list_files shows") from error
        relative = self._make_relative(path)
        parts = tuple(part for part in relative.split("/") if part not in ("", "."))
        if ".." in parts:
            raise ToolError(f'"{path}" has ".." in it; give a path below the working folder, such as "src/main.py"')
        return parts

    def read(self, path: str) -> bytes:
        """The content of a file.

        Raises:
            NotThere: When there is none.
            ToolError: When it is no plain file inside the folder, or too big.
        """
        return self.look(path).data

    def look(self, path: str) -> Seen:
        """A file with its content. Errors as in `read`."""
        parts = self.resolve(path)
        with self._open_root() as root, self._open(root, parts, os.O_RDONLY, links=True) as fd:
            return self._read(fd, _shown(parts))

    def count_missing(self, path: str) -> int:
        """How many of the folders on the way to a file are not there yet."""
        folders = self.resolve(path)[:-1]
        return sum(not self.kind(folders[:depth]) for depth in range(1, len(folders) + 1))

    def kind(self, parts: Parts) -> str:
        """What a path is, links that stay inside followed: "file", "folder" or "other", or "" for nothing inside."""
        try:
            with self._open_root() as root, self._open(root, parts, os.O_RDONLY, links=True) as fd:
                mode = os.fstat(fd).st_mode
        except ToolError:
            return ""
        return "file" if stat.S_ISREG(mode) else "folder" if stat.S_ISDIR(mode) else "other"

    def scan(self, parts: Parts) -> list[Entry]:
        """What a folder holds, sorted by name.

        Raises:
            NotThere: When there is none.
            ToolError: When it is no folder inside the working folder.
        """
        with self._open_root() as root, self._open(root, parts, _FOLDER, links=True) as fd, os.scandir(fd) as entries:
            return sorted(Entry(entry.name, _kind_of(entry)) for entry in entries)

    def rewrite(self, path: str, change: Change) -> None:
        """Read a file, work out its new content, and replace it, with nobody else writing in the folder meanwhile.

        Folders that are missing on the way are made. A stop before the replacement leaves everything as it was.

        Args:
            change: Given the content, None for no file, it returns the new one; what it raises changes nothing.

        Raises:
            ToolError: When the path is not for writing, or someone else changed the file meanwhile.
        """
        parts = self.resolve(path)
        _check_for_writing(parts)
        with self._open_root() as root, locked(root):
            seen = self._see(root, parts)
            data = change(seen.data if seen else None)
            check_stop()
            with self._open_parent(root, parts) as folder, _in_words(_shown(parts)):
                replace_file(folder, parts[-1], seen, data, self.writer)

    def delete(self, path: str, look: Look) -> None:
        """Remove a file, with nobody else writing in the folder meanwhile. A stop before that leaves it.

        Args:
            look: Given the content, it may refuse by raising.

        Raises:
            NotThere: When there is none.
            ToolError: When the path is not for writing, or someone else changed the file meanwhile.
        """
        parts = self.resolve(path)
        _check_for_writing(parts)
        with self._open_root() as root, locked(root):
            seen = self._see_there(root, parts)
            look(seen.data)
            check_stop()
            with self._open(root, parts[:-1], _FOLDER, links=False) as folder, _in_words(_shown(parts)):
                remove_file(folder, parts[-1], seen, self.writer)

    def move(self, path: str, to: str, look: Look) -> None:
        """Give a file another path, where nothing is yet. Folders that are missing on the way are made.

        Args:
            look: Given the content, it may refuse by raising.

        Raises:
            NotThere: When there is none.
            ToolError: When a path is not for writing, something is at `to`, or someone else changed the file meanwhile.
        """
        parts, to_parts = self.resolve(path), self.resolve(to)
        _check_for_writing(parts)
        _check_for_writing(to_parts)
        with self._open_root() as root, locked(root):
            seen = self._see_there(root, parts)
            look(seen.data)
            check_stop()
            with (
                self._open(root, parts[:-1], _FOLDER, links=False) as folder,
                self._open_parent(root, to_parts) as to_folder,
                _in_words(_shown(parts), _shown(to_parts)),
            ):
                move_file(folder, parts[-1], to_folder, to_parts[-1], seen)

    def hashes(self, paths: Sequence[str]) -> dict[str, str | None]:
        """The SHA-256 of each file, None where there is none, while nobody else writes in the folder.

        Raises:
            ToolError: When one is no plain file, or too big.
        """
        with self._open_root() as root, locked(root):
            seen = {path: self._see(root, self.resolve(path)) for path in paths}
        return {path: hash_of(each.data if each else None) for path, each in seen.items()}

    def change_together(self, wanted: Sequence[Wanted]) -> None:
        """Change several files, all or none, with nobody else writing in the folder meanwhile.

        Folders that are missing on the way are made. A stop before the first change leaves everything as it was.

        Raises:
            ToolError: When a file is not as it must be, or cannot be changed; nothing was.
            PartlyChanged: When some were, and could not be changed back.
        """
        with self._open_root() as root, locked(root), ExitStack() as opened:
            seen = {each.path: self._see_as(root, each) for each in wanted}
            made: list[Parts] = []
            try:
                folders = {
                    parts[:-1]: opened.enter_context(self._open_parent(root, parts, made))
                    for parts in map(self.resolve, seen)
                }
                check_stop()
                _change_together([self._step(folders, seen[each.path], each) for each in wanted])
            except ToolError:
                self._remove_folders(root, made)
                raise

    def remove_empty(self, folders: Sequence[Parts]) -> None:
        """Remove those of the folders, inner ones first, that are empty."""
        with self._open_root() as root, locked(root):
            self._remove_folders(root, sorted(folders, key=len))

    def remove_leftovers(self, paths: Iterable[str]) -> None:
        """Remove the temporary files that a killed process left beside these files, of those that it wrote for this run.

        Nobody may be writing for the run now. A folder that is gone, or cannot be looked into, is passed over.
        """
        folders = {self.resolve(path)[:-1] for path in paths}
        if not folders:
            return
        with self._open_root() as root, locked(root):
            for parts in sorted(folders):
                with suppress(ToolError, OSError), self._open(root, parts, _FOLDER, links=False) as folder:
                    remove_leftovers_of(folder, self.writer)

    def _remove_folders(self, root: int, folders: Sequence[Parts]) -> None:
        for parts in reversed(folders):
            with suppress(ToolError, OSError), self._open(root, parts[:-1], _FOLDER, links=False) as folder:
                os.rmdir(parts[-1], dir_fd=folder)

    def _step(self, folders: dict[Parts, int], seen: Seen | None, wanted: Wanted) -> Step:
        parts = self.resolve(wanted.path)
        return Step(parts, folders[parts[:-1]], seen, wanted.data, wanted.mode, self.writer)

    def _see_as(self, root: int, wanted: Wanted) -> Seen | None:
        parts = self.resolve(wanted.path)
        _check_for_writing(parts)
        seen = self._see(root, parts)
        if hash_of(seen.data if seen else None) == wanted.before:
            return seen
        if seen is None:
            raise NotThere(f'there is no "{_shown(parts)}" any more')
        if wanted.before is None:
            raise ToolError(f'there is a "{_shown(parts)}" already; give another path, or delete that first')
        raise ToolError(f'"{_shown(parts)}" was changed since this call was planned; read it again')

    def _see_there(self, root: int, parts: Parts) -> Seen:
        seen = self._see(root, parts)
        if seen is None:
            raise NotThere(f'there is no "{_shown(parts)}"')
        return seen

    def _make_relative(self, path: str) -> str:
        if not path.startswith("/"):
            return path
        folder = str(self.folder).rstrip("/") + "/"
        if not f"{path}/".startswith(folder):
            raise ToolError(f'"{path}" is outside the working folder; give a path below it, such as "src/main.py"')
        return path[len(folder) :]

    def _see(self, root: int, parts: Parts) -> Seen | None:
        try:
            with self._open(root, parts, os.O_RDONLY, links=False) as fd:
                seen = self._read(fd, _shown(parts))
        except NotThere:
            return None
        if seen.status.st_nlink > 1:
            raise ToolError(f'"{_shown(parts)}" has a second name (a hard link), maybe outside; write to a copy of it')
        return seen

    @contextmanager
    def _open_root(self) -> Iterator[int]:
        try:
            fd = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise ToolFatal("workspace", f"the working folder {self.folder} is gone: {_reason(error)}") from error
        try:
            yield fd
        finally:
            os.close(fd)

    @contextmanager
    def _open(self, root: int, parts: Sequence[str], flags: int, *, links: bool) -> Iterator[int]:
        with _in_words(_shown(parts)):
            fd = self._opener(root, parts, flags, links=links)
        try:
            yield fd
        finally:
            os.close(fd)

    @contextmanager
    def _open_parent(self, root: int, parts: Parts, made: list[Parts] | None = None) -> Iterator[int]:
        for depth in range(1, len(parts)):
            with self._open(root, parts[: depth - 1], _FOLDER, links=False) as folder, _in_words(_shown(parts[:depth])):
                if _make_folder(folder, parts[depth - 1]) and made is not None:
                    made.append(parts[:depth])
        with self._open(root, parts[:-1], _FOLDER, links=False) as folder:
            yield folder

    def _read(self, fd: int, name: str) -> Seen:
        status = os.fstat(fd)
        if stat.S_ISDIR(status.st_mode):
            raise ToolError(f'"{name}" is a folder; name a file in it, list_files shows them')
        if not stat.S_ISREG(status.st_mode):
            raise ToolError(f'"{name}" is a special file (a pipe, socket or device); only plain files are read and written')
        chunks: list[bytes] = []
        total = 0
        while chunk := os.read(fd, _CHUNK_BYTES):
            check_stop()
            chunks.append(chunk)
            if (total := total + len(chunk)) > MAX_FILE_BYTES:
                raise ToolError(f'"{name}" has more than {MAX_FILE_BYTES} bytes; use a file that is smaller')
        return Seen(status, b"".join(chunks))


def hash_of(data: bytes | None) -> str | None:
    """The SHA-256 of a content, in hexadecimal; None for no file."""
    return None if data is None else hashlib.sha256(data).hexdigest()


def _check_for_writing(parts: Parts) -> None:
    if not parts:
        raise ToolError("the path is the working folder itself; name a file in it")
    if any(part.lower() == ".git" for part in parts):  # a hook or a setting there is a command that git runs later
        raise ToolError(f'"{_shown(parts)}" belongs to git; it is not written to')


def _make_folder(folder: int, name: str) -> bool:
    try:
        os.mkdir(name, dir_fd=folder)
    except FileExistsError:
        return False  # what it is shows when it is opened
    os.fsync(folder)
    return True


def _change_together(steps: Sequence[Step]) -> None:
    try:
        change_together(steps)
    except NotChanged as error:
        with _in_words(_shown(error.parts)):
            raise error.__cause__ or error from error


def _kind_of(entry: os.DirEntry[str]) -> Literal["file", "folder", "link", "other"]:
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


@contextmanager
def _in_words(name: str, to: str = "") -> Iterator[None]:
    """Say in the model's words what the system refused, and that someone else was faster."""
    try:
        yield
    except ChangedMeanwhile as error:
        raise ToolError(f'"{name}" was changed by someone else; read it again') from error
    except OSError as error:
        match error.errno:
            case errno.ENOENT:
                raise NotThere(f'there is no "{name}"') from error
            case errno.EEXIST if to:
                raise ToolError(f'there is a "{to}" already; give another path, or delete that first') from error
            case errno.EXDEV if to:
                raise ToolError(f'"{to}" is on another disk than "{name}"; write it there, and delete this one') from error
            case errno.EXDEV:
                raise ToolError(f'"{name}" leads out of the working folder; give a path that stays inside') from error
            case errno.ELOOP:
                raise ToolError(f'"{name}" leads through a link; give the path of the real file') from error
            case errno.ENOTDIR:
                raise ToolError(f'"{name}" is not a folder, or has a file where a folder should be') from error
            case errno.ENXIO:
                raise ToolError(f'"{name}" is a special file (a pipe, socket or device); name a plain one') from error
            case _:
                raise ToolError(f'"{name}" cannot be opened or written: {_reason(error)}') from error


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _shown(parts: Sequence[str]) -> str:
    return "/".join(parts) or "."
