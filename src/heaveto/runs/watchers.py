"""Handing a run's events to whoever watches. A slow watcher loses pieces of text, never a durable event."""

from __future__ import annotations

from collections import deque

import anyio

from ..loop.events import Event

__all__ = ["Events", "Watchers"]

MAX_WAITING = 10_000  # events that one watcher may be behind before it loses those that are not kept


class Watchers:
    """All who watch one run. `publish` never waits."""

    def __init__(self) -> None:
        self._durable: list[Event] = []
        self._open: list[Events] = []
        self._closed = False

    def publish(self, event: Event) -> None:
        if event.durable:
            self._durable.append(event)
        for events in self._open:
            events._take(event)

    def watch(self) -> Events:
        """A watcher's own iterator; it begins with the durable events that there have been since this drive began."""
        events = Events(self, self._durable, closed=self._closed)
        self._open.append(events)
        return events

    def close(self) -> None:
        """There will be no more."""
        self._closed = True
        for events in self._open:
            events._close()
        self._open.clear()


class Events:
    """The events of a run, as `async for`. It ends after `run.finished`. Leaving it early leaves the run going."""

    def __init__(self, watchers: Watchers, past: list[Event], *, closed: bool) -> None:
        self._watchers, self._waiting, self._closed = watchers, deque(past), closed
        self._something = anyio.Event()

    def __aiter__(self) -> Events:
        return self

    async def __anext__(self) -> Event:
        while not self._waiting:
            if self._closed:
                raise StopAsyncIteration
            self._something = anyio.Event()
            await self._something.wait()
        return self._waiting.popleft()

    def _take(self, event: Event) -> None:
        if event.durable or len(self._waiting) < MAX_WAITING:
            self._waiting.append(event)
            self._something.set()

    def _close(self) -> None:
        self._closed = True
        self._something.set()
