"""Agents and their runs: a loop with a journal and a scope.

`agent.py` what is set to work; `opening.py` a run's journal, new or old; `run.py` the run under way; `watchers.py` its
events; `signals.py` signals as causes.
"""

from .agent import Agent, Result
from .opening import read_records, read_state
from .program import main
from .resolving import resolve_call
from .run import Run
from .signals import Signals
from .watchers import Events

__all__ = ["Agent", "Events", "Result", "Run", "Signals", "main", "read_records", "read_state", "resolve_call"]
