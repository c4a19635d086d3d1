"""What a run is driven in, and how that differs from what it was driven in before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..journal.state import RunState

__all__ = ["differences"]


def differences(state: RunState, *, model: str, tools: Sequence[str], folder: str) -> Iterator[str]:
    """How the tools, the model and the folder differ from those of the last drive, in words; nothing where they do not."""
    if model != state.model:
        yield f"the model is {model}, and was {state.model}"
    if gone := sorted(set(state.tools) - set(tools)):
        yield f"tools that are gone: {', '.join(gone)}"
    if new := sorted(set(tools) - set(state.tools)):
        yield f"new tools: {', '.join(new)}"
    if folder != state.folder:
        yield f"the folder is {folder}, and was {state.folder}"
