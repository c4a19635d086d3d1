"""Stores and exchanges that go wrong where a test wants them to.

    store = FaultyStore(MemoryStore(), fault_at(3, "full"))              # the third append finds the disk full
    exchange = FaultyExchange(body, Cut("reset", 120))                   # the first answer breaks off at byte 120
    model = compatible("m", base_url="http://localhost/v1", exchange=exchange)

What is around them is the real thing: a run, its journal, the client with its limits and its retries.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

import anyio
import anyio.lowlevel

from ..causes import SaveTimeout
from ..errors import JournalError, TransportFailed
from ..journal import Entry, RunRow, Store, Summary
from ..models import Answer, Exchange, HTTPRequest
from ..scopes import finish

__all__ = [
    "Answered",
    "Choose",
    "Cut",
    "Fault",
    "FaultyExchange",
    "FaultyStore",
    "How",
    "Operation",
    "Write",
    "fault_at",
    "faults_at_random",
]

# --- stores ---------------------------------------------------------------------------------------------------------

Operation: TypeAlias = Literal["create", "take", "append"]
Fault: TypeAlias = Literal["before", "full", "after", "late", "slow", "hangs"]

SLOW_SECONDS = 8.0  # less than a run waits for its store, more than anybody expects of one
_UNWRITTEN: dict[Fault, str] = {
    "before": "the disk is gone",
    "full": "the disk is full; free some space, then resume the run",
}


@dataclass(frozen=True, slots=True)
class Write:
    """What a store is asked to write.

    Attributes:
        number: Which of its operation it is, from 1.
        bodies: The records; none for a take.
    """

    operation: Operation
    number: int
    run_id: str
    bodies: Sequence[bytes] = ()


Choose: TypeAlias = Callable[[Write], "Fault | None"]


def _check_one_of(given: object, known: Sequence[str], what: str) -> None:
    """Raises: ValueError: It is none of them, and would never come to pass."""
    if given not in known:
        raise ValueError(f"{what} is one of {', '.join(known)}; not {given!r}")


def fault_at(number: int, fault: Fault, *, on: Operation = "append", lasting: bool = False) -> Choose:
    """The fault at one write, by its number from 1; `lasting` also at each after it.

    Raises:
        ValueError: There is no such fault, operation or number.
    """
    _check_one_of(fault, get_args(Fault), "a fault")
    _check_one_of(on, get_args(Operation), "an operation")
    if not isinstance(number, int) or number < 1:
        raise ValueError(f"a write has a number from 1, not {number!r}")

    def choose(write: Write) -> Fault | None:
        meant = write.number >= number if lasting else write.number == number
        return fault if meant and write.operation == on else None

    return choose


def faults_at_random(seed: int, *faults: Fault, share: float = 0.1) -> Choose:
    """One of the faults at a share of the writes (0 to 1), the same for the same seed; by default any but "hangs"."""
    for fault in faults:
        _check_one_of(fault, get_args(Fault), "a fault")
    among: tuple[Fault, ...] = faults or ("before", "full", "after", "late", "slow")

    def choose(write: Write) -> Fault | None:
        numbers = random.Random(f"{seed} {write.operation} {write.number}")  # noqa: S311 - to be repeated, whatever the order
        return numbers.choice(among) if numbers.random() < share else None

    return choose


class FaultyStore:
    """A store over another one, whose writes go wrong where `choose` says so. What only reads never does.

    "before" and "full" write nothing and raise JournalError. "after" writes and raises JournalError all the same, "late"
    writes and raises SaveTimeout: so nobody knows. "slow" writes after `slow_seconds`, a stop notwithstanding, as a store
    must. "hangs" writes nothing and never comes back; it can be stopped.

    Args:
        store: Where all that goes well is written.
        choose: Given each write, returns its fault or None. Set the attribute to mend the store, or to break it again.

    Attributes:
        appends: How many appends there were, whatever came of them.
    """

    def __init__(self, store: Store, choose: Choose | None = None, *, slow_seconds: float = SLOW_SECONDS) -> None:
        self.store, self.choose, self.slow_seconds = store, choose, slow_seconds
        self._counts: Counter[Operation] = Counter()

    @property
    def appends(self) -> int:
        return self._counts["append"]

    async def create(self, run_id: str, owner: str, bodies: Sequence[bytes], summary: Summary) -> int:
        fault = await self._before("create", run_id, bodies)
        return self._after(fault, await self.store.create(run_id, owner, bodies, summary))

    async def restore(self, run_id: str, epoch: int, entries: Sequence[Entry], summary: Summary) -> None:
        await self.store.restore(run_id, epoch, entries, summary)

    async def take(self, run_id: str, owner: str) -> int:
        fault = await self._before("take", run_id)
        return self._after(fault, await self.store.take(run_id, owner))

    async def append(self, run_id: str, epoch: int, bodies: Sequence[bytes], summary: Summary) -> int:
        fault = await self._before("append", run_id, bodies)
        return self._after(fault, await self.store.append(run_id, epoch, bodies, summary))

    async def release(self, run_id: str, epoch: int) -> None:
        await self.store.release(run_id, epoch)

    async def ask_stop(self, run_id: str, cause: bytes) -> int:
        return await self.store.ask_stop(run_id, cause)

    async def asked_to_stop(self, run_id: str, epoch: int) -> bytes | None:
        return await self.store.asked_to_stop(run_id, epoch)

    async def delete(self, run_id: str, epoch: int) -> None:
        await self.store.delete(run_id, epoch)

    async def read(self, run_id: str, after: int = 0) -> list[Entry]:
        return await self.store.read(run_id, after)

    async def runs(self, limit: int = 50) -> list[RunRow]:
        return await self.store.runs(limit)

    async def find(self, prefix: str) -> str:
        return await self.store.find(prefix)

    async def aclose(self) -> None:
        await self.store.aclose()

    async def _before(self, operation: Operation, run_id: str, bodies: Sequence[bytes] = ()) -> Fault | None:
        self._counts[operation] += 1
        write = Write(operation, self._counts[operation], run_id, bodies)
        fault = self.choose(write) if self.choose is not None else None
        if fault is not None and fault in _UNWRITTEN:
            raise JournalError(_UNWRITTEN[fault])
        if fault == "hangs":
            await anyio.sleep_forever()
        if fault == "slow":
            await finish(self.slow_seconds + 1, anyio.sleep, self.slow_seconds)
        return fault

    def _after(self, fault: Fault | None, result: int) -> int:
        if fault == "after":
            raise JournalError("the disk is gone")
        if fault == "late":
            raise SaveTimeout(self.slow_seconds)
        return result


# --- exchanges ------------------------------------------------------------------------------------------------------

How: TypeAlias = Literal["closed", "reset", "stalled", "split", "refused", "unanswered"]

CLOSE_SECONDS = 2.0  # closing a connection does not wait for the other side
EVENT_STREAM = {"content-type": "text/event-stream"}


@dataclass(frozen=True, slots=True)
class Cut:
    """What becomes of an answer.

    Args:
        how: At byte `at` of the body, the connection is "closed" or "reset", or nothing more comes ("stalled"), or the rest
            comes in another read ("split"). Before there is a body: "refused" is no connection, "unanswered" one on which no
            answer begins.
    """

    how: How
    at: int = 0

    def __post_init__(self) -> None:
        _check_one_of(self.how, get_args(How), "a cut")
        if not isinstance(self.at, int) or self.at < 0:
            raise ValueError(f"a cut is at a byte, 0 or more, not {self.at!r}")


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer to give: a body with a status and headers, whose names are in lower case."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: dict(EVENT_STREAM))


class FaultyExchange:
    """Stands for the network below a model's client: give it as `exchange`.

    Args:
        answers: What answers each request: the bytes of an event stream, an `Answered`, or a real exchange.
        faults: What becomes of the first request's answer, the second's, and so on: a `Cut`, an `Answered` in its place, or
            None. Further ones are left as they are.

    Attributes:
        requests: What was sent so far.
    """

    def __init__(self, answers: bytes | Answered | Exchange, *faults: Cut | Answered | None) -> None:
        self._answers = Answered(answers) if isinstance(answers, bytes) else answers
        if not hasattr(self._answers, "send") and not isinstance(self._answers, Answered):
            raise TypeError(f"what answers is bytes, an Answered or an exchange, not {answers!r}")
        for fault in faults:
            if not isinstance(fault, Cut | Answered | None):
                raise TypeError(
                    f'what becomes of an answer is a Cut, such as Cut("reset", 40), an Answered or None, not {fault!r}'
                )
        self._faults = deque(faults)
        self.requests: list[HTTPRequest] = []

    async def send(self, request: HTTPRequest, connected: Callable[[], None]) -> Answer:
        """Answer a request as planned; see `Exchange.send`."""
        self.requests.append(request)
        fault = self._faults.popleft() if self._faults else None
        if isinstance(fault, Answered):
            return await _given(fault, connected)
        if fault is None:
            return await self._ask(request, connected)
        await _begin(fault, request, connected)
        return _CutAnswer(await self._ask(request, connected), fault, request)

    async def aclose(self) -> None:
        if not isinstance(self._answers, Answered):
            await self._answers.aclose()

    async def _ask(self, request: HTTPRequest, connected: Callable[[], None]) -> Answer:
        if isinstance(self._answers, Answered):
            return await _given(self._answers, connected)
        return await self._answers.send(request, connected)


async def _given(answer: Answered, connected: Callable[[], None]) -> Answer:
    await anyio.lowlevel.checkpoint()
    connected()
    return _GivenAnswer(answer)


async def _begin(cut: Cut, request: HTTPRequest, connected: Callable[[], None]) -> None:
    """Go as far as a fault before the answer lets one."""
    if cut.how == "refused":
        await anyio.lowlevel.checkpoint()
        raise TransportFailed(request.method, request.address, "no connection: refused")
    if cut.how == "unanswered":
        connected()
        await anyio.sleep_forever()


class _GivenAnswer:
    """An answer from memory, in one piece."""

    def __init__(self, answer: Answered) -> None:
        self.status, self.headers = answer.status, answer.headers
        self._body = answer.body

    async def read(self) -> bytes:
        await anyio.lowlevel.checkpoint()
        body, self._body = self._body, b""
        return body

    async def aclose(self) -> None: ...


class _CutAnswer:
    """An answer that goes on as its server gives it until its cut."""

    def __init__(self, answer: Answer, cut: Cut, request: HTTPRequest) -> None:
        self.status, self.headers = answer.status, answer.headers
        self._answer, self._cut, self._request = answer, cut, request
        self._left = cut.at  # bytes until the cut
        self._rest: bytes | None = None  # what came with the piece that was cut

    async def read(self) -> bytes:
        if self._left == 0:
            return await self._read_on()
        piece = await self._answer.read()
        if not piece and self._cut.how != "split":
            self._left = 0  # the cut lies behind the body: it comes at its end
            return await self._read_on()
        whole, self._rest = piece[: self._left], piece[self._left :]
        self._left -= len(whole)
        return whole

    async def aclose(self) -> None:
        await self._answer.aclose()

    async def _read_on(self) -> bytes:
        await anyio.lowlevel.checkpoint()
        if self._cut.how == "stalled":
            await anyio.sleep_forever()
        if self._cut.how in ("closed", "reset"):
            await finish(CLOSE_SECONDS, self._answer.aclose)  # whoever has read to the end does not close
            if self._cut.how == "reset":
                raise TransportFailed(self._request.method, self._request.address, "the connection broke")
            return b""
        rest, self._rest = self._rest, None
        return rest or await self._answer.read()
