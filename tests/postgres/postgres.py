"""`make postgres`: runs whose processes are killed, paused and raced, whose server restarts, and whose lines are cut.

Real processes, a real server of its own, asyncio and Trio. Whatever happens, each run comes to its answer in the end, its
journal is whole, and everything was bought once. The last line is the figure; exit status 1 when anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import psycopg
from postgres_proxy import FAULTS, LATE_SECONDS, BadLine, Fault
from postgres_server import Server, find_binaries, running_server, schema_address
from postgres_worker import GATE, SHOP, Buyer, FromAHost, Work, buy, drive

from heaveto.causes import Cancelled
from heaveto.errors import RunTaken
from heaveto.journal.postgres import PostgresStore
from heaveto.journal.records import DriveStarted, ToolFinished
from heaveto.runs import Agent, read_records, read_state, verify_run
from heaveto.scopes import finish

__all__ = ["Bout", "cut_lines", "main", "outage", "pauses", "races", "random_kills", "restarts"]

BACKENDS = ("asyncio", "trio")
HERE = Path(__file__).parent
WORKER = HERE / "postgres_worker.py"
CRASHES = HERE.parent / "crashes" / "crashes.py"
LEASE_SECONDS = 2.5  # a driver looks for stops each second, and shows so that it lives
END_SECONDS = 60.0
AWAY = {"journal_unreachable", "save_timeout"}


@dataclass
class Bout:
    """A server, an empty place on it, and what was found there.

    Attributes:
        counted: What was done: kills, pauses and so on.
    """

    server: Server
    address: str
    folder: Path
    backend: str
    counted: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def work(self, runs: Sequence[str], **settings: Any) -> Work:
        return Work(address=self.address, folder=str(self.folder), runs=list(runs), backend=self.backend, **settings)

    def open_gate(self) -> None:
        """Let those go on who wait for it."""
        (self.folder / GATE).touch()

    def shut_gate(self) -> None:
        (self.folder / GATE).unlink(missing_ok=True)

    def expect(self, what: str, got: object, wanted: object) -> None:
        if got != wanted:
            self.wrong.append(f"{self.backend}: {what} should be {wanted!r}, and was {got!r}")

    def judge(self, runs: Sequence[str], turns: int = 6) -> None:
        """Each run has its answer, a whole journal, drivers one after the other, and all that it was to buy, once."""
        anyio.run(self._judge, runs, turns)

    async def _judge(self, runs: Sequence[str], turns: int) -> None:
        store = PostgresStore(self.address)
        rows = {row.run_id: row for row in await store.runs(10_000)}
        for run_id in runs:
            await verify_run(store, rows[run_id])
            state, records = await read_state(store, run_id), await read_records(store, run_id)
            epochs = [record.epoch for record in records if isinstance(record, DriveStarted)]
            self.expect(f"the outcome of {run_id}", state.finished and state.finished.outcome, "answered")
            self.expect(f"the turns of {run_id}", state.turns, turns + 1)
            self.expect(f"the epochs of {run_id}", epochs, sorted(set(epochs)))
            self.expect(f"the owner of {run_id}", rows[run_id].owner, "")
            bought = sorted(name.split()[2] for name in os.listdir(self.folder / SHOP) if name.split()[0] == run_id)
            self.expect(f"what {run_id} bought", bought, sorted(str(turn) for turn in range(1, turns + 1)))
        await store.aclose()


class Worker:
    """A process that drives runs, and what it said of them."""

    def __init__(self, work: Work) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(WORKER), work.as_argument()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.said: list[dict[str, Any]] = []

    def wait_for(self, turn: int) -> None:
        """Wait until a run of it has come so far."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said.append(json.loads(line))
            if self.said[-1].get("turn", 0) >= turn:
                return

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def ended(self, status: int = 0) -> dict[str, dict[str, Any]]:
        """Wait for its end; how each run ended, as far as it said so."""
        out, err = self._process.communicate(timeout=END_SECONDS)
        if self._process.returncode != status:
            raise AssertionError(f"a worker ended with status {self._process.returncode}: {err}")
        self.said += [json.loads(line) for line in out.splitlines()]
        return {each["run"]: each for each in self.said if "kind" in each}


def kinds(ends: dict[str, dict[str, Any]]) -> Counter[str]:
    return Counter(end["code"] or end["kind"] for end in ends.values())


# --- what happens ---------------------------------------------------------------------------------------------------


def random_kills(bout: Bout, chance: random.Random, most: int = 3) -> None:
    """A process with several runs is killed somewhere, and so is who takes over, until one comes to the end."""
    runs = [f"killed-{number}" for number in range(5)]
    bout.shut_gate()
    for _ in range(most):
        worker = Worker(bout.work(runs, gate=7))
        worker.wait_for(chance.randint(1, 6))
        time.sleep(chance.uniform(0, 0.05))
        worker.send(signal.SIGKILL)
        worker.ended(-signal.SIGKILL)
        bout.counted["kills"] += 1
    bout.expect("the ends after the kills", kinds(Worker(bout.work(runs)).ended()), Counter({"answered": 5}))
    bout.judge(runs)


