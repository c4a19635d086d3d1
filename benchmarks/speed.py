"""What heaveto costs beside a bare loop on the same HTTP client: CPU and memory, as ratios, for the machine is shared.

    python benchmarks/speed.py [--quick] [ROW ...]       `make bench`; ROW is a word of a row's name

The floor is `bare_loop.py`: it does the same job with no limits, retries, journal, events, checks or causes. Figures are
medians over the repetitions, ratios the median of each repetition's ratio. The last line is for whoever keeps a record.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TypeAlias

__all__ = ["ROWS", "Row", "main", "server", "summary"]

HERE = Path(__file__).parent
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}  # as it is installed
Samples: TypeAlias = dict[str, list[float]]

BARE_IMPORT = "import asyncio, json, httpx2"
OUR_IMPORT = "import heaveto"
PARTS_IMPORT = "from heaveto import Agent, MemoryStore, tool; from heaveto.models import compatible"
OUR_HELP = """
import contextlib, io, sys
sys.argv = ["heaveto", "--help"]
from heaveto.cli import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main()
"""
PROGRAMS = {"import": OUR_IMPORT, "import agent": PARTS_IMPORT, "help": OUR_HELP}
ONE_PROGRAM = """
import resource, sys
def used():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
began = used()
exec(sys.argv[1])
took = used() - began
import json
try:
    status = open("/proc/self/status").read()
    peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
except OSError:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"cpu_ms": took * 1e3, "peak_mb": peak / 1e6}))
"""


@dataclass(frozen=True)
class Row:
    """A line of the table.

    Attributes:
        figure: Which of the case's figures it is.
        values: What the case is told; `quick` are the values that are smaller for a quick look.
        apart: Whether each side has a process of its own for each repetition, and its memory with it.
        floor: Whether there is a floor.
        goal: What to reach, as people read it.
    """

    name: str
    unit: str
    case: str
    figure: str
    values: dict[str, str] = field(default_factory=dict)
    quick: dict[str, str] = field(default_factory=dict)
    repetitions: int = 9
    quick_repetitions: int = 3
    apart: bool = False
    floor: bool = True
    goal: str = ""


def _turns(name: str, goal: str, **values: str) -> Row:
    return Row(name, "ms a turn", "turns", "cpu_ms", {"turns": "20", **values}, {"turns": "10"}, 25, 5, goal=goal)


LONG, SHORT = {"turns": "300"}, {"turns": "60"}
KEPT = {"store": "sqlite"}
CROWD = {"runs": "1000", "turns": "5"}
ROWS = [
    Row("import: heaveto", "ms", "import", "cpu_ms", goal="1"),
    Row("import: heaveto, memory", "MB", "import", "peak_mb", goal="1"),
    Row("import: agent and model", "ms", "import agent", "cpu_ms"),
    Row("import: heaveto --help", "ms", "help", "cpu_ms"),
    Row("import: heaveto --help, memory", "MB", "help", "peak_mb"),
    Row("cold run", "ms", "cold", "cpu_ms", apart=True, goal="1.2"),
    Row("cold run, memory", "MB", "cold", "peak_mb", apart=True, goal="1.3"),
    _turns("turn", "1.45"),
    _turns("turn, streamed", "1.35", streamed="yes"),
    _turns("turn, kept in SQLite", "", store="sqlite"),
    _turns("turn, streamed, kept in SQLite", "", store="sqlite", streamed="yes"),
    Row("chunk of text", "us", "chunks", "cpu_us", {"chunks": "20000", "streamed": "yes"}, {"chunks": "2000"}, goal="0.95"),
    Row("long run: third turn", "ms", "growing", "first_ms", LONG, SHORT, 5, 2),
    Row("long run: last turn", "ms", "growing", "last_ms", LONG, SHORT, 5, 2, goal="1"),
    Row("long run: last turn to third", "", "growing", "growth", LONG, SHORT, 5, 2),
    Row("long run: journal", "MB", "growing", "journal_mb", LONG | KEPT, SHORT, 1, 1, floor=False, goal="1 MB"),
    Row("runs at once", "s", "many", "cpu_s", CROWD, {"runs": "100"}, 1, 1, apart=True, goal="1"),
    Row("runs at once, memory", "KB a run", "many", "kilobytes", CROWD, {"runs": "100"}, 1, 1, apart=True),
    Row("cancel runs that wait", "us a run", "cancel", "cpu_us", {"runs": "1000"}, {"runs": "100"}, 3, 1),
    Row("block with a deadline", "us", "blocks", "cpu_us", {"times": "10000"}, {"times": "1000"}),
    Row("current_cause()", "us", "causes", "cpu_us", {"times": "10000"}, {"times": "1000"}, floor=False),
]
SUMMARY = {"turn": "a turn", "turn, streamed": "streamed", "chunk of text": "a chunk"}


class Measuring:
    """Runs the cases in processes of their own; rows of one case are measured once."""

    def __init__(self, url: str, *, quick: bool) -> None:
        self._url, self._quick = url, quick
        self._known: dict[str, dict[str, list[dict[str, float]]]] = {}

    def samples(self, row: Row) -> Samples:
        """The row's figure for each side, one for each repetition."""
        key = f"{row.case} {self._values(row)}"
        if key not in self._known:
            self._known[key] = self._programs(row) if row.case in PROGRAMS else self._case(row)
        return {side: [each[row.figure] for each in figures] for side, figures in self._known[key].items()}

    def _values(self, row: Row) -> dict[str, str]:
        return row.values | row.quick if self._quick else row.values

    def _repetitions(self, row: Row) -> int:
        return row.quick_repetitions if self._quick else row.repetitions

    def _case(self, row: Row) -> dict[str, list[dict[str, float]]]:
        sides, repetitions = ["bare", "ours"] if row.floor else ["ours"], self._repetitions(row)
        if not row.apart:
            return self._figures(row, ",".join(sides), repetitions)
        found: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
        for _ in range(repetitions):
            for side in sides:
                found[side] += self._figures(row, side, 1)[side]
        return found

    def _figures(self, row: Row, sides: str, repetitions: int) -> dict[str, list[dict[str, float]]]:
        values = [f"{name}={value}" for name, value in self._values(row).items()]
        output = _run(str(HERE / "cases.py"), row.case, self._url, sides, str(repetitions), *values)
        figures: dict[str, list[dict[str, float]]] = json.loads(output)
        return figures

    def _programs(self, row: Row) -> dict[str, list[dict[str, float]]]:
        found: dict[str, list[dict[str, float]]] = {"bare": [], "ours": []}
        for _ in range(self._repetitions(row)):
            for side, program in (("bare", BARE_IMPORT), ("ours", PROGRAMS[row.case])):
                found[side].append(json.loads(_run("-c", ONE_PROGRAM, program)))
        return found


