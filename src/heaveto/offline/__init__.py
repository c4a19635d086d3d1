"""The offline model: a small repair engine that plays a model's side, behind a real HTTP server on loopback.

It searches small edits until a project's tests pass, and says that it is no language model. Exports are lazy, because the
server's process imports this package with the standard library alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .process import OfflineServer, model

__all__ = ["OfflineServer", "model"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from . import process

        return getattr(process, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
