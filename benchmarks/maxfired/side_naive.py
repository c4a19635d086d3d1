"""A loop that keeps its conversation in memory and begins again after a crash: it must fail, or the measure is none."""

from __future__ import annotations

from crash_points import Outside

__all__ = ["live"]


def live(outside: Outside) -> str:
    if (outside.folder / "answer").exists():
        return "answered"
    outside.note_asked()
    outside.charge()
    outside.note_asked()
    outside.save("answer", "done")
    return "answered"
