"""What a run may be called."""

from __future__ import annotations

import re

from ..errors import ConfigError

__all__ = ["check_run_id"]

MAX_RUN_ID = 64
_RUN_ID = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_.-]{{0,{MAX_RUN_ID - 1}}}")


def check_run_id(run_id: str) -> None:
    """Refuse a name that could not be typed in a shell, or be part of a path."""
    if not isinstance(run_id, str) or not _RUN_ID.fullmatch(run_id):
        shown = f"{str(run_id)[:MAX_RUN_ID]!a}{'...' if len(str(run_id)) > MAX_RUN_ID else ''}"
        raise ConfigError(
            f"{shown} cannot be the name of a run",
            f'use up to {MAX_RUN_ID} letters, digits, "-", "_" and ".", beginning with a letter or a digit',
        )
