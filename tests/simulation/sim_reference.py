"""What must come of a simulated run, by a plain interpreter: one thing after the other, no journal, no tasks, no crash.

It is written from the requirements and knows nothing of the product. Of each drive it is told what happened to it from
outside (it was stopped, or its process was gone), which of its writes were safe by then, and how far its tools and its model
had come. What follows from that is worked out here: what runs and what runs again, what the model is shown, what was spent,
how each drive ends. Where the drive did otherwise, `Otherwise` says so.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

from sim_scenario import TOOLS, Asked, Life, Scenario

__all__ = ["Happened", "Otherwise", "Reference", "Token"]

ATTEMPTS = 4
KILLED = "the process ended while it ran"
TIMED_OUT = "the tool timed out after 5 s (seconds)"
MODEL_TOKENS = ("asked", "opened", "failed", "replied", "reply", "retry", "spent")


class Token(NamedTuple):
    """Something that happened: what, about which call or turn, and a word more."""

    what: str
    about: str = ""
    data: Any = None


class Otherwise(Exception):
    """The drive did what it should not have done, or did not what it should have."""


@dataclass
class Call:
    """One tool call on its way to its one answer.

    Attributes:
        word: What a person said of it, once somebody did.
        fatal: It is in doubt because its tool could not run.
        maybe: It is to run again, and may have had its effect before.
    """

    id: str
    asked: Asked
    state: str = "asked"
    ending: str = ""
    text: str = ""
    why: str = ""
    runs: int = 0
    word: str = ""
    fatal: bool = False
    maybe: bool = False
    waits: bool = False

    @property
    def what(self) -> str:
        return "c" if self.word == "edit" else self.asked.what

    @property
    def effect(self) -> str:
        return TOOLS[self.asked.tool].effect

    def settle(self, ending: str, text: str) -> None:
        self.state, self.ending, self.text = "settled", ending, text

    def doubt(self, why: str, *, fatal: bool = False) -> None:
        self.state, self.why, self.fatal = "in doubt", why, fatal


class Happened:
    """What happened to one drive and in it.

    Attributes:
        started: Whether it got as far as to write that it drives the run.
        end: "" by itself, "stopped", or "gone": nobody wrote its end down.
    """

    def __init__(self, plan: Life, tokens: Iterable[Token]) -> None:
        self.plan = plan
        self.model: deque[Token] = deque()
        self.calls: dict[str, deque[Token]] = {}
        self.started, self.end, self.says = False, "gone", ""
        self.seconds = 0.0
        for token in tokens:
            match token.what:
                case "started":
                    self.started = True
                case "finished":
                    stopped = token.about in ("stopped", "shutdown") or token.data == "run_deadline"
                    self.end = "stopped" if stopped else ""
                case "says":
                    self.says = token.about
                case "seconds":
                    self.seconds = token.data or 0.0
                case what if what in MODEL_TOKENS:
                    self.model.append(token)
                case _:
                    tokens = self.calls.setdefault(token.about, deque())
                    tokens.append(token)
                    if token.what == "kept" and len(tokens) > 1 and tokens[-2].what == "undone":
                        tokens[-2], tokens[-1] = tokens[-1], tokens[-2]  # its marker was safe, which is what an undo needs

    def of(self, call: Call) -> deque[Token]:
        return self.calls.get(call.id, deque())

    @property
    def stop(self) -> tuple[str, str]:
        """The kind of outcome and the words of the stop that the drive was given."""
        match self.plan.stop:
            case "cancel" | "elsewhere":
                return "stopped", "cancelled by ada: lunch"
            case "outer":
                return "stopped", f"a deadline of {self.plan.at:.6g} s passed"
            case "deadline":
                return "limit", f"the run's time is used up: {self.seconds:.6g} s (Limits(seconds=...))"
            case "":
                raise Otherwise("it was stopped, and nobody stopped it")
            case _:
                return "shutdown", "shutting down: SIGTERM"


@dataclass
class Reference:
    """The run as far as it has come.

    Attributes:
        shown: What each model call was shown.
        ends: How each drive ended; None where nobody could write it down.
        done: What the tools did: tool, what, call.
    """

    scenario: Scenario
    conversation: list[tuple[Any, ...]] = field(default_factory=lambda: [("user", "go")])
    shown: list[list[tuple[Any, ...]]] = field(default_factory=list)
    ends: list[str | None] = field(default_factory=list)
    done: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    turns: int = 0
    calls: int = 0
    cost: Decimal = Decimal(0)
    unpriced: int = 0
    replies: int = 0
    answered: bool = False
    open: list[Call] = field(default_factory=list)
    _said: list[str] = field(default_factory=list)
    _asked: Counter[int] = field(default_factory=Counter)
    _begun: bool = False
    _unfinished: bool = False

    # --- drives -------------------------------------------------------------------------------------------------

    def live(self, life: Happened) -> None:
        """One drive more."""
        if not life.started:
            self._none_left(life)
            self.ends.append(None)
            return
        if self._begun and self._unfinished and not self.open and not self.answered:
            self._spend(None)  # the model may have been asked when the process was gone
        self._begun = self._unfinished = True
        if life.says:
            self._say(life.says)
        end = self._drive(life)
        self._none_left(life)
        self._unfinished = life.end == "gone"
        self.ends.append(None if life.end == "gone" else end)
        if life.end == "" and end == "waiting":
            self._person()

    def _none_left(self, life: Happened) -> None:
        left = [*life.model, *(token for tokens in life.calls.values() for token in tokens)]
        if left:
            raise Otherwise(f"more happened than should have: {left}")

    def _drive(self, life: Happened) -> str:
        while True:
            if self.open and (end := self._answer(life)) is not None:
                return end
            if self.answered and not self.open:
                return (
                    life.stop[0] if life.end == "stopped" else "answered"
                )  # both at once: the answer is told when it is resumed
            limit = self._limit(life.plan)
            if not life.model:
                if life.end:
                    return self._cut(life)
                if limit or self._is_short(life):
                    return "limit"
                raise Otherwise("the model should have been asked")
            if limit:
                raise Otherwise(f"the model was asked beyond {limit}")
            if (end := self._ask(life)) is not None:
                return end

    def _cut(self, life: Happened) -> str:
        return life.stop[0] if life.end == "stopped" else "gone"

    def _limit(self, plan: Life) -> str:
        if plan.turns is not None and self.turns >= plan.turns:
            return "the turns"
        return "the cost" if plan.usd is not None and self.cost >= Decimal(plan.usd) else ""

    def _is_short(self, life: Happened) -> bool:
        """Whether its time is limited: then what would take longer than is left, as far as that is known, is not begun."""
        return life.plan.stop in ("outer", "deadline")

    def _say(self, text: str) -> None:
        self.answered = False
        if self.open:
            self._said.append(text)
        else:
            self.conversation.append(("user", text))

    def _spend(self, cost: Decimal | None) -> None:
        self.calls += 1
        self.cost += cost or 0
        self.unpriced += cost is None

    # --- the model ----------------------------------------------------------------------------------------------

    def _ask(self, life: Happened) -> str | None:
        """One call of the model, with its attempts; how the drive ended with it, or None when it goes on."""
        failures, said = 0, self.scenario.turn(self.replies + 1)
        while True:
            token = _next(life.model)
            if token is None:
                if not life.end:
                    raise Otherwise("the model should have been asked again")
                return self._cut(life)
            if token != ("asked", str(self.replies + 1), None):
                raise Otherwise(f"{token}, where the model should have been asked for turn {self.replies + 1}")
            self.shown.append(list(self.conversation))
            self._asked[self.replies] += 1
            fault = dict(enumerate(said.faults, 1)).get(self._asked[self.replies], "")
            opened = _take(life.model, "opened")
            if _take(life.model, "replied"):
                return self._reply(life, truncated=fault == "truncated")
            failed = _take(life.model, "failed")
            failures += failed
            again = failed and _take(life.model, "retry")
            told = again or _take(life.model, "spent")
            if opened and told:
                self._spend(None)
            elif opened and life.end != "gone":
                raise Otherwise(f"nobody wrote down that the cut call of turn {self.replies + 1} was spent on")
            if again and failures < ATTEMPTS and fault != "denied":
                continue
            if life.end:
                return self._cut(life)
            if fault == "denied":
                return "failed"
            if failures == ATTEMPTS or (failed and self._is_short(life)):
                return "gave_up"
            raise Otherwise(f"attempt {failures} at turn {self.replies + 1} was not the last, and no other followed")

    def _reply(self, life: Happened, *, truncated: bool) -> str | None:
        if not _take(life.model, "reply"):
            if life.end != "gone":
                raise Otherwise("a reply was not written down")
            return "gone"
        number = self.replies + 1
        self.turns += 1
        self._spend(Decimal("0.01") + Decimal(1).scaleb(-3 - number))
        if truncated:
            return "gone" if life.end == "gone" else "failed"
        self.replies += 1
        asked = self.scenario.turn(number).calls
        self.open = [Call(f"t{number}c{index}", each) for index, each in enumerate(asked)]
        told = [(call.id, call.asked.tool, json.dumps({"what": call.asked.what})) for call in self.open]
        self.conversation.append(("assistant", f"turn {number}", told))
        self.answered = not self.open
        return None

    # --- the calls of a reply -----------------------------------------------------------------------------------

    def _answer(self, life: Happened) -> str | None:
        """The calls that have no answer yet; how the drive ended among them, or None when all have one."""
        failed = ""
        for call in self.open:
            call.waits = False
            was = call.fatal
            self._take_on(call, life)
            if call.fatal and call.state == "in doubt" and not was:
                failed = f"{call.asked.tool}: its server is gone"
        if self._close():
            return None
        if life.end == "gone":
            return "gone"
        if life.end == "stopped":
            self._will_not_run(life, life.stop[1])
            return life.stop[0]
        if failed:
            self._will_not_run(life, failed)
            return "failed"
        if any(call.waits for call in self.open):
            return "waiting"
        raise Otherwise(f"calls were left without an answer: {[call.id for call in self.open if call.state != 'settled']}")

    def _will_not_run(self, life: Happened, why: str) -> None:
        for call in self.open:
            if call.state == "asked" and not call.maybe:
                if not _take(life.of(call), "kept"):
                    raise Otherwise(f"{call.id} never ran, and has no answer that says so")
                call.settle("not_run", "…" if self._is_short(life) else f"cancelled before it ran: {why}")
        self._close()

    def _close(self) -> bool:
        """Once all calls have their answers, these join the conversation, and what was said meanwhile follows."""
        if any(call.state != "settled" for call in self.open):
            return False
        self.conversation += [("tool", call.id, call.ending, call.text) for call in self.open]
        self.conversation += [("user", text) for text in self._said]
        self.open, self._said = [], []
        return True

    def _take_on(self, call: Call, life: Happened) -> None:
        tokens = life.of(call)
        while call.state != "settled":
            before = len(tokens), call.state
            if call.state == "asked":
                if not self._allowed(call, tokens):
                    return
                self._begin(call, tokens, life)
            else:
                self._ladder(call, tokens)
            if (len(tokens), call.state) == before:
                return

    def _allowed(self, call: Call, tokens: deque[Token]) -> bool:
        """Whether nobody has to be asked any more, and nobody has refused."""
        if not TOOLS[call.asked.tool].approval:
            return True
        word = call.asked.word if self.scenario.approver else call.word
        if not word:
            call.waits = True
            return False
        if word == "deny":
            if _take(tokens, "kept", "denied"):
                call.settle("denied", f"{call.asked.tool} was denied: not that")
            return False
        return True

    def _begin(self, call: Call, tokens: deque[Token], life: Happened) -> None:
        if self._is_short(life) and len(life.model) and _take(tokens, "kept", "not_run"):
            call.settle("not_run", "not run: …")
        if call.effect != "read" and not _take(tokens, "marked"):
            return
        if not _take(tokens, "began"):
            if call.effect != "read" and (life.end == "gone" or call.maybe):
                call.doubt(KILLED)
            return
        call.runs += 1
        act = call.asked.act if call.runs == 1 or call.asked.act in ("error", "crash") else "ok"
        self._effect(call, act, tokens)
        if not _take(tokens, "ended"):
            self._cut_off(call, act, tokens, life)
        elif _take(tokens, "kept"):
            self._ended(call, act)
        elif life.end != "gone":
            raise Otherwise(f"{call.id} ended, and its result was not written down")
        elif call.effect != "read":
            call.doubt(KILLED)

    def _effect(self, call: Call, act: str, tokens: deque[Token]) -> None:
        place = call.asked.tool, call.what, call.id
        known = TOOLS[call.asked.tool].key and self.done[place] > 0
        may = call.effect != "read" and act not in ("error", "fatal", "nothing", "late") and not known
        if _take(tokens, "effect"):
            if not may:
                raise Otherwise(f"{call.id} had an effect that it should not have had")
            self.done[place] += 1
        elif may and tokens and tokens[0].what == "ended":
            raise Otherwise(f"{call.id} ended without its effect")

    def _ended(self, call: Call, act: str) -> None:
        name = call.asked.tool
        match act:
            case "error":
                call.settle("tool_error", f"{name} cannot do that")
            case "crash":
                crash = f"{name} failed with an internal error (ValueError: a bug); try another way, or report it"
                call.settle("crashed", crash)
            case "fatal":
                call.doubt(KILLED, fatal=True)
            case "unsure" | "nothing":
                call.doubt("no word came back")
            case _:
                note = f"a person changed the arguments to {_arguments(call.what)} and allowed that\n"
                call.settle("ok", (note if call.word == "edit" else "") + self._result(call))

    def _cut_off(self, call: Call, act: str, tokens: deque[Token], life: Happened) -> None:
        """It began, and did not end: a stop, its own limit, or the process was gone."""
        if not tokens or tokens[0].what != "kept":
            if life.end != "gone":
                raise Otherwise(f"{call.id} was cut off, and nothing was written down")
            if call.effect != "read":
                call.doubt(KILLED)
            return
        kept = tokens.popleft()
        if act in ("slow", "late") and kept.data != "stopped":
            if call.effect == "write":
                call.doubt(TIMED_OUT)
            else:
                call.settle("timed_out", f"{call.asked.tool}: {TIMED_OUT}")
        elif life.plan.stop:
            call.doubt(life.stop[1])
        else:
            raise Otherwise(f"{call.id} was cut off by nothing: {kept}")

    def _result(self, call: Call) -> str:
        return f"{call.asked.tool} {call.what}: {'seen' if call.asked.tool == 'look' else 'done'}"

    # --- the ladder ---------------------------------------------------------------------------------------------

    def _ladder(self, call: Call, tokens: deque[Token]) -> None:
        """The first rung that applies; nothing when the drive did not come so far."""
        kind = TOOLS[call.asked.tool]
        if call.fatal:
            self._again(call, tokens, "not begun")
        elif call.effect != "write":
            self._again(call, tokens, call.effect)
        elif kind.key:
            self._again(call, tokens, "key")
        elif kind.check and self._was_done(call):
            if _take(tokens, "resolved", "check"):
                call.settle("ok", self._result(call))
        elif kind.check:
            self._again(call, tokens, "check")
        elif kind.undo:
            if _take(tokens, "undone"):
                self.done[call.asked.tool, call.what, call.id] -= 1
            if tokens and self._was_done(call):
                raise Otherwise(f"{call.id} was to be undone first")
            self._again(call, tokens, "undo")
        elif not self.scenario.tell_model:
            call.waits = True
        elif _take(tokens, "resolved", "model"):
            call.settle("unknown", f"outcome unknown: {call.why}; do not assume either, check before doing it again")

    def _again(self, call: Call, tokens: deque[Token], rung: str) -> None:
        if _take(tokens, "again", rung):
            call.state, call.fatal = "asked", False
            call.maybe = rung in ("idempotent", "key")

    def _was_done(self, call: Call) -> bool:
        return self.done[call.asked.tool, call.what, call.id] > 0

    def _person(self) -> None:
        """Whoever is asked looks at the world, or cannot tell, and says what may be done."""
        for call in self.open:
            if call.state == "in doubt":
                if call.asked.doubt == "told":
                    call.settle("unknown", f"outcome unknown: {call.why}; a person could not tell either")
                elif self._was_done(call):
                    call.settle("ok", "a person looked: it took effect: it is there")
                else:
                    call.state = "asked"
            elif call.state == "asked" and TOOLS[call.asked.tool].approval and not call.word:
                call.word = call.asked.word
        if self.open:
            self._close()


def _arguments(what: str) -> str:
    return json.dumps({"what": what})


def _next(tokens: deque[Token]) -> Token | None:
    return tokens.popleft() if tokens else None


def _take(tokens: deque[Token], what: str, data: Any = None) -> bool:
    """Whether that is next, which it then no longer is."""
    if not tokens or tokens[0].what != what or (data is not None and tokens[0].data != data):
        return False
    tokens.popleft()
    return True
