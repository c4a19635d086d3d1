"""What the product writes, killed and resumed, is among what the model says that it may write."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
from model_check import explore
from model_world import TOOLS, Scenario, record_of

from heaveto.journal import MemoryStore, Summary
from heaveto.journal.records import Record, ToolStarted, encode_record
from heaveto.runs import Agent, read_records
from heaveto.testing.scripted_model import calls, scripted
from heaveto.tools import Call, Check, Tool, tool

Shape = tuple[str, ...]


def shape(records: Sequence[Record]) -> Shape:
    """The kinds of records, with what each says of its call or its drive."""
    says = ("ending", "verdict", "by", "outcome", "finish")
    return tuple(
        " ".join([type(record).__name__, *(str(getattr(record, each)) for each in says if hasattr(record, each))])
        for record in records
    )


class World:
    """What the tools of the product act on; `done`: whether the killed drive's call took effect."""

    def __init__(self, *, done: bool) -> None:
        self.done = done

    def tool(self, like: Tool) -> Any:
        async def check(call: Call, arguments: Any) -> Check:
            return Check("done", "") if self.done else Check("not_done", "")

        async def undo(call: Call, arguments: Any) -> str:
            return ""

        async def act(what: str) -> str:
            """Act."""
            return ""

        offers: dict[str, dict[str, Any]] = {
            "pay": {"check": check},
            "charge": {"idempotency_key": True},
            "book": {"undo": undo},
        }
        return tool(name=like.name, effect=like.effect, **offers.get(like.name, {}))(act)


class NotedStore(MemoryStore):
    """It knows how many records there were after each write: what a kill may leave."""

    def __init__(self) -> None:
        super().__init__()
        self.lengths: list[int] = []

    async def append(self, *args: Any) -> int:
        last = await super().append(*args)
        self.lengths.append(last)
        return last


@cache
def known_shapes(name: str) -> set[Shape]:
    """What the model says that a run of one call may write, with two drives and a kill."""
    journals = explore(Scenario((name,), epochs=2, words=0)).journals
    return {shape([*map(record_of, journal)]) for journal in journals}


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["look", "put", "shout", "pay", "charge", "book"])
async def test_what_the_product_writes_is_in_the_model(name: str) -> None:
    known = known_shapes(name)
    asks, like = calls((name, {"what": "x"})), TOOLS[name]
    store = NotedStore()
    await Agent(model=scripted(asks, "done"), tools=[World(done=True).tool(like)], store=store).run("go", run_id="run")
    whole = await read_records(store, "run")
    assert shape(whole) in known
    unmarked = [record for record in whole if not isinstance(record, ToolStarted)]
    assert (shape(unmarked) in known) is (name == "look"), "and what it does not write is not"
    for length in (2, *store.lengths[:-1]):
        for done in (False, True):
            killed = MemoryStore()
            await killed.create("run", "", [*map(encode_record, whole[:length])], Summary())
            turns = sum(type(record).__name__ == "Replied" for record in whole[:length])
            agent = Agent(
                model=scripted(*([asks] if turns == 0 else []), "done"), tools=[World(done=done).tool(like)], store=killed
            )
            async with agent.reopen("run") as run:
                await run.wait()
            assert shape(await read_records(killed, "run")) in known, (length, done)
