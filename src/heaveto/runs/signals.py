"""Signals as causes. The library touches no signal unless it is asked to: by `run_sync`, by `heaveto.main`, by the command.

The first signal asks for a good stop, the second ends the grace, the third leaves at once: the journal's last write is
whole or not there, and what the tools started ends with us.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.abc

from ..causes import Cancelled, Interrupted, Shutdown, Stop
from ..scopes import Scope, tasks

__all__ = ["SIGNALS", "cause_of", "signals_to"]

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
THIRD = 3


def cause_of(signum: int) -> Stop:
    """The cause that a signal is: Ctrl-C is a person's, the others are the process going."""
    name = signal.Signals(signum).name
    return Interrupted(name) if signum == signal.SIGINT else Shutdown(name)


@asynccontextmanager
async def signals_to(stop: Callable[[Stop], Any]) -> AsyncIterator[None]:
    """A block in which SIGINT, SIGTERM and SIGHUP call `stop(cause)`; the third of them leaves the process.

    It must be used in the main thread. Afterwards the signals do what they did before.
    """
    async with tasks() as group:
        scope = Scope(quiet=True)
        await group.start(_watch, stop, scope)
        try:
            yield
        finally:
            scope.cancel(Cancelled("the block has ended"))


async def _watch(stop: Callable[[Stop], Any], scope: Scope, *, task_status: anyio.abc.TaskStatus[None]) -> None:
    with scope, anyio.open_signal_receiver(*SIGNALS) as signals:
        task_status.started()
        count = 0
        async for signum in signals:
            count += 1
            if count == THIRD:
                os._exit(128 + signum)
            stop(cause_of(signum))
