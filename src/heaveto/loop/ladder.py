"""The resolution ladder: what becomes of a call whose outcome is not known.

The first rung that can tell settles it (`rungs.py` decides), and its verdict is on disk before anything is done about it.
The same ladder serves a process that died, a limit that passed while a tool wrote, and a tool that said that it does not
know.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace

import anyio

from ..causes import ToolTimeout, text_of
from ..errors import OutcomeUnknown
from ..journal.state import CallEntry
from ..scopes import deadline, wall_time
from ..tools import Check, Tool, recovery_of, running
from .answering import call_for, raise_pending_stop, stop_passed_on
from .log import Log
from .rungs import Decision, Known, Look, known_of, next_move, resolved
from .toolbox import Doubt, Toolbox

__all__ = ["settle"]

LOOK_SECONDS = 60.0  # a check that takes longer is no answer


@dataclass(slots=True)
class Case:
    """A call in doubt, and what is there to settle it with. The tool may be gone since.

    Attributes:
        seen: What a look saw that was no verdict; for the person who has to decide.
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
        decision = await _decide(case)
        if decision is None:
            waiting.append(OutcomeUnknown(entry.call.name, entry.call.id, case.why))
            continue
        log.add(resolved(entry, decision, case.why))
        await log.commit()
    if waiting:
        raise waiting[0]


async def _decide(case: Case) -> Decision | None:
    """Look at what the rungs want looked at, until one of them can tell or none can."""
    known = _known(case)
    if known.is_worn:
        case.seen = f"it was run {known.unknown_results} times"
    while isinstance(move := next_move(known), str):
        found = await _LOOKS[move](case)
        if found is not None and found.verdict == "unknown":
            case.seen = found.text
        known = replace(known, found={**known.found, move: found})
    return move


def _known(case: Case) -> Known:
    return known_of(
        case.entry,
        case.tool,
        now=wall_time(),
        has_program=case.toolbox.resolve is not None,
        tells_model=case.log.state.started.on_unknown == "tell_model",
    )


async def _check(case: Case) -> Check | None:
    tool = case.tool
    if tool is None:
        return None
    call = call_for(case.entry, case.toolbox, case.log)

    async def look() -> Check | None:
        with running(call):
            return await tool.check(call, tool.parse(case.log.secrets.arguments_of(case.entry.call)))

    return await _within_limit(case, "check", look)


async def _check_again(case: Case) -> Check | None:
    """Once more, when what was on its way has had the time that it may need."""
    await anyio.sleep(0 if case.tool is None else recovery_of(case.tool).settle_seconds)
    return await _check(case)


async def _undo(case: Case) -> Check | None:
    """Take it back. A kill meanwhile has it taken back again, under the same key."""
    tool, take_back = case.tool, None if case.tool is None else recovery_of(case.tool).undo
    if tool is None or take_back is None:
        return None
    call = call_for(case.entry, case.toolbox, case.log)
    call = replace(call, key=f"undo-{call.key}")

    async def undone() -> Check:
        with running(call):
            return Check("not_done", await take_back(call, tool.parse(case.log.secrets.arguments_of(case.entry.call))))

    return await _within_limit(case, "undo", undone)


async def _ask_program(case: Case) -> Check | None:
    decide = case.toolbox.resolve
    if decide is None:
        return None
    doubt = Doubt(case.log.state.run_id, case.entry.call, case.why)
    return await _within_limit(case, "resolver", lambda: decide(doubt), seconds=None)


async def _within_limit(
    case: Case, what: str, fn: Callable[[], Awaitable[Check | None]], seconds: float | None = LOOK_SECONDS
) -> Check | None:
    """What `fn` returns; None, with a note for the person, where it went wrong: the next rung is asked."""
    try:
        with nullcontext() if seconds is None else deadline(seconds, ToolTimeout(seconds)):
            seen = await fn()
            if seen is None or isinstance(seen, Check):
                return seen
            raise TypeError(f"it returned {type(seen).__name__}, and not a Check")
    except Exception as error:  # boundary: a look that went wrong is no answer
        if stop_passed_on(error) is not None:
            raise
        case.seen = f"the {what} went wrong: {text_of(error)}"
    return None


_LOOKS: dict[Look, Callable[[Case], Awaitable[Check | None]]] = {
    "check": _check,
    "second check": _check_again,
    "undo": _undo,
    "program": _ask_program,
}
