"""Where a run ended, whose limit it was, and the chain behind it, from its records alone."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from msgspec import structs

from heaveto.causes import Cancelled, DeadlinePassed, to_data
from heaveto.errors import APIError, GaveUp, NoneAnswered, ToolFatal, TransportFailed
from heaveto.journal.records import DriveStarted, Replied, ToolFinished, ToolResolved, ToolStarted
from heaveto.loop import describe, why
from heaveto.loop.looking_back import cause_chain, limit_owner, place_of_end
from heaveto.messages import AssistantMessage, Limits, Usage
from heaveto.retry import RetryPolicy
from heaveto.runs import Run
from heaveto.testing.scripted_model import calls, scripted
from heaveto.tools import tool

pytestmark = pytest.mark.anyio


@tool(effect="write")
async def send(seconds: float = 0) -> str:
    """Send."""
    await anyio.sleep(seconds)
    return "sent"


async def stop_soon(run: Run) -> None:
    await anyio.sleep(1)
    run.cancel(Cancelled("lunch", "ada"))


SLOW = ("send", {"seconds": 60})


@pytest.mark.parametrize(
    ("lines", "options", "place"),
    [
        ([calls(SLOW, ("send", {}))], {"during": stop_soon}, "turn 1, while send ({}) ran"),
        ([calls(("send", {})), calls(SLOW)], {"during": stop_soon}, "turn 2, while send ({}) ran"),
        ([calls(SLOW)], {"limits": Limits(seconds=5)}, "turn 1, while send ({}) ran"),
        ([calls(("send", {}))], {"limits": Limits(turns=1)}, "turn 2, at its model call"),
        ([APIError("p", 400, "no")], {}, "turn 1, at its model call"),
        (
            [APIError("p", 503, "busy", 30.0), "fine"],
            {"during": stop_soon, "retry": RetryPolicy()},
            "turn 1, at attempt 2 of 4 of its model call",
        ),
    ],
)
async def test_where_it_ended(drive: Any, lines: list[Any], options: dict[str, Any], place: str) -> None:
    driven = await drive(*lines, tools=[send], **options)
    cut = [each.call_id for each in driven.answers if each.ending == "stopped"]
    assert place_of_end(driven.records[:-1]) == place.format(*cut)


async def test_where_a_streamed_call_was_cut(drive: Any) -> None:
    from heaveto.journal import MemoryStore
    from heaveto.runs import Agent, read_records

    store = MemoryStore()
    async with Agent(model=scripted("a b c", pause_seconds=10), store=store).start("x", run_id="run") as run:
        await stop_soon(run)
        await run.wait()
    assert place_of_end((await read_records(store, "run"))[:-1]) == "turn 1, during its model call"


def test_where_one_ended_that_does_not_know_what_a_killed_process_did() -> None:
    """In the turn of the call, and not in the next."""
    look, mail = (ToolStarted(call_id=call_id, name="send", effect="write", key=call_id) for call_id in ("call_1", "call_2"))
    records = [DriveStarted(epoch=1, model="m"), replied(1), look, mail, DriveStarted(epoch=2, model="m")]
    assert place_of_end(records) == "turn 1, with the outcome of send (call_1) not known"
    resolved = ToolResolved(call_id="call_1", name="send", verdict="done", by="check")
    assert place_of_end([*records, resolved]) == "turn 1, with the outcome of send (call_2) not known"
    unknown = ToolFinished(call_id="call_2", name="send", ending="unknown", content="nobody knows")
    assert place_of_end([*records[:-1], unknown, records[-1], resolved]).endswith("(call_2) not known")
    assert place_of_end([*records, resolved, structs.replace(resolved, call_id="call_2")]) == "turn 2, at its model call"


def replied(turn: int) -> Replied:
    return Replied(turn=turn, message=AssistantMessage(""), finish="tool_calls", usage=Usage())


def test_the_chain_goes_through_last_attempts_members_and_causes_each_once() -> None:
    broke = TransportFailed("POST", "http://x", "reset")
    broke.__cause__ = ConnectionResetError("reset by peer")
    none = NoneAnswered(["a:x", "b:y"], [broke, APIError("b", 503, "busy")])
    gave_up = GaveUp(4, none)
    gave_up.__cause__ = none
    gave_up.add_note("while waiting for the rate limit (3 s)")
    chain = cause_chain(to_data(gave_up))
    assert [link.code for link in chain] == ["gave_up", "none_answered", "transport_failed", "foreign", "api_error"]
    assert chain[0].notes == ("while waiting for the rate limit (3 s)",)
    group = ExceptionGroup("several", [ToolFatal("a", "gone"), ToolFatal("b", "gone")])
    assert [link.text for link in cause_chain(to_data(group))][1:] == ["a: gone", "b: gone"]
    assert cause_chain(None) == []


def test_whose_limit_passed() -> None:
    assert limit_owner(cause_chain(to_data(DeadlinePassed(5)))) == "the program around the run"
    assert limit_owner(cause_chain(to_data(Cancelled()))) == ""


def test_somebody_elses_error_is_a_path_without_repeats() -> None:
    outer, inner = RuntimeError("saving the draft"), OSError("the disk is full")
    outer.__cause__ = inner
    assert describe(outer) == "unexpected error: RuntimeError: saving the draft: OSError: the disk is full"
    again = ValueError("the disk is full")
    again.__cause__ = inner
    assert why(again) == "unexpected error: ValueError: the disk is full"
    outer.__cause__ = APIError("p", 503, "busy")
    assert describe(outer) == "unexpected error: RuntimeError: saving the draft: p: 503 Service Unavailable: busy"
    inner.__cause__ = outer.__cause__ = None
    outer.__cause__, inner.__cause__ = inner, outer
    assert describe(outer).count("saving the draft") == 1
