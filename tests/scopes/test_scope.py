"""Scopes: what stops what, when, and which cause is told."""

from __future__ import annotations

import math
import re
import traceback
from contextlib import ExitStack
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heaveto.causes import CallTimeout, Cancelled, DeadlinePassed, Shutdown, Stop, StreamIdle
from heaveto.errors import NotEnoughTime
from heaveto.scopes import (
    Scope,
    call_in_thread,
    check_stop,
    current_cause,
    deadline,
    loop_waker,
    need,
    pending_cause,
    tasks,
    time_left,
)
from heaveto.testing.clocks import Backend, FakeClock

pytestmark = pytest.mark.anyio

ANOTHER_THREAD = r"^a scope is stopped in its loop's thread: hand the call to the loop, see loop_waker\(\)$"


async def read_cause_when_stopped() -> Stop | None:
    """Waits until it is stopped; what it could read then is in `seen`."""
    try:
        await anyio.sleep_forever()
    finally:
        seen.append(current_cause())


seen: list[Stop | None] = []


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    seen.clear()


# --- deadlines ------------------------------------------------------------------------------------------------------


async def test_a_deadline_raises_its_cause_at_exactly_its_time(fake_clock: FakeClock) -> None:
    with pytest.raises(CallTimeout) as caught, deadline(120, CallTimeout(120)):
        await anyio.sleep(1e6)
    assert fake_clock.now == 120
    assert caught.value.seconds == 120


async def test_a_deadline_is_caught_by_kind_by_family_and_as_a_timeout() -> None:
    for kind in (StreamIdle, DeadlinePassed, Stop, TimeoutError):
        with pytest.raises(kind), deadline(1, StreamIdle(1)):
            await anyio.sleep_forever()


async def test_a_deadline_without_a_cause_says_how_long_it_was() -> None:
    with pytest.raises(DeadlinePassed, match=r"^a deadline of 3 s passed$"), deadline(3):
        await anyio.sleep_forever()


async def test_the_traceback_of_the_cancellation_under_the_cause_says_where_the_work_was() -> None:
    with pytest.raises(CallTimeout) as caught, deadline(5, CallTimeout(5)):
        await read_cause_when_stopped()
    below = caught.value.__context__
    assert isinstance(below, anyio.get_cancelled_exc_class())
    assert not hasattr(below, "__notes__")
    assert "read_cause_when_stopped" in [frame.name for frame in traceback.extract_tb(below.__traceback__)]


async def test_the_nearest_deadline_applies_whichever_is_inside(fake_clock: FakeClock) -> None:
    with pytest.raises(StreamIdle), deadline(90, CallTimeout(90)), deadline(60, StreamIdle(60)):
        await anyio.sleep_forever()
    assert fake_clock.now == 60
    with pytest.raises(StreamIdle), deadline(60, StreamIdle(60)), deadline(90, CallTimeout(90)):
        await anyio.sleep_forever()
    assert fake_clock.now == 120


async def test_a_scope_left_in_time_has_no_cause_later() -> None:
    with deadline(5) as scope:
        await anyio.sleep(1)
    await anyio.sleep(100)
    scope.cancel(Cancelled("too late"))
    assert not scope.note(Cancelled("too late"))
    assert (scope.cause, scope.own_cause, scope.native.cancel_called) == (None, None, False)


@pytest.mark.parametrize("seconds", [0, -1])
async def test_no_time_stops_at_the_first_await(seconds: float, fake_clock: FakeClock) -> None:
    with pytest.raises(DeadlinePassed), deadline(seconds):
        await anyio.lowlevel.checkpoint()
        pytest.fail("the await went through")
    assert fake_clock.now == 0


def test_a_limit_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^a scope's seconds must be a number, not NaN$"):
        deadline(math.nan)
    with pytest.raises(TypeError, match=r"^a scope's seconds must be a number, such as 5 or 0\.5, not '5'$") as caught:
        deadline("5")  # type: ignore[arg-type]
    assert isinstance(caught.value.__cause__, TypeError)
    with pytest.raises(
        ValueError, match=r"^a scope's seconds must be below 1e308; math\.inf is no limit at all$"
    ) as too_large:
        deadline(10**400)
    assert isinstance(too_large.value.__cause__, OverflowError)


