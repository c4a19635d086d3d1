"""What happens when something stops: the experiments in which agents differ most, on this one, under a fake clock.

Each line says what was done to a run, how long it took by the run's own clock, how many requests the other side saw, how the
run ended, and what it says was spent. Nothing here needs the network, a key, or minutes: the clock jumps, and the backoff
between attempts is set to 0, so that every figure is exact.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from heaveto import Agent, Cancelled, Limits, MemoryStore, Outcome, RetryPolicy, tool, why
from heaveto.errors import ToolFatal
from heaveto.messages import ToolMessage
from heaveto.models import HTTPRequest, RemoteModel, compatible
from heaveto.retry import retrying
from heaveto.testing import Answered, Cut, FakeClock, FaultyExchange, calls, scripted

__all__ = ["EXPERIMENTS", "Line", "run_experiment"]

POLICY = RetryPolicy(base_seconds=0)
SPENT_NOTHING = "nothing"


@dataclass(frozen=True)
class Line:
    """What came of one experiment."""

    name: str
    seconds: float
    requests: int
    outcome: str
    says: str
    spent: str
    reads: tuple[str, ...] = ()  # what the model reads about its calls


def chunk(finish: str | None = None, usage: bool = False, **delta: Any) -> bytes:
    data: dict[str, Any] = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    if usage:
        data["usage"] = {"prompt_tokens": 100, "completion_tokens": 10}
    return b"data: " + json.dumps(data).encode() + b"\n\n"


HEL, LO, DONE = chunk(content="Hel"), chunk(content="lo"), b"data: [DONE]\n\n"
WHOLE = HEL + LO + chunk("stop", usage=True) + DONE
QUIET = len(HEL + LO)
WHOLE_BODY = json.dumps({"choices": [{"index": 0, "message": {"content": "Hello"}, "finish_reason": "stop"}]}).encode()
JSON = {"content-type": "application/json"}


def ended(*last: bytes) -> bytes:
    return b"".join((HEL, LO, *last))


class Timed(FaultyExchange):
    """Notes when each request came."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.at: list[float] = []

    async def send(self, request: HTTPRequest, connected: Callable[[], None]) -> Any:
        self.at.append(round(anyio.current_time(), 3))
        return await super().send(request, connected)

    @property
    def gaps(self) -> str:
        return ", ".join(f"{later - earlier:g}" for earlier, later in zip(self.at, self.at[1:], strict=False)) or "none"


def remote(exchange: Any, *, stream: bool = True) -> RemoteModel:
    return compatible("m", base_url="http://localhost/v1", provider="api", exchange=exchange, stream=stream, price=(1, 1))


def agent_on(model: Any, **options: Any) -> Agent:
    return Agent(model=model, store=MemoryStore(), retry=POLICY, **options)


async def drive(agent: Agent, during: Callable[[Any], Any] | None = None) -> Outcome:
    async with agent.start("hello") as run:
        if during is not None:
            await during(run)
        return await run.wait()


def spent_text(outcome: Outcome) -> str:
    spend = outcome.report.spend
    if not spend.calls:
        return SPENT_NOTHING
    tokens = f"{spend.input_tokens} in, {spend.output_tokens} out"
    return f"{tokens}, {spend.estimated_calls} of {spend.calls} estimated" if spend.estimated_calls else tokens


def reads_of(outcome: Outcome) -> tuple[str, ...]:
    return tuple(each.content for each in outcome.report.messages if isinstance(each, ToolMessage))


async def line(name: str, agent: Agent, exchange: Timed | None = None, during: Any = None) -> Line:
    began = anyio.current_time()
    outcome = await drive(agent, during)
    model: Any = agent.model
    requests = len(exchange.requests) if exchange is not None else len(model.requests)
    kind = f"{outcome.kind} ({outcome.exit_status})"
    seconds = round(anyio.current_time() - began, 3)
    return Line(name, seconds, requests, kind, why(outcome), spent_text(outcome), reads_of(outcome))


