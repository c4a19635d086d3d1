"""One cell of the fault matrix, run for real: an agent is brought to a point, the fault strikes there, and what came of it.

Each scene is the real thing but for the other side: a scripted model, or the real client over an exchange in memory whose
answer comes in pieces; real tools, in a task, a thread or a process; a real journal, in memory, that can be hooked.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import anyio

from heaveto.causes import Described, Stop
from heaveto.errors import APIError, GaveUp
from heaveto.journal import MemoryStore, Summary
from heaveto.loop import Outcome
from heaveto.messages import AssistantMessage, Limits, ToolMessage, UserMessage
from heaveto.models import CallLimits, HTTPRequest, compatible, fallback, gemini
from heaveto.retry import RetryPolicy
from heaveto.runs import Agent, Run, read_records
from heaveto.scopes import RateLimit, Slots, check_stop, deadline, loop_waker
from heaveto.testing.clocks import Backend, FakeClock
from heaveto.testing.scripted_model import calls, scripted
from heaveto.tools import Call, tool
from heaveto.tools.processes import run_process

__all__ = ["Fault", "Result", "run_cell"]

RAW_SERVER = Path(__file__).parents[1] / "tools" / "mcp" / "raw_server.py"

LIMIT = 0.05  # of what is limited; fake time, but while a thread or a process is out, where it is as long in reality
GRACE = 0.05
POKE = 1.0  # after so long something that waits has begun to wait; fake time

MODEL_POINTS = ("connecting", "headers", "first byte", "mid-text", "mid-call", "between chunks")


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What strikes.

    Attributes:
        stop: The run is cancelled with it.
        native: Something cancels that is not ours and gives no cause.
        outer: A deadline around the block that started the run passes.
        raised: What the fake at the point raises, or the tool, its plan, the store, whoever approves.
        says: What the server says at the point, and then closes; a status with a body where the headers are.
        limits: Of the run.
        call_limits: Of the model call.
        attempt_seconds: Of an attempt.
        tool_seconds: Of the tool.
        retry_after: What the server asks for before a retry.
        effect: Of the tool.
        asked: What the model asks for instead of the scene's own call.
        denied: What whoever approves says.
        nobody: Nobody approves.
        google: The API is Gemini's, which says itself that a call cannot be read.
        two: The model is one of two that stand in for one another.
        output: What the answer has to be.
    """

    stop: Stop | None = None
    native: bool = False
    outer: bool = False
    raised: BaseException | None = None
    says: bytes | tuple[int, bytes, Mapping[str, str]] | None = None
    limits: Limits = field(default_factory=Limits)
    call_limits: CallLimits = field(default_factory=CallLimits)
    attempt_seconds: float | None = None
    tool_seconds: float | None = None
    retry_after: float = 30.0
    effect: Any = "write"
    asked: tuple[str, str] | None = None
    denied: str | None = None
    nobody: bool = False
    google: bool = False
    two: bool = False
    output: Any = None


@dataclass(frozen=True)
class Result:
    """What came of it: the code, as `gave_up(api_error)`; the exit status; the calls and their endings."""

    code: str
    exit_status: int
    history: str

    def __str__(self) -> str:
        return f"{self.code}, {self.exit_status}, {self.history}"