async def test_a_limit_that_is_moved_behind_the_block_sets_no_timer() -> None:
    with Scope() as scope:
        pass
    scope.limit(anyio.current_time() + 1, DeadlinePassed(1))
    assert scope._moving is None


def test_a_scope_needs_a_loop() -> None:
    with pytest.raises(anyio.NoEventLoopError, match="needs a running asyncio or Trio loop"), Scope():
        pass


async def test_an_idle_limit_counts_only_while_waiting_for_the_other_side(fake_clock: FakeClock) -> None:
    send, receive = anyio.create_memory_object_stream[int](5)
    got = []

    async def feed() -> None:
        for item in range(3):
            await anyio.sleep(50)
            await send.send(item)
        await anyio.sleep_forever()

    with send, receive:
        with pytest.raises(StreamIdle):
            async with tasks() as group:
                group.start_soon(feed)
                while True:
                    with deadline(60, StreamIdle(60)):
                        got.append(await receive.receive())
                    fake_clock.jump(70)  # a slow consumer
        assert got == [0, 1, 2]


# --- who wins -------------------------------------------------------------------------------------------------------


async def test_the_first_cancel_wins() -> None:
    with pytest.raises(Cancelled, match=r"^cancelled: one$"), Scope() as scope:
        scope.cancel(Cancelled("one"))
        scope.cancel(Shutdown("two"))
        await anyio.lowlevel.checkpoint()


async def test_a_wider_stop_that_came_first_is_the_cause_inside_too() -> None:
    with pytest.raises(Shutdown), Scope() as wide, Scope() as narrow:
        wide.cancel(Shutdown("wide"))
        narrow.cancel(Cancelled("narrow"))
        assert isinstance(narrow.cause, Shutdown)
        assert isinstance(narrow.own_cause, Cancelled)
        await anyio.lowlevel.checkpoint()


async def test_a_wider_stop_that_comes_later_does_not_replace_the_narrower_one() -> None:
    """And each level raises its own first cause."""
    with pytest.raises(Shutdown), Scope() as wide:
        with Scope() as narrow:
            narrow.cancel(Cancelled("narrow"))
            wide.cancel(Shutdown("wide"))
            await read_cause_when_stopped()
        await anyio.lowlevel.checkpoint()
    assert seen == [narrow.own_cause]
    assert isinstance(seen[0], Cancelled)


async def test_a_passed_deadline_comes_before_a_later_cancel_although_the_loop_could_not_run(fake_clock: FakeClock) -> None:
    with pytest.raises(CallTimeout), deadline(1, CallTimeout(1)) as scope:
        fake_clock.jump(3)
        assert isinstance(current_cause(), CallTimeout)
        scope.cancel(Cancelled("late"))
        assert isinstance(current_cause(), CallTimeout)
        await anyio.lowlevel.checkpoint()


async def test_cancelling_a_deadline_is_not_a_timeout() -> None:
    """The native way mixes the two up: `fail_after` may raise TimeoutError for an explicit cancel."""
    with pytest.raises(Cancelled) as caught, deadline(5) as scope:
        scope.cancel(Cancelled("by hand"))
        await anyio.sleep(10)
    assert not isinstance(caught.value, TimeoutError)
    assert "cancelled: by hand" in str(caught.value.__context__)


