"""on_stop: called once with the cause, at once when it is late, detached when left, and its errors are not lost."""

from __future__ import annotations

import anyio
import pytest

from heaveto.causes import Cancelled, DeadlinePassed, Shutdown, Stop, StoppedFromOutside
from heaveto.scopes import Scope, deadline, on_stop, tasks
from heaveto.testing.stops import every_await

pytestmark = pytest.mark.anyio


async def test_it_is_called_with_the_cause_before_the_block_is_left() -> None:
    seen: list[object] = []
    with pytest.raises(Cancelled), Scope() as scope:
        async with on_stop(seen.append) as attached:
            try:
                scope.cancel(Cancelled("enough", "a person"))
                await anyio.sleep(1)
            finally:
                seen.append("the block ends")
    assert str(seen[0]) == "cancelled by a person: enough" or str(seen[1]) == "cancelled by a person: enough"
    assert len(seen) == 2
    assert attached.ran
    assert not attached.detach()


async def test_a_passed_deadline_calls_it_too() -> None:
    seen: list[Stop] = []
    with pytest.raises(DeadlinePassed), deadline(5):
        async with on_stop(seen.append):
            await anyio.sleep(10)
    assert seen == [seen[0]]
    assert isinstance(seen[0], DeadlinePassed)


async def test_it_unblocks_what_no_await_is_stopped_in() -> None:
    """The use of it: a shielded wait for something that only closing ends."""
    closed = anyio.Event()
    with pytest.raises(Shutdown), Scope() as scope:
        async with on_stop(lambda cause: closed.set()):
            scope.cancel(Shutdown("going"))
            with anyio.CancelScope(shield=True):
                await closed.wait()
            await anyio.sleep(0)


async def test_on_a_stopped_scope_it_is_called_at_once() -> None:
    seen: list[Stop] = []
    with pytest.raises(Cancelled), Scope() as scope:
        scope.cancel(Cancelled("before"))
        async with on_stop(seen.append):
            pass
    assert len(seen) == 1


async def test_on_a_stopped_scope_it_is_called_before_any_other_task_runs() -> None:
    seen: list[object] = []

    async def other() -> None:
        seen.append("another task")

    with pytest.raises(Cancelled), Scope() as scope:
        async with tasks() as group:
            group.start_soon(other)
            scope.cancel(Cancelled("before"))
            async with on_stop(seen.append):
                pass
    assert str(seen[0]) == "cancelled: before"


async def test_leaving_the_block_detaches_it() -> None:
    seen: list[Stop] = []
    with pytest.raises(Cancelled), Scope() as scope:
        async with on_stop(seen.append) as attached:
            await anyio.sleep(1)
        scope.cancel(Cancelled("after"))
        await anyio.sleep(1)
    assert seen == []
    assert not attached.ran


async def test_detaching_says_whether_it_prevented_the_call() -> None:
    seen: list[Stop] = []
    with pytest.raises(Cancelled), Scope() as scope:
        async with on_stop(seen.append) as attached:
            assert attached.detach()
            assert not attached.detach()
            scope.cancel(Cancelled("late"))
            await anyio.sleep(1)
    assert seen == []


async def test_an_error_in_it_is_raised() -> None:
    def broken(cause: Stop) -> None:
        raise OSError("close failed")

    with pytest.raises((OSError, ExceptionGroup)) as caught, Scope() as scope:
        async with on_stop(broken):
            scope.cancel(Cancelled("enough"))
            await anyio.sleep(1)
    assert "close failed" in str(caught.value) or caught.group_contains(OSError, match="close failed")


async def test_an_error_in_it_and_one_in_the_stopped_block_both_come_out() -> None:
    def break_too(cause: Stop) -> None:
        raise RuntimeError("in the callback")

    with pytest.raises(ExceptionGroup) as caught, Scope(1):
        async with on_stop(break_too):
            try:
                await anyio.sleep_forever()
            finally:
                raise ValueError("in the block")
    assert {type(each) for each in caught.value.exceptions} == {RuntimeError, ValueError}


async def test_both_come_out_also_when_the_block_is_left_before_any_await() -> None:
    def break_too(cause: Stop) -> None:
        raise RuntimeError("in the callback")

    with pytest.raises(ExceptionGroup, match=r"^a stopped block and its callback failed") as caught, Scope() as scope:
        async with on_stop(break_too):
            scope.cancel(Cancelled("stop"))
            raise ValueError("in the block")
    assert [type(each) for each in caught.value.exceptions] == [RuntimeError, ValueError]
    assert str(caught.value) == "a stopped block and its callback failed (2 sub-exceptions)"
    assert caught.value.__cause__ is caught.value.exceptions[0]


async def test_it_is_called_although_the_stopped_block_is_left_by_an_error() -> None:
    heard: list[Stop] = []
    with pytest.raises(ValueError, match="in the block"), Scope(1):
        async with on_stop(heard.append):
            try:
                await anyio.sleep_forever()
            finally:
                raise ValueError("in the block")
    assert [type(cause) for cause in heard] == [DeadlinePassed]


async def test_an_error_in_a_block_that_is_not_stopped_does_not_call_it() -> None:
    heard: list[Stop] = []
    with pytest.raises(ValueError, match="in the block"):
        async with on_stop(heard.append):
            raise ValueError("in the block")
    assert heard == []


async def test_what_would_have_to_be_awaited_is_refused() -> None:
    async def close(cause: Stop) -> None: ...

    with pytest.raises(TypeError, match=r"^close is async; a callback on a stop is not awaited, so it must not be$"):
        async with on_stop(close):
            pytest.fail("it began")


async def test_what_turns_out_to_be_async_is_told_and_nothing_is_left_unawaited() -> None:
    async def close(cause: Stop) -> None: ...

    class Closes:
        async def __call__(self, cause: Stop) -> None: ...

        def __repr__(self) -> str:
            return "Closes()"

    for callback, name in [(lambda cause: close(cause), "<lambda>"), (Closes(), r"Closes\(\)")]:
        with pytest.raises(TypeError, match=rf"^{name} is async; a callback on a stop is not"), Scope() as scope:
            async with on_stop(callback):
                scope.cancel(Cancelled("enough"))
                await anyio.sleep(1)


async def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^a callback on a stop is called with its cause; None cannot be called$"):
        async with on_stop(None):  # type: ignore[arg-type]
            pytest.fail("it began")


async def test_a_cancellation_without_a_cause_is_called_one_from_outside() -> None:
    """Whether the block's own task comes to it first or the one that watches, which is a matter of chance."""
    seen: list[Stop] = []
    for _ in range(30):
        with anyio.CancelScope() as raw:
            async with on_stop(seen.append):
                raw.cancel()
                await anyio.sleep(1)
    assert [type(cause) for cause in seen] == [StoppedFromOutside] * 30


def test_a_stop_at_every_await_calls_it_once_or_never_began() -> None:
    calls: list[int] = []

    async def work() -> None:
        calls.clear()
        async with on_stop(lambda cause: calls.append(1)):
            await anyio.sleep(1)
            await anyio.sleep(1)
            calls.append(2)

    for run in every_await(work):
        assert run.left_running == ()
        assert calls.count(1) <= 1
        if run.error is not None and run.at > 2 and 2 not in calls:  # it was inside the block
            assert calls.count(1) == 1, run