class Scene:
    """A point, and what is around it."""

    def __init__(self, point: str, fault: Fault) -> None:
        self.point, self.fault = point, fault
        self.run: Run | None = None
        self.native = anyio.CancelScope()
        self.slots, self.rate = Slots(1), RateLimit(requests=1, per_seconds=36_000)
        self.served: Sequence[Any] = ()  # an MCP server's tools
        self.log = Path()  # what it was asked
        self.wake: Callable[[Callable[[], object]], object] | None = None

    # --- the fault ---

    def strike(self) -> None:
        """Let it happen. What is raised, is; a stop is asked for; a limit passes by itself."""
        if self.fault.raised is not None:
            raise self.fault.raised
        if self.fault.stop is not None and self.run is not None:
            self.run.cancel(self.fault.stop)
        if self.fault.native:
            self.native.cancel()

    async def reached(self, point: str) -> None:
        """The fakes say where they are; at the scene's point nothing goes on."""
        if point == self.point:
            self.strike()
            await anyio.sleep_forever()

    # --- the whole ---

    async def play(self) -> Result:
        if self.point != "MCP":
            return await self._play()
        from heaveto.tools.mcp import StdioServer, open_servers

        with tempfile.TemporaryDirectory() as folder:
            self.log = Path(folder) / "log"
            server = StdioServer(command=sys.executable, args=("-I", str(RAW_SERVER), str(self.log), "0"))
            async with open_servers({"raw": server}, folder=Path(folder)) as servers:
                self.served = servers.tools
                return await self._play()

    async def _play(self) -> Result:
        store = HookedStore(self)
        agent = self.agent(store)
        outside = deadline(LIMIT) if self.fault.outer else nullcontext()
        try:
            with self.native, outside:
                await self._drive(agent)
        except (Stop, SystemExit):
            pass
        assert self.run is not None
        outcome = self.run.outcome
        assert outcome is not None
        await self._check_journal(store, outcome)
        return Result(code_of(outcome), outcome.exit_status, history_of(outcome))

    async def _drive(self, agent: Agent) -> None:
        async with AsyncExitStack() as stack:
            if self.point == "slot":
                await stack.enter_async_context(self.slots.hold())
            if self.point == "limiter":
                await self.rate.wait()
            self.run = await stack.enter_async_context(agent.start("do it", run_id="run"))
            self.wake = loop_waker()
            if self.point in ("slot", "limiter", "retry", "process"):
                await anyio.sleep(POKE if self.point != "process" else LIMIT)
                self.strike()
            if self.point == "MCP" and self.fault.asked is None:
                while '"tools/call"' not in self.log.read_text():
                    await anyio.sleep(0.01)
                self.strike()
            await self.run.wait()

    async def _check_journal(self, store: HookedStore, outcome: Outcome) -> None:
        """What is kept says the same, unless keeping it was what failed; and each call has one answer, or is pending."""
        answered = [each.call_id for each in outcome.report.messages if isinstance(each, ToolMessage)]
        asked = [call.id for each in outcome.report.messages for call in getattr(each, "tool_calls", ())]
        pending = [call.id for call in outcome.report.pending]
        assert len(answered) == len(set(answered))
        assert set(answered) | set(pending) == set(asked)
        if not store.failed:
            last = (await read_records(store.inner, "run"))[-1]
            assert type(last).__name__ == "RunFinished"
            assert last.exit_status == outcome.exit_status

    def agent(self, store: HookedStore) -> Agent:
        fault = self.fault
        retries = RetryPolicy(
            attempts=2 if self.point == "retry" else 1, base_seconds=0, attempt_seconds=fault.attempt_seconds
        )
        return Agent(
            model=self.model(),
            tools=[self.send(), self.look(), *self.served],
            store=store,
            output=fault.output,
            limits=fault.limits,
            slots=self.slots,
            retry=retries,
            approve=None if fault.nobody else self.approve,
            grace_seconds=GRACE,
        )

    # --- the other side ---

    def model(self) -> Any:
        if self.point in (*MODEL_POINTS, "limiter"):
            one = self.remote("one")
            return fallback(one, self.remote("two")) if self.fault.two else one
        if self.point == "retry":
            return scripted(APIError("api", 503, "busy", self.fault.retry_after), "fine")
        if self.point == "before a turn":
            return scripted(calls(("look", {})), "fine")
        if self.point == "final answer":
            return scripted("fine")
        usual = ("raw__wait", "{}") if self.point == "MCP" else ("send", "{}")
        return scripted(calls(self.fault.asked or usual, ("look", {})), "fine")

    def remote(self, name: str) -> Any:
        if self.fault.google:
            return gemini("gemini-2.5-flash", key="k", exchange=PointExchange(self), price=(1, 1))
        return compatible(
            name, base_url="http://localhost/v1", provider=name, exchange=PointExchange(self), limits=self.fault.call_limits,
            price=(1, 1), rate=self.rate,
        )  # fmt: skip

    async def approve(self, call: Any) -> bool | str:
        await self.reached("approval" if self.fault.denied is None else "")
        return True if self.fault.denied is None else self.fault.denied

    # --- tools ---

    def look(self) -> Any:
        @tool(effect="read")
        async def look() -> str:
            """Look."""
            return "seen"

        return look

    def send(self) -> Any:
        options: dict[str, Any] = {
            "name": "send",
            "effect": self.fault.effect,
            "seconds": self.fault.tool_seconds,
            "approval": self.point == "approval",
            "plan": self.plan,
        }
        bodies: dict[str, Any] = {"thread": self.in_thread, "process": self.in_process}
        return tool(**options)(bodies.get(self.point, self.in_task))

    async def plan(self, call: Call, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        await self.reached("tool not begun")
        return {}

    async def in_task(self) -> str:
        """Send."""
        await self.reached("tool")
        return "sent"

    def in_thread(self) -> str:
        """Send."""
        if self.fault.raised is not None:
            self.strike()
        assert self.wake is not None
        self.wake(self.strike)
        while True:
            check_stop()
            time.sleep(0.001)

    async def in_process(self) -> str:
        """Send."""
        await run_process([sys.executable, "-S", "-c", "import time; time.sleep(60)"], folder=Path(__file__).parent)
        return "sent"


HOOKS = {"before a turn": b'"tool.finished"', "saving": b'"reply"', "final answer": b'"run.finished"'}


class HookedStore:
    """A store in memory that says when it is given a record of some kind."""

    def __init__(self, scene: Scene) -> None:
        self.inner, self._scene = MemoryStore(), scene
        self.failed = False
        self._struck = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def append(self, run_id: str, epoch: int, bodies: Sequence[bytes], summary: Summary) -> int:
        wanted = HOOKS.get(self._scene.point)
        if wanted is not None and not self._struck and any(wanted in body for body in bodies):
            self._struck = True
            try:
                self._scene.strike()
            except BaseException:
                self.failed = True
                raise
        return await self.inner.append(run_id, epoch, bodies, summary)


# --- an answer in pieces --------------------------------------------------------------------------------------------


def chunk(**choice: Any) -> bytes:
    return b"data: " + json.dumps({"choices": [{"index": 0, **choice}]}).encode() + b"\n\n"


TEXT = chunk(delta={"content": "Hello"})
CALL = chunk(delta={"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "send", "arguments": '{"a'}}]})
COMMENT = b": still here\n\n"

BEFORE: dict[str, list[bytes]] = {
    "first byte": [],
    "mid-text": [TEXT, TEXT[:30]],
    "mid-call": [CALL],
    "between chunks": [TEXT, COMMENT],
}


class PointExchange:
    """Answers once, up to the scene's point."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    async def send(self, request: HTTPRequest, connected: Callable[[], None]) -> Any:
        await self._scene.reached("connecting")
        connected()
        says = self._scene.fault.says
        if isinstance(says, tuple) and self._scene.point == "headers":
            return PointAnswer(self._scene, says[0], [says[1]], says[2])
        await self._scene.reached("headers")
        return PointAnswer(self._scene, 200, list(BEFORE[self._scene.point]), {"content-type": "text/event-stream"})

    async def aclose(self) -> None: ...


class PointAnswer:
    def __init__(self, scene: Scene, status: int, pieces: list[bytes], headers: Mapping[str, str]) -> None:
        self._scene, self.status, self._pieces, self.headers = scene, status, pieces, headers
        self._said = False

    async def read(self) -> bytes:
        await anyio.sleep(0)
        if self._pieces:
            return self._pieces.pop(0)
        if isinstance(self._scene.fault.says, bytes) and not self._said:
            self._said = True
            return self._scene.fault.says
        if self._said or isinstance(self._scene.fault.says, tuple):
            return b""
        await self._scene.reached(self._scene.point)
        return b""

    async def aclose(self) -> None: ...


# --- what came of it ------------------------------------------------------------------------------------------------


def code_of(outcome: Outcome) -> str:
    error = outcome.cause or outcome.error
    if error is None:
        return outcome.kind
    if isinstance(error, GaveUp) and isinstance(error.last, Described):
        return f"{error.code}({error.last.code})"
    return error.code if isinstance(error, Described) else type(error).__name__


def history_of(outcome: Outcome) -> str:
    """The calls in the reply's order with their endings, "?" where it is not settled, and whether there is an answer."""
    endings = {each.call_id: each.ending for each in outcome.report.messages if isinstance(each, ToolMessage)}
    pending = {call.id for call in outcome.report.pending}
    parts = []
    for message, following in zip_longest(outcome.report.messages, outcome.report.messages[1:]):
        if isinstance(message, AssistantMessage):
            for call in message.tool_calls:
                ending = endings.get(call.id, "open")
                name = "send" if call.name.startswith("raw__") else call.name
                parts.append(f"{name} {ending}{'?' if call.id in pending else ''}")
            if not message.tool_calls and isinstance(following, UserMessage):
                parts.append("text")
    if outcome.kind == "answered":
        parts.append("answer")
    return ", ".join(parts) or "task"


def run_cell(point: str, fault: Fault, backend: Backend = "asyncio") -> Result:
    """Run one cell; what came of it."""

    async def whole() -> Result:
        return await Scene(point, fault).play()

    if point == "MCP":  # a process of its own, whose answers no fake clock waits for
        return anyio.run(whole, backend=backend)
    return FakeClock(backend).run(whole)
