"""Agents and their runs: a loop with a journal and a scope.

`agent.py` what is set to work; `opening.py` a run's journal, new or old; `run.py` the run under way; `watchers.py` its
events; `permissions.py` which calls ask a person, `touched.py` what rules are held against, and `approving.py` that
person's word; `changes.py` what it changed in its folder, and `undoing.py` how that is taken back; `signals.py` signals as
causes.
"""

from .agent import Agent, Result
from .approving import approve_call
from .changes import FileChange, RunChanges, changes_of, diff_lines
from .keeping import delete_run, export_runs, fork_run, import_runs, prune_runs, select_rows, verify_run
from .listening import stop_run
from .opening import read_records, read_state
from .permissions import Permissions
from .program import main
from .replaying import replay
from .resolving import resolve_call
from .run import Run
from .signals import Signals
from .undoing import Undone, undo_run
from .watchers import Events

__all__ = [
    "Agent",
    "Events",
    "FileChange",
    "Permissions",
    "Result",
    "Run",
    "RunChanges",
    "Signals",
    "Undone",
    "approve_call",
    "changes_of",
    "delete_run",
    "diff_lines",
    "export_runs",
    "fork_run",
    "import_runs",
    "main",
    "prune_runs",
    "read_records",
    "read_state",
    "replay",
    "resolve_call",
    "select_rows",
    "stop_run",
    "undo_run",
    "verify_run",
]
