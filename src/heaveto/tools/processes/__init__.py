"""Processes that end with whoever started them: see `launcher.py` for how."""

from .environment import child_environment
from .process import ProcessResult, run_process

__all__ = ["ProcessResult", "child_environment", "run_process"]
