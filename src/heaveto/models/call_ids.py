"""Ids of tool calls: made by us where an API sends none, or one twice."""

from __future__ import annotations

import secrets
import string
from collections.abc import Callable

__all__ = ["new_call_id", "unused_id"]

ID_CHARACTERS = string.ascii_letters + string.digits


def new_call_id() -> str:
    """An id that every API takes: nine letters and digits, as Mistral demands."""
    return "".join(secrets.choice(ID_CHARACTERS) for _ in range(9))


def unused_id(call_id: str, seen: set[str], make_id: Callable[[], str] = new_call_id) -> str:
    """The id, or a new one where it is empty or taken; added to those seen."""
    while not call_id or call_id in seen:
        call_id = make_id()
    seen.add(call_id)
    return call_id
