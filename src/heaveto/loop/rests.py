"""The whole of results that were too long for the conversation, for as long as the run is driven."""

from __future__ import annotations

__all__ = ["MAX_CHARS", "Rests"]

MAX_CHARS = 20_000_000  # of a run's results together; the oldest make room


class Rests:
    """Results by their calls, the last ones that there is room for."""

    def __init__(self, max_chars: int = MAX_CHARS) -> None:
        self._kept: dict[str, str] = {}
        self._left = self._max_chars = max_chars

    def keep(self, call_id: str, whole: str) -> None:
        """Keep a result; a longer one than there is room for is kept up to there."""
        whole = whole[: self._max_chars]
        self._left -= len(whole)
        while self._left < 0:
            oldest = next(iter(self._kept))
            self._left += len(self._kept.pop(oldest))
        self._kept[call_id] = whole

    def get(self, call_id: str) -> str | None:
        """The whole of a result; None when it is not kept, or not any more."""
        return self._kept.get(call_id)