async def test_on_a_tie_the_nearest_wins() -> None:
    with pytest.raises(CallTimeout), deadline(5, CallTimeout(5)), deadline(5, StreamIdle(5)):
        await read_cause_when_stopped()
    assert isinstance(seen[0], StreamIdle)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_the_earliest_visible_stop_wins_whatever_the_order(backend: Backend, data: st.DataObject) -> None:
    """Scopes in scopes, some shielded, with deadlines; stops at random times, read after each: as a plain list says."""
    depth = data.draw(st.integers(1, 4), "depth")
    limits = data.draw(st.lists(st.sampled_from([1.0, 2.0, 3.0, math.inf]), min_size=depth, max_size=depth), "limits")
    shields = data.draw(st.lists(st.booleans(), min_size=depth, max_size=depth), "shields")
    stops = data.draw(st.lists(st.tuples(st.integers(0, depth - 1), st.sampled_from([0.0, 0.5, 1.0])), max_size=6), "stops")
    clock = FakeClock(backend)

    async def run() -> None:
        latched: dict[int, tuple[float, int, int, str]] = {}  # scope: when, order, distance from the inside, name

        def expected() -> str | None:
            for n, limit in enumerate(limits):
                if n not in latched and clock.now >= limit:
                    latched[n] = (limit, -1, depth - n, f"limit {n}")
            first_visible = max((n for n in range(depth) if shields[n]), default=0)
            visible = [stop for n, stop in latched.items() if n >= first_visible]
            return min(visible)[3] if visible else None

        with ExitStack() as stack:
            scopes = [
                stack.enter_context(Scope(limit, Cancelled(f"limit {n}"), shield=shield, quiet=True))
                for n, (limit, shield) in enumerate(zip(limits, shields, strict=True))
            ]
            for order, (n, later) in enumerate(stops):
                clock.jump(later)
                expected()
                latched.setdefault(n, (clock.now, order, depth - n, f"cancel {order}"))
                scopes[n].cancel(Cancelled(f"cancel {order}"))
                cause = current_cause()
                assert (cause.reason if isinstance(cause, Cancelled) else None) == expected()

    clock.run(run)


# --- what a stop does -----------------------------------------------------------------------------------------------


async def test_a_stop_stays_within_its_scope() -> None:
    with Scope() as wide:
        with pytest.raises(Cancelled), Scope() as narrow:
            narrow.cancel(Cancelled("narrow"))
            await anyio.lowlevel.checkpoint()
        assert (wide.cause, current_cause()) == (None, None)
        await anyio.lowlevel.checkpoint()


async def test_a_stop_is_delivered_at_every_await() -> None:
    cut = 0
    with pytest.raises(Cancelled), Scope() as scope:
        scope.cancel(Cancelled("stop"))
        for _ in range(3):
            try:
                await anyio.sleep(1)
            except anyio.get_cancelled_exc_class():
                cut += 1
        await anyio.sleep(1)
    assert cut == 3


async def test_finished_work_is_not_undone_by_a_late_stop() -> None:
    with Scope() as scope:
        scope.cancel(Cancelled("too late"))
    assert scope.native.cancel_called


async def test_a_quiet_scope_just_ends(fake_clock: FakeClock) -> None:
    with Scope(5, quiet=True) as scope:
        await anyio.sleep_forever()
    assert fake_clock.now == 5
    assert isinstance(scope.own_cause, DeadlinePassed)


async def test_a_shielded_scope_sees_nothing_of_wider_stops() -> None:
    with pytest.raises(Cancelled), Scope() as wide:
        with Scope(shield=True):
            wide.cancel(Cancelled("stop"))
            await anyio.sleep(5)
            assert (current_cause(), pending_cause()) == (None, None)
        await anyio.lowlevel.checkpoint()


async def test_an_error_in_the_clean_up_keeps_the_cause_as_a_note() -> None:
    with pytest.raises(RuntimeError, match="disk full") as caught, Scope() as scope:
        scope.cancel(Cancelled("stop"))
        try:
            await anyio.sleep(1)
        finally:
            raise RuntimeError("disk full")
    assert caught.value.__notes__ == ["while stopping: cancelled: stop"]


async def test_also_when_the_loop_had_not_noticed_that_the_deadline_passed(fake_clock: FakeClock) -> None:
    """Trio's native scope looks at the clock when it is asked, asyncio's does not: the note must not hang on that."""
    with pytest.raises(RuntimeError, match="disk full") as caught, deadline(2):
        fake_clock.jump(3)
        raise RuntimeError("disk full")
    assert caught.value.__notes__ == ["while stopping: a deadline of 2 s passed"]


async def test_an_error_before_any_await_has_no_such_note() -> None:
    with pytest.raises(RuntimeError) as caught, Scope():
        raise RuntimeError("disk full")
    assert not hasattr(caught.value, "__notes__")


async def test_a_stop_on_its_way_out_has_no_such_note() -> None:
    with pytest.raises(Shutdown) as caught, Scope() as scope:
        scope.cancel(Shutdown("SIGTERM"))
        check_stop()
    assert not hasattr(caught.value, "__notes__")


