"""The states of the model: a journal in a store, the processes that drive its run, and the world that its calls change.

Whatever the product decides by itself is asked of the product: what records come to (`fold`), what is next (`next_step`),
the ladder's word (`next_move`), and whether a store takes a driver or an append. Its answers are remembered, since each is a
function of little.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from heaveto.errors import Fenced, RunTaken
from heaveto.journal import MemoryStore, Summary
from heaveto.journal.records import DriveStarted, Record, RunStarted, decode_record, encode_record
from heaveto.journal.state import RunState, fold
from heaveto.scopes import wall_time
from heaveto.tools import Call, Check, Tool, tool

__all__ = [
    "EXPIRED",
    "OUT",
    "RUN",
    "SCENARIOS",
    "TOOLS",
    "Actor",
    "Effects",
    "Journal",
    "Lease",
    "Scenario",
    "State",
    "StoreRules",
    "beginning",
    "intern",
    "record_of",
    "state_of",
]

T = TypeVar("T")

RUN = "run"
EXPIRED = 2  # ticks after a driver's last write, when its lease is over
PEOPLE = ("", "elsewhere/x/x/1/1/a", "elsewhere/x/x/2/2/b", "elsewhere/x/x/3/3/p")  # whose machine nobody here can look at
LEASE_SECONDS = 1e6


# --- journals -------------------------------------------------------------------------------------------------------

Journal: TypeAlias = tuple[int, ...]  # each record by its number

_records: list[Record] = []
_numbers: dict[bytes, int] = {}


def intern(*records: Record) -> Journal:
    """The numbers of these records."""
    return tuple(map(_intern, records))


def _intern(record: Record) -> int:
    body = encode_record(record)
    if body not in _numbers:
        _numbers[body] = len(_records)
        _records.append(decode_record(body))
    return _numbers[body]


def record_of(number: int) -> Record:
    return _records[number]


@cache
def state_of(journal: Journal) -> RunState:
    """What a journal comes to. Nobody may change it.

    Raises:
        JournalDamaged: It comes to nothing.
    """
    return fold(map(record_of, journal))


# --- the store ------------------------------------------------------------------------------------------------------


class Lease(NamedTuple):
    """Who may write: what a store keeps of a run besides its records.

    Attributes:
        owner: Of those who act, by number; 0 for nobody.
        quiet: Ticks since the last write, up to `EXPIRED`.
        stop: The epoch whose driver is asked to stop; 0 for none.
    """

    epoch: int = 1
    owner: int = 1
    quiet: int = 0
    stop: int = 0


class StoreRules:
    """What the product's store does with a lease. A seeded bug overrides one of these."""

    def __init__(self, make: Callable[..., MemoryStore] = MemoryStore) -> None:
        self._make = make
        self.take = cache(self._take)
        self.append = cache(self._append)
        self.release = cache(self._release)
        self.ask_stop = cache(self._ask_stop)
        self.is_asked = cache(self._is_asked)

    def _take(self, lease: Lease, who: int) -> Lease | None:
        """None: it is refused."""
        store = self._opened(lease)
        try:
            _now(store.take(RUN, PEOPLE[who]))
        except RunTaken:
            return None
        return _lease_of(store, lease)

    def _append(self, lease: Lease, epoch: int) -> Lease | None:
        store = self._opened(lease)
        try:
            _now(store.append(RUN, epoch, [b""], Summary()))
        except Fenced:
            return None
        return _lease_of(store, lease)

    def _release(self, lease: Lease, epoch: int) -> Lease:
        store = self._opened(lease)
        _now(store.release(RUN, epoch))
        return _lease_of(store, lease)

    def _ask_stop(self, lease: Lease) -> Lease:
        store = self._opened(lease)
        _now(store.ask_stop(RUN, b"x"))
        return _lease_of(store, lease)

    def _is_asked(self, lease: Lease, epoch: int) -> bool:
        return _now(self._opened(lease).asked_to_stop(RUN, epoch)) is not None

    def _opened(self, lease: Lease) -> MemoryStore:
        """The product's store, with a run whose lease is that."""
        store = self._make(lease_seconds=LEASE_SECONDS)
        _now(store.create(RUN, PEOPLE[lease.owner], [b""], Summary()))
        run: Any = vars(store)["_runs"][RUN]
        run.epoch, run.stop = lease.epoch, (lease.stop, b"x" if lease.stop else b"")
        run.updated = wall_time() - lease.quiet * LEASE_SECONDS * 0.75
        return store


def _lease_of(store: MemoryStore, before: Lease) -> Lease:
    run: Any = vars(store)["_runs"][RUN]
    quiet = round((wall_time() - run.updated) / (LEASE_SECONDS * 0.75))
    return before._replace(epoch=run.epoch, owner=PEOPLE.index(run.owner), quiet=quiet, stop=run.stop[0])


