"""A simulated run as data: what the model says, what the tools do, what goes wrong, and what a person says. JSON both ways.

Times are seconds of a fake clock. Nothing here knows the product.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

__all__ = ["TOOLS", "Asked", "Kind", "Life", "Scenario", "Turn", "from_json", "to_json"]


class Kind(NamedTuple):
    """What a tool is.

    Attributes:
        undo: Whether it can take back what it did.
        beside: Whether it may run beside its neighbours.
    """

    effect: str
    key: bool = False
    check: bool = False
    undo: bool = False
    approval: bool = False
    beside: bool = False


TOOLS = {
    "look": Kind("read", beside=True),
    "put": Kind("idempotent"),
    "charge": Kind("write", key=True, beside=True),
    "pay": Kind("write", check=True),
    "post": Kind("write", check=True, beside=True),
    "book": Kind("write", undo=True),
    "shout": Kind("write"),
    "buy": Kind("write", check=True, approval=True),
}


@dataclass(frozen=True)
class Asked:
    """One tool call of a reply.

    Attributes:
        act: What comes of running it: "ok"; "error" and "crash", each time; of the first time only "fatal", "unsure" (it did
            it, and does not know), "nothing" (it did not, and does not know), "slow" (it does it, and passes its limit),
            "late" (it passes its limit before it does it) and "stubborn" (it does not heed a stop).
        before: Seconds until it has its effect.
        after: Seconds from there to its end.
        word: A person's on a call that needs one: "approve", "deny" or "edit".
        doubt: A person's on a call whose outcome nobody knows: "look" (it was done, or is run again) or "told".
    """

    tool: str
    what: str
    act: str = "ok"
    before: float = 0.0
    after: float = 0.0
    word: str = "approve"
    doubt: str = "look"


@dataclass(frozen=True)
class Turn:
    """One reply of the model; without calls it is an answer.

    Attributes:
        faults: What comes of the first attempts at it, in all drives: "busy" (a 503), "broken" (it breaks off midway),
            "denied" (a 401), "truncated".
        seconds: How long it takes to come.
    """

    calls: tuple[Asked, ...] = ()
    faults: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class Life:
    """What happens to one drive of the run.

    Attributes:
        stop: "cancel", "shutdown", "again" (a shutdown, and another a second later), "outer" (a deadline of the program
            around it), "deadline" (its own) or "elsewhere" (by way of the store).
        at: When, in seconds of the drive.
        kill: The point at which its process is gone: a write, before and after, or a step of a tool or the model.
        pause: The point at which its process is paused, and goes on when the run has long ended.
        fault: What goes wrong with a write of the store: "before", "full", "after", "late" or "slow".
        write: Which one, from 1.
        say: What it is taken up with.
        turns: A limit that it is driven with.
        usd: Another one.
        rival: When another driver tries to take the run meanwhile.
    """

    stop: str = ""
    at: float = 0.0
    kill: int = 0
    pause: int = 0
    fault: str = ""
    write: int = 0
    say: str = ""
    turns: int | None = None
    usd: str | None = None
    rival: float | None = None


@dataclass(frozen=True)
class Scenario:
    """A run from its task to its last answer, over any number of drives; those beyond `lives` are left alone.

    Attributes:
        tell_model: Whether the model is told at once what nobody knows.
        approver: Whether somebody is there who allows calls while the run goes on; otherwise it waits.
        slots: How many calls may run at once.
    """

    turns: tuple[Turn, ...]
    lives: tuple[Life, ...] = ()
    backend: str = "asyncio"
    tell_model: bool = False
    approver: bool = False
    slots: int = 8
    seed: int = 0

    def turn(self, number: int) -> Turn:
        """The reply of that number, from 1; what is said after the last answer is answered too."""
        return self.turns[number - 1] if number <= len(self.turns) else Turn()

    def asked(self, call_id: str) -> Asked:
        """The call of that id, which is "t2c0" for the first of the second turn."""
        turn, _, index = call_id[1:].partition("c")
        return self.turns[int(turn) - 1].calls[int(index)]


def to_json(scenario: Scenario) -> str:
    """Without what is as usual, so that a small scenario is small to read."""
    return json.dumps(_without_defaults(scenario), indent=1) + "\n"


def _without_defaults(part: Any) -> Any:
    if isinstance(part, tuple):
        return [_without_defaults(each) for each in part]
    if not isinstance(part, Scenario | Life | Turn | Asked):
        return part
    defaults = {name: field.default for name, field in type(part).__dataclass_fields__.items()}
    return {name: _without_defaults(getattr(part, name)) for name in asdict(part) if getattr(part, name) != defaults[name]}


def from_json(text: str) -> Scenario:
    data = json.loads(text)
    turns = tuple(
        Turn(tuple(Asked(**each) for each in turn.get("calls", ())), tuple(turn.get("faults", ())), turn.get("seconds", 0.0))
        for turn in data.pop("turns")
    )
    return Scenario(turns=turns, lives=tuple(Life(**each) for each in data.pop("lives", ())), **data)
