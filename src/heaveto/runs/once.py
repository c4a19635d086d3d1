"""A run that is asked for by its name, once: how far it is, and whether somebody else brought it further meanwhile."""

from __future__ import annotations

from ..errors import ConfigError, RunNotFound
from ..journal import Store
from ..journal.state import RunState
from ..messages import UserMessage
from .opening import read_state

__all__ = ["came_as_far", "found_run", "is_answered"]


async def found_run(store: Store, run_id: str, task: UserMessage) -> RunState | None:
    """The run of that whole name; None where there is none.

    Raises:
        ConfigError: It has another task.
    """
    try:
        state = await read_state(store, run_id)
    except RunNotFound:
        return None
    if (state.started.task, state.started.parts) != (task.content, task.parts):
        raise ConfigError(f"run {run_id} has another task", "ask for the same as before, or give another name")
    return state


def is_answered(state: RunState) -> bool:
    return state.finished is not None and state.finished.outcome == "answered"


def came_as_far(before: RunState | None, now: RunState | None) -> bool:
    """Whether a run that was not there or not answered still is so."""
    return (before is None) == (now is None) and not (now is not None and is_answered(now))
