"""What keeps a command inside its folder: bubblewrap where it works, else Landlock where that does, else nothing.

Inside, only the working folder and a temporary folder can be written; the rest of the disk can be read. There is no network
unless it is asked for. Which one is in force is said by its name, never assumed.
"""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol, TypeAlias

from ..errors import ConfigError
from .landlock import landlock_version
from .scratch import scratch_folder

__all__ = ["Sandbox", "find_sandbox", "no_sandbox"]

Kept: TypeAlias = tuple[list[str], Mapping[str, str]]

LANDLOCK = Path(__file__).with_name("landlock.py")
TEMPORARY = Path("/tmp")  # noqa: S108 - which bubblewrap's commands have an empty one of
TRY_SECONDS = 10.0
TCP_VERSION = 4  # of Landlock: from this one on it can refuse TCP


class Sandbox(Protocol):
    """A way of keeping a command in its folder.

    Attributes:
        name: "bwrap", "landlock" or "none".
        text: What it does and does not keep out, for people.
    """

    @property
    def name(self) -> str: ...

    @property
    def text(self) -> str: ...

    def keeping(
        self,
        argv: Sequence[str],
        workspace: Path,
        folder: Path,
        *,
        writable: Sequence[Path] = (),
        readable: Sequence[Path] = (),
    ) -> AbstractContextManager[Kept]:
        """A block in which the command that it gives, with these variables, runs the one that it was given.

        Args:
            workspace: What can be written, with `writable`. Absolute.
            readable: What must be seen though it is among the temporary files, such as the interpreter.
            folder: Where the command runs.
        """
        ...


def find_sandbox(*, network: bool = False, required: bool = False) -> Sandbox:
    """The best sandbox that works on this machine.

    Args:
        network: Whether the network may be used inside.
        required: Whether to refuse rather than to go without.

    Raises:
        ConfigError: When one is required and none works.
    """
    if _bwrap_works():
        return _Bubblewrap(network)
    version = landlock_version()
    if version and (network or version >= TCP_VERSION):
        return _Landlock(network)
    if required:
        raise ConfigError(
            "no sandbox works here: neither bubblewrap nor Landlock",
            "install bubblewrap (Debian, Ubuntu: apt install bubblewrap) and allow user namespaces, or do without",
        )
    return no_sandbox()


def no_sandbox() -> Sandbox:
    """Nothing: a command may do what its user may."""
    return _Nothing()


@functools.cache
def _bwrap_works() -> bool:
    if shutil.which("bwrap") is None:
        return False
    argv = ["bwrap", *_bwrap_options(Path("/"), Path("/"), network=False), "--", "/bin/sh", "-c", ":"]
    try:
        return subprocess.run(argv, capture_output=True, timeout=TRY_SECONDS, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _bwrap_options(
    workspace: Path, folder: Path, *, network: bool, writable: Sequence[Path] = (), readable: Sequence[Path] = ()
) -> Iterator[str]:
    yield from ("--die-with-parent", "--unshare-all")
    yield from ("--share-net",) if network else ()
    yield from ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp")  # noqa: S108
    yield from () if network else ("--tmpfs", "/run")  # sockets of services, which no network namespace keeps out
    for each in readable:
        if each.is_relative_to(TEMPORARY) and each != TEMPORARY and each.exists():
            yield from ("--ro-bind", str(each), str(each))
    for each in (workspace, *writable):
        if each != Path("/"):
            yield from ("--bind", str(each), str(each))
    yield from ("--chdir", str(folder))


class _Bubblewrap:
    name = "bwrap"

    def __init__(self, network: bool) -> None:
        self._network = network
        self.text = f"bubblewrap: only the folder can be written, {'with' if network else 'no'} network"

    @contextmanager
    def keeping(
        self,
        argv: Sequence[str],
        workspace: Path,
        folder: Path,
        *,
        writable: Sequence[Path] = (),
        readable: Sequence[Path] = (),
    ) -> Iterator[Kept]:
        options = _bwrap_options(workspace, folder, network=self._network, writable=writable, readable=readable)
        yield ["bwrap", *options, "--", *argv], {"TMPDIR": "/tmp"}  # noqa: S108 - an empty one of its own


class _Landlock:
    name = "landlock"

    def __init__(self, network: bool) -> None:
        self._network = network
        said = "with network" if network else "no TCP, though other networking is not kept out"
        self.text = f"Landlock: only the folder can be written, {said}"

    @contextmanager
    def keeping(
        self,
        argv: Sequence[str],
        workspace: Path,
        folder: Path,
        *,
        writable: Sequence[Path] = (),
        readable: Sequence[Path] = (),
    ) -> Iterator[Kept]:
        with scratch_folder() as temporary:
            writing = [str(workspace), str(temporary), *map(str, writable)]
            settings = json.dumps({"write": writing, "tcp": self._network})
            yield [sys.executable, "-I", "-S", "-E", str(LANDLOCK), settings, *argv], {"TMPDIR": str(temporary)}


class _Nothing:
    name = "none"
    text = "no sandbox: commands may do what you may"

    @contextmanager
    def keeping(
        self,
        argv: Sequence[str],
        workspace: Path,
        folder: Path,
        *,
        writable: Sequence[Path] = (),
        readable: Sequence[Path] = (),
    ) -> Iterator[Kept]:
        yield list(argv), {}
