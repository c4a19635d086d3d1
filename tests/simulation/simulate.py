"""`make simulate`: seeded runs of everything at once, each held against a plain interpreter of the requirements.

A seed that fails is made small and printed as JSON: put it into `pinned/`, where a test runs it. `--bugs` breaks copies of
the product, one bug at a time, and wants each found. The last line is the figure. Exit status 1 when anything is wrong.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from sim_bugs import BUGS, Bug, copy_with
from sim_generator import scenario_of
from sim_judge import problems_of, wrong_with
from sim_life import simulate
from sim_scenario import Scenario, from_json, to_json
from sim_shrink import shrink
from sim_world import World

__all__ = ["MUST_HAPPEN", "Seeds", "run_seeds"]

SEEDS = 2_000
AT_ONCE = 50
MUST_HAPPEN = (
    "killed",
    "paused",
    "stopped",
    "shutdown",
    "waiting",
    "limit",
    "gave_up",
    "failed",
    "again",
    "resolved",
    "undone",
)


class Seeds(NamedTuple):
    """What came of some seeds: what is wrong, by seed, and how often what happened."""

    wrong: dict[int, list[str]]
    happened: Counter[str]


def run_seeds(seeds: Iterable[int]) -> Seeds:
    wrong: dict[int, list[str]] = {}
    happened: Counter[str] = Counter()
    for seed in seeds:
        try:
            world = simulate(scenario_of(seed))
            problems = wrong_with(world)
            happened.update(_happened(world))
        except Exception as error:
            problems = [f"{type(error).__name__}: {error}"]
        if problems:
            wrong[seed] = problems
    return Seeds(wrong, happened)


def _happened(world: World) -> Iterator[str]:
    for life in world.lives:
        yield "drives"
        yield "killed" if life.dead else "paused" if life.paused else "whole"
        if life.outcome is not None:
            yield life.outcome.kind
    yield from (event.what for event in world.log if event.what in ("again", "resolved", "undone"))


def main() -> int:
    chosen = _options().parse_args()
    if chosen.scenario:
        return _one(from_json(Path(chosen.scenario).read_text()))
    if chosen.seed is not None:
        return _one(scenario_of(chosen.seed))
    if chosen.bugs:
        return _find(BUGS, chosen.seeds)
    return _all(range(chosen.first, chosen.first + chosen.seeds), chosen.processes)


def _options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--seeds", type=int, default=SEEDS, help="how many")
    options.add_argument("--first", type=int, default=0, help="the first of them")
    options.add_argument("--seed", type=int, help="this one alone, made small if it fails")
    options.add_argument("--scenario", help="a file with a scenario, instead of a seed")
    options.add_argument("--bugs", action="store_true", help="find the bugs of sim_bugs.py, each in a copy of the product")
    options.add_argument("--processes", type=int, default=2, help="that simulate side by side")
    return options


def _one(scenario: Scenario) -> int:
    problems = problems_of(scenario)
    if problems:
        small = shrink(scenario, lambda each: bool(problems_of(each)))
        print(to_json(small), *problems_of(small), sep="\n")
    print(f"simulate: {problems[0] if problems else 'nothing wrong'}")
    return 1 if problems else 0


def _all(seeds: range, processes: int) -> int:
    began = time.monotonic()
    parts = [seeds[index : index + AT_ONCE] for index in range(0, len(seeds), AT_ONCE)]
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        found = list(pool.map(run_seeds, parts))
    wrong = {seed: problems for each in found for seed, problems in each.wrong.items()}
    happened = sum((each.happened for each in found), Counter[str]())
    for seed, problems in wrong.items():
        print(f"seed {seed}: {problems[0]}")
    if wrong:
        _one(scenario_of(min(wrong)))
    print("what happened: " + ", ".join(f"{what} {count:,}" for what, count in happened.most_common()))
    never = [what for what in MUST_HAPPEN if not happened[what]] if len(seeds) >= SEEDS else []
    left_out = f", never: {', '.join(never)}" if never else ""
    verdict = f"{len(wrong)} wrong" if wrong else "nothing wrong"
    print(f"simulate: {len(seeds):,} seeds in {time.monotonic() - began:.0f} s, {verdict}{left_out}")
    return 1 if wrong or never else 0


def _find(bugs: Iterable[Bug], seeds: int) -> int:
    """Each bug in turn: the first seed at which it is found."""
    missed = []
    for bug in bugs:
        with tempfile.TemporaryDirectory(prefix="heaveto-") as folder:
            copy_with(bug, Path(folder))
            seed = _first_wrong(folder, seeds)
        print(f"{bug.what}: {f'found by seed {seed}' if isinstance(seed, int) else seed}", flush=True)
        missed += [] if isinstance(seed, int) else [bug.what]
    total = len(tuple(bugs))
    print(f"simulate: {total - len(missed)} of {total} bugs found")
    return 1 if missed else 0


def _first_wrong(folder: str, seeds: int) -> int | str:
    """The first seed that fails with the product of that folder, in a process of its own; else what there is to say."""
    code = (
        "import sys; from simulate import run_seeds\n"
        f"print(next((seed for seed in range({seeds}) if run_seeds([seed]).wrong), ''))"
    )
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{Path(__file__).parent}"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        _, _, error = done.stderr.strip().rpartition("\n")
        return f"broke the simulation itself: {error}"
    return int(done.stdout) if done.stdout.strip() else "not found"


if __name__ == "__main__":
    sys.exit(main())