def pauses(bout: Bout, chance: random.Random) -> None:
    """A process is stopped beyond its lease, another machine takes its runs, and then it wakes up."""
    runs = [f"paused-{number}" for number in range(3)]
    bout.shut_gate()
    sleeper = Worker(bout.work(runs, host="far", lease_seconds=LEASE_SECONDS, gate=4))
    for turn in (4, 4, 4)[: chance.randint(1, 3)]:
        sleeper.wait_for(turn)
    sleeper.send(signal.SIGSTOP)
    bout.counted["pauses"] += 1
    anyio.run(_come_early, bout, runs)
    time.sleep(LEASE_SECONDS)
    ends = anyio.run(_drive_all, bout.work(runs, host="near"), backend=bout.backend)
    bout.expect("who comes after the lease", kinds(ends), Counter({"answered": 3}))
    before = anyio.run(_sizes, bout.address)
    bout.open_gate()
    sleeper.send(signal.SIGCONT)
    ends = sleeper.ended()
    bout.expect("the sleeper", kinds(ends), Counter({"fenced": 3}))
    bout.expect("what it says", {each["text"] for each in ends.values()}, {_fenced_text(run_id) for run_id in runs})
    bout.expect("what it wrote", anyio.run(_sizes, bout.address), before)
    bout.judge(runs)


async def _drive_all(work: Work) -> dict[str, dict[str, Any]]:
    """Go on with runs in this process."""
    store = FromAHost(work)
    ends = {run_id: await drive(store, work, run_id) for run_id in work.runs}
    await store.aclose()
    return ends


async def _come_early(bout: Bout, runs: Sequence[str]) -> None:
    """Try to take runs whose lease is not over, by the server's clock."""
    store = PostgresStore(bout.address)
    for run_id in runs:
        with psycopg.connect(bout.address) as other:
            query = "SELECT extract(epoch FROM lease_until - clock_timestamp()) FROM heaveto_run WHERE run_id = %s"
            (left,) = other.execute(query, (run_id,)).fetchone() or (0,)
        until = time.monotonic() + float(left)
        try:
            await store.take(run_id, "near/x")
        except RunTaken:
            continue
        bout.expect(f"that {run_id} is taken when its lease is over", time.monotonic() >= until, True)
        await store.release(run_id, 2)  # it was over: this machine is slow
    await store.aclose()


def _fenced_text(run_id: str) -> str:
    return f"run {run_id} was taken over by another driver"


async def _sizes(address: str) -> dict[str, int]:
    store = PostgresStore(address)
    rows = await store.runs(10_000)
    await store.aclose()
    return {row.run_id: row.entries for row in rows}


def races(bout: Bout, chance: random.Random) -> None:
    """Several processes take up the same runs at the same time: of each run one becomes the driver."""
    runs = [f"raced-{number}" for number in range(8)]
    bout.shut_gate()
    first = Worker(bout.work(runs, gate=4))
    first.wait_for(3)
    first.send(signal.SIGKILL)
    first.ended(-signal.SIGKILL)
    several = [Worker(bout.work(chance.sample(runs, len(runs)))) for _ in range(3)]
    ends = [each.ended() for each in several]
    for run_id in runs:
        codes = Counter(end[run_id]["code"] or end[run_id]["kind"] for end in ends)
        bout.expect(f"the drivers of {run_id}", codes["answered"], 1)
        bout.expect(f"the losers of {run_id}", codes["run_taken"] + codes["config"], 2)  # config: it has its answer by now
    bout.counted["races"] += len(runs)
    bout.judge(runs)


def restarts(bout: Bout, chance: random.Random, most: int = 3) -> None:
    """The server is restarted under two processes with many runs; no run notices."""
    halves = [[f"restarted-{half}-{number}" for number in range(8)] for half in range(2)]
    bout.shut_gate()
    workers = [Worker(bout.work(runs, turns=16, gate=16)) for runs in halves]
    for worker in workers:
        worker.wait_for(2)
    for number in range(most):
        bout.server.stop((signal.SIGQUIT, signal.SIGINT)[number % 2])
        time.sleep(chance.uniform(0, 0.5))
        bout.server.start()
        bout.counted["restarts"] += 1
        time.sleep(chance.uniform(0.1, 0.4))
    bout.open_gate()
    for worker in workers:
        bout.expect("the ends after the restarts", kinds(worker.ended()), Counter({"answered": 8}))
    bout.judge([*halves[0], *halves[1]], turns=16)


