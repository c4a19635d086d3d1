"""Where runs are kept: an append-only log a run, with a fence against a second driver.

A store knows bytes and rows, no records: what a body means is the business of `records.py`. Every append carries the
driver's epoch; one of an older epoch writes nothing. An append is on disk when it returns, and a stop of the caller
does not undo it: "cancelled" never means "not written".
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Protocol

import msgspec

from ..errors import JournalError, RunNotFound

__all__ = ["Entry", "RunRow", "Store", "Summary", "chosen", "encode_summary", "listed"]


class Summary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a list of runs shows, kept beside the log so that listing reads no log.

    Attributes:
        phase: "running", or the kind of the outcome.
        why: The outcome in a few words.
        cause: The code of the stop or the error that ended it, such as "cancelled".
    """

    task: str = ""
    folder: str = ""
    model: str = ""
    phase: str = "running"
    why: str = ""
    cause: str = ""
    turns: int = 0
    cost_usd: Decimal = Decimal(0)
    unpriced_calls: int = 0


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """A run in a list. Times are seconds since 1970; `owner` is empty when nobody drives the run."""

    run_id: str
    created: float
    updated: float
    epoch: int
    owner: str
    entries: int
    summary: Summary


class Entry(msgspec.Struct, frozen=True):
    """One record as it is stored. `seq` counts from 1 within the run."""

    seq: int
    at: float
    body: bytes


class Store(Protocol):
    """A place where runs are kept. One store serves any number of runs at once."""

    async def create(self, run_id: str, owner: str, bodies: Sequence[bytes], summary: Summary) -> int:
        """Begin a run with its first records; returns its epoch, 1.

        Raises:
            JournalError: When there is such a run already, or the store cannot be written.
        """
        ...

    async def restore(self, run_id: str, epoch: int, entries: Sequence[Entry], summary: Summary) -> None:
        """Keep a run as it was in another store: its records with their times, and its last epoch. Nobody drives it.

        Args:
            entries: From the first on, at least one. Its time is the run's beginning, the last one's that of its last touch.

        Raises:
            JournalError: When there is such a run already, or the store cannot be written.
        """
        ...

    async def take(self, run_id: str, owner: str) -> int:
        """Become the run's driver; returns the new epoch, under which nobody else's append is accepted.

        Raises:
            RunNotFound: When there is no such run.
            RunTaken: When its driver is alive.
        """
        ...

    async def append(self, run_id: str, epoch: int, bodies: Sequence[bytes], summary: Summary) -> int:
        """Write records, all or none, durably; returns the last one's seq. Completes although the caller is being stopped.

        Raises:
            Fenced: When another driver took the run. Nothing was written.
            JournalError: When the store cannot be written (full disk, broken file). Nothing was written.
        """
        ...

    async def release(self, run_id: str, epoch: int) -> None:
        """Say that this driver is done, so that another may take the run at once. Of an older epoch it does nothing."""
        ...

    async def ask_stop(self, run_id: str, cause: bytes) -> int:
        """Leave a cause for the run's driver to stop with; returns the driver's epoch, 0 when nobody drives the run.

        Raises:
            RunNotFound: When there is no such run.
        """
        ...

    async def asked_to_stop(self, run_id: str, epoch: int) -> bytes | None:
        """The cause that this driver was asked to stop with, the last one; None while nobody asks. Costs next to nothing."""
        ...

    async def delete(self, run_id: str, epoch: int) -> None:
        """Forget the run, which this driver has taken.

        Raises:
            RunNotFound, Fenced: Nothing was deleted.
        """
        ...

    async def read(self, run_id: str, after: int = 0) -> list[Entry]:
        """The run's records with a seq above `after`.

        Raises:
            RunNotFound: When there is no such run.
        """
        ...

    async def runs(self, limit: int = 50) -> list[RunRow]:
        """The runs, the last touched first."""
        ...

    async def find(self, prefix: str) -> str:
        """The id of the one run that begins so; of the last touched run for an empty prefix.

        Raises:
            RunNotFound: When there is none.
            JournalError: When there are several.
        """
        ...

    async def aclose(self) -> None: ...


def encode_summary(summary: Summary) -> bytes:
    """The summary as JSON; what UTF-8 cannot hold (lone surrogates, from file names and arguments) becomes a "?"."""
    try:
        return msgspec.json.encode(summary)
    except UnicodeEncodeError:
        texts = {
            name: value.encode(errors="replace").decode()
            for name, value in msgspec.structs.asdict(summary).items()
            if isinstance(value, str)
        }
        return msgspec.json.encode(msgspec.structs.replace(summary, **texts))


def listed(run_id: str, created: float, updated: float, epoch: int, owner: str, entries: int, summary: bytes) -> RunRow:
    """A row of the list, from what is stored."""
    try:
        shown = _decode_summary(summary)
    except msgspec.MsgspecError:
        shown = Summary(why="its summary cannot be read")  # one bad row must not hide the others
    return RunRow(run_id=run_id, created=created, updated=updated, epoch=epoch, owner=owner, entries=entries, summary=shown)


def chosen(prefix: str, found: Sequence[str]) -> str:
    """The run that a prefix means.

    Args:
        found: The first two or more ids that begin so, in their order.

    Raises:
        RunNotFound: There is none.
        JournalError: There are several, and none is just that.
    """
    if not found:
        raise RunNotFound(prefix)
    if len(found) > 1 and prefix not in found:
        raise JournalError(f'several runs begin with "{prefix}"; give more of the id')
    return prefix if prefix in found else found[0]


_decode_summary = msgspec.json.Decoder(Summary).decode
