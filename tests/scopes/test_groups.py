"""Task groups: which scope a task is under, and why it was stopped."""

from __future__ import annotations

import gc
import traceback
import weakref
from functools import partial

import anyio
import anyio.abc
import anyio.lowlevel
import pytest

from heaveto.causes import Cancelled, SiblingFailed, Stop
from heaveto.scopes import Scope, current_cause, tasks
from heaveto.scopes.groups import unwrapped
from heaveto.testing.clocks import FakeClock

pytestmark = pytest.mark.anyio


class Seen(list[Stop | None]):
    """What tasks could read when they were stopped, or in the end."""

    async def when_stopped(self) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            self.append(current_cause())

    async def after(self, seconds: float) -> None:
        await anyio.sleep(seconds)
        self.append(current_cause())


async def fail_after(seconds: float, error: Exception) -> None:
    await anyio.sleep(seconds)
    raise error


async def test_the_block_ends_when_all_its_tasks_have(fake_clock: FakeClock) -> None:
    async with tasks() as group:
        group.start_soon(anyio.sleep, 3)
        group.start_soon(anyio.sleep, 5)
    assert fake_clock.now == 5


async def test_tasks_read_the_cause_of_the_scope_around_their_group() -> None:
    seen = Seen()
    with pytest.raises(Cancelled, match="stop"), Scope() as scope:
        async with tasks() as group:
            group.start_soon(seen.when_stopped)
            group.start_soon(seen.when_stopped)
            await anyio.sleep(1)
            scope.cancel(Cancelled("stop"))
    assert [str(cause) for cause in seen] == ["cancelled: stop"] * 2


async def test_a_task_started_inside_a_narrower_scope_is_not_under_it() -> None:
    """A plain context variable would say that it is, and tell a cause for a stop that never reached the task."""
    seen = Seen()
    async with tasks() as group:
        with pytest.raises(Cancelled), Scope() as narrow:
            group.start_soon(seen.after, 2)
            narrow.cancel(Cancelled("narrow"))
            await anyio.lowlevel.checkpoint()
    assert seen == [None]


