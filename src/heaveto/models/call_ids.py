"""Ids of tool calls: made by us where an API sends none, or one twice; and ids and names that every API takes."""

from __future__ import annotations

import hashlib
import re
import secrets
import string
from collections.abc import Callable

__all__ = ["fitting_id", "fitting_name", "new_call_id", "unused_id"]

ID_CHARACTERS = string.ascii_letters + string.digits
ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
MAX_NAME = 128


def new_call_id() -> str:
    """An id that every API takes: nine letters and digits, as Mistral demands."""
    return "".join(secrets.choice(ID_CHARACTERS) for _ in range(9))


def unused_id(call_id: str, seen: set[str], make_id: Callable[[], str] = new_call_id) -> str:
    """The id, or a new one where it is empty or taken; added to those seen."""
    while not call_id or call_id in seen:
        call_id = make_id()
    seen.add(call_id)
    return call_id


def fitting_id(call_id: str) -> str:
    """The id as every API takes it; a conversation may have begun with a provider that makes others."""
    if ID.fullmatch(call_id):
        return call_id
    return "call_" + hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def fitting_name(name: str) -> str:
    """The tool's name as every API takes it, whatever a model called it."""
    return NOT_IN_NAMES.sub("_", name)[:MAX_NAME] or "_"
