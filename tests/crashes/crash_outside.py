"""What outlives a killed process, apart from its journal: a file of notes, and the places where it may be killed.

The notes are the world that the run acts on. Each is one line, written with one call, so that no kill tears it.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

__all__ = ["NOTES", "Note", "Outside", "What", "Within", "read_notes"]

NOTES = "outside.jsonl"

What: TypeAlias = Literal[
    "lived",  # a process began
    "asked",  # the model was asked
    "refused",  # the model's side refused, at no cost
    "ran",  # a tool began to run
    "effect",  # a tool changed the world
    "undone",  # and changed it back
    "acked",  # the store said that so many records are safe
    "decided",  # a person decided about a call
    "killed",
    "broke",  # the process raised
]


@dataclass(frozen=True)
class Note:
    what: What
    name: str = ""
    text: str = ""
    number: int = 0


class Outside:
    """The notes, as one process writes them, and its points: each place where it can be killed, counted from 1.

    Args:
        kill_at: The point at which this process kills itself; 0 for none.
    """

    def __init__(self, folder: Path, kill_at: int = 0) -> None:
        self._path = folder / NOTES
        self._descriptor = os.open(self._path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        self._kill_at = kill_at
        self.points = 0

    def note(self, what: What, name: str = "", text: str = "", number: int = 0) -> None:
        os.write(self._descriptor, f"{json.dumps([what, name, text, number])}\n".encode())

    def close(self) -> None:
        os.close(self._descriptor)

    def notes(self) -> list[Note]:
        return read_notes(self._path)

    def reach(self, what: str) -> None:
        """A place where the process may be killed."""
        self.points += 1
        if self.points == self._kill_at:
            self.note("killed", what, number=self.points)
            os.kill(os.getpid(), signal.SIGKILL)


class Within(Outside):
    """The notes of a run that another one handed its work to: its points are those of their process.

    Args:
        process: The notes of the run that did.
    """

    def __init__(self, folder: Path, process: Outside) -> None:
        super().__init__(folder)
        self._process = process

    def reach(self, what: str) -> None:
        self._process.reach(f"{what}, within")


def read_notes(path: Path) -> list[Note]:
    lines: Iterable[str] = path.read_text().splitlines() if path.exists() else ()
    return [Note(*json.loads(line)) for line in lines]
