"""The resolution ladder: what becomes of a call whose outcome is not known.

The first rung that can tell settles it, and its verdict is on disk before anything is done about it. The same ladder
serves a process that died, a limit that passed while a tool wrote, and a tool that said that it does not know.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..causes import Stop, ToolTimeout
from ..errors import OutcomeUnknown
from ..journal.records import ToolResolved
from ..journal.state import CallEntry
from ..scopes import current_cause, deadline
from ..tools import Check, Tool, running
from .answering import call_for, raise_pending_stop
from .log import Log
from .toolbox import Toolbox

__all__ = ["RUNGS", "settle"]

CHECK_SECONDS = 60.0  # a check only looks; one that takes longer is no answer
MOST_UNKNOWN = 3  # a call that ran so often and never knew will not know the next time

Verdict: TypeAlias = ToolResolved | None
By: TypeAlias = Literal["not begun", "read", "idempotent", "check", "person", "model"]


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

    def again(self, by: By, evidence: str = "") -> Verdict:
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


async def check(case: Case) -> Verdict:
    """The tool can look whether it took effect."""
    found = await _look(case)
    if found is None:
        return None
    if found.verdict == "not_done":
        return case.again("check", found.text)
    if found.verdict == "unknown":
        case.seen = found.text
        return None
    call = case.entry.call
    return ToolResolved(call_id=call.id, name=call.name, verdict="done", by="check", content=found.text)


async def _look(case: Case) -> Check | None:
    if case.tool is None:
        return None
    call = call_for(case.entry, case.toolbox, case.log)
    try:
        arguments = case.tool.parse(case.entry.call.arguments)
        with deadline(CHECK_SECONDS, ToolTimeout(CHECK_SECONDS)), running(call):
            return await case.tool.check(call, arguments)
    except Exception as error:  # boundary: a look that went wrong is no answer, and the next rung is asked
        if isinstance(error, Stop) and current_cause() is not None:
            raise
        return Check("unknown", f"the check went wrong: {error}")
    raise AssertionError("a scope that is not quiet raises")


async def tell_model(case: Case) -> Verdict:
    """The user chose that the model is told at once that nobody knows."""
    if case.log.state.started.on_unknown != "tell_model":
        return None
    call = case.entry.call
    text = f"outcome unknown: {case.why}; do not assume either, check before doing it again"
    return ToolResolved(call_id=call.id, name=call.name, verdict="told", by="model", content=text, ending="unknown")


RUNGS: list[Callable[[Case], Awaitable[Verdict]]] = [not_begun, repeatable, check, tell_model]
