"""Signals while the command is still being loaded: nothing has begun, so it leaves, with a line and the usual status.

Standard library only, and imported before everything else.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from types import FrameType

__all__ = ["leave_on_signals", "open_what_is_closed"]


def leave_on_signals() -> None:
    """From now on SIGINT, SIGTERM and SIGHUP leave with 128 and their number; a SIGHUP that is ignored stays so.

    At the interpreter's end, when all is said and done, they change nothing: it would let their default action have them.
    """
    atexit.register(_ignore_signals)
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if not (signum == signal.SIGHUP and signal.getsignal(signum) is signal.SIG_IGN):
            signal.signal(signum, _leave)


def open_what_is_closed() -> None:
    """Have standard streams that were closed (`>&-`) lead nowhere, so that no file of ours takes their place."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(descriptor, "w" if descriptor else "r", closefd=False))


def _ignore_signals() -> None:
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)


def _leave(signum: int, _: FrameType | None) -> None:
    try:
        os.write(2, b"heaveto: stopped before anything was begun\n")
    finally:
        os._exit(128 + signum)
