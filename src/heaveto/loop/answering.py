"""Answering the calls of one reply: each gets exactly one result, whatever happens.

The calls start in the reply's order. Neighbours that may run beside others run at once, as far as the slots go; any other
runs alone. Before a call that may change something begins, its marker is on disk, in one write with what came before it
(the reply, or the results of the calls before). A stop leaves each call with a result that tells whether it had begun.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import anyio
import msgspec

from ..causes import Stop, StoppedFromOutside, ToolTimeout, to_data
from ..errors import ApprovalNeeded, Denied, NotEnoughTime, OutcomeUnknown, ToolError, ToolFatal
from ..journal.records import ToolFinished, ToolStarted
from ..journal.state import CallEntry, RunState
from ..messages import ToolCall
from ..scopes import abandonments, current_cause, deadline, loop_waker, pending_cause, tasks, wall_time
from ..tools import Call, Effect, TakenAnswer, Tool, WithMedia, recovery_of, running
from ..tools.results import READ_RESULT, Shortened, cut_middle
from .events import ToolProgress, ToolRunning
from .log import Log
from .outcome import describe
from .rungs import has_lapsed
from .toolbox import Toolbox, finished_by_error, waiting_within, waits_within
from .usual_time import UsualTimes

__all__ = ["Answering", "call_for", "in_batches", "not_run", "raise_pending_stop", "stop_passed_on", "time_limit"]

LOST = "its secret values are not kept"
EDITED = "a person changed the arguments to {} and allowed that\n"
Background = Callable[[Callable[[], Awaitable[object]]], None]


@dataclass(frozen=True, slots=True)
class Ready:
    """A call that may begin: its tool is there, its arguments are right, and nobody objects."""

    asked: ToolCall
    tool: Tool
    call: Call
    arguments: Mapping[str, Any]
    note: str = ""  # what the model reads before its result


class Answering:
    """Runs the calls that are still to be run, and knows which of them have begun."""

    def __init__(self, log: Log, toolbox: Toolbox) -> None:
        self._log, self._toolbox = log, toolbox
        self._marked: set[str] = set()
        self._begun: set[str] = set()
        self._fatal: list[ToolFatal] = []
        self._waiting: list[OutcomeUnknown] = []  # for a person's word on a run that a call drives
        self._times = UsualTimes()
        self.background: Background | None = None  # while the run is driven

    async def answer(self) -> None:
        """Give each call that is still to be run its result.

        It ends early when a call does not know whether it did something: the ladder comes before the calls after it.

        Raises:
            ToolFatal: A tool cannot run at all; its neighbours have finished. Several come as an ExceptionGroup.
            ApprovalNeeded: A call waits for a person.
            OutcomeUnknown: A run that a call drives does.
        """
        self._marked.clear()
        self._begun.clear()
        for batch in in_batches(self._log.state.asked(), self._toolbox.may_run_beside):
            raise_pending_stop()
            ready = [each for entry in batch if (each := await self._prepare(entry))]
            self._raise_fatal()
            raise_pending_stop()  # before the markers too: what is marked counts as begun if the process dies now
            self._mark(ready)
            await self._log.commit()
            raise_pending_stop()
            await self._run_all(ready)
            self._raise_fatal()
            if self._log.state.in_doubt():
                return

    def answer_not_run(self, why: object) -> None:
        """Give each call that never began the result that says so. For when the run ends: no await."""
        self._log.add(*not_run(self._log.state, self._marked - self._begun, why))

    async def _prepare(self, entry: CallEntry) -> Ready | None:
        """Check a call; None when it has its result already. Nothing of it has begun."""
        try:
            return await self._check(entry)
        except ApprovalNeeded:
            raise
        except NotEnoughTime as error:
            if entry.may_have_run:
                raise
            asked = entry.call
            self._log.add(ToolFinished(call_id=asked.id, name=asked.name, ending="not_run", content=f"not run: {error}"))
            return None
        except Exception as error:  # boundary: a tool's bug must not end the run
            if stop_passed_on(error) is not None:
                raise
            self._log.add(self._failed(entry.call, "read", error, 0.0))
            return None

    def _mark(self, ready: Sequence[Ready]) -> None:
        """Add the markers, once no call of the batch waits for a person any more: a marked call counts as begun."""
        for each in ready:
            if each.tool.effect != "read":
                self._log.add(_marker(each, each.tool.effect))
                self._marked.add(each.asked.id)

    async def _check(self, entry: CallEntry) -> Ready:
        tool = self._toolbox.get(entry.call.name)
        self._refuse_second_answer(tool)
        if has_lapsed(entry, tool, wall_time()):
            raise OutcomeUnknown(tool.name, entry.call.id, "the other side may have forgotten its key")
        self._refuse_lost_secrets(tool, entry)
        edited = entry.approval is not None and entry.approval.arguments is not None
        if edited:
            self._log.secrets.learn(entry.call, tool.schema)
        arguments = tool.parse(self._log.secrets.arguments_of(entry.call))
        self._times.need(tool.name)
        await self._ask_approval(tool, entry)
        call = call_for(entry, self._toolbox, self._log)
        with time_limit(tool), running(call):
            facts = await tool.plan(call, arguments)
        more: dict[str, Any] = {} if self.background is None else {"background": self.background}
        call = replace(call, facts=facts, progress=self._progress(entry.call), **more)
        return Ready(entry.call, tool, call, arguments, EDITED.format(entry.call.arguments) if edited else "")

    def _refuse_lost_secrets(self, tool: Tool, entry: CallEntry) -> None:
        if not self._log.secrets.are_lost(entry.call):
            return
        if entry.may_have_run:
            raise OutcomeUnknown(tool.name, entry.call.id, LOST)
        raise ToolError(f"not run: {LOST}; call it again with all of them")

    def _refuse_second_answer(self, tool: Tool) -> None:
        if tool is self._toolbox.final and any(entry.is_answer for entry in self._log.state.open_calls.values()):
            raise ToolError("not taken: the answer was given already, by a call before this one")

    async def _ask_approval(self, tool: Tool, entry: CallEntry) -> None:
        call = entry.call
        if tool is self._toolbox.final:
            return  # rules are for what acts
        if entry.approval is not None:  # somebody said it while the run waited
            if entry.approval.verdict == "denied":
                raise Denied(call.name, entry.approval.why)
            if not entry.may_have_run:
                self._toolbox.refuse_forbidden(tool, call)
            return
        if entry.may_have_run:  # it was allowed before it began, and a denial now would say that it never ran
            return
        permitted = (not tool.approval or None) if self._toolbox.permit is None else self._toolbox.permit(tool, call)
        if permitted is True:
            return
        if permitted is not None:
            raise Denied(call.name, permitted or "")
        if self._toolbox.approve is None:
            raise ApprovalNeeded(call.name, call.id, entry.identity)
        verdict = await self._toolbox.approve(call)
        if verdict is not True:
            raise Denied(call.name, verdict or "")

    def _progress(self, asked: ToolCall) -> Callable[[str], None]:
        """A line for the watchers, from any thread; nothing once the call has its result."""
        wake = loop_waker()

        def tell(text: str) -> None:
            entry = self._log.state.open_calls.get(asked.id)
            if entry is not None and entry.answer is None:
                self._log.tell(ToolProgress(asked.id, asked.name, text))

        return lambda text: wake(lambda: tell(text))

    async def _run_all(self, ready: Sequence[Ready]) -> None:
        if len(ready) == 1:  # a task group costs more than the rest of a turn's bookkeeping
            await self._run(ready[0])
            return
        async with tasks() as group:
            for each in ready:
                group.start_soon(self._run, each, name=f"tool {each.asked.name}")

    async def _run(self, ready: Ready) -> None:
        """Run one call and add its result."""
        async with self._toolbox.slots.hold():
            if pending_cause() is not None:
                return  # while it waited a grace began, for those that run beside it: the loop tells why it did not run
            self._begun.add(ready.asked.id)
            self._log.tell(ToolRunning(ready.asked.id, ready.asked.name, ready.asked.arguments))
            started = anyio.current_time()
            with abandonments() as left:
                try:
                    with time_limit(ready.tool), running(ready.call):
                        content = self._with_rest(ready.asked, await ready.tool.run(ready.call, ready.arguments))
                        content = ready.note + content if ready.note else content
                except Exception as error:  # boundary: a tool's bug must not end the run
                    self._log.add(_with(left, self._raised(ready, error, anyio.current_time() - started)))
                    return
                except BaseException as error:  # a stop, or the program leaves
                    self._log.add(_with(left, _stopped(ready, _cause_of(error), anyio.current_time() - started)))
                    raise
            seconds = round(anyio.current_time() - started, 4)
            self._times.took(ready.tool.name, seconds)
            self._log.add(_succeeded(ready.asked, content, seconds))

    def _with_rest(self, asked: ToolCall, content: str) -> str:
        """A result that was cut says how to read on, where the model can."""
        if not isinstance(content, Shortened):
            return content
        whole = self._log.secrets.text(content.whole)
        text = str(content) if whole == content.whole else cut_middle(whole, len(content))  # no cut through a secret
        if READ_RESULT not in self._toolbox.tools:
            return text
        self._log.rests.keep(asked.id, whole)
        return f"{text}\n(cut: {READ_RESULT} has all of its {len(whole)} characters, with call_id {asked.id})"

    def _raised(self, ready: Ready, error: Exception, seconds: float) -> ToolFinished:
        if (cause := stop_passed_on(error)) is not None:
            return _stopped(ready, cause, seconds)  # the tool looked before the loop told it; the next await tells the loop
        return self._failed(ready.asked, ready.tool.effect, error, seconds)

    def _failed(self, asked: ToolCall, effect: Effect, error: Exception, seconds: float) -> ToolFinished:
        if isinstance(error, ToolFatal):
            self._fatal.append(error)
        if run_id := waits_within(error):
            unknown = OutcomeUnknown(asked.name, asked.id, waiting_within(run_id, error))
            unknown.within = run_id
            unknown.advice = f"see to run {run_id} first, then resume this one"
            self._waiting.append(unknown)
        return finished_by_error(asked, effect, error, seconds)

    def _raise_fatal(self) -> None:
        if self._fatal:
            raise _joined(self._fatal)
        if self._waiting:  # the ladder would run it again at once, and there is nothing new before somebody decides
            raise self._waiting[0]


def not_run(state: RunState, marked_only: Collection[str], why: object) -> list[ToolFinished]:
    """The results of the calls that never began.

    One that began in an earlier drive, and was to run again, has no answer yet: nobody knows what it did.

    Args:
        marked_only: The calls that have their marker, and no more.
    """
    text, results = f"cancelled before it ran: {why}", list[ToolFinished]()
    for entry in state.open_calls.values():
        if entry.may_have_run:
            continue
        if entry.state == "asked" or (entry.state == "begun" and entry.call.id in marked_only):
            results.append(ToolFinished(call_id=entry.call.id, name=entry.call.name, ending="not_run", content=text))
    return results


def in_batches(entries: Iterable[CallEntry], may_run_beside: Callable[[str], bool]) -> list[list[CallEntry]]:
    """The calls in the order in which they run: neighbours that may run at once together, any other by itself."""
    batches: list[list[CallEntry]] = []
    open_batch = False
    for entry in entries:
        beside = may_run_beside(entry.call.name)
        if beside and open_batch:
            batches[-1].append(entry)
        else:
            batches.append([entry])
        open_batch = beside
    return batches


def call_for(entry: CallEntry, toolbox: Toolbox, log: Log) -> Call:
    """What the tool is given for this call; with the key and the facts of its marker, if it has one already."""
    marker = entry.started
    return Call(
        run_id=log.state.run_id,
        turn=entry.turn,
        call_id=entry.call.id,
        tool=entry.call.name,
        key=marker.key if marker else log.state.idempotency_key(entry.call),
        folder=toolbox.folder,
        sandbox=toolbox.sandbox,
        facts=marker.facts if marker else {},
        hides=toolbox.hides(entry.call),
        keep_secret=log.secrets.add,
        whole_result=log.whole_result,
    )


def time_limit(tool: Tool) -> AbstractContextManager[object]:
    """The scope of one call of the tool; none where it has no limit."""
    return nullcontext() if tool.seconds is None else deadline(tool.seconds, ToolTimeout(tool.seconds))


def raise_pending_stop() -> None:
    """Begin nothing new after a stop, also while a grace period still holds it off.

    Raises:
        Stop: The cause, as a fresh copy.
    """
    if (cause := pending_cause()) is not None:
        raise copy.copy(cause)


def stop_passed_on(error: Exception) -> Stop | None:
    """The stop under way that a tool's error tells of; None where the tool made one up, or means a limit of its own.

    During a grace the tool goes on, but a run or a model call of its own begins nothing new and ends with the same cause.
    """
    if not isinstance(error, Stop):
        return None
    if (cause := current_cause()) is not None:
        return cause
    held_off = pending_cause()
    same = held_off is not None and (type(error), error.args) == (type(held_off), held_off.args)
    return held_off if same else None


def _succeeded(asked: ToolCall, content: str, seconds: float) -> ToolFinished:
    parts = content.parts if isinstance(content, WithMedia) else ()
    return ToolFinished(
        call_id=asked.id,
        name=asked.name,
        ending="ok",
        content=str(content),
        seconds=seconds,
        parts=parts,
        is_answer=isinstance(content, TakenAnswer),
    )


def _marker(ready: Ready, effect: Effect) -> ToolStarted:
    if effect == "read":
        raise AssertionError("a call that only reads carries no marker")
    facts = dict(ready.call.facts)
    return ToolStarted(
        call_id=ready.asked.id,
        name=ready.asked.name,
        effect=effect,
        key=ready.call.key,
        facts=facts,
        at=round(wall_time(), 3) if 0 < recovery_of(ready.tool).key_seconds < math.inf else 0.0,
    )


def _cause_of(error: BaseException) -> BaseException:
    return (current_cause() or StoppedFromOutside()) if isinstance(error, anyio.get_cancelled_exc_class()) else error


def _stopped(ready: Ready, cause: BaseException, seconds: float) -> ToolFinished:
    text = f"stopped while it ran: {describe(cause)}"
    if ready.tool.effect != "read":
        text += "; it may have run in part or in full, so check before doing it again"
    return ToolFinished(
        call_id=ready.asked.id,
        name=ready.asked.name,
        ending="stopped",
        content=text,
        seconds=round(seconds, 4),
        error=to_data(cause),
    )


def _with(left: Sequence[str], finished: ToolFinished) -> ToolFinished:
    """The result of a call, with what it left behind; a thread may still be at work, a task is not."""
    if not left:
        return finished
    at_work = "may still be at work" if any(what.startswith("thread") for what in left) else "was left to itself"
    content = f"{finished.content}; it did not heed the stop and {at_work}"
    return msgspec.structs.replace(finished, content=content, abandoned=tuple(left))


def _joined(errors: Sequence[ToolFatal]) -> Exception:
    return errors[0] if len(errors) == 1 else ExceptionGroup("several tools cannot run", errors)
