"""What a disk may hold after a power loss: what was synced, and any part of what was not, in any order, torn at sectors."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from power_disk import Op

__all__ = ["After", "after_each"]

SECTOR = 512
SHARES = (0.0, 1.0, 0.5, 0.9, 0.1)  # of the sectors that were not synced, how many are there


class After(NamedTuple):
    """A disk after a power loss.

    Attributes:
        op: After how many operations.
        files: The contents of those that are there.
    """

    op: int
    files: Mapping[str, bytes]


@dataclass
class _File:
    """One file: what is safe of it, and what was done to it since.

    Attributes:
        is_new: Whether it may be missing, since its first sync has not come.
        before: What may be there instead: the file of that name that was deleted, and may have come back.
    """

    safe: bytes = b""
    unsafe: list[Op] = field(default_factory=list)
    is_new: bool = True
    is_deleted: bool = False
    before: bytes | None = None

    def then(self, op: Op) -> _File:
        if op.kind == "delete":
            return _File(self.safe, self.unsafe, self.is_new, is_deleted=True)
        file = _File(before=self.safe) if self.is_deleted else self
        if op.kind == "sync":
            return _File(_applied(file.safe, file.unsafe, None, 1.0), is_new=False)
        return _File(file.safe, [*file.unsafe, op], file.is_new, before=file.before)

    def after(self, chance: random.Random, share: float) -> bytes | None:
        """None: it is not there."""
        if (self.is_deleted or self.is_new) and chance.random() < 0.5:
            return self.before if self.before is not None and chance.random() < 0.5 else None
        return _applied(self.safe, self.unsafe, chance, share)


def after_each(ops: Sequence[Op], *, seed: int, each: int, every: int = 1) -> Iterator[After]:
    """States after each operation, so many of them.

    Args:
        every: n: only every n-th of them all.
    """
    chance, files = random.Random(seed), dict[str, _File]()
    is_there, made = False, 0
    for number, op in enumerate(ops, 1):
        is_there = is_there or op.kind == "mark"
        if op.kind == "mark":
            continue
        files[op.file] = files.get(op.file, _File()).then(op)
        if not is_there:
            continue  # it is made under another name, and linked into place when it is safe
        for times in range(each):
            made += 1
            if made % every:
                continue
            share = SHARES[times] if times < len(SHARES) else chance.random()
            contents = {name: file.after(chance, share) for name, file in files.items() if not name.startswith("draft-")}
            yield After(number, {name: content for name, content in contents.items() if content is not None})


def _applied(safe: bytes, ops: Sequence[Op], chance: random.Random | None, share: float) -> bytes:
    content = bytearray(safe)
    for op in ops:
        if op.kind == "truncate":
            if chance is None or chance.random() < share:
                del content[op.at :]
            continue
        for start, end in _sectors(op):
            if chance is None or chance.random() < share:
                if len(content) < start:
                    content.extend(bytes(start - len(content)))
                content[start:end] = op.data[start - op.at : end - op.at]
    return bytes(content)


def _sectors(op: Op) -> Iterator[tuple[int, int]]:
    """The pieces of a write that a sector holds."""
    start, end = op.at, op.at + len(op.data)
    while start < end:
        border = min(end, (start // SECTOR + 1) * SECTOR)
        yield start, border
        start = border
