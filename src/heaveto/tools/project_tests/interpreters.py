"""Which Python a project's tests are for."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Interpreter", "find_interpreter", "is_program"]

USUAL_NAMES = (".venv", "venv", "env")


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python, and the virtual environment that it belongs to, if that is the project's.

    Attributes:
        path: Never resolved: an environment's `python` is a link, and the way to it is what makes the difference.
    """

    path: str
    environment: Path | None = None

    @property
    def folders(self) -> list[Path]:
        """Where it is, with its libraries, and where its links lead."""
        path = Path(self.path)
        return [each.parent.parent for each in (path, path.resolve())] if path.is_absolute() else []

    @property
    def variables(self) -> dict[str, str]:
        """What an activated environment sets, so that the commands that tests start are the project's as well."""
        if self.environment is None:
            return {}
        path = os.pathsep.join([str(self.environment / "bin"), os.environ.get("PATH", os.defpath)])
        return {"VIRTUAL_ENV": str(self.environment), "PATH": path}


def find_interpreter(folder: Path, configured: str | None = None) -> Interpreter:
    """The configured one, else that of a virtual environment in the folder, else the one that we run on.

    Args:
        folder: The project's folder, absolute.
        configured: A path or a program's name.
    """
    if configured is not None:
        return Interpreter(configured)
    candidates = [folder / name for name in USUAL_NAMES]
    active = Path(os.environ.get("VIRTUAL_ENV") or "/")
    if active.is_relative_to(folder):
        candidates.append(active)
    for environment in candidates:
        python = environment / "bin" / "python"
        if os.access(python, os.X_OK):
            return Interpreter(str(python), environment)
    return Interpreter(sys.executable)


def is_program(name: str, folder: Path) -> bool:
    """Whether a command in the folder can begin with this: a path to a program, or the name of one.

    Args:
        name: A path, relative to the folder or absolute, or a name that is looked for where commands are.
    """
    if os.sep in name:
        path = folder / Path(name).expanduser()
        return path.is_file() and os.access(path, os.X_OK)
    variables = find_interpreter(folder).variables
    return shutil.which(name, path=variables.get("PATH", os.environ.get("PATH", os.defpath))) is not None
