"""The resolution ladder: what becomes of a call whose outcome is not known.

The first rung that can tell settles it, and its verdict is on disk before anything is done about it. The same ladder
serves a process that died, a limit that passed while a tool wrote, and a tool that said that it does not know.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

import anyio

from ..causes import Stop, ToolTimeout
from ..errors import OutcomeUnknown
from ..journal.records import Rung, ToolResolved
from ..journal.state import CallEntry
from ..scopes import current_cause, deadline, wall_time
from ..tools import Check, Recovery, Tool, recovery_of, running
from .answering import call_for, raise_pending_stop
from .log import Log
from .toolbox import Doubt, Toolbox

__all__ = ["RUNGS", "settle"]

LOOK_SECONDS = 60.0  # a check that takes longer is no answer
MOST_UNKNOWN = 3  # a call that ran so often and never knew will not know the next time

T = TypeVar("T")
Verdict: TypeAlias = ToolResolved | None


@dataclass(slots=True)
class Case:
    """A call in doubt, and what is there to settle it with. The tool may be gone since.

    Attributes:
        seen: What a rung saw that was no verdict; for the person who has to decide.
    """

    entry: CallEntry
    tool: Tool | None
    log: Log
    toolbox: Toolbox
    seen: str = ""

    @property
    def why(self) -> str:
        why = self.entry.why_in_doubt or "the process ended while it ran"
        return f"{why} ({self.seen})" if self.seen else why

    @property
    def recovery(self) -> Recovery:
        return Recovery() if self.tool is None else recovery_of(self.tool)

    def done(self, by: Rung, content: str) -> Verdict:
        """It took effect, and this is its result."""
        call = self.entry.call
        return ToolResolved(call_id=call.id, name=call.name, verdict="done", by=by, content=content)

    def again(self, by: Rung, evidence: str = "") -> Verdict:
        """Run it again, unless it has been run often enough to no avail: then a person has to look."""
        call = self.entry.call
        if self.entry.unknown_results >= MOST_UNKNOWN:
            self.seen = f"it was run {self.entry.unknown_results} times"
            return None
        return ToolResolved(call_id=call.id, name=call.name, verdict="again", by=by, evidence=evidence)


async def settle(log: Log, toolbox: Toolbox) -> None:
    """Settle each call in doubt by the first rung that can, writing each verdict down.

    Raises:
        OutcomeUnknown: No rung could tell about this call; the run waits for a person. All that can be settled are.
        Stop: The run is being stopped; no look begins after that.
    """
    waiting: list[OutcomeUnknown] = []
    for entry in log.state.in_doubt():
        raise_pending_stop()
        case = Case(entry, toolbox.tools.get(entry.call.name), log, toolbox)
        verdict = await _first_verdict(case)
        if verdict is None:
            waiting.append(OutcomeUnknown(entry.call.name, entry.call.id, case.why))
            continue
        log.add(verdict)
        await log.commit()
    if waiting:
        raise waiting[0]


async def _first_verdict(case: Case) -> Verdict:
    for rung in RUNGS:
        verdict = await rung(case)
        if verdict is not None:
            return verdict
    return None


async def not_begun(case: Case) -> Verdict:
    """The tool said that it could not run at all, so nothing was done."""
    answer = case.entry.answer
    return case.again("not begun", answer.content) if answer and answer.ending == "fatal" else None


async def repeatable(case: Case) -> Verdict:
    """The tool only reads, or doing it twice is as doing it once."""
    if case.tool is None or case.tool.effect == "write":
        return None
    marker = case.entry.started
    if marker is not None and marker.effect == "write":
        return None  # it was declared as one that writes when it began
    return case.again(case.tool.effect)


async def keyed(case: Case) -> Verdict:
    """The other side does a thing once for each key, and has not forgotten this one."""
    known = case.recovery.key_seconds
    age = wall_time() - case.entry.first_at  # of an unknown time: longer than any but an endless memory
    return case.again("key") if known and age < known else None


async def check(case: Case) -> Verdict:
    """The tool can look whether it took effect; what is still on its way gets the time that it may need."""
    found = await _look(case)
    if found is not None and found.verdict == "not_done" and (settling := case.recovery.settle_seconds):
        await anyio.sleep(settling)
        found = await _look(case)
    return None if found is None else _of_check(case, "check", found)


def _of_check(case: Case, by: Rung, found: Check) -> Verdict:
    if found.verdict == "done":
        return case.done(by, found.text)
    if found.verdict == "not_done":
        return case.again(by, found.text)
    case.seen = found.text
    return None


async def _look(case: Case) -> Check | None:
    tool = case.tool
    if tool is None:
        return None
    call = call_for(case.entry, case.toolbox, case.log)

    async def look() -> Check | None:
        with running(call):
            return await tool.check(call, tool.parse(case.entry.call.arguments))

    return await _within_limit(case, "check", look)


async def undo(case: Case) -> Verdict:
    """The tool can take back what it may have done. A kill meanwhile has it taken back again, under the same key."""
    tool, take_back = case.tool, case.recovery.undo
    if tool is None or take_back is None:
        return None
    call = call_for(case.entry, case.toolbox, case.log)
    call = replace(call, key=f"undo-{call.key}")

    async def undone() -> str:
        with running(call):
            return await take_back(call, tool.parse(case.entry.call.arguments))

    evidence = await _within_limit(case, "undo", undone)
    return None if evidence is None else case.again("undo", evidence)


async def ask_program(case: Case) -> Verdict:
    """The program that drives the run has a function that decides."""
    decide, entry = case.toolbox.resolve, case.entry
    if decide is None:
        return None
    doubt = Doubt(case.log.state.run_id, entry.call, case.why)
    found = await _within_limit(case, "resolver", lambda: decide(doubt), seconds=None)
    return None if found is None else _of_check(case, "program", found)


async def _within_limit(
    case: Case, what: str, fn: Callable[[], Awaitable[T]], seconds: float | None = LOOK_SECONDS
) -> T | None:
    """What `fn` returns; None, with a note for the person, where it went wrong: the next rung is asked."""
    try:
        with nullcontext() if seconds is None else deadline(seconds, ToolTimeout(seconds)):
            return await fn()
    except Exception as error:  # boundary: a look that went wrong is no answer
        if isinstance(error, Stop) and current_cause() is not None:
            raise
        case.seen = f"the {what} went wrong: {error}"
    return None


async def tell_model(case: Case) -> Verdict:
    """The user chose that the model is told at once that nobody knows."""
    if case.log.state.started.on_unknown != "tell_model":
        return None
    call = case.entry.call
    text = f"outcome unknown: {case.why}; do not assume either, check before doing it again"
    return ToolResolved(call_id=call.id, name=call.name, verdict="told", by="model", content=text, ending="unknown")


RUNGS: list[Callable[[Case], Awaitable[Verdict]]] = [
    not_begun,
    repeatable,
    keyed,
    check,
    undo,
    ask_program,
    tell_model,
]