# --- E3: a stream that goes quiet, a call that never answers --------------------------------------------------------


async def quiet_stream() -> Line:
    exchange = Timed(WHOLE, *[Cut("stalled", QUIET)] * 4)
    return await line("quiet stream, each time", agent_on(remote(exchange)), exchange)


async def quiet_once() -> Line:
    exchange = Timed(WHOLE, Cut("stalled", QUIET))
    return await line("quiet stream, once", agent_on(remote(exchange)), exchange)


async def comments_alone() -> Line:
    class Commenting(Timed):
        async def send(self, request: HTTPRequest, connected: Callable[[], None]) -> Any:
            await super().send(request, connected)
            return self

        status, headers = 200, {"content-type": "text/event-stream"}

        async def read(self) -> bytes:
            await anyio.sleep(1)
            return b": ping\n\n"

    exchange = Commenting(WHOLE)
    return await line("keep-alive comments alone, one a second", agent_on(remote(exchange)), exchange)


async def mute_stream() -> Line:
    exchange = Timed(WHOLE, *[Cut("unanswered")] * 4)
    return await line("mute call, streamed", agent_on(remote(exchange)), exchange)


async def mute_call() -> Line:
    exchange = Timed(Answered(WHOLE_BODY, headers=JSON), *[Cut("unanswered")] * 4)
    return await line("mute call, not streamed", agent_on(remote(exchange, stream=False)), exchange)


async def cancelled_in_the_silence() -> Line:
    async def stop(run: Any) -> None:
        await anyio.sleep(5)
        run.cancel(Cancelled("enough", "ada"))

    exchange = Timed(WHOLE, Cut("stalled", QUIET))
    return await line("quiet stream, cancelled after 5 s", agent_on(remote(exchange)), exchange, stop)


# --- E4: 429 with Retry-After: 2 ------------------------------------------------------------------------------------


def busy(seconds: str) -> Answered:
    return Answered(b'{"error":{"message":"slow down"}}', 429, {**JSON, "retry-after": seconds})


async def too_many() -> Line:
    exchange = Timed(busy("2"))
    found = await line("429 with Retry-After: 2", agent_on(remote(exchange)), exchange)
    return Line(f"{found.name}; gaps {exchange.gaps} s", *_rest(found))


async def too_many_under_a_retry() -> Line:
    """An outer layer of ours, which asks the error whether it may be retried."""
    exchange = Timed(busy("2"))
    model = remote(exchange)
    began = anyio.current_time()
    said = ""
    try:
        await retrying(lambda attempt: agent_on(model).run("hello"), RetryPolicy(attempts=3, base_seconds=0))
    except Exception as error:
        said = why(error)
    seconds = round(anyio.current_time() - began, 3)
    name = "the same under an outer retry of 3"
    return Line(name, seconds, len(exchange.requests), "gave_up (75)", said, SPENT_NOTHING)


async def hours() -> Line:
    exchange = Timed(busy("10800"))
    return await line(
        "429 with Retry-After: 3 h, 60 s left", agent_on(remote(exchange), limits=Limits(seconds=60)), exchange
    )


def _rest(found: Line) -> tuple[Any, ...]:
    return found.seconds, found.requests, found.outcome, found.says, found.spent, found.reads


# --- E6b: endings ---------------------------------------------------------------------------------------------------

REFUSAL = chunk(refusal="I cannot help with that") + chunk("stop") + DONE
FAILED = b'data: {"error":{"message":"the engine died","code":500}}\n\n'
ENDINGS = {
    "length": ended(chunk("length", usage=True), DONE),
    "closed without a finish reason": ended(),
    "content filter": ended(chunk("content_filter"), DONE),
    "refusal": REFUSAL,
    "empty reply": chunk("stop") + DONE,
    "error event midway": ended(FAILED),
}


