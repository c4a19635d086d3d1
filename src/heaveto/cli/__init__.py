"""The command. Each module loads what it needs when it is used, so that `heaveto --help` is quick."""

from __future__ import annotations

from typing import NoReturn

__all__ = ["main"]


def main(argv: list[str] | None = None) -> NoReturn:
    """Run the command and leave with its exit status."""
    from .early import leave_on_signals, open_what_is_closed

    leave_on_signals()
    open_what_is_closed()
    from .commands import run_and_leave

    run_and_leave(argv)
