"""A scenario of each seed. The same seed gives the same scenario."""

from __future__ import annotations

import random

from sim_scenario import TOOLS, Asked, Life, Scenario, Turn

__all__ = ["scenario_of"]

ACTS = ("error", "crash", "fatal", "unsure", "nothing", "slow", "late", "stubborn")
STOPS = ("cancel", "shutdown", "again", "outer", "deadline", "elsewhere")
FAULTS = ("before", "full", "after", "late", "slow")
MODEL_FAULTS = ("busy", "busy", "broken", "broken", "denied", "truncated")
SECONDS = (0.0, 0.25, 0.25, 1.5)
WHATS = ("a", "b")  # few, so that the same call comes again


def scenario_of(seed: int) -> Scenario:
    chance = random.Random(f"heaveto {seed}")
    turns = [_turn(chance) for _ in range(chance.randint(1, 4))]
    if chance.random() < 0.15:
        turns.insert(chance.randint(1, len(turns)), Turn())  # an answer, after which the run goes on
    return Scenario(
        turns=(*turns, Turn(faults=_faults(chance), seconds=chance.choice(SECONDS))),
        lives=tuple(_life(chance) for _ in range(chance.choice((0, 1, 1, 2, 2, 3, 4, 6)))),
        backend=chance.choice(("asyncio", "trio")),
        tell_model=chance.random() < 0.25,
        approver=chance.random() < 0.5,
        slots=chance.choice((1, 2, 8, 8)),
        seed=seed,
    )


def _turn(chance: random.Random) -> Turn:
    calls = [_call(chance) for _ in range(chance.choice((1, 1, 2, 2, 3, 4)))]
    if chance.random() < 0.1:  # several that run at once and may have had their effect when something strikes
        calls = [Asked("charge", chance.choice(WHATS), before=0.25, after=chance.choice(SECONDS)) for _ in range(3)]
    fatal = [index for index, call in enumerate(calls) if call.act == "fatal"]
    for index in fatal[1:]:  # several of one batch end in an order of their own
        calls[index] = Asked(calls[index].tool, calls[index].what)
    return Turn(tuple(calls), _faults(chance), chance.choice(SECONDS))


def _call(chance: random.Random) -> Asked:
    tool = chance.choice(("look", "look", *TOOLS))
    return Asked(
        tool=tool,
        what=chance.choice(WHATS),
        act=chance.choice(ACTS) if chance.random() < 0.3 else "ok",
        before=chance.choice(SECONDS),
        after=chance.choice(SECONDS),
        word=chance.choice(("approve", "approve", "deny", "edit")) if TOOLS[tool].approval else "approve",
        doubt=chance.choice(("look", "look", "look", "told")),
    )


def _faults(chance: random.Random) -> tuple[str, ...]:
    if chance.random() < 0.8:
        return ()
    return tuple(chance.choice(MODEL_FAULTS) for _ in range(chance.choice((1, 1, 2, 5))))


def _life(chance: random.Random) -> Life:
    """One that is stopped, killed, paused, badly stored or limited; some are more than one of these."""
    words: dict[str, object] = {}
    for what in chance.sample(("stop", "kill", "fault", "pause", "limit"), chance.choice((1, 1, 1, 2))):
        match what:
            case "stop":
                words |= {"stop": chance.choice(STOPS), "at": chance.randint(0, 24) / 4 + 0.125 * chance.randint(0, 1)}
            case "kill":
                words["kill"] = chance.randint(1, 30)
            case "pause":
                words["pause"] = chance.randint(1, 20)
            case "fault":
                words |= {"fault": chance.choice(FAULTS), "write": chance.randint(1, 8)}
            case _:
                words |= chance.choice(({"turns": chance.randint(0, 3)}, {"usd": f"0.0{chance.randint(0, 3)}"}))
    if chance.random() < 0.15:
        words["say"] = "one more thing"
    if chance.random() < 0.1:
        words["rival"] = chance.randint(0, 8) / 4
    return Life(**words)  # type: ignore[arg-type]
