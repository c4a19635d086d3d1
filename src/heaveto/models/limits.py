"""The time limits of one model call, as one deadline that moves with what is waited for.

The rules of this file:
- A limit runs only while we wait for the other side: what the consumer does with a delta counts against nobody.
- Keep-alives count as bytes and not as content, so they cannot keep an empty stream alive for ever.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import NamedTuple

from ..causes import CallTimeout, ConnectTimeout, Stop, StreamIdle
from ..errors import ConfigError
from ..scopes import Scope
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
        told_as: What a limit's cause calls its setting where that is not the attribute's name, as pairs: the command's
            users know flags.
    """

    connect_seconds: float | None = 10
    first_byte_seconds: float | None = 120
    idle_seconds: float | None = 60
    content_idle_seconds: float | None = 120
    call_seconds: float | None = 120
    stream_seconds: float | None = None
    told_as: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        for each in fields(self):
            if each.name == "told_as":
                continue
            seconds = getattr(self, each.name)
            if seconds is not None and not seconds >= 0:  # NaN is not either
                raise ConfigError(f"{each.name} must be 0 or more, not {seconds}", "use None for no limit")


class _Limit(NamedTuple):
    """One limit: seconds, infinite when off, and the cause when they pass; whoever is stopped by it gets a copy."""

    seconds: float
    late: Stop

    @classmethod
    def of(cls, seconds: float | None, kind: type[CallTimeout | ConnectTimeout | StreamIdle], setting: str) -> _Limit:
        seconds = math.inf if seconds is None else seconds
        return cls(seconds, kind(seconds, setting))


class _Plan(NamedTuple):
    """The limits of a call, by what is waited for."""

    connect: _Limit
    first: _Limit
    idle: _Limit
    content: _Limit
    whole: _Limit

    @classmethod
    @functools.cache
    def of(cls, limits: CallLimits, *, streamed: bool) -> _Plan:
        told_as = dict(limits.told_as)

        def limit(name: str, kind: type[CallTimeout | ConnectTimeout | StreamIdle], *, applies: bool = True) -> _Limit:
            return _Limit.of(getattr(limits, name) if applies else None, kind, told_as.get(name, name))

        return cls(
            connect=limit("connect_seconds", ConnectTimeout),
            first=limit("first_byte_seconds", StreamIdle, applies=streamed),
            idle=limit("idle_seconds", StreamIdle, applies=streamed),
            content=limit("content_idle_seconds", StreamIdle, applies=streamed),
            whole=limit("stream_seconds" if streamed else "call_seconds", CallTimeout),
        )


class Watchdog:
    """Watches one call. Say what is waited for: `connecting`, `waiting`, `reading`; and `resting` when it came."""

    def __init__(self, limits: CallLimits, scope: Scope, *, streamed: bool) -> None:
        self._scope, self._clock = scope, loop_clock()
        self._plan = _Plan.of(limits, streamed=streamed)
        self._whole_due = math.inf
        self._began = self._clock()
        self._quiet = 0.0

    def connecting(self) -> None:
        """The call begins."""
        now = self._clock()
        self._began, self._whole_due = now, now + self._plan.whole.seconds
        self._wait(now, self._plan.connect)

    def waiting(self) -> None:
        """There is a connection; the request goes out, and the answer has not begun."""
        self._wait(self._clock(), self._plan.first)

    def reading(self) -> None:
        """The next bytes are waited for."""
        self._began = now = self._clock()
        left = self._plan.content.seconds - self._quiet
        if left < self._plan.idle.seconds:
            self._wait(now, _Limit(left, self._plan.content.late))
        else:
            self._wait(now, self._plan.idle)

    def resting(self, *, content: bool = False) -> None:
        """Nothing is waited for.

        Args:
            content: Whether what came was content.
        """
        self._scope.limit(math.inf, self._plan.whole.late)
        self._quiet = 0.0 if content else self._quiet + self._clock() - self._began

    def _wait(self, now: float, limit: _Limit) -> None:
        due = now + limit.seconds
        if self._whole_due < due:
            self._scope.limit(self._whole_due, self._plan.whole.late)
        else:
            self._scope.limit(due, limit.late)


@contextmanager
def watched(limits: CallLimits, *, streamed: bool) -> Iterator[Watchdog]:
    """A block around one call, stopped when one of its limits passes.

    Raises:
        ConnectTimeout, StreamIdle, CallTimeout: On leaving, with the limit and its setting.
    """
    with Scope() as scope:
        yield Watchdog(limits, scope, streamed=streamed)