async def test_a_native_scope_cancelled_by_somebody_else_ends_the_block_and_there_is_no_cause_to_tell() -> None:
    with Scope() as scope:
        scope.native.cancel()
        await anyio.sleep(1)
        pytest.fail("the await went through")
    assert scope.own_cause is None
    with pytest.raises(RuntimeError) as caught, Scope() as scope:
        scope.native.cancel()
        raise RuntimeError("disk full")
    assert not hasattr(caught.value, "__notes__")


async def test_one_cause_for_many_runs_is_copied_with_its_notes() -> None:
    cause = Shutdown("SIGTERM")
    cause.add_note("the machine is going")
    raised: list[Shutdown] = []

    async def run(scope: Scope) -> None:
        try:
            with scope:
                await anyio.sleep_forever()
        except Shutdown as error:
            error.add_note("in one run")
            raised.append(error)

    scopes = [Scope() for _ in range(3)]
    async with tasks() as group:
        for scope in scopes:
            group.start_soon(run, scope)
        await anyio.sleep(1)
        for scope in scopes:
            scope.cancel(cause)
    assert len({id(error) for error in raised}) == 3
    assert [error.__notes__ for error in raised] == [["the machine is going", "in one run"]] * 3
    assert (cause.__traceback__, cause.__context__, cause.__notes__) == (None, None, ["the machine is going"])


async def test_a_scope_is_stopped_from_a_thread_through_the_loop() -> None:
    with pytest.raises(Cancelled), Scope() as scope:
        wake = loop_waker()
        await anyio.to_thread.run_sync(wake, lambda: scope.cancel(Cancelled("from a thread")))
        await anyio.sleep_forever()


async def test_from_another_thread_it_is_refused_and_nothing_is_changed() -> None:
    with Scope() as scope:
        with pytest.raises(RuntimeError, match=ANOTHER_THREAD):
            await anyio.to_thread.run_sync(scope.cancel, Cancelled("from a thread"))
        assert scope.own_cause is None
        await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("cause", ["a text", Cancelled, ValueError("no stop")], ids=str)
async def test_a_cause_is_a_stop_and_anything_else_is_refused_at_once(cause: Any) -> None:
    with Scope() as scope:
        with pytest.raises(TypeError, match=r"^a cause is a Stop, such as Cancelled\('why'\), not "):
            scope.cancel(cause)
        await anyio.lowlevel.checkpoint()
    with pytest.raises(TypeError, match="a cause is a Stop"):
        Scope().cancel(cause)
    with pytest.raises(TypeError, match="a cause is a Stop"):
        deadline(5, cause)


# --- asking ---------------------------------------------------------------------------------------------------------


async def test_outside_of_every_scope_there_is_no_cause_and_no_limit() -> None:
    check_stop()
    assert (current_cause(), time_left()) == (None, math.inf)


async def test_check_stop_raises_a_copy_of_the_cause() -> None:
    cause = Cancelled("stop")
    with Scope() as scope:
        check_stop()
        scope.cancel(cause)
        with pytest.raises(Cancelled) as caught:
            check_stop()
    assert caught.value is not cause


async def test_the_time_left_is_the_nearest_deadlines_up_to_a_shield(fake_clock: FakeClock) -> None:
    with deadline(100), deadline(200):
        await anyio.sleep(40)
        assert time_left() == 60
        with Scope(30, shield=True):
            assert time_left() == 30
    with deadline(0.25):
        assert time_left() == 0.25
    with Scope() as scope:
        scope.cancel(Cancelled("stop"))
        assert time_left() == 0


async def test_work_that_cannot_finish_is_refused_with_both_numbers() -> None:
    with deadline(10):
        need(10)
        with pytest.raises(NotEnoughTime, match=r"^not enough time: the build needs 12 s, 10 s left$") as caught:
            need(12, "the build")
    assert (caught.value.needed, caught.value.left) == (12, 10)
    with pytest.raises(NotEnoughTime) as unnamed, deadline(10):
        need(12)
    assert unnamed.value.args == NotEnoughTime(12, 10, "").args
    with pytest.raises(ValueError, match=r"^the seconds needed must be a number, not NaN$"):
        need(math.nan)