def _now(coroutine: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("it waits")


# --- the tools ------------------------------------------------------------------------------------------------------


async def _check(call: Call, arguments: Any) -> Check:
    raise AssertionError("the model looks by itself")


async def _undo(call: Call, arguments: Any) -> str:
    raise AssertionError("the model undoes by itself")


def _tool(name: str, effect: Any, **options: Any) -> Tool:
    async def act(what: str) -> str:
        """Act."""
        raise AssertionError("the model acts by itself")

    made: Tool = tool(name=name, effect=effect, **options)(act)
    return made


TOOLS: dict[str, Tool] = {
    each.name: each
    for each in (
        _tool("look", "read"),
        _tool("put", "idempotent"),
        _tool("shout", "write"),
        _tool("pay", "write", check=_check),
        _tool("charge", "write", idempotency_key=True),
        _tool("bill", "write", idempotency_key=5),  # the other side forgets it
        _tool("book", "write", undo=_undo),
    )
}


# --- the state ------------------------------------------------------------------------------------------------------

Place: TypeAlias = Literal["out", "read", "commit", "step", "run", "ran", "word", "release"]


class Actor(NamedTuple):
    """A process: one that drives, or that of a person who has a word to say.

    Attributes:
        at: What it does next.
        view: The records as it knows them, the first `saved` of which it knows to be written.
        then: What follows on the commit.
        batch: The calls that it runs now, one after the other.
        only_marked: Those whose marker is there, and no more.
        skipped: The calls in doubt that no rung could settle in this round.
        found: What it has looked at for the call that it settles.
    """

    at: Place = "out"
    epoch: int = 0
    view: Journal = ()
    saved: int = 0
    then: Place = "step"
    batch: tuple[str, ...] = ()
    only_marked: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    found: tuple[tuple[Any, Any], ...] = ()


OUT = Actor()


class Effects(NamedTuple):
    """What the world saw of a call.

    Attributes:
        made: How often it took effect.
        undone: How often that was taken back.
        late: Whether a driver that had lost the run made one of them: no store can hold it back.
        key: With what idempotency key it did last.
    """

    made: int = 0
    undone: int = 0
    late: bool = False
    key: str = ""

    @property
    def standing(self) -> int:
        return self.made - self.undone


class State(NamedTuple):
    """Everything, at one moment.

    Attributes:
        actors: Two drivers and a person.
        since: Ticks since the last write of the driver that was let in last, however its store counts.
        granted: Who was let in last.
        asked_stops: The epochs whose drivers somebody asked to stop.
        crashes, faults, stops, unknowns, words: How many more there may be.
        forgotten: Whether the other side has forgotten its keys.
    """

    journal: Journal
    lease: Lease
    actors: tuple[Actor, Actor, Actor]
    effects: tuple[Effects, ...]
    since: int
    granted: int
    asked_stops: tuple[int, ...]
    crashes: int
    faults: int
    stops: int
    unknowns: int
    words: int
    forgotten: bool = False


@dataclass(frozen=True)
class Scenario:
    """A run whose one reply makes these calls, and what may go wrong."""

    calls: Sequence[str]
    tells_model: bool = False
    crashes: int = 1
    faults: int = 0
    stops: int = 0
    unknowns: int = 0
    words: int = 1
    epochs: int = 3

    def __str__(self) -> str:
        limits = {"kills": self.crashes, "faults": self.faults, "stops": self.stops, "unknown": self.unknowns}
        may = [f"{what} {times}" for what, times in limits.items() if times] + ["told"] * self.tells_model
        return f"{' + '.join(self.calls)} ({', '.join(may)})"


SCENARIOS = [
    Scenario(("look",), faults=1),
    Scenario(("put",), crashes=0, stops=1, words=0),
    Scenario(("shout",), unknowns=1),
    Scenario(("shout",), tells_model=True, crashes=0),
    Scenario(("pay",)),
    Scenario(("charge",), crashes=0, faults=1),
    Scenario(("bill",)),
    Scenario(("book",)),
    Scenario(("shout", "look"), crashes=0, words=2),
]


def beginning(scenario: Scenario) -> State:
    """The first driver has made the run, and is at work."""
    on_unknown: Literal["wait", "tell_model"] = "tell_model" if scenario.tells_model else "wait"
    view = intern(RunStarted(run_id=RUN, task="go", on_unknown=on_unknown), DriveStarted(epoch=1))
    driver = Actor("step", 1, view, len(view))
    return State(
        journal=view,
        lease=Lease(),
        actors=(driver, OUT, OUT),
        effects=tuple(Effects() for _ in scenario.calls),
        since=0,
        granted=1,
        asked_stops=(),
        crashes=scenario.crashes,
        faults=scenario.faults,
        stops=scenario.stops,
        unknowns=scenario.unknowns,
        words=scenario.words,
    )
