"""Signals as causes. The library touches no signal unless it is asked to: by `run_sync`, by `heaveto.main`, by the command.

The first signal asks for a good stop, the second ends the grace, the third leaves at once: the journal's last write is
whole or not there, and what the tools started ends with us.

The handlers are Python's own rather than the loop's: they are there before the loop is and after it, so that no signal
meets a moment in which nobody owns it.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

from ..causes import Interrupted, Shutdown, Stop
from ..scopes import loop_waker

__all__ = ["SIGNALS", "Signals", "cause_of"]

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
THIRD = 3


def cause_of(signum: int) -> Stop:
    """The cause that a signal is: Ctrl-C is a person's, the others are the process going."""
    name = signal.Signals(signum).name
    return Interrupted(name) if signum == signal.SIGINT else Shutdown(name)


class Signals:
    """The process's SIGINT, SIGTERM and SIGHUP, from `with Signals() as signals` on.

    They are held until `hand_to` says who is to be stopped by them. The third leaves the process, with 128 and its number.
    In a thread that is not the main one nothing is done, since Python lets only that one have them; and a SIGHUP that is
    ignored (`nohup`) stays so.

    Args:
        leave: What leaves the process.
    """

    def __init__(self, leave: Callable[[int], Any] = os._exit) -> None:
        self._leave = leave
        self._stop: Callable[[Stop], None] | None = None
        self._held: list[Stop] = []
        self._count = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for signum in SIGNALS:
                if not (signum == signal.SIGHUP and signal.getsignal(signum) is signal.SIG_IGN):
                    self._before[signum] = signal.signal(signum, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for signum, before in self._before.items():
            signal.signal(signum, before if before is not None else signal.SIG_DFL)

    def hand_to(self, stop: Callable[[Stop], Any]) -> None:
        """Call `stop(cause)` in this loop for each signal from now on, and for those that came before."""
        wake = loop_waker()
        held, self._held = self._held, []
        self._stop = lambda cause: wake(lambda: stop(cause))
        for cause in held:
            stop(cause)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        self._count += 1
        if self._count == THIRD:
            self._leave(128 + signum)
        elif self._stop is not None:
            self._stop(cause_of(signum))
        else:
            self._held.append(cause_of(signum))
