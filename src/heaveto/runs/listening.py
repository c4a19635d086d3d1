"""A stop that comes from another process, by way of the store."""

from __future__ import annotations

import json
from typing import Any

import anyio

from ..causes import Cancelled, Stop, from_data, to_data
from ..errors import ConfigError, JournalError
from ..journal import Store
from .run import Run

__all__ = ["listen", "stop_run"]

MOST_CHARACTERS = 10_000  # of a cause that is handed over
LOOK_SECONDS = 1.0  # between two looks; one costs a tenth of a millisecond


async def stop_run(store: Store, run_id: str, cause: Stop | None = None) -> str | None:
    """Ask whoever drives a run to stop it, from any process; returns its whole name, None when nobody drives it.

    The driver looks every second. The cause is kept in the journal, as that of a run that was stopped at home.

    Args:
        run_id: The run's name, or the beginning of it.

    Raises:
        RunNotFound: There is no such run.
        ConfigError: The cause is longer than a person reads.
    """
    data = json.dumps(to_data(cause or Cancelled()))
    if len(data) > MOST_CHARACTERS:
        raise ConfigError(f"the cause has {len(data):,} characters", f"give at most {MOST_CHARACTERS:,}")
    run_id = await store.find(run_id)
    asked = await store.ask_stop(run_id, data.encode())
    return run_id if asked else None


async def listen(run: Run[Any], store: Store, epoch: int) -> None:
    """Stop the run when somebody asks for it; ends with the run."""
    while run.outcome is None:
        with anyio.move_on_after(LOOK_SECONDS):  # heaveto: allow raw-scope a pause, whose end is no stop
            await run.wait()
            return
        try:
            asked = await store.asked_to_stop(run.id, epoch)
        except JournalError:  # what the journal cannot do, the run's own writes will tell
            continue
        if asked is not None:
            cause = from_data(json.loads(asked))
            run.cancel(cause if isinstance(cause, Stop) else Cancelled(str(cause)))
            return
