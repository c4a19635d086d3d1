"""The time limits of one model call, and the one task that watches them.

The rules of this file:
- A limit runs only while we wait for the other side: what the consumer does with a delta counts against nobody.
- A read only notes the time. The watching task sleeps until the nearest limit as it was when it fell asleep and looks
  again then, since that limit has mostly moved on; only a limit that moved nearer wakes it.
- Keep-alives count as bytes and not as content, so they cannot keep an empty stream alive for ever.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from typing import NamedTuple

import anyio

from ..causes import CallTimeout, ConnectTimeout, Stop, StreamIdle
from ..errors import ConfigError
from ..scopes import Scope, tasks
from ..scopes.clock import loop_clock

__all__ = ["CallLimits", "Watchdog", "watched"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    """How long a model call may take, in seconds. None is off.

    Attributes:
        connect_seconds: Until there is a connection: name, TCP, TLS and proxy together.
        first_byte_seconds: From there until a stream's answer begins; some APIs answer only with the first token.
        idle_seconds: Between two reads of a stream.
        content_idle_seconds: Between two pieces of content of a stream; comments and empty chunks are none.
        call_seconds: A whole call that is not streamed.
        stream_seconds: A whole call that is streamed: off, since one that keeps bringing content is well.
    """

    connect_seconds: float | None = 10
    first_byte_seconds: float | None = 120
    idle_seconds: float | None = 60
    content_idle_seconds: float | None = 120
    call_seconds: float | None = 120
    stream_seconds: float | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            seconds = getattr(self, each.name)
            if seconds is not None and not seconds >= 0:  # NaN is not either
                raise ConfigError(f"{each.name} must be 0 or more, not {seconds}", "use None for no limit")


class _Limit(NamedTuple):
    """One limit: seconds, infinite when off, and what its passing is called."""

    seconds: float
    kind: type[CallTimeout | ConnectTimeout | StreamIdle]
    setting: str

    @classmethod
    def of(cls, seconds: float | None, kind: type[CallTimeout | ConnectTimeout | StreamIdle], setting: str) -> _Limit:
        return cls(math.inf if seconds is None else seconds, kind, setting)

    def cause(self) -> Stop:
        return self.kind(self.seconds, self.setting)


class Watchdog:
    """Watches one call. Say what is waited for: `connecting`, `waiting`, `reading`; and `resting` when it came."""

    def __init__(self, limits: CallLimits, scope: Scope, *, streamed: bool) -> None:
        self._scope, self._clock = scope, loop_clock()
        self._connect = _Limit.of(limits.connect_seconds, ConnectTimeout, "connect_seconds")
        self._first = _Limit.of(limits.first_byte_seconds if streamed else None, StreamIdle, "first_byte_seconds")
        self._idle = _Limit.of(limits.idle_seconds if streamed else None, StreamIdle, "idle_seconds")
        self._content = _Limit.of(limits.content_idle_seconds if streamed else None, StreamIdle, "content_idle_seconds")
        seconds, setting = (limits.stream_seconds, "stream_seconds") if streamed else (limits.call_seconds, "call_seconds")
        self._whole = _Limit.of(seconds, CallTimeout, setting)
        self._whole_due = math.inf
        self._due = math.inf
        self._limit = self._whole
        self._began = self._clock()
        self._quiet = 0.0
        self._changed, self._planned, self._over = anyio.Event(), math.inf, False

    def connecting(self) -> None:
        """The call begins."""
        now = self._clock()
        self._began, self._whole_due = now, now + self._whole.seconds
        self._arm(now + self._connect.seconds, self._connect)

    def waiting(self) -> None:
        """There is a connection; the request goes out, and the answer has not begun."""
        self._arm(self._clock() + self._first.seconds, self._first)

    def reading(self) -> None:
        """The next bytes are waited for."""
        self._began = now = self._clock()
        left = self._content.seconds - self._quiet
        if left < self._idle.seconds:
            self._arm(now + left, self._content)
        else:
            self._arm(now + self._idle.seconds, self._idle)

    def resting(self, *, content: bool = False) -> None:
        """Nothing is waited for.

        Args:
            content: Whether what came was content.
        """
        self._due = math.inf
        self._quiet = 0.0 if content else self._quiet + self._clock() - self._began

    def close(self) -> None:
        """End the watching task."""
        self._over = True
        self._changed.set()

    def _arm(self, due: float, limit: _Limit) -> None:
        if self._whole_due < due:
            due, limit = self._whole_due, self._whole
        self._due, self._limit = due, limit
        if due < self._planned:
            self._changed.set()

    async def watch(self) -> None:
        """Stop the scope when the limit in force has passed."""
        while not self._over:
            self._changed, self._planned = anyio.Event(), self._due
            with Scope(self._planned - self._clock(), quiet=True):
                await self._changed.wait()
            if self._clock() >= self._due and not self._over:
                self._scope.cancel(self._limit.cause())
                return


@asynccontextmanager
async def watched(limits: CallLimits, *, streamed: bool) -> AsyncIterator[Watchdog]:
    """A block around one call, stopped when one of its limits passes.

    Raises:
        ConnectTimeout, StreamIdle, CallTimeout: On leaving, with the limit and its setting.
    """
    with Scope() as scope:
        watchdog = Watchdog(limits, scope, streamed=streamed)
        async with tasks() as group:
            group.start_soon(watchdog.watch, name="watching a model call")
            try:
                yield watchdog
            finally:
                watchdog.close()