async def test_a_stop_before_the_block_begins_waits_for_it() -> None:
    scope = Scope()
    scope.cancel(Cancelled("first"))
    scope.cancel(Cancelled("second"))
    with pytest.raises(Cancelled, match="first"), scope:
        assert str(current_cause()) == "cancelled: first"
        await anyio.sleep(1)


async def test_what_a_run_reports_on_its_cancellation_is_on_what_the_scope_raises() -> None:
    """And not on the cause itself, which may stop many runs."""
    cause = Cancelled("enough")
    with pytest.raises(Cancelled) as caught, Scope() as scope:
        scope.cancel(cause)
        try:
            await anyio.sleep(1)
        except BaseException as error:
            error.report = "as far as it came"  # type: ignore[attr-defined]
            raise
    assert caught.value.report == "as far as it came"
    assert cause.report is None


class Own(Stop):
    """Somebody's own cause, whose arguments are not its fields."""

    code = "own"

    def __init__(self, *, user: str) -> None:
        super().__init__(f"{user} has had enough")
        self.user = user


async def test_a_cause_of_ones_own_may_take_any_arguments() -> None:
    for cause in (Own(user="ada"), CallTimeout(5, "patience")):
        with pytest.raises(type(cause)) as caught, Scope() as scope:
            scope.cancel(cause)
            await anyio.sleep(1)
        assert (str(caught.value), caught.value.args) == (str(cause), cause.args)
        assert vars(caught.value) == {**vars(cause), "report": None}
        assert caught.value is not cause


async def test_what_led_to_a_cause_stays_with_it_and_so_does_where_the_work_was() -> None:
    cause = Cancelled("enough")
    cause.__cause__ = ValueError("bad data")
    with pytest.raises(Cancelled) as caught, Scope() as scope:
        scope.cancel(cause)
        await anyio.sleep(1)
    assert caught.value.__cause__ is cause.__cause__
    assert isinstance(caught.value.__context__, anyio.get_cancelled_exc_class())
    assert not caught.value.__suppress_context__


class Untellable:
    def __repr__(self) -> str:
        raise ValueError("no words for it")


async def test_a_cause_that_cannot_be_told_stops_all_the_same() -> None:
    with pytest.raises(OSError, match="clean-up") as failed, Scope(quiet=True) as scope:
        scope.cancel(Cancelled(Untellable()))  # type: ignore[arg-type]
        try:
            await anyio.sleep(1)
        finally:
            raise OSError("clean-up")
    assert failed.value.__notes__ == ["while stopping: (its text cannot be read: ValueError)"]


async def test_a_limit_is_moved_in_its_block_and_thread_to_a_time_with_a_cause(fake_clock: FakeClock) -> None:
    scope = Scope()
    with pytest.raises(RuntimeError, match=r"^a scope's limit is moved inside its block: enter it first$"):
        scope.limit(5, Cancelled())
    with scope:
        for refused, until, late in [
            (ValueError("the time of a limit must be a number, not NaN"), math.nan, Cancelled()),
            (TypeError("a cause is a Stop, such as Cancelled('why'), not 'late'"), 1.0, "late"),
        ]:
            with pytest.raises(type(refused), match=re.escape(str(refused))):
                scope.limit(until, late)  # type: ignore[arg-type]
        with pytest.raises(RuntimeError, match=ANOTHER_THREAD):
            await call_in_thread(scope.limit, 1.0, Cancelled())
        await anyio.sleep(10)
    scope.limit(fake_clock.now + 1, Cancelled())
    await anyio.sleep(10)
    assert scope.own_cause is None


async def test_a_scope_is_entered_once() -> None:
    with Scope() as scope:
        pass
    with pytest.raises(RuntimeError, match=r"^a scope is entered once: make another for another block$"), scope:
        pass


async def test_a_scope_that_ends_in_another_task_is_refused_and_still_ends_in_its_own() -> None:
    scope = Scope()
    scope.__enter__()

    async def elsewhere() -> None:
        with pytest.raises(RuntimeError, match=r"^a scope ends in the task in which it began$") as caught:
            scope.__exit__(None, None, None)
        assert isinstance(caught.value.__cause__, ValueError)

    with anyio.CancelScope():
        async with anyio.create_task_group() as group:
            group.start_soon(elsewhere)
    scope.__exit__(None, None, None)
    assert scope.own_cause is None
