"""What the resolution ladder decides about a call whose outcome is not known: a pure function of what is known of it.

A rung settles the call, wants something looked at first, or has nothing to say; then the next one is asked. `ladder.py`
does the looking and the writing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ..journal.records import Rung, ToolResolved
from ..journal.state import CallEntry
from ..messages import Ending
from ..tools import Check, Effect, Recovery, Tool, recovery_of

__all__ = [
    "MOST_UNKNOWN",
    "RUNGS",
    "Decision",
    "Found",
    "Known",
    "Look",
    "Move",
    "has_lapsed",
    "known_of",
    "next_move",
    "resolved",
]

MOST_UNKNOWN = 3  # a call that ran so often and never knew will not know the next time

Look: TypeAlias = Literal["check", "second check", "undo", "program"]
Found: TypeAlias = Mapping[Look, Check | None]  # None: the look told nothing, or went wrong


@dataclass(frozen=True, slots=True)
class Known:
    """What there is to settle a call in doubt with.

    Attributes:
        ending: How the tool ended, and what it said; None where its process did.
        marked: What its marker says that it is; None for a read, which has no marker.
        effect: What the tool is today; None where it is gone.
        key_lives: Whether the other side takes a second call with this key for the first one.
        settles: Whether what was sent may still be on its way, so that a check that finds nothing is made twice.
        unknown_results: How often the call ran and could not say whether it did something.
        has_program: Whether the program has a function that decides.
        tells_model: Whether the model is told, rather than a person asked.
        found: What the looks so far told.
    """

    ending: Ending | None = None
    said: str = ""
    marked: Effect | None = None
    effect: Effect | None = None
    key_lives: bool = False
    settles: bool = False
    has_undo: bool = False
    has_program: bool = False
    unknown_results: int = 0
    tells_model: bool = False
    found: Found = field(default_factory=dict, hash=False)

    @property
    def is_worn(self) -> bool:
        """Whether it has been run often enough to no avail: then it is not run again, and somebody has to look."""
        return self.unknown_results >= MOST_UNKNOWN


@dataclass(frozen=True, slots=True)
class Decision:
    """A rung's verdict.

    Attributes:
        text: Of "done" the result; of "again" what was seen.
    """

    by: Rung
    verdict: Literal["done", "again", "told"]
    text: str = ""


Move: TypeAlias = Decision | Look | None  # None: nobody but a person can tell


def known_of(
    entry: CallEntry, tool: Tool | None, *, now: float, has_program: bool = False, tells_model: bool = False
) -> Known:
    """What is known of a call in doubt.

    Args:
        now: In seconds since 1970.
    """
    recovery = Recovery() if tool is None else recovery_of(tool)
    return Known(
        ending=entry.answer.ending if entry.answer else None,
        said=entry.answer.content if entry.answer else "",
        marked=entry.started.effect if entry.started else None,
        effect=None if tool is None else tool.effect,
        key_lives=_key_lives(entry, recovery, now),
        settles=recovery.settle_seconds > 0,
        has_undo=recovery.undo is not None,
        has_program=has_program,
        unknown_results=entry.unknown_results,
        tells_model=tells_model,
    )


def has_lapsed(entry: CallEntry, tool: Tool, now: float) -> bool:
    """Whether a verdict to run a call again, which may have run, holds no more: the other side may have forgotten its key.

    A drive may have been killed after the verdict, and the next have come much later.
    """
    return entry.may_have_run and tool.effect == "write" and not _key_lives(entry, recovery_of(tool), now)


def _key_lives(entry: CallEntry, recovery: Recovery, now: float) -> bool:
    age = now - entry.first_at  # of an unknown time: longer than any but an endless memory
    return bool(recovery.key_seconds) and age < recovery.key_seconds


def next_move(known: Known) -> Move:
    """The first rung's word that has one: a verdict, or what to look at before it can tell."""
    for rung in RUNGS:
        move = rung(known)
        if move is not None:
            return move
    return None


def resolved(entry: CallEntry, decision: Decision, why: str = "") -> ToolResolved:
    """A verdict as it is written down.

    Args:
        why: Why the outcome is not known, for a model that is told so.
    """
    call, verdict = entry.call, decision.verdict
    content, evidence = (decision.text, "") if verdict == "done" else ("", decision.text)
    if verdict == "told":
        content = f"outcome unknown: {why}; do not assume either, check before doing it again"
    return ToolResolved(
        call_id=call.id,
        name=call.name,
        verdict=verdict,
        by=decision.by,
        content=content,
        ending="unknown" if verdict == "told" else "ok",
        evidence=evidence,
    )


def _again(known: Known, by: Rung, evidence: str = "") -> Decision | None:
    return None if known.is_worn else Decision(by, "again", evidence)


def _of_check(known: Known, by: Rung, seen: Check | None) -> Decision | None:
    if seen is None or seen.verdict == "unknown":
        return None
    return Decision(by, "done", seen.text) if seen.verdict == "done" else _again(known, by, seen.text)


def not_begun(known: Known) -> Move:
    """The tool said that it could not run at all, so nothing was done."""
    return _again(known, "not begun", known.said) if known.ending == "fatal" else None


def repeatable(known: Known) -> Move:
    """The tool only reads, or doing it twice is as doing it once: now, and when the call began."""
    if known.effect is None or known.effect == "write" or known.marked == "write":
        return None
    return _again(known, known.effect)


def keyed(known: Known) -> Move:
    """The other side does a thing once for each key, and has not forgotten this one."""
    return _again(known, "key") if known.key_lives else None


def checked(known: Known) -> Move:
    """The tool can look whether it took effect; what is still on its way gets the time that it may need."""
    if known.effect is None:
        return None
    if "check" not in known.found:
        return "check"
    seen = known.found["check"]
    if seen is not None and seen.verdict == "not_done" and known.settles:
        if "second check" not in known.found:
            return "second check"
        seen = known.found["second check"]
    return _of_check(known, "check", seen)


def undone(known: Known) -> Move:
    """The tool can take back what it may have done; not where it would not be run again after that."""
    if not known.has_undo or known.is_worn:
        return None
    if "undo" not in known.found:
        return "undo"
    return _of_check(known, "undo", known.found["undo"])


def decided(known: Known) -> Move:
    """The program that drives the run has a function that decides."""
    if not known.has_program:
        return None
    return _of_check(known, "program", known.found["program"]) if "program" in known.found else "program"


def told(known: Known) -> Move:
    """The user chose that the model is told at once that nobody knows."""
    return Decision("model", "told") if known.tells_model else None


RUNGS: list[Callable[[Known], Move]] = [not_begun, repeatable, keyed, checked, undone, decided, told]