def _run(*args: str) -> str:
    done = subprocess.run([sys.executable, *args], capture_output=True, text=True, env=ENVIRONMENT)
    if done.returncode:
        raise SystemExit(f"{' '.join(args)[:200]}\n{done.stderr[-2000:]}")
    return done.stdout


@contextmanager
def server() -> Iterator[str]:
    """A fake server in a process of its own; its address."""
    command = [sys.executable, str(HERE / "fake_server.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


def _ratio(samples: Samples) -> float:
    return median(ours / bare for ours, bare in zip(samples["ours"], samples["bare"], strict=True))


def _line(row: Row, samples: Samples) -> str:
    ours = f"{median(samples['ours']):,.3g}"
    floor, ratio = (f"{median(samples['bare']):,.3g}", f"{_ratio(samples):.2f}") if row.floor else ("", "")
    return f"{row.name:<32} {ours:>10} {floor:>10} {ratio:>7}  {row.unit:<10} {row.goal:>6}".rstrip()


def summary(ratios: dict[str, float]) -> str:
    """The last line; empty when none of its rows was measured."""
    told = [f"{ratios[name]:.2f} x {words}" for name, words in SUMMARY.items() if name in ratios]
    return f"ours/floor: {', '.join(told)}" if told else ""


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description="What heaveto costs beside a bare loop on the same HTTP client.")
    parser.add_argument("rows", nargs="*", metavar="ROW", help="a word of a row's name; all rows by default")
    parser.add_argument("--quick", action="store_true", help="small numbers, to see that it works")
    options = parser.parse_args(arguments)
    rows = [row for row in ROWS if not options.rows or any(word in row.name for word in options.rows)]
    ratios: dict[str, float] = {}
    print(f"{'':<32} {'ours':>10} {'floor':>10} {'ratio':>7}  {'':<10} {'goal':>6}")
    with server() as url:
        measuring = Measuring(url, quick=options.quick)
        for row in rows:
            samples = measuring.samples(row)
            print(_line(row, samples), flush=True)
            if row.floor:
                ratios[row.name] = _ratio(samples)
    if line := summary(ratios):
        print(line)


if __name__ == "__main__":
    main(sys.argv[1:])
