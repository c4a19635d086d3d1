"""Read by type checkers, never run: what the testing kit gives, and which calls are wrong."""

from __future__ import annotations

from typing import assert_type

from heaveto.journal import MemoryStore
from heaveto.journal.store import Store
from heaveto.models import Exchange, HttpxExchange
from heaveto.testing import (
    CHECKS,
    Answered,
    Cut,
    FakeClock,
    FaultyExchange,
    FaultyStore,
    ScriptedModel,
    StoppedRun,
    Write,
    calls,
    every_await,
    fault_at,
    faults_at_random,
    no_leaks,
    scripted,
)
from heaveto.testing.faults import Fault


async def pay(amount: int) -> float:
    return amount / 100


def only_large(write: Write) -> Fault | None:
    return "full" if sum(map(len, write.bodies)) > 1_000_000 else None


async def use() -> None:
    for run in every_await(pay, 30, ways=["cancel"]):
        assert_type(run, StoppedRun[float])
        assert_type(run.value, float | None)
    assert_type(FakeClock("trio").run(pay, 30), float)
    assert_type(scripted(calls(("look", {"what": "a"})), "done", TimeoutError()), ScriptedModel)
    store: Store = FaultyStore(MemoryStore(), fault_at(3, "late", on="take", lasting=True))
    store = FaultyStore(store, only_large)
    faulty = FaultyStore(store, faults_at_random(1, "before", share=0.5))
    faulty.choose = None
    assert_type(faulty.appends, int)
    exchange: Exchange = FaultyExchange(b"data: [DONE]\n\n", Cut("reset", 3), None, Answered(status=503))
    exchange = FaultyExchange(HttpxExchange(), Cut("split", 10))
    await exchange.aclose()
    async with no_leaks(seconds=0.5):
        await CHECKS[0](MemoryStore)
    with no_leaks():
        pass

    every_await(pay, "30")  # type: ignore[arg-type]
    fault_at(3, "exploded")  # type: ignore[arg-type]
    Cut("broken", 3)  # type: ignore[arg-type]
    FaultyExchange("a text is no body")  # type: ignore[arg-type]