def outage(bout: Bout, chance: random.Random) -> None:
    """The server is away for longer than a write may take: the runs end so, and can be resumed."""
    runs = [f"cut-off-{number}" for number in range(5)]
    bout.shut_gate()
    worker = Worker(bout.work(runs, save_seconds=1.0, gate=4))
    worker.wait_for(chance.randint(2, 4))
    bout.server.stop()
    bout.open_gate()
    bout.counted["outages"] += 1
    try:
        ends = worker.ended()
    finally:
        bout.server.start()
    bout.expect("the ends without a server", set(kinds(ends)) <= AWAY, True)
    bout.expect("how they are called", {end["kind"] for end in ends.values()}, {"gave_up"})
    bout.expect("the ends of who takes over", kinds(Worker(bout.work(runs)).ended()), Counter({"answered": 5}))
    bout.judge(runs)


def cut_lines(bout: Bout, faults: Sequence[Fault] = FAULTS, every: int = 1) -> None:
    """A message to the server goes wrong, for each message of a run, and of a run that is taken up again."""
    (bout.folder / SHOP).mkdir(exist_ok=True)
    runs: list[str] = []
    with BadLine(bout.server.folder) as line:
        for fault in faults:
            for at in count(1, every):
                run_id = f"{fault}-{at}".replace(" ", "-")
                if not anyio.run(partial(_cut_one, bout, line, fault, at, run_id), backend=bout.backend):
                    break
                runs.append(run_id)
                bout.counted["cuts"] += 1
    time.sleep(LATE_SECONDS)
    bout.judge(runs, turns=2)


async def _cut_one(bout: Bout, line: BadLine, fault: Fault, at: int, run_id: str) -> bool:
    """Whether there was such a message. The run is stopped after its second turn, and taken up again."""
    work = bout.work([run_id], turns=2, pause_seconds=0.0)
    store = PostgresStore(line.address(bout.address))
    await store.release("nobody", 1)  # so that both connections are open
    await store.runs(1)
    line.arm(fault, at)
    agent = Agent(model=Buyer(run_id, work), tools=[buy], store=store, folder=bout.folder)
    async with agent.start("buy all of it", run_id=run_id) as run:
        async for event in run.events():
            if isinstance(event.body, ToolFinished) and event.body.call_id == "call-2":
                run.cancel(Cancelled("enough for now"))
        first = await run.wait()
    if first.kind == "stopped":
        end = await drive(store, work, run_id)
        bout.expect(f"the end of {run_id}", end["code"] or end["kind"], "answered")
    else:
        bout.expect(f"the end of {run_id}", first.kind, "answered")
    went_wrong = line.went_wrong.is_set()
    line.arm(None, 0)
    await finish(10, store.aclose)
    return went_wrong


# --- all of it ------------------------------------------------------------------------------------------------------


@contextmanager
def bout_on(server: Server, backend: str) -> Iterator[Bout]:
    with tempfile.TemporaryDirectory(prefix="heaveto-") as folder, schema_address(server.address) as address:
        yield Bout(server, address, Path(folder), backend)


def forked_kills(server: Server, every: int) -> tuple[int, list[str]]:
    """`make crashes` on this server: how many kills, and what was wrong."""
    command = [sys.executable, str(CRASHES), "--every", str(every)]
    env = {**os.environ, "HEAVETO_CRASH_POSTGRES": server.address}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    last = done.stdout.splitlines()[-1:] or [done.stderr]
    if done.returncode:
        return 0, [*done.stdout.splitlines(), *done.stderr.splitlines()[-3:]]
    return int(last[0].split()[1].replace(",", "")), []


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--seed", type=int, default=1, help="of when things happen")
    options.add_argument("--rounds", type=int, default=1, help="how often all of it is done")
    options.add_argument("--every", type=int, default=20, help="n: of the kills around each write every n-th")
    chosen = options.parse_args()
    if find_binaries() is None:
        print("postgres: left out: no server programs; Debian, Ubuntu: apt install postgresql")
        return 1 if os.environ.get("CI") else 0
    began, counted, wrong = time.monotonic(), Counter[str](), list[str]()
    happenings: list[Callable[..., None]] = [random_kills, pauses, races, restarts, outage]
    with running_server() as server:
        kills, problems = forked_kills(server, chosen.every)
        counted["kills"] += kills
        wrong += problems
        for number in range(chosen.rounds):
            for backend in BACKENDS:
                chance = random.Random(f"{chosen.seed} {number} {backend}")
                with bout_on(server, backend) as bout:
                    for happen in happenings:
                        happen(bout, chance)
                    cut_lines(bout)
                counted += bout.counted
                wrong += bout.wrong
    for problem in wrong:
        print(f"wrong: {problem}")
    what = ", ".join(f"{number:,} {name}" for name, number in counted.items())
    print(f"postgres: {what} in {time.monotonic() - began:.0f} s, {len(wrong) if wrong else 'nothing'} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
