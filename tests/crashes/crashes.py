"""`make crashes`: real processes killed with SIGKILL before, in and after every journal write, and around every effect.

Each scenario is killed at each of its points, on asyncio and on Trio, once; and from every third of them again, with the
processes that took it up killed one after the other. The last line is the figure. Exit status 1 when anything is wrong,
or when there were too few kills.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from crash_journals import copy_world
from crash_judge import wrong_with
from crash_life import BACKENDS, Left, begin, live, live_and_die, warm_up
from crash_scenarios import SCENARIOS, Scenario

from heaveto.testing.clocks import Backend

__all__ = ["Case", "Verdict", "cases", "kill"]

LEAST_KILLS = 3_000
CHAIN_EVERY = 3  # first points: where a chain of further kills begins, unless more are asked for
LONGEST = 7  # further kills in a chain
IN_MEMORY = Path("/dev/shm")  # a SIGKILL loses nothing that was written; what a power loss does is another test's


@dataclass(frozen=True)
class Case:
    """A scenario killed at a point; and then again, in chains of kills of those that took it up.

    Attributes:
        how_many: Chains; None for one of each second point, with that kill alone.
        chain: The only one, of a replay; empty for none at all.
    """

    scenario: str
    backend: Backend
    first: int
    how_many: int | None = 1
    chain: tuple[int, ...] | None = None
    seed: int = 1

    def __str__(self) -> str:
        return f"{self.scenario} {self.backend} {self.first}"

    def chains(self, last: int) -> Sequence[tuple[int, ...]]:
        """The points of further kills, each counted from its own process's beginning.

        Args:
            last: The last point of the process that follows on the first kill.
        """
        if self.chain is not None:
            return [self.chain] if self.chain else []
        if self.how_many is None:
            return [(point,) for point in range(1, last + 1)]
        chance = random.Random(f"{self.seed} {self}")
        return [tuple(_chain(chance, last)) for _ in range(self.how_many)]


def _chain(chance: random.Random, last: int) -> Iterator[int]:
    for _ in range(LONGEST):
        if last < 1:
            return
        yield (point := chance.randint(1, max(1, last // 3)))
        last -= point  # at least that much is left; what is done again comes on top


@dataclass
class Verdict:
    kills: int = 0
    wrong: list[str] = field(default_factory=list)


def main() -> int:
    chosen = _options().parse_args()
    began = time.monotonic()
    with _folder() as folder:
        warm_up(folder)
    if chosen.replay:
        name, backend, first, *chain = chosen.replay
        work = [Case(name, backend, int(first), chain=tuple(map(int, chain)))]
    else:
        work = list(cases(chosen.scenario or list(SCENARIOS), None if chosen.all else chosen.chains, chosen.seed))
        work = work[:: chosen.every]
    with ProcessPoolExecutor(chosen.processes, multiprocessing.get_context("fork")) as pool:
        verdicts = list(pool.map(kill, work))
    wrong = [problem for verdict in verdicts for problem in verdict.wrong]
    for problem in wrong:
        print(f"wrong: {problem}")
    kills, seconds = sum(verdict.kills for verdict in verdicts), time.monotonic() - began
    few = (
        f", fewer than {LEAST_KILLS:,}"
        if kills < LEAST_KILLS and not (chosen.replay or chosen.scenario or chosen.every > 1)
        else ""
    )
    print(f"crashes: {kills:,} kills in {seconds:.0f} s, {len(wrong) if wrong else 'nothing'} wrong{few}")
    return 1 if wrong or few else 0


def _options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--chains", type=int, default=0, help="of further kills, from each first point")
    options.add_argument("--every", type=int, default=1, help="n: only every n-th first point")
    options.add_argument("--all", action="store_true", help="every pair of points")
    options.add_argument("--scenario", action="append", choices=list(SCENARIOS), help="only these")
    options.add_argument("--seed", type=int, default=1, help="of the chains")
    options.add_argument("--processes", type=int, default=2, help="that kill side by side")
    options.add_argument(
        "--replay", nargs="+", metavar="WORD", help="SCENARIO BACKEND FIRST [POINT ...]: one kill, or a chain of them"
    )
    return options


def cases(scenarios: Sequence[str], how_many: int | None = 0, seed: int = 1) -> Iterator[Case]:
    """Every first point of the scenarios; the first lives that are not killed at all tell how many there are.

    Args:
        how_many: Chains from each; 0 for one from every third, None for every pair of points.
    """
    for name in scenarios:
        for backend in BACKENDS:
            for first in range(1, _points_of(name, backend) + 1):
                chains = int(first % CHAIN_EVERY == 0) if how_many == 0 else how_many
                yield Case(name, backend, first, chains, seed=seed)


def _points_of(name: str, backend: Backend) -> int:
    with _folder() as folder:
        begin(folder / "run")
        points = live(SCENARIOS[name], folder / "run", backend)
        if problems := wrong_with(SCENARIOS[name], [Left.of(folder / "run")]):
            raise AssertionError(f"{name} {backend}, without a kill: {problems}")
    return points


def kill(case: Case) -> Verdict:
    """Kill the case's first process, and then those that took over."""
    verdict = Verdict()
    with _folder() as folder:
        run = _Run(case, folder / "run", verdict)
        begin(run.folder)
        try:
            if not run.kill_at(case.first):
                raise AssertionError("it was not killed")
            copy_world(run.folder, folder / "killed")
            for chain in case.chains(run.finish()):
                shutil.rmtree(run.folder)
                copy_world(folder / "killed", run.folder)
                run.lefts[1:] = []
                if all(run.kill_at(point) for point in chain):
                    run.finish()
                else:
                    run.judge()  # it came to its end before the last of these points
        except Exception:
            verdict.wrong.append(f"{case}: {traceback.format_exc()}")
    return verdict


@dataclass
class _Run:
    case: Case
    folder: Path
    verdict: Verdict
    lefts: list[Left] = field(default_factory=list)

    @property
    def scenario(self) -> Scenario:
        return SCENARIOS[self.case.scenario]

    def kill_at(self, point: int) -> bool:
        """Whether there was such a point."""
        if not live_and_die(self.scenario, self.folder, self.case.backend, point):
            return False
        self.verdict.kills += 1
        self.lefts.append(Left.of(self.folder))
        return True

    def finish(self) -> int:
        """Let another process finish the run, and judge it; returns the points that it passed."""
        points = live(self.scenario, self.folder, self.case.backend)
        self.judge()
        return points

    def judge(self) -> None:
        left = Left.of(self.folder)
        killed = " and ".join(f"at {note.number}, {note.name}" for note in left.notes if note.what == "killed")
        for problem in wrong_with(self.scenario, [*self.lefts, left]):
            self.verdict.wrong.append(f"{self.case.scenario} {self.case.backend}, killed {killed}: {problem}")


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="heaveto-", dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as folder:
        yield Path(folder)


if __name__ == "__main__":
    sys.exit(main())
