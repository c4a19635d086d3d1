"""Tests of whole runs, under the fake clock on both back ends; and a small world with side effects that can be counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import anyio
import pytest

from heaveto.errors import ToolError
from heaveto.journal import MemoryStore
from heaveto.messages import Message, ToolMessage
from heaveto.models import Request
from heaveto.retry import RetryPolicy
from heaveto.runs import Agent
from heaveto.testing.clocks import FakeClock
from heaveto.testing.scripted_model import Line, ScriptedModel, calls
from heaveto.tools import Call, Check, tool


@pytest.fixture
def anyio_backend(fake_clock: FakeClock) -> tuple[str, dict[str, Any]]:
    return fake_clock.backend


@dataclass
class World:
    """What tools change, and what they were asked for. `effects` outlives the process that made them."""

    effects: list[str] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)  # the ids of the calls that ran, once for each time
    noted: Callable[[str], None] = lambda effect: None  # told of each effect when it happens

    def clear(self) -> None:
        self.effects.clear()
        self.ran.clear()

    async def do(self, call: Call, effect: str = "") -> str:
        self.ran.append(call.call_id)
        await anyio.sleep(0.5)
        if effect:
            self.effects.append(effect)
            self.noted(effect)
        await anyio.sleep(0.5)
        return f"{call.tool}: {effect or 'seen'}"

    async def was_paid(self, call: Call, arguments: Any) -> Check:
        await anyio.sleep(0.1)
        paid = f"paid {arguments['what']}" in self.effects
        return Check("done", "pay: it is on the list") if paid else Check("not_done", "it is not on the list")

    @cached_property
    def tools(self) -> list[Any]:
        @tool(effect="read")
        async def look(what: str, call: Call) -> str:
            """Look at something."""
            return await self.do(call)

        @tool(effect="read")
        async def fail(call: Call) -> str:
            """Fail."""
            await self.do(call)
            raise ToolError("there is no such thing")

        @tool(effect="idempotent")
        async def put(what: str, call: Call) -> str:
            """Put something in its place, where it may be already."""
            return await self.do(call, f"put {what}")

        @tool(effect="write", check=self.was_paid)
        async def pay(what: str, call: Call) -> str:
            """Pay for something, and leave a trace of it."""
            return await self.do(call, f"paid {what}")

        @tool(effect="write")
        async def shout(what: str, call: Call) -> str:
            """Shout something, which leaves no trace."""
            return await self.do(call, f"shouted {what}")

        return [look, fail, put, pay, shout]


REPLIES = [
    [("look", {"what": "a"}), ("look", {"what": "b"}), ("fail", {}), ("look", {"what": "c"})],
    [("pay", {"what": "rent"}), ("look", {"what": "d"}), ("shout", {"what": "hey"})],
    [("put", {"what": "x"}), ("nonsense", {}), ("pay", {"what": "tax"})],
]
ANSWER = "all is done"
ONCE = ["paid rent", "paid tax", "shouted hey"]  # effects that must not happen twice


class Plan(ScriptedModel):
    """A model that follows `REPLIES`, looking at nothing but the conversation; so it does the same after a resume."""

    def __init__(self, *first: Line, replies: Sequence[Any] = REPLIES) -> None:
        self._replies = [calls(*reply, text=f"turn {number}") for number, reply in enumerate(replies)]
        super().__init__([*first, *[self._next] * 50], name="plan", pause_seconds=0)

    def _next(self, request: Request) -> Line:
        asked = {tuple(call.id for call in m.tool_calls) for m in request.transcript if getattr(m, "tool_calls", ())}
        return self._replies[len(asked)] if len(asked) < len(self._replies) else ANSWER


@dataclass
class Rig:
    """One world, one store, and agents that work on them, each as a fresh process would."""

    world: World = field(default_factory=World)
    store: Any = field(default_factory=MemoryStore)
    plan: Plan = field(default_factory=Plan)

    def agent(self, *, on_unknown: Literal["wait", "tell_model"] = "wait", **options: Any) -> Agent:
        options.setdefault("retry", RetryPolicy(base_seconds=0))
        return Agent(model=self.plan, store=self.store, tools=self.world.tools, on_unknown=on_unknown, **options)

    def checked(self, messages: Sequence[Message]) -> list[ToolMessage]:
        """The answers of a conversation, which must be one for each call, in the order of the calls, right after them."""
        waiting: list[str] = []
        answers = []
        for message in messages:
            if isinstance(message, ToolMessage):
                assert waiting, f"an answer to nothing: {message}"
                assert message.call_id == waiting.pop(0)
                answers.append(message)
            else:
                assert not waiting, f"calls without an answer before {message}: {waiting}"
                waiting = [call.id for call in getattr(message, "tool_calls", ())]
        assert not waiting, f"calls without an answer: {waiting}"
        return answers


@pytest.fixture
def rig() -> Callable[..., Rig]:
    return Rig


@pytest.fixture
def plan() -> type[Plan]:
    return Plan


@pytest.fixture
def once() -> list[str]:
    return list(ONCE)


@pytest.fixture
def answer() -> str:
    return ANSWER
