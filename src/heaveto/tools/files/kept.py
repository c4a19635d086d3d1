"""What a call that changes files notes of them before it begins: enough to show the change and to take it back, from the
journal alone.

The notes are plain data in the call's facts, under `changes`, one for each file. A content is kept compressed, within a
limit; the one after it as what differs. What holds a secret is not kept: a journal may be exported.
"""

from __future__ import annotations

import base64
import os
import re
import stat
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from ..protocol import Facts
from .replacing import Seen
from .workspace import hash_of

__all__ = ["Change", "contents_of", "note_change", "note_move", "read_changes", "without_contents"]

MAX_RAW_BYTES = 2_000_000  # of a content: more takes longer to compress than the change itself takes
MAX_KEPT_CHARS = 300_000  # of a content as it is kept; source text of a megabyte or so
_SECRET_NAMES = (".env", ".env.*", "*.pem", "*.key", "*.p12", "id_rsa", "id_ed25519", ".netrc", ".npmrc", ".pypirc")
_NO_SECRET_NAMES = ("*.example", "*.sample", "*.template")
_SECRET_VARIABLE = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD)\Z")
_LEAST_SECRET_CHARS = 12  # shorter values stand in texts by chance
_PRIVATE_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----")
_CONTENTS = ("content", "then")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a call is to make of one file.

    Attributes:
        before: The SHA-256 of its content before; None where there was no file.
        after: That of its content afterwards; None where there is to be none.
        mode: Its permissions before; 0 where there was no file.
        not_kept: Why its content is not in the journal; empty where it is.
        made_folders: How many of the folders on its way had to be made.
    """

    path: str
    before: str | None
    after: str | None
    mode: int = 0
    not_kept: str = ""
    made_folders: int = 0


def note_change(path: str, seen: Seen | None, after: bytes | None, *, made_folders: int = 0) -> dict[str, Any]:
    """The note of one file's change, as plain data.

    Args:
        path: Relative to the working folder.
        seen: The file as it is; None where there is none.
        after: Its content afterwards; None for none.
    """
    before = seen.data if seen else None
    noted: dict[str, Any] = {"path": path, "before": hash_of(before), "after": hash_of(after)}
    if seen:
        noted["mode"] = stat.S_IMODE(seen.status.st_mode)
    if made_folders:
        noted["made_folders"] = made_folders
    problems = []
    for name, side in (("content", before), ("then", after)):
        if side is None:
            continue
        if why := _why_not_kept(path, side):
            problems.append(why)
        elif name == "content":
            noted[name] = _pack(side)
        elif before is None or "content" in noted:
            noted[name] = _difference(before or b"", side)
        if len(str(noted.get(name, ""))) > MAX_KEPT_CHARS:
            del noted[name]
            problems.append(f"it is too large ({len(side):,} bytes)")
    return {**noted, "not_kept": problems[0]} if problems else noted


def note_move(path: str, away: Mapping[str, Any], *, made_folders: int = 0) -> dict[str, Any]:
    """The note of the other end of a move. The content is kept with the note of the end that it goes away from."""
    noted: dict[str, Any] = {"path": path, "before": None, "after": away["before"]}
    if made_folders:
        noted["made_folders"] = made_folders
    return noted | {name: away[name] for name in ("not_kept",) if name in away}


def read_changes(facts: Facts) -> list[Change]:
    """The changes that a call noted; none of a call that changes no files, or of an earlier version's."""
    noted = facts.get("changes", ())
    return [Change(**{name: value for name, value in each.items() if name not in _CONTENTS}) for each in noted]


def contents_of(facts: Facts) -> dict[str, bytes]:
    """The contents that a call noted, by their hashes. What does not have its hash is left out."""
    found: dict[str, bytes] = {}
    for each in facts.get("changes", ()):
        before = _unpack(each["content"]) if "content" in each else b""
        if "content" in each:
            found[str(hash_of(before))] = before
        if "then" in each:
            after = _apply(before, each["then"])
            found[str(hash_of(after))] = after
    wanted = {each[side] for each in facts.get("changes", ()) for side in ("before", "after")}
    return {digest: data for digest, data in found.items() if digest in wanted}


def without_contents(facts: Facts) -> dict[str, Any]:
    """The facts for whoever watches: what changes, without the bytes."""
    if "changes" not in facts:
        return dict(facts)
    noted = [{name: value for name, value in each.items() if name not in _CONTENTS} for each in facts["changes"]]
    return {**facts, "changes": noted}


def _why_not_kept(path: str, data: bytes) -> str:
    if len(data) > MAX_RAW_BYTES:
        return f"it is too large ({len(data):,} bytes)"
    name = path.rpartition("/")[2]
    if _fits(name, _SECRET_NAMES) and not _fits(name, _NO_SECRET_NAMES):
        return "a file of that name holds secrets"
    if _PRIVATE_KEY.search(data) or any(secret in data for secret in _secrets(os.environ)):
        return "it holds a secret"
    return ""


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name.lower(), pattern) for pattern in patterns)


def _secrets(environment: Mapping[str, str]) -> Iterable[bytes]:
    for name, value in environment.items():
        if _SECRET_VARIABLE.search(name.upper()) and len(value) >= _LEAST_SECRET_CHARS:
            yield os.fsencode(value)


def _pack(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 6)).decode()


def _unpack(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))


def _difference(before: bytes, after: bytes) -> list[Any]:
    """How many bytes both begin with, with how many they end, and what is between these in the new one."""
    start = _common(before, after)
    most = min(len(before), len(after)) - start
    end = _common(before[len(before) - most :][::-1], after[len(after) - most :][::-1])
    return [start, end, _pack(after[start : len(after) - end])]


def _apply(before: bytes, difference: Sequence[Any]) -> bytes:
    start, end, middle = difference
    return before[:start] + _unpack(middle) + before[len(before) - end :]


def _common(one: bytes, other: bytes) -> int:
    """With how many same bytes the two begin."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
