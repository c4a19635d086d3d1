"""The runs that `make crashes` kills: what the model says, what the tools do to the world, and what stops the first drive.

The model looks at nothing but the conversation, so it does the same in a fresh process. Time is fake.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, TypeAlias

import anyio
import msgspec
from crash_outside import Outside

from heaveto.causes import Cancelled, Shutdown, Stop
from heaveto.errors import APIError
from heaveto.messages import AssistantMessage, Reply, Usage
from heaveto.models import Request
from heaveto.testing.scripted_model import ScriptedModel, ScriptedStream, calls
from heaveto.tools import Call, Check, Tool, tool
from heaveto.tools.files.file_tools import edit_file, read_file

__all__ = [
    "ANSWER",
    "FILE_AT_THE_END",
    "FILE_AT_THE_START",
    "INNER",
    "SCENARIOS",
    "TOOLS",
    "Scenario",
    "Speaker",
    "World",
    "cost_of",
    "enter",
    "here",
    "word_on",
]

ANSWER = "all is done"
FILE_AT_THE_START, FILE_AT_THE_END = "start\nend\n", "start\none\ntwo\nend\n"


@dataclass(frozen=True)
class Scenario:
    """One run.

    Attributes:
        busy: How often the model's side refuses the first attempts at the second turn, in each process.
        stop_after: When the first drive is stopped, in seconds of it, and by what.
        person: Whether somebody decides about calls that nobody knows the outcome of.
    """

    name: str
    replies: Sequence[Reply]
    busy: int = 0
    stop_after: tuple[float, Stop] | None = None
    person: bool = True
    on_unknown: Literal["wait", "tell_model"] = "wait"

    @property
    def turns(self) -> int:
        return len(self.replies) + 1


def cost_of(turn: int) -> Decimal:
    """A decimal place for each turn, so that the sum says which were counted, and how often."""
    return Decimal(1).scaleb(-turn)


HandOver: TypeAlias = Callable[[str, Call], Awaitable[str]]


@dataclass
class World:
    """What the tools of a run act on. They find it by their context, so that a warm parent can make them once for all.

    Attributes:
        hand_over: Has another agent do something, in a run and a world of its own.
    """

    outside: Outside
    hand_over: HandOver
    first_life: bool = True

    def was_done(self, call_id: str) -> bool:
        changes = [note.what for note in self.outside.notes() if note.name == call_id and note.what in ("effect", "undone")]
        return changes[-1:] == ["effect"]

    async def do(self, call: Call, effect: str = "", *, seconds: float = 0.5) -> str:
        self.outside.note("ran", call.call_id, call.tool)
        self.outside.reach(f"before the effect of {call.tool}")
        await anyio.sleep(0.5)
        if effect:
            self.outside.note("effect", call.call_id, effect)
            self.outside.reach(f"after the effect of {call.tool}")
        await anyio.sleep(seconds)
        return f"{call.tool}: {effect or 'seen'}"


_world: ContextVar[World] = ContextVar("world")
here = _world.get


def enter(world: World) -> World:
    """Let the tools act on this world, from here on."""
    _world.set(world)
    return world


async def _check(call: Call, arguments: Any) -> Check:
    here().outside.reach(f"in the check of {call.tool}")
    await anyio.sleep(0.1)
    return (
        Check("done", f"{call.tool}: it is there") if here().was_done(call.call_id) else Check("not_done", "nothing there")
    )


@tool(effect="read")
async def look(what: str, call: Call) -> str:
    """Look at something."""
    return await here().do(call)


@tool(effect="idempotent")
async def put(what: str, call: Call) -> str:
    """Put something in its place, where it may be already."""
    return await here().do(call, f"put {what}")


@tool(effect="write", check=_check)
async def pay(what: str, call: Call) -> str:
    """Pay for something, and leave a trace of it."""
    return await here().do(call, f"paid {what}")


@tool(effect="write", check=_check, alone=False)
async def post(what: str, call: Call) -> str:
    """Post something, beside others."""
    return await here().do(call, f"posted {what}")


@tool(effect="write")
async def shout(what: str, call: Call) -> str:
    """Shout something, which leaves no trace."""
    return await here().do(call, f"shouted {what}")


@tool(effect="write", alone=False)
async def brew(what: str, call: Call) -> str:
    """Brew something, which takes a minute in the first life."""
    return await here().do(call, f"brewed {what}", seconds=60 if here().first_life else 0.5)


class Pointed:
    """A tool whose process may be killed just before it runs and just after."""

    def __init__(self, inner: Tool) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def run(self, call: Call, arguments: Mapping[str, Any]) -> str:
        outside = here().outside
        outside.note("ran", call.call_id, call.tool)
        outside.reach(f"before {call.tool}")
        text = await self._inner.run(call, arguments)
        outside.reach(f"after {call.tool}")
        return text


@tool(effect="write", idempotency_key=True)
async def charge(what: str, call: Call) -> str:
    """Charge for something, at a bank that does it once for each key."""
    first = not any(note.what == "effect" and note.text.endswith(call.key) for note in here().outside.notes())
    return await here().do(call, f"charged {what} {call.key}" if first else "")


@tool(effect="idempotent")
async def delegate(what: str, call: Call) -> str:
    """Have another agent do something, which goes on with it if it has begun already."""
    said = await here().hand_over(what, call)
    return await here().do(call, f"put {what} into other hands: {said}")


async def _unbook(call: Call, arguments: Any) -> str:
    here().outside.reach(f"before the undo of {call.tool}")
    if here().was_done(call.call_id):
        here().outside.note("undone", call.call_id)
    here().outside.reach(f"after the undo of {call.tool}")
    return "nothing is booked"


@tool(effect="write", undo=_unbook)
async def book(what: str, call: Call) -> str:
    """Book something, which can be taken back."""
    return await here().do(call, f"booked {what}")


@tool(effect="write", check=_check, approval=True)
async def buy(what: str, call: Call) -> str:
    """Buy something, once a person allows it."""
    return await here().do(call, f"bought {what}")


def word_on(arguments: str) -> tuple[Literal["approved", "denied"], str | None]:
    """A person's word on a purchase, and what to buy instead."""
    if "yacht" in arguments:
        return "denied", None
    return "approved", '{"what": "a loaf"}' if "bakery" in arguments else None


