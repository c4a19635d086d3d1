"""How often one charge fires that must fire once: `make maxfired`.

    python benchmarks/maxfired/maxfired.py [--peers FOLDER] [--every N] [--only NAME ...]

A model asks for one charge at a bank that does it as often as it is told to. The process is killed (SIGKILL) at each write
of its journal or checkpoint and around the charge, then a new one takes the run up in the way that the library's own pages
have it, until it is answered. FOLDER has the packages of the peers, which nothing else here uses.

Each side is fair only if it works: a run that is not killed is answered with one charge, and taken up again it does
nothing more. The last line is the figure; the exit status is 1 when ours fires twice or never, when a tool with a key or a
check needs a person at one point in ten, when a side is not fair, or when the naive loop passes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from one_side import SIDES, Ended

__all__ = ["Side", "failures", "measure", "table"]

HERE = Path(__file__).parent
OURS = tuple(name for name in SIDES if name.startswith("heaveto"))
NEEDS_PEERS = ("langgraph", "pydantic-ai", "openai-agents")
MOST_PERSONS = 0.1  # of the points, where the tool has a key or a check


class Side(NamedTuple):
    """A side in all its crashes.

    Attributes:
        whole: The run that was not killed.
    """

    name: str
    whole: Ended
    killed: tuple[Ended, ...]

    @property
    def fair(self) -> bool:
        return self.whole.status == "answered" and self.whole.charges == 1 and self.whole.asked == 2

    @property
    def most(self) -> int:
        return max(each.charges for each in self.killed)

    @property
    def never(self) -> int:
        return sum(each.charges == 0 for each in self.killed)

    @property
    def twice(self) -> int:
        return sum(each.charges > 1 for each in self.killed)

    @property
    def unanswered(self) -> int:
        return sum(each.status != "answered" for each in self.killed)

    @property
    def persons(self) -> int:
        return sum(each.person for each in self.killed)


def measure(name: str, peers: str = "", every: int = 1) -> Side:
    environment = {**os.environ, "PYTHONPATH": peers if name in NEEDS_PEERS else ""}
    command = [sys.executable, str(HERE / "one_side.py"), name, str(every)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{name} does not start: {done.stderr[-2000:]}")
    whole, *killed = (Ended(*each) for each in json.loads(done.stdout)["ended"])
    return Side(name, whole, tuple(killed))


def table(sides: list[Side]) -> list[str]:
    lines = [
        "| side | crash points | most charges | charged twice | never charged | not answered | needed a person |",
        "|---|---|---|---|---|---|---|",
    ]
    for side in sides:
        figures = (len(side.killed), side.most, side.twice, side.never, side.unanswered, side.persons)
        lines.append(f"| {side.name} | {' | '.join(map(str, figures))} |")
    return lines


def failures(sides: list[Side]) -> list[str]:
    """What falls short: of ours, of the fairness, of the measure itself."""
    found = [f"{side.name} does not work without a crash: {side.whole}" for side in sides if not side.fair]
    for side in sides:
        if side.name in OURS:
            wrong = [each for each in side.killed if each.charges != 1 or each.status != "answered"]
            found += [f"{side.name}, killed at {each.point}: {each.charges} charges, {each.status}" for each in wrong]
            if side.name != "heaveto" and side.persons >= MOST_PERSONS * len(side.killed):
                found.append(f"{side.name} needed a person at {side.persons} of {len(side.killed)} points")
        if side.name == "naive" and not side.twice:
            found.append("the naive loop passes, so nothing is measured")
    return found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="How often one charge fires that must fire once.")
    parser.add_argument("--peers", help="the folder with the packages of the peers", default="")
    parser.add_argument("--every", type=int, default=1, help="n: only every n-th point")
    parser.add_argument("--only", action="append", choices=list(SIDES), help="only these sides")
    options = parser.parse_args(arguments)
    names = options.only or [name for name in SIDES if options.peers or name not in NEEDS_PEERS]
    sides = [measure(name, options.peers, options.every) for name in names]
    print(*table(sides), sep="\n")
    wrong = failures(sides)
    for problem in wrong:
        print(f"wrong: {problem}")
    ours = [side for side in sides if side.name in OURS]
    most, points = max((side.most for side in ours), default=0), sum(len(side.killed) for side in ours)
    persons = sum(side.persons for side in ours)
    print(f"maxfired: ours fires {most} time at most, at {points} crash points, {persons} of which needed a person")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