def ending(name: str) -> Callable[[], Any]:
    async def run() -> Line:
        exchange = Timed(ENDINGS[name])
        return await line(name, agent_on(remote(exchange)), exchange)

    return run


async def reset_midway() -> Line:
    exchange = Timed(WHOLE, *[Cut("reset", QUIET)] * 4)
    return await line("TCP cut midway", agent_on(remote(exchange)), exchange)


# --- E7: what the model reads ---------------------------------------------------------------------------------------


@tool(effect="read")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="read")
async def boom(x: int = 1) -> str:
    """Fail."""
    raise ValueError("disk is on fire")


BAD_CALLS = {
    "the tool raises ValueError": ("boom", {}),
    'a="one", an integer wanted': ("add", {"a": "one", "b": 2}),
    "arguments cut off": ("add", '{"a": 1, "b":'),
    "unknown tool": ("read", {}),
    "unknown field": ("add", {"a": 1, "b": 2, "c": 3}),
}


def bad_call(name: str) -> Callable[[], Any]:
    async def run() -> Line:
        return await line(name, agent_on(scripted(calls(BAD_CALLS[name]), "fine"), tools=[add, boom]))

    return run


# --- E2, E9: parallel calls -----------------------------------------------------------------------------------------


async def three_failures() -> Line:
    @tool(effect="read")
    async def fatal(n: int) -> str:
        """Fail for good."""
        await anyio.sleep(n / 10)
        raise ToolFatal("fatal", f"failure {n}")

    asked = calls(*(("fatal", {"n": n}) for n in (1, 2, 3)))
    return await line("three parallel failures", agent_on(scripted(asked), tools=[fatal]))


async def cancelled_in_the_second() -> Line:
    @tool(effect="write", alone=False)
    async def work(n: int) -> str:
        """Work."""
        await anyio.sleep(0.3 if n == 1 else 10)
        return f"{n} is done"

    async def stop(run: Any) -> None:
        await anyio.sleep(1)
        run.cancel(Cancelled("user pressed stop", "ada"))

    asked = calls(*(("work", {"n": n}) for n in (1, 2, 3)))
    return await line("cancel while 2 of 3 parallel calls run", agent_on(scripted(asked), tools=[work]), during=stop)


async def turns() -> Line:
    asked = [calls(("add", {"a": 1, "b": n})) for n in range(5)]
    return await line("a limit of 3 turns", agent_on(scripted(*asked), tools=[add], limits=Limits(turns=3)))


EXPERIMENTS: dict[str, Sequence[Callable[[], Any]]] = {
    "quiet and mute": [quiet_stream, quiet_once, comments_alone, mute_stream, mute_call, cancelled_in_the_silence],
    "429": [too_many, too_many_under_a_retry, hours],
    "endings": [*(ending(name) for name in ENDINGS), reset_midway],
    "bad calls": [bad_call(name) for name in BAD_CALLS],
    "parallel calls and limits": [three_failures, cancelled_in_the_second, turns],
}


def run_experiment(experiment: Callable[[], Any]) -> Line:
    """Run it under a fake clock of its own."""
    found: Line = FakeClock("asyncio").run(experiment)
    return found


def report(group: str, lines: Sequence[Line]) -> Iterator[str]:
    yield f"\n## {group}\n"
    yield "| what | seconds | requests | ended | it says | spent |"
    yield "|---|---|---|---|---|---|"
    for each in lines:
        yield f"| {each.name} | {each.seconds:g} | {each.requests} | {each.outcome} | {each.says} | {each.spent} |"
    for each in lines:
        for text in each.reads:
            yield f"\n{each.name}; the model reads:\n\n    {text}"


def main() -> int:
    count = 0
    for group, experiments in EXPERIMENTS.items():
        lines = [run_experiment(each) for each in experiments]
        count += len(lines)
        print("\n".join(report(group, lines)))
    print(f"\n{Path(sys.argv[0]).name}: {count} experiments")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
