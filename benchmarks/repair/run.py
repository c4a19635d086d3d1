"""Set the offline model on every broken project, through the real command, and count what it mends.

    python benchmarks/repair/run.py [NAME ...]

Each project is copied to a fresh folder; `heaveto run --model offline` works on the copy; then the project's own tests are
run again, apart from heaveto. The tests run in a bare interpreter, so that the figures do not depend on what is installed
beside heaveto. The last line is the sum; the exit status is 1 when fewer than 80 % are mended.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from verdict import PROJECTS, test_files, tests_pass

AT_ONCE = 2  # what two cores carry
SECONDS = 600  # for one project: 150 tries of a second, and as much again for a busy machine
ENOUGH = 0.8
TASK = "make the tests pass"


@dataclass(frozen=True)
class Result:
    """What became of one project.

    Attributes:
        outcome: The run's own word for its end; "no end" when it was cut off or said nothing.
    """

    name: str
    mended: bool
    outcome: str
    turns: int
    seconds: float
    remark: str = ""


def mend(name: str, python: Path) -> Result:
    """Work on a copy of one project, whose tests run in the given interpreter."""
    with tempfile.TemporaryDirectory(prefix="heaveto-repair-") as scratch:
        folder = Path(scratch) / name
        shutil.copytree(PROJECTS / name, folder)
        began = time.monotonic()
        last = run_command(folder, Path(scratch) / "state", python)
        seconds = time.monotonic() - began
        untouched = test_files(folder) == test_files(PROJECTS / name)
        mended = untouched and tests_pass(folder)
        remark = "" if untouched else "a test was changed"
        return Result(name, mended, last.get("outcome", "no end"), int(last.get("turns", 0)), seconds, remark)


def run_command(folder: Path, state: Path, python: Path) -> dict[str, object]:
    """The last event of the command's run, or nothing when there is none."""
    options = ["--model", "offline", "--json", "-C", str(folder), "--test-python", str(python)]
    command = [sys.executable, "-m", "heaveto", "run", *options, TASK]
    environment = {**os.environ, "HEAVETO_STATE": str(state), "HEAVETO_OFFLINE_CHUNK_SECONDS": "0"}
    try:
        done = subprocess.run(
            command, env=environment, cwd=folder.parent, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return {}
    lines = done.stdout.strip().splitlines()
    last = json.loads(lines[-1]) if lines else {}
    if last.get("type") != "run.finished":
        print(f"{folder.name}: the last line is no run.finished; it said: {done.stderr.strip()[-300:]}", file=sys.stderr)
        return {}
    return last


def main(names: list[str]) -> int:
    names = names or sorted(path.name for path in PROJECTS.iterdir() if path.is_dir())
    began = time.monotonic()
    results = []
    with tempfile.TemporaryDirectory(prefix="heaveto-python-") as bare, ThreadPoolExecutor(AT_ONCE) as pool:
        venv.create(bare)
        for result in pool.map(mend, names, repeat(Path(bare) / "bin" / "python")):
            print(row(result), flush=True)
            results.append(result)
    mended = sum(result.mended for result in results)
    turns = sum(result.turns for result in results)
    print(f"mended {mended} of {len(results)} in {turns} turns, {time.monotonic() - began:.0f} s")
    return 0 if mended >= ENOUGH * len(results) else 1


def row(result: Result) -> str:
    verdict = "mended" if result.mended else "not mended"
    figures = f"{result.turns:4} turns {result.seconds:6.1f} s"
    return f"{result.name:20} {verdict:11} {result.outcome:9} {figures}  {result.remark}".rstrip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
