"""The rungs that a tool brings along: a key that is known again, a second look, a way back; and a program's word."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import anyio
import msgspec
import pytest

from heaveto.errors import ConfigError, OutcomeUnknown
from heaveto.journal import MemoryStore, Summary, open_store
from heaveto.journal.records import ToolResolved, ToolStarted, encode_record
from heaveto.loop import Doubt
from heaveto.loop.rungs import MOST_UNKNOWN, Decision, Known, Look, next_move
from heaveto.messages import ToolMessage
from heaveto.runs import Agent, read_records, read_state
from heaveto.scopes import wall_time
from heaveto.testing.clocks import Backend, FakeClock
from heaveto.testing.scripted_model import calls, scripted
from heaveto.testing.stops import every_await
from heaveto.tools import Call, Check, Effect, tool

PAY = calls(("pay", {"what": "rent"}))


class Bank:
    """Pays once for each key; the line goes dead after the first `cuts` calls. `taken_back` has the keys of the undos."""

    def __init__(self, *, cuts: int = 1) -> None:
        self.paid: dict[str, str] = {}
        self.taken_back: list[str] = []
        self.asked, self.cuts = 0, cuts

    def tool(self, **options: Any) -> Any:
        @tool(effect="write", **options)
        async def pay(what: str, call: Call) -> str:
            """Pay for something."""
            self.asked += 1
            self.paid.setdefault(call.key, what)
            await anyio.sleep(0.5)
            if self.asked <= self.cuts:
                raise OutcomeUnknown("pay", call.call_id, "the line went dead")
            return f"paid {what}"

        return pay

    async def undo(self, call: Call, arguments: Any) -> str:
        await anyio.sleep(0.5)
        self.taken_back.append(call.key)
        self.paid.clear()
        return f"{arguments['what']} is refunded"


def verdicts(driven: Any) -> list[tuple[str, str, str]]:
    return [(each.by, each.verdict, each.evidence) for each in driven.resolved]


# --- keys -----------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_with_a_key_that_the_other_side_knows_again_the_call_is_sent_again(drive: Any) -> None:
    bank = Bank()
    driven = await drive(PAY, "fine", tools=[bank.tool(idempotency_key=True)])
    assert verdicts(driven) == [("key", "again", "")]
    assert driven.endings == [("pay", "ok")]
    assert (list(bank.paid.values()), bank.asked) == (["rent"], 2), "asked twice, paid once"
    assert driven.outcome.report.rungs == {"key": 1}


@pytest.mark.anyio
async def test_a_limit_that_passes_while_a_tool_writes_goes_the_same_way(drive: Any, fake_clock: FakeClock) -> None:
    keys: list[str] = []

    @tool(effect="write", idempotency_key=True, seconds=5)
    async def pay(what: str, call: Call) -> str:
        """Pay for something."""
        keys.append(call.key)
        await anyio.sleep(60 if len(keys) == 1 else 0)
        return "paid"

    driven = await drive(PAY, "fine", tools=[pay])
    assert verdicts(driven) == [("key", "again", "")]
    assert (driven.outcome.text, fake_clock.now) == ("fine", 5)
    assert len(set(keys)) == 1


async def killed_while_it_paid(driven: Any, seconds_ago: float) -> MemoryStore:
    """The journal of a process that was killed after its first marker, so long ago."""
    records = await read_records(driven.store, "run")
    at = next(index for index, record in enumerate(records) if isinstance(record, ToolStarted))
    marker = msgspec.structs.replace(records[at], at=wall_time() - seconds_ago)
    store = MemoryStore()
    await store.create("run", "", [*map(encode_record, [*records[:at], marker])], Summary())
    return store


@pytest.mark.anyio
@pytest.mark.parametrize(("seconds_ago", "kind"), [(3_000, "answered"), (4_000, "waiting")])
async def test_a_key_serves_as_long_as_the_other_side_remembers_it(drive: Any, seconds_ago: float, kind: str) -> None:
    bank = Bank(cuts=0)
    tools = [bank.tool(idempotency_key=3_600)]
    store = await killed_while_it_paid(await drive(PAY, "fine", tools=tools), seconds_ago)
    driven = await drive("fine", resume="run", store=store, tools=tools)
    assert driven.outcome.kind == kind
    assert [by for by, *_ in verdicts(driven)] == (["key"] if kind == "answered" else [])
    assert bank.asked == (2 if kind == "answered" else 1)


@pytest.mark.anyio
async def test_a_key_sent_again_is_as_old_as_it_was_when_it_was_sent_first(drive: Any) -> None:
    bank = Bank(cuts=9)
    tools = [bank.tool(idempotency_key=3_600)]
    store = await killed_while_it_paid(await drive(PAY, tools=tools), 3_000)
    driven = await drive(resume="run", store=store, tools=tools)
    assert driven.outcome.kind == "waiting", "run often enough to no avail"
    (entry,) = (await read_state(store, "run")).in_doubt()
    assert wall_time() - entry.first_at >= 3_000
    assert entry.started is not None
    assert wall_time() - entry.started.at < 100


# --- a second look --------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize(("arrives", "by_then"), [(True, "done"), (False, "again")])
async def test_a_check_that_finds_nothing_looks_again_later(
    drive: Any, fake_clock: FakeClock, arrives: bool, by_then: str
) -> None:
    looks: list[float] = []

    async def check(call: Call, arguments: Any) -> Check:
        looks.append(fake_clock.now)
        there = arrives and len(looks) == 2
        return Check("done", "it has arrived") if there else Check("not_done", "nothing there")

    bank = Bank()
    driven = await drive(PAY, "fine", tools=[bank.tool(check=check, settle_seconds=30)])
    assert looks == [0.5, 30.5]
    assert [(each.by, each.verdict) for each in driven.resolved] == [("check", by_then)]
    assert bank.asked == (1 if arrives else 2)


# --- a way back -----------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_what_can_be_taken_back_is_and_then_done_again(drive: Any) -> None:
    bank = Bank()
    driven = await drive(PAY, "fine", tools=[bank.tool(undo=bank.undo)])
    assert verdicts(driven) == [("undo", "again", "rent is refunded")]
    assert (list(bank.paid.values()), bank.asked) == (["rent"], 2)
    (key,) = bank.taken_back
    assert key not in bank.paid, "the way back has a key of its own"
    assert key.endswith(next(iter(bank.paid)))


@pytest.mark.anyio
async def test_a_check_that_knows_comes_before_the_way_back_and_one_that_does_not_leaves_it(drive: Any) -> None:
    async def seen(call: Call, arguments: Any) -> Check:
        return Check("done", "it is on the list")

    def cannot_tell(call: Call, arguments: Any) -> Check:
        return Check("unknown", "the list is locked")

    for check, by, undone in ((seen, "check", 0), (cannot_tell, "undo", 1)):
        bank = Bank()
        driven = await drive(PAY, "fine", tools=[bank.tool(check=check, undo=bank.undo)])
        assert [each.by for each in driven.resolved] == [by]
        assert len(bank.taken_back) == undone


@pytest.mark.anyio
async def test_a_way_back_that_fails_leaves_it_to_a_person(drive: Any) -> None:
    def undo(call: Call, arguments: Any) -> str:
        raise ConnectionError("no line")

    bank = Bank()
    driven = await drive(PAY, tools=[bank.tool(undo=undo)])
    assert driven.outcome.kind == "waiting"
    assert "the line went dead (the undo went wrong: no line)" in driven.outcome.why
    assert (driven.resolved, bank.asked) == ([], 1)


# --- a program's word -----------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("says", "kind", "by"),
    [
        (Check("done", "the bank says so"), "answered", [("program", "done")]),
        (Check("not_done", "the bank has nothing"), "answered", [("program", "again")]),
        (Check("unknown", "the bank is closed"), "waiting", []),
        (None, "waiting", []),
        (ConnectionError("no line"), "waiting", []),
    ],
)
async def test_a_program_may_decide_before_a_person_is_asked(drive: Any, says: Any, kind: str, by: Any) -> None:
    doubts: list[Doubt] = []

    async def resolve(doubt: Doubt) -> Check | None:
        doubts.append(doubt)
        if isinstance(says, Exception):
            raise says
        return says

    bank = Bank()
    lines = [PAY, "fine"] if kind == "answered" else [PAY]
    driven = await drive(*lines, tools=[bank.tool()], resolve=resolve)
    assert driven.outcome.kind == kind
    assert [(each.by, each.verdict) for each in driven.resolved] == by
    (doubt,) = doubts
    assert (doubt.run_id, doubt.call.name) == ("run", "pay")
    assert "the line went dead" in doubt.why


# --- stops and wrong use --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_stop_at_any_await_of_the_rungs_leaves_a_run_that_ends_well(backend: Backend) -> None:
    """Two looks, of which neither knows, and then the way back: stopped anywhere, resumed, paid once in the end."""
    points = 0
    banks: list[Bank] = []
    stores: list[MemoryStore] = []

    async def check(call: Call, arguments: Any) -> Check:
        await anyio.sleep(0.1)
        return Check("unknown")

    def agent() -> Agent:
        tools = [banks[-1].tool(check=check, undo=banks[-1].undo)]

        def answer(request: Any) -> Any:
            return "fine" if any(getattr(each, "call_id", "") for each in request.transcript) else PAY

        return Agent(model=scripted(*[answer] * 9), store=stores[-1], tools=tools)

    async def run() -> str:
        banks.append(Bank())
        stores.append(MemoryStore())
        return (await agent().run("go", run_id="run")).text

    async def resume() -> str:
        state = await read_state(stores[-1], "run")
        return state.answer or (await agent().resume("run")).text

    async def ending() -> str:
        transcript = (await read_state(stores[-1], "run")).transcript
        return next(each.ending for each in transcript if isinstance(each, ToolMessage))

    async def rows() -> int:
        return len(await stores[-1].runs())

    for stopped in every_await(run, backends=[backend], ways=["cancel"]):
        points += 1
        assert stopped.left_running == ()
        if not FakeClock(backend).run(rows):
            continue
        banks[-1].cuts = 0
        assert FakeClock(backend).run(resume) == "fine"
        ended = FakeClock(backend).run(ending)
        assert ended in ("ok", "not_run")
        assert list(banks[-1].paid.values()) == ["rent"] * (ended == "ok"), stopped
    assert points > 20


@pytest.mark.parametrize("options", [{"idempotency_key": -1}, {"settle_seconds": float("nan")}])
def test_seconds_below_nothing_are_refused(options: Any) -> None:
    with pytest.raises(ConfigError, match="use seconds, 0 or more"):
        Bank().tool(**options)


@pytest.mark.anyio
async def test_a_keys_verdict_is_not_kept_beyond_the_key(drive: Any) -> None:
    """The drive that decided so was killed, and the next one comes when the other side has forgotten the key."""
    bank = Bank(cuts=0)
    tools = [bank.tool(idempotency_key=3_600)]
    store = await killed_while_it_paid(await drive(PAY, "fine", tools=tools), 4_000)
    call = PAY.message.tool_calls[0]
    verdict = ToolResolved(call_id=call.id, name="pay", verdict="again", by="key")
    await store.append("run", 1, [encode_record(verdict)], Summary())
    driven = await drive(resume="run", store=store, tools=tools)
    assert driven.outcome.kind == "waiting"
    assert "may have forgotten its key" in driven.outcome.error.why
    assert driven.records[-1].unresolved == (f"pay ({call.id})",)
    assert bank.asked == 1, "only in the run whose journal was cut"


# --- the decision alone ---------------------------------------------------------------------------------------------

CHECKS = (None, Check("done"), Check("not_done"), Check("unknown"))


def every_known() -> Iterator[Known]:
    """All that can be known of a call, with every answer to every look."""
    effects: tuple[Effect | None, ...] = (None, "read", "idempotent", "write")
    bits = (False, True)
    for ending, marked, effect, unknown in product((None, "fatal", "unknown"), effects, effects, (0, MOST_UNKNOWN)):
        for key_lives, settles, has_undo, has_program, tells_model in product(bits, repeat=5):
            yield Known(
                ending=ending,
                marked=marked,
                effect=effect,
                key_lives=key_lives,
                settles=settles,
                has_undo=has_undo,
                has_program=has_program,
                unknown_results=unknown,
                tells_model=tells_model,
            )


def ends(known: Known) -> Iterator[tuple[Known, Decision | None]]:
    """Each way on from here, whatever the looks tell."""
    move = next_move(known)
    if not isinstance(move, str):
        yield known, move
        return
    assert move not in known.found, "nothing is looked at twice"
    for found in CHECKS:
        yield from ends(replace(known, found={**known.found, move: found}))


def test_no_rung_says_more_than_it_knows() -> None:
    seen = set[str]()
    for known, decision in (end for each in every_known() for end in ends(each)):
        by = "" if decision is None else decision.by
        seen.add(by)
        if decision is not None and decision.verdict == "again":
            assert not known.is_worn
            assert by in ("not begun", "read", "idempotent", "key", "check", "undo", "program")
        if by in ("read", "idempotent"):
            assert "write" not in (known.effect, known.marked)
        assert (by == "key") <= known.key_lives
        assert (by == "not begun") <= (known.ending == "fatal")
        assert (by == "undo") <= known.has_undo
        assert (decision is None or decision.verdict != "told") or known.tells_model
        assert (decision is None) <= (not known.tells_model), "only then a person is asked"
        if decision is not None and by in ("check", "program"):
            looks: tuple[Look, ...] = ("second check", "check") if by == "check" else ("program",)
            told = next(found for look in looks if (found := known.found.get(look)) is not None)
            assert told.verdict == {"done": "done", "again": "not_done"}[decision.verdict]
            assert by == "program" or decision.verdict == "done" or "second check" in known.found or not known.settles
    assert seen == {"", "not begun", "read", "idempotent", "key", "check", "undo", "program", "model"}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (lambda: Check("done", {"paid": 1}), '{"paid":1}'),  # type: ignore[arg-type]
        (lambda: Check("done", None), "done"),  # type: ignore[arg-type]
        (lambda: Check("Done"), "not 'Done'"),  # type: ignore[arg-type]
        (lambda: Check(True), "not True"),  # type: ignore[arg-type]
        (lambda: "done", "it returned str, and not a Check"),
        (lambda: Check("unknown", 5), "the line went dead (5)"),  # type: ignore[arg-type]
    ],
)
@pytest.mark.parametrize("by", ["check", "resolve"])
async def test_a_look_that_answers_oddly_neither_runs_the_call_again_nor_damages_the_journal(
    seen: Any, told: str, by: str, tmp_path: Any
) -> None:
    async def look(*_: Any) -> Any:
        return seen()

    bank, store = Bank(), open_store(tmp_path / "journal.db")
    tools = [bank.tool(**({"check": look} if by == "check" else {}))]
    agent = Agent(model=scripted(PAY, "Paid."), tools=tools, store=store, resolve=look if by == "resolve" else None)
    try:
        said = str((await agent.run("go", run_id="run")).report.messages[2].content)
    except OutcomeUnknown as error:
        said = str(error)
    assert told in said
    assert bank.asked == 1
    assert (await read_state(store, "run")).run_id == "run"


@pytest.mark.anyio
@pytest.mark.parametrize("said", [None, 5, object()])
async def test_an_undo_need_not_say_what_it_saw(said: Any, tmp_path: Any) -> None:
    async def undo(call: Call, arguments: Any) -> Any:
        return said

    bank, store = Bank(), open_store(tmp_path / "journal.db")
    await Agent(model=scripted(PAY, "Paid."), tools=[bank.tool(undo=undo)], store=store).run("go", run_id="run")
    assert bank.asked == 2
    resolved = [each for each in await read_records(store, "run") if isinstance(each, ToolResolved)]
    assert [type(each.evidence) for each in resolved] == [str]