async def test_a_task_has_the_name_that_it_is_given_or_its_functions() -> None:
    names = []

    async def work(*, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        names.append(anyio.get_current_task().name)
        task_status.started()

    own = work.__qualname__
    async with tasks() as group:
        await group.start(work)
        await group.start(work, name="mine")
        await group.start(partial(work))
        group.start_soon(work, name="mine")
        await anyio.sleep(1)
        group.start_soon(work)
        await anyio.sleep(1)
        group.start_soon(partial(work))
    unnamed = names.pop(), names.pop(2)
    assert names == [own, "mine", "mine", own]
    assert all(own not in name for name in unnamed)


async def test_neither_is_one_that_is_waited_for_until_it_has_started() -> None:
    seen = Seen()

    async def serve(port: int, *, task_status: anyio.abc.TaskStatus[int]) -> None:
        task_status.started(port)
        await seen.after(2)

    async with tasks() as group:
        with pytest.raises(Cancelled), Scope() as narrow:
            assert await group.start(serve, 80) == 80
            narrow.cancel(Cancelled("narrow"))
            await anyio.lowlevel.checkpoint()
    assert seen == [None]


async def test_a_stop_while_the_last_task_ends_comes_out_of_the_block() -> None:
    async def last(scope: Scope) -> None:
        await anyio.sleep(1)
        scope.cancel(Cancelled("stop"))

    after = []
    with pytest.raises(Cancelled, match="stop"), Scope() as scope:
        async with tasks() as group:
            group.start_soon(last, scope)
        after.append("the block")
    assert after == []


async def test_a_stop_after_the_last_task_comes_out_of_the_block_too() -> None:
    with pytest.raises(Cancelled, match="stop"), Scope() as scope:
        async with tasks():
            scope.cancel(Cancelled("stop"))


async def test_the_groups_own_stop_stays_inside() -> None:
    async with tasks() as group:
        group.scope.cancel(Cancelled("enough"))


async def test_a_failed_task_stops_the_others_and_is_their_cause(fake_clock: FakeClock) -> None:
    seen = Seen()
    with pytest.raises(ValueError, match="boom") as caught:
        async with tasks() as group:
            group.start_soon(seen.when_stopped)
            group.start_soon(fail_after, 1, ValueError("boom"))
    assert not hasattr(caught.value, "__notes__")
    assert (fake_clock.now, [type(cause) for cause in seen]) == (1, [SiblingFailed])
    assert str(seen[0]) == "a task beside it failed: boom"


async def test_a_failed_block_is_the_cause_of_its_tasks_too() -> None:
    seen = Seen()
    with pytest.raises(ValueError, match="boom"):
        async with tasks() as group:
            group.start_soon(seen.when_stopped)
            await fail_after(1, ValueError("boom"))
    assert [str(cause) for cause in seen] == ["a task beside it failed: boom"]


async def test_an_error_without_a_text_is_named() -> None:
    seen = Seen()
    with pytest.raises(KeyError):
        async with tasks() as group:
            group.start_soon(seen.when_stopped)
            group.start_soon(fail_after, 1, KeyError())
    assert [str(cause) for cause in seen] == ["a task beside it failed: KeyError"]


async def test_a_stop_that_came_before_the_failure_stays_the_cause() -> None:
    seen = Seen()

    async def fail_in_clean_up() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full") as caught, Scope() as scope:
        async with tasks() as group:
            group.start_soon(seen.when_stopped)
            group.start_soon(fail_in_clean_up)
            await anyio.sleep(1)
            scope.cancel(Cancelled("stop"))
    assert [str(cause) for cause in seen] == ["cancelled: stop"]
    assert caught.value.__notes__ == ["while stopping: cancelled: stop"]


async def test_one_error_comes_out_as_itself_and_keeps_its_own_context() -> None:
    async def fail() -> None:
        try:
            raise KeyError("inner")
        except KeyError:
            raise ValueError("outer")  # noqa: B904 - the context is the point

    with pytest.raises(ValueError, match="outer") as caught:
        async with tasks() as group:
            async with tasks() as inner:
                inner.start_soon(fail)
            group.start_soon(anyio.sleep, 1)
    assert isinstance(caught.value.__context__, KeyError)


async def test_a_group_of_nothing_but_cancellations_stays_as_it_is() -> None:
    cancelled: list[BaseException] = []
    with Scope(quiet=True) as scope:
        scope.cancel(Cancelled("stop"))
        for _ in range(2):
            try:
                await anyio.lowlevel.checkpoint()
            except anyio.get_cancelled_exc_class() as error:
                cancelled.append(error)
    group = BaseExceptionGroup("both", cancelled)
    with pytest.raises(BaseExceptionGroup) as caught, unwrapped():
        raise group
    assert caught.value is group


def raise_within_unwrapped(group: Exception) -> BaseException:
    with pytest.raises(Exception) as caught, unwrapped():
        raise group
    return caught.value


async def test_unwrapping_keeps_a_groups_notes_once_and_a_group_of_several() -> None:
    one, two = ValueError("a"), KeyError("b")
    groups = [ExceptionGroup("one", [ExceptionGroup("inner", [one])]), ExceptionGroup("two", [one, two])]
    for group in groups:
        group.add_note("of the group")
    assert raise_within_unwrapped(groups[0]) is one
    assert raise_within_unwrapped(groups[1]) is groups[1]
    assert one.__notes__ == groups[1].__notes__ == ["of the group"]
    assert one.__context__ is None
    assert "__exit__" not in [frame.name for frame in traceback.extract_tb(groups[1].__traceback__)]


class Boom(Exception):
    """Can be looked at without being kept."""


async def test_an_unwrapped_error_is_freed_when_it_is_dropped_without_waiting_for_the_collector() -> None:
    def drop() -> weakref.ref[Boom]:
        try:
            with unwrapped():
                raise ExceptionGroup("one", [Boom()])
        except Boom as error:
            return weakref.ref(error)
        raise AssertionError

    gc.disable()
    try:
        assert drop()() is None
    finally:
        gc.enable()


async def test_several_errors_come_out_as_a_group() -> None:
    async def fail_in_clean_up(error: Exception) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise error

    with pytest.raises(ExceptionGroup) as caught:
        async with tasks() as group:
            group.start_soon(fail_in_clean_up, ValueError("a"))
            group.start_soon(fail_in_clean_up, KeyError("b"))
            await fail_after(1, OSError("c"))
    assert {type(error) for error in caught.value.exceptions} == {ValueError, KeyError, OSError}


async def test_errors_in_clean_up_beside_cancellations_come_out_without_those_and_with_the_cause_once() -> None:
    async def fail_in_clean_up(error: Exception) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise error

    with pytest.raises(ExceptionGroup) as caught, Scope() as scope:
        async with tasks() as group:
            group.start_soon(anyio.sleep_forever)
            group.start_soon(fail_in_clean_up, ValueError("a"))
            group.start_soon(fail_in_clean_up, KeyError("b"))
            await anyio.sleep(1)
            scope.cancel(Cancelled("stop"))
    assert {type(error) for error in caught.value.exceptions} == {ValueError, KeyError}
    assert caught.value.__notes__ == ["while stopping: cancelled: stop"]


async def test_a_group_is_stopped_quietly_by_its_own_scope(fake_clock: FakeClock) -> None:
    seen = Seen()
    async with tasks() as group:
        group.start_soon(seen.when_stopped)
        await anyio.sleep(2)
        group.scope.cancel(Cancelled("enough"))
    assert (fake_clock.now, [str(cause) for cause in seen]) == (2, ["cancelled: enough"])


async def test_a_failure_without_words_comes_out_as_itself() -> None:
    seen: list[str] = []

    class Untellable(Exception):
        def __str__(self) -> str:
            raise ValueError("no words for it")

    async def fail() -> None:
        raise Untellable

    async def wait() -> None:
        try:
            await anyio.sleep(10)
        finally:
            seen.append(str(current_cause()))

    with pytest.raises(Untellable):
        async with tasks() as group:
            group.start_soon(wait)
            await anyio.sleep(1)
            group.start_soon(fail)
    assert seen == ["a task beside it failed: (its text cannot be read: ValueError)"]
