"""The journal: what happened in a run, one small record a step, written before the next step begins."""

from .store import Entry, RunRow, Store, Summary

__all__ = ["Entry", "RunRow", "Store", "Summary"]
