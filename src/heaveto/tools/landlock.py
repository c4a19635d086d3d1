"""Landlock by its system calls, and a script: `python landlock.py SETTINGS PROGRAM [ARGUMENT...]` runs a program in it.

SETTINGS is JSON: `{"write": [folders], "tcp": false}`. The whole disk can be read and run, only the folders and devices
written; without "tcp" no TCP connection is made or accepted; signals reach only what is inside (where the kernel can).
Standard library only.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys

__all__ = ["landlock_version"]

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # on every architecture
PATH_BENEATH = 1
PR_SET_NO_NEW_PRIVS = 38
READ = 0b1101  # execute, read a file, read a folder
FILE = 0b1100_0000_0000_0111  # what can be allowed of a thing that is no folder
FS_BITS = {1: 13, 2: 14, 3: 15, 4: 15}  # how many rights a version knows; later ones 16
NET_BITS = 0b11  # bind and connect TCP, from version 4 on
SCOPE_BITS = 0b11  # abstract sockets and signals, from version 6 on
NO_LANDLOCK = 126


def landlock_version() -> int:
    """The version of Landlock that this kernel has; 0 for none."""
    if sys.platform != "linux":
        return 0
    return max(0, _syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1)))


def restrict(writable: list[str], tcp: bool) -> None:
    """Restrict this thread, and what it starts, from now on.

    Raises:
        OSError: When the kernel does not do it.
    """
    version = landlock_version()
    rights = (1 << FS_BITS.get(version, 16)) - 1
    fields = [rights]
    if version >= 4:
        fields.append(0 if tcp else NET_BITS)
    if version >= 6:
        fields.append(SCOPE_BITS)
    attributes = struct.pack(f"={len(fields)}Q", *fields)
    ruleset = _checked(CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0))
    _allow(ruleset, "/", READ & rights)
    for path in (*writable, "/dev"):
        _allow(ruleset, path, rights)
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs")
    _checked(RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    allowed = rights if os.path.isdir(path) else rights & FILE
    rule = struct.pack("=Qi", allowed, descriptor)
    _checked(ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(PATH_BENEATH), rule, ctypes.c_uint32(0))
    os.close(descriptor)


def _syscall(number: int, *arguments: object) -> int:
    result: int = ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(number), *arguments)
    return result


def _checked(number: int, *arguments: object) -> int:
    result = _syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"Landlock's system call {number} on {platform.machine()}")
    return result


def main() -> None:
    import json

    settings, program = json.loads(sys.argv[1]), sys.argv[2:]
    try:
        restrict(settings["write"], settings["tcp"])
        os.execvp(program[0], program)  # noqa: S606 - no shell, on purpose
    except OSError as error:
        sys.stderr.write(f"cannot run {program[0]} in Landlock: {error}\n")
        os._exit(NO_LANDLOCK)


if __name__ == "__main__":
    main()
