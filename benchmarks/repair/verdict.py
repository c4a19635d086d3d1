"""Whether a project's tests pass: unittest in a process of its own, apart from heaveto's tools."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PROJECTS = HERE / "projects"
FIXES = HERE / "fixes.json"
SECONDS = 60  # a project's tests take a tenth of a second; one that hangs is not mended


def start_tests(folder: Path) -> subprocess.Popen[str]:
    """Begin the project's tests, without stale bytecode."""
    tests = folder / "tests"
    where = ["-s", "tests"] if tests.is_dir() else []
    if (tests / "__init__.py").exists():
        where += ["-t", "."]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTHONPATH", None)
    command = [sys.executable, "-m", "unittest", "discover", *where]
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def read_verdict(process: subprocess.Popen[str]) -> tuple[bool, str]:
    """Whether they passed, and what the runner said."""
    try:
        _, said = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return False, f"no end within {SECONDS} s"
    return process.returncode == 0 and "Ran 0 tests" not in said, said


def tests_pass(folder: Path) -> bool:
    return read_verdict(start_tests(folder))[0]


def test_files(folder: Path) -> dict[str, bytes]:
    """The content of each test file, to see that none was changed."""
    files = [
        path for path in folder.rglob("*.py") if path.name.startswith("test_") or "tests" in path.relative_to(folder).parts
    ]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
