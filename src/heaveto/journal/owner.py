"""Who drives a run: a process, named so that another one can tell whether it is still alive.

A process is known by its id only within one boot of one machine, and within one process-id name space (containers with
one host name do not see each other's processes). Ids are used again, so the time at which the process started goes along.
Where we cannot look, the answer is "unknown", and the store goes by how long the run has been quiet.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import NamedTuple

__all__ = ["LEASE_SECONDS", "describe", "holds", "is_alive", "let_go", "this_process"]

LEASE_SECONDS = 60.0  # how long a run of a machine that we cannot look at counts as driven after its last record

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_SEPARATOR = "/"
_ENDED_STATES = ("Z", "X")  # a zombie drives nothing


class _Owner(NamedTuple):
    """The fields of an owner string; what the platform does not tell is empty."""

    host: str
    boot: str
    name_space: str
    pid: str
    started: str
    use: str


def this_process() -> str:
    """An owner string for this process; each call gives another one, so that two drives in one process are told apart."""
    boot, name_space = _here()
    pid = os.getpid()
    owner = _Owner(os.uname().nodename, boot, name_space, str(pid), _started(pid) or "", secrets.token_hex(4))
    return _SEPARATOR.join(owner)


_let_go = set[str]()  # owners of this process that no longer drive, though a store may say so


def let_go(owner: str) -> None:
    """This owner drives nothing any more, whatever a store says that could not be told. Other processes cannot know."""
    _let_go.add(owner)


def is_alive(owner: str) -> bool | None:
    """Whether the process is there, and drives; None where nobody here can know: another machine, another container."""
    if owner in _let_go:
        return False
    who = _parse(owner)
    if who is None or who.host != os.uname().nodename:
        return None
    boot, name_space = _here()
    if who.boot != boot:
        return False
    if who.name_space != name_space:
        return None
    return _is_running(int(who.pid), who.started)


def holds(owner: str, updated: float, now: float, lease_seconds: float = LEASE_SECONDS) -> bool:
    """Whether a run still belongs to its owner, so that nobody else may take it.

    Args:
        updated: When the run was last written to, in seconds since 1970, as `now`.
        lease_seconds: How long that counts where the owner cannot be looked at.
    """
    if not owner:
        return False
    alive = is_alive(owner)
    return now - updated <= lease_seconds if alive is None else alive


def describe(owner: str) -> str:
    """The owner in words for people, such as "process 4711 on host x"."""
    who = _parse(owner)
    return f"process {who.pid} on host {who.host}" if who else owner or "nobody"


def _parse(owner: str) -> _Owner | None:
    fields = owner.split(_SEPARATOR)
    if len(fields) != len(_Owner._fields) or not fields[3].isdecimal():
        return None  # another program's, or another version's
    return _Owner(*fields)


def _here() -> tuple[str, str]:
    """This boot and this process-id name space; empty where the platform has no /proc."""
    try:
        return _BOOT_ID.read_text().strip(), str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        return "", ""


def _is_running(pid: int, started: str) -> bool:
    now = _started(pid)
    if now is not None and started:
        return now == started
    try:
        os.kill(pid, 0)  # no /proc, or one that hides other people's processes
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return now != ""


def _started(pid: int) -> str | None:
    """When the process started, in ticks since the boot; empty when it has ended; None where nobody says."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    state, *fields = stat.rpartition(")")[2].split()  # the name before it may have spaces and brackets
    return "" if state in _ENDED_STATES else fields[18]
