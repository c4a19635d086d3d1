"""The world of a simulated run: what its tools change, what its model says, where it is kept, and a log of it all.

A drive whose process is gone goes no further than the point at which that happened: what it does from there on is neither
done nor written, and then it is taken away.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import anyio
import sim_scenario
from sim_scenario import Asked, Scenario

from heaveto.errors import APIError, JournalError, OutcomeUnknown, ToolError, ToolFatal, TransportFailed
from heaveto.journal import Entry, MemoryStore, RunRow, Store, Summary
from heaveto.loop import Outcome
from heaveto.messages import AssistantMessage, Delta, Message, Reply, SystemMessage, TextDelta, ToolCall, ToolMessage, Usage
from heaveto.models import Request
from heaveto.runs import Run
from heaveto.testing.faults import FaultyStore, fault_at
from heaveto.tools import Call, Check, tool

__all__ = ["RUN", "TOOLS", "Event", "KeptStore", "LifeStore", "Lived", "Speaker", "World", "life_of"]

RUN = "run"
TOOL_SECONDS = 5.0
TOO_LONG = 9.0
BUSY, DENIED = 503, 401


@dataclass(frozen=True)
class Event:
    """Something that happened.

    Attributes:
        what: Of a call: "marked", "began", "effect", "undone", "ended", "kept", "again", "resolved", "waits". Of the model:
            "asked", "opened", "failed", "replied". Of the journal: "reply", "retry", "spent", "started", "finished".
    """

    life: int
    at: float
    what: str
    about: str = ""
    data: Any = None


@dataclass
class World:
    """What outlives every process."""

    scenario: Scenario
    store: MemoryStore = field(default_factory=MemoryStore)
    log: list[Event] = field(default_factory=list)
    lives: list[Lived] = field(default_factory=list)
    done: Counter[tuple[str, str, str]] = field(default_factory=Counter)  # tool, what, call
    bank: set[str] = field(default_factory=set)  # the keys that it has seen
    begins: Counter[str] = field(default_factory=Counter)
    attempts: Counter[int] = field(default_factory=Counter)

    def was_done(self, call_id: str) -> bool:
        return any(times > 0 for (_, _, of), times in self.done.items() if of == call_id)

    def of_life(self, number: int) -> Iterator[Event]:
        return (event for event in self.log if event.life == number)


class Lived:
    """One drive.

    Attributes:
        over: It has ended, is dead, or is paused.
        ended: Nothing of it is left.
    """

    def __init__(self, world: World, plan: sim_scenario.Life) -> None:
        self.world, self.plan = world, plan
        self.number = len(world.lives)
        world.lives.append(self)
        self.scope = anyio.CancelScope()
        self.over, self.ended, self.resumed = anyio.Event(), anyio.Event(), anyio.Event()
        self.dead = self.paused = False
        self.began = anyio.current_time()
        self.ended_at = self.began
        self.stopped_at: float | None = None
        self.run: Run | None = None
        self.outcome: Outcome | None = None
        self.error: BaseException | None = None
        self._points = self._writes = 0

    def note(self, what: str, about: str = "", data: Any = None) -> None:
        self.world.log.append(Event(self.number, anyio.current_time() - self.began, what, about, data))

    async def reach(self) -> None:
        """A place where the process may be gone."""
        self._points += 1
        if self._points == self.plan.kill and not self.paused:
            self.dead = True
            self.over.set()
        await self.alive()

    async def alive(self) -> None:
        if self.dead:
            await anyio.sleep_forever()

    async def before_write(self) -> None:
        """A place where it may be paused too: what it writes next is the first that it does when it goes on."""
        await self.reach()
        self._writes += 1
        if self._writes == self.plan.pause:
            self.paused = True
            self.over.set()
        await self.frozen()

    async def frozen(self) -> None:
        if self.paused:
            with anyio.CancelScope(shield=True):
                await self.resumed.wait()


life_of: ContextVar[Lived] = ContextVar("life_of")


# --- the tools --------------------------------------------------------------------------------------------------------


async def _do(what: str, call: Call) -> str:
    """Do what the scenario says of this call."""
    life = life_of.get()
    world, asked = life.world, life.world.scenario.asked(call.call_id)
    world.begins[call.call_id] += 1
    again = world.begins[call.call_id] > 1
    act = "ok" if again and asked.act not in ("error", "crash") else asked.act
    life.note("began", call.call_id)
    await life.reach()
    return await _act(life, asked, act, what, call)


async def _act(life: Lived, asked: Asked, act: str, what: str, call: Call) -> str:
    pause = _stubborn if act == "stubborn" else anyio.sleep
    await pause(asked.before)
    await life.alive()
    if act == "late":
        await anyio.sleep(TOO_LONG)
    _raise(life, act, call, before=True)
    await _have_effect(life, what, call)
    await pause(asked.after)
    await life.alive()
    if act == "slow":
        await anyio.sleep(TOO_LONG)
    _raise(life, act, call, before=False)
    life.note("ended", call.call_id)
    return _result(call.tool, what)


async def _stubborn(seconds: float) -> None:
    """Wait so long whatever happens."""
    try:
        await anyio.sleep(seconds)
    except anyio.get_cancelled_exc_class():
        with anyio.CancelScope(shield=True):
            await anyio.sleep(seconds)


def _raise(life: Lived, act: str, call: Call, *, before: bool) -> None:
    error: Exception
    match act, before:
        case "error", True:
            error = ToolError(f"{call.tool} cannot do that")
        case "fatal", True:
            error = ToolFatal(call.tool, "its server is gone")
        case ("nothing", True) | ("unsure", False):
            error = OutcomeUnknown(call.tool, call.call_id, "no word came back")
        case "crash", False:
            error = ValueError("a bug")
        case _:
            return
    life.note("ended", call.call_id)
    raise error


async def _have_effect(life: Lived, what: str, call: Call) -> None:
    world = life.world
    if call.tool == "look" or (call.tool == "charge" and call.key in world.bank):
        return
    world.bank.add(call.key)
    world.done[call.tool, what, call.call_id] += 1
    life.note("effect", call.call_id)
    await life.reach()


def _result(name: str, what: str) -> str:
    return f"{name} {what}: {'seen' if name == 'look' else 'done'}"


async def _check(call: Call, arguments: Mapping[str, Any]) -> Check:
    life = life_of.get()
    await life.reach()
    await anyio.sleep(0.25)
    await life.alive()
    if life.world.was_done(call.call_id):
        return Check("done", _result(call.tool, _what(life.world, call.call_id)))
    return Check("not_done", "nothing there")


def _what(world: World, call_id: str) -> str:
    return next(what for (_, what, of), times in world.done.items() if of == call_id and times > 0)


async def _undo(call: Call, arguments: Mapping[str, Any]) -> str:
    life = life_of.get()
    await life.reach()
    for each in [each for each in life.world.done if each[2] == call.call_id]:
        del life.world.done[each]
        life.note("undone", call.call_id)
    await life.reach()
    return "nothing is booked"


def _make(name: str, kind: sim_scenario.Kind) -> Any:
    return tool(
        effect=kind.effect,  # type: ignore[arg-type]
        name=name,
        seconds=TOOL_SECONDS,
        approval=kind.approval,
        alone=not kind.beside,
        idempotency_key=kind.key,
        check=_check if kind.check else None,
        undo=_undo if kind.undo else None,
    )(_do)


TOOLS: Sequence[Any] = [_make(name, kind) for name, kind in sim_scenario.TOOLS.items()]


# --- the model --------------------------------------------------------------------------------------------------------


class Speaker:
    """Says what is next in the scenario. It looks at nothing but the conversation, and at how often it was asked."""

    name, reports_cost = "speaker", True

    def __init__(self, life: Lived) -> None:
        self._life = life

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[_Speech]:
        life, scenario = self._life, self._life.world.scenario
        turn = sum(isinstance(message, AssistantMessage) for message in request.transcript) + 1
        life.world.attempts[turn] += 1
        life.note("asked", str(turn), [_plain(message) for message in request.transcript])
        await life.reach()
        await anyio.sleep(0.25)
        await life.alive()
        said = scenario.turn(turn)
        fault = dict(enumerate(said.faults, 1)).get(life.world.attempts[turn], "")
        if fault in ("busy", "denied"):
            life.note("failed", str(turn))
            raise APIError("p", BUSY if fault == "busy" else DENIED, fault)
        life.note("opened", str(turn))
        yield _Speech(life, turn, fault, said.seconds)

    async def aclose(self) -> None: ...


def _plain(message: Message) -> tuple[Any, ...]:
    match message:
        case AssistantMessage():
            return "assistant", message.content, [(call.id, call.name, call.arguments) for call in message.tool_calls]
        case ToolMessage():
            return "tool", message.call_id, message.ending, message.content
        case SystemMessage():
            return "system", message.content
        case _:
            return "user", message.content


class _Speech:
    """A reply on its way: half of its time, a word, the other half."""

    def __init__(self, life: Lived, turn: int, fault: str, seconds: float) -> None:
        self._life, self._turn, self._fault, self._seconds = life, turn, fault, seconds
        self._step = 0

    @property
    def spent(self) -> Usage:
        return Usage(input_tokens=100, estimated=True) if self._step < 2 else self.reply.usage

    @property
    def reply(self) -> Reply:
        asked = self._life.world.scenario.turn(self._turn).calls
        calls = tuple(
            ToolCall(f"t{self._turn}c{index}", call.tool, json.dumps({"what": call.what}))
            for index, call in enumerate(asked)
        )
        cost = Decimal("0.01") + Decimal(1).scaleb(-3 - self._turn)  # a place for each turn: the sum says which were counted
        return Reply(
            message=AssistantMessage(f"turn {self._turn}", calls),
            finish="truncated" if self._fault == "truncated" else "tool_calls" if calls else "answer",
            usage=Usage(input_tokens=100, output_tokens=10, cost_usd=cost),
        )

    def __aiter__(self) -> _Speech:
        return self

    async def __anext__(self) -> Delta:
        await anyio.sleep(self._seconds / 2)
        await self._life.alive()
        if self._step:
            if self._fault == "broken":
                self._life.note("failed", str(self._turn))
                raise TransportFailed("POST", "https://model.example/", "the connection broke")
            self._step = 2
            self._life.note("replied", str(self._turn))
            raise StopAsyncIteration
        self._step = 1
        return TextDelta(f"turn {self._turn}")


# --- the journal ------------------------------------------------------------------------------------------------------


class KeptStore:
    """The store that outlives the processes: what it accepted is in the log, by life.

    Attributes:
        epoch: Of the last driver.
    """

    def __init__(self, life: Lived) -> None:
        self._life, self._store = life, life.world.store
        self.epoch = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def create(self, run_id: str, owner: str, bodies: Sequence[bytes], summary: Summary) -> int:
        self.epoch = await self._store.create(run_id, owner, bodies, summary)
        self._note(bodies)
        return self.epoch

    async def take(self, run_id: str, owner: str) -> int:
        self.epoch = await self._store.take(run_id, owner)
        return self.epoch

    async def append(self, run_id: str, epoch: int, bodies: Sequence[bytes], summary: Summary) -> int:
        seq = await self._store.append(run_id, epoch, bodies, summary)
        self._note(bodies)
        return seq

    def _note(self, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            record = json.loads(body.partition(b"\n")[0])
            match record["type"]:
                case "tool.started":
                    self._life.note("marked", record["call_id"])
                case "tool.finished":
                    self._life.note("kept", record["call_id"], record["ending"])
                case "tool.resolved":
                    self._life.note("again" if record["verdict"] == "again" else "resolved", record["call_id"], record["by"])
                case "reply" | "retry":
                    self._life.note(record["type"])
                case "call.spent" if record["error"].get("code") != "killed":
                    self._life.note("spent")
                case "drive.started":
                    self._life.note("started")
                case "run.finished":
                    self._life.note("finished", record["outcome"], (record["cause"] or {}).get("code", ""))
                case _:
                    pass


class LifeStore:
    """The store as one process sees it: its writes may go wrong, it may be gone or paused before them, and gone after."""

    def __init__(self, life: Lived) -> None:
        self._life, plan = life, life.plan
        self.kept = KeptStore(life)
        fault: Any = plan.fault
        self._store: Store = FaultyStore(self.kept, fault_at(plan.write, fault)) if fault else self.kept

    async def create(self, run_id: str, owner: str, bodies: Sequence[bytes], summary: Summary) -> int:
        await self._life.reach()
        epoch = await self._store.create(run_id, owner, bodies, summary)
        await self._life.reach()
        return epoch

    async def take(self, run_id: str, owner: str) -> int:
        await self._life.reach()
        epoch = await self._store.take(run_id, owner)
        await self._life.reach()
        return epoch

    async def append(self, run_id: str, epoch: int, bodies: Sequence[bytes], summary: Summary) -> int:
        self._gone()
        await self._life.before_write()
        seq = await self._store.append(run_id, epoch, bodies, summary)
        await self._life.reach()
        return seq

    async def release(self, run_id: str, epoch: int) -> None:
        self._gone()
        await self._store.release(run_id, epoch)

    async def ask_stop(self, run_id: str, cause: bytes) -> int:
        return await self._store.ask_stop(run_id, cause)

    async def asked_to_stop(self, run_id: str, epoch: int) -> bytes | None:
        self._gone()
        await self._life.frozen()
        return await self._store.asked_to_stop(run_id, epoch)

    async def delete(self, run_id: str, epoch: int) -> None:
        await self._store.delete(run_id, epoch)

    async def read(self, run_id: str, after: int = 0) -> list[Entry]:
        self._gone()
        return await self._store.read(run_id, after)

    async def runs(self, limit: int = 50) -> list[RunRow]:
        return await self._store.runs(limit)

    async def find(self, prefix: str) -> str:
        return await self._store.find(prefix)

    async def aclose(self) -> None: ...

    def _gone(self) -> None:
        if self._life.dead:
            raise JournalError("the process is gone")
