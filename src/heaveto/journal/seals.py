"""Seals: each record's checksum, chained to the one before it, so that a record that was changed is named.

A record's bytes end in a line break and its seal, a hash of the seal before it and of its JSON. JSON written here has no
line break, so records of versions without seals are told apart. A seal finds what a disk or a hand has changed; it is no
signature, for whoever can write the journal can seal it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

from ..errors import JournalDamaged
from .records import SEAL_CHARS, Record, decode_record, unseal
from .store import Entry

__all__ = ["decode_entries", "last_seal", "seal"]


def seal(bodies: Iterable[bytes], before: bytes) -> list[bytes]:
    """The records with their seals.

    Args:
        before: The seal of the record before them; empty where there is none.
    """
    sealed = []
    for body in bodies:
        before = _digest(body, before)
        sealed.append(body + b"\n" + before)
    return sealed


def last_seal(entries: Sequence[Entry]) -> bytes:
    """What the next record's seal is chained to."""
    return next((found for entry in reversed(entries) if (found := unseal(entry.body)[1])), b"")


def decode_entries(run_id: str, entries: Iterable[Entry]) -> Iterator[Record]:
    """A run's records, all of them from the first, each checked before it is given.

    Raises:
        JournalNewer: A newer version wrote one.
        JournalDamaged: This one is missing, was changed or cannot be read; those before it are as they were.
    """
    before = b""
    for seq, entry in enumerate(entries, 1):
        where = f"run {run_id}, record {seq}"
        if entry.seq != seq:
            raise JournalDamaged(where, "it is missing")
        body, found = unseal(entry.body)
        if before and not found:
            raise JournalDamaged(where, "it has no checksum, and those before it have one")
        if found and found != _digest(body, before):
            raise JournalDamaged(where, "its checksum does not fit: it was changed after it was written")
        before = found or before
        yield decode_record(body, where)


def _digest(body: bytes, before: bytes) -> bytes:
    return hashlib.blake2b(before + body, digest_size=SEAL_CHARS // 2).hexdigest().encode()