TOOLS: Sequence[Any] = (
    look,
    put,
    pay,
    post,
    shout,
    brew,
    charge,
    book,
    buy,
    delegate,
    *map(Pointed, (read_file, edit_file)),
)


class Speaker(ScriptedModel):
    """Says what the scenario's conversation comes to next."""

    def __init__(self, scenario: Scenario, outside: Outside) -> None:
        super().__init__((), name="speaker", pause_seconds=0.1)
        self._scenario, self._outside, self._busy = scenario, outside, scenario.busy

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[ScriptedStream]:
        turn = sum(isinstance(message, AssistantMessage) for message in request.transcript) + 1
        self._outside.note("asked", number=turn)
        self._outside.reach("after the model was asked")
        await anyio.sleep(0.1)
        if turn == 2 and self._busy:
            self._busy -= 1
            self._outside.note("refused", number=turn)
            raise APIError("p", 503, "busy")
        yield ScriptedStream(self._reply(turn), 0.1)
        self._outside.reach("after the model replied")

    def _reply(self, turn: int) -> Reply:
        said = self._scenario.replies
        answer = Reply(message=AssistantMessage(ANSWER), finish="answer")
        reply = said[turn - 1] if turn <= len(said) else answer
        return msgspec.structs.replace(reply, usage=Usage(input_tokens=100, output_tokens=10, cost_usd=cost_of(turn)))


def _each(*asked: tuple[str, str]) -> Reply:
    return calls(*((name, {"what": what}) for name, what in asked))


def _edit(old: str, new: str) -> Reply:
    return calls(("edit_file", {"path": "a.txt", "old": old, "new": new}))


_MIXED = (_each(("pay", "rent"), ("look", "d"), ("shout", "hey")), _each(("put", "x"), ("pay", "tax")))


def _scenarios() -> Sequence[Scenario]:
    return (
        Scenario("plain", [_each(("look", "a")), _each(("pay", "rent")), _each(("put", "x")), _each(("shout", "hey"))]),
        Scenario("parallel", [_each(*((name, what) for what in "abc" for name in ("look", "post"))), _each(("look", "z"))]),
        Scenario("retry", _MIXED, busy=2),
        Scenario("cancel", _MIXED, stop_after=(2.9, Cancelled("lunch", "ada"))),
        Scenario(
            "shutdown", [_each(("brew", "tea"), ("post", "a")), _each(("put", "x"))], stop_after=(1.2, Shutdown("SIGTERM"))
        ),
        Scenario("edits", [_edit("end", "two\nend"), _edit("two", "one\ntwo"), calls(("read_file", {"path": "a.txt"}))]),
        Scenario("rungs", [_each(("charge", "rent"), ("book", "a room")), _each(("charge", "rent"), ("look", "a"))]),
        Scenario(
            "approval",
            [_each(("buy", "tea"), ("look", "a"), ("buy", "a yacht")), _each(("buy", "a bakery"), ("buy", "coffee"))],
        ),
        Scenario("sub-run", [_each(("look", "a"), ("delegate", "b")), _each(("pay", "rent"))]),
        Scenario("told", _MIXED, on_unknown="tell_model"),
        Scenario("nobody", _MIXED, person=False),
    )


INNER = Scenario("inner", [_each(("pay", "the cook")), _each(("shout", "ho"))])  # what "sub-run" hands over
SCENARIOS: Mapping[str, Scenario] = {scenario.name: scenario for scenario in _scenarios()}
