"""What the Postgres store does: a class for each thing that callers want, each of whose `do` serves many of them at once.

- A refusal is an exception among the answers: it has written nothing, and concerns nobody else.
- A change is decided by the statement that makes it: it holds the epoch, or what was seen before, in its WHERE.
- Whoever lost the server's answer asks again, `in_doubt`. Then each statement does nothing if it was done before, and what
  it comes to is looked up. A lost attempt that arrives late does nothing either: an append holds the number of records
  that it goes behind.
- Times are the server's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from time import monotonic
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from ..errors import Fenced, JournalError, RunNotFound, RunTaken
from .owner import describe, holds
from .postgres_schema import Connection
from .store import Entry, RunRow, chosen, listed

__all__ = [
    "Append",
    "AskStop",
    "Asked",
    "AskedToStop",
    "Create",
    "Delete",
    "Driven",
    "Find",
    "Read",
    "Release",
    "Restore",
    "Runs",
    "Take",
]

T = TypeVar("T")
Answers: TypeAlias = list[Any]

MOST_TRIES = 100  # of a change that others get in the way of; each means that one of them got on


@dataclass
class Driven:
    """What this process knows of a run that it drives.

    Attributes:
        entries: How many records there are; None after an attempt of which nobody knows whether it was done.
        beat_at: When its lease was last renewed, by the monotonic clock.
    """

    epoch: int
    entries: int | None
    beat_at: float = field(default_factory=monotonic)


Drives: TypeAlias = dict[str, Driven]


@dataclass
class Asked(Generic[T]):
    """What one caller wants.

    Attributes:
        in_doubt: It was asked before, and may have been done.
        together: Many are one statement, which needs no transaction around it.
    """

    run_id: str
    in_doubt: bool = field(default=False, init=False)
    together: ClassVar[bool] = False

    @classmethod
    def do(cls, connection: Connection, drives: Drives, asked: Sequence[Any]) -> Answers:
        """The answers to all, in their order."""
        return [each.answer(connection, drives) for each in asked]

    def answer(self, connection: Connection, drives: Drives) -> T | JournalError:
        raise NotImplementedError


# --- writing --------------------------------------------------------------------------------------------------------


@dataclass
class Create(Asked[int]):
    owner: str
    bodies: Sequence[bytes]
    summary: bytes
    lease_seconds: float

    def answer(self, connection: Connection, drives: Drives) -> int | JournalError:
        row = connection.execute(
            """
            WITH made AS (
                INSERT INTO heaveto_run (run_id, created, updated, lease_until, epoch, owner, entries, summary)
                SELECT %(run_id)s, at, at, at + make_interval(secs => %(lease_seconds)s),
                       1, %(owner)s, %(entries)s, %(summary)s
                FROM clock_timestamp() AS at
                ON CONFLICT (run_id) DO NOTHING
                RETURNING number, created
            ), written AS (
                INSERT INTO heaveto_entry (run, seq, at, body)
                SELECT number, seq, created, body FROM made, unnest(%(bodies)b::bytea[]) WITH ORDINALITY AS given (body, seq)
            )
            SELECT number FROM made
            """,
            vars(self) | {"entries": len(self.bodies), "bodies": list(self.bodies)},
        ).fetchone()
        if row is None and not (self.in_doubt and self._is_there(connection)):
            return JournalError(f"there is a run {self.run_id} already")
        drives[self.run_id] = Driven(1, len(self.bodies))
        return 1

    def _is_there(self, connection: Connection) -> bool:
        """Whether the run that is there is ours. Another driver may have it by now."""
        row = connection.execute("SELECT epoch, owner FROM heaveto_run WHERE run_id = %s", (self.run_id,)).fetchone()
        if row is None or (row[0] == 1 and row[1] != self.owner):
            return False
        return _stored(connection, self.run_id, 0, len(self.bodies)) == list(self.bodies)


@dataclass
class Restore(Asked[None]):
    epoch: int
    entries: Sequence[Entry]
    summary: bytes

    def answer(self, connection: Connection, drives: Drives) -> JournalError | None:
        times, bodies = [each.at for each in self.entries], [each.body for each in self.entries]
        row = connection.execute(
            """
            WITH made AS (
                INSERT INTO heaveto_run (run_id, created, updated, lease_until, epoch, owner, entries, summary)
                VALUES (%(run_id)s, to_timestamp(%(first)s), to_timestamp(%(last)s), to_timestamp(%(last)s),
                        %(epoch)s, '', %(count)s, %(summary)s)
                ON CONFLICT (run_id) DO NOTHING
                RETURNING number
            ), written AS (
                INSERT INTO heaveto_entry (run, seq, at, body)
                SELECT number, seq, to_timestamp(at), body
                FROM made, unnest(%(times)s::float8[], %(bodies)b::bytea[]) WITH ORDINALITY AS given (at, body, seq)
            )
            SELECT number FROM made
            """,
            vars(self) | {"first": times[0], "last": times[-1], "count": len(times), "times": times, "bodies": bodies},
        ).fetchone()
        if row is None and not (self.in_doubt and _stored(connection, self.run_id, 0, len(bodies)) == bodies):
            return JournalError(f"there is a run {self.run_id} already")
        return None


@dataclass
class Take(Asked[int]):
    owner: str
    lease_seconds: float

    def answer(self, connection: Connection, drives: Drives) -> int | JournalError:
        for _ in range(MOST_TRIES):
            row = connection.execute(
                """
                SELECT epoch, owner, entries, lease_until, extract(epoch FROM lease_until - clock_timestamp())::float8
                FROM heaveto_run WHERE run_id = %s
                """,
                (self.run_id,),
            ).fetchone()
            if row is None:
                return RunNotFound(self.run_id)
            epoch, holder, entries, lease_until, left = row
            if self.in_doubt and holder == self.owner:
                drives[self.run_id] = Driven(epoch, entries)
                return int(epoch)
            if holds(holder, updated=left, now=0.0, lease_seconds=0.0):  # until the lease's end, by the server's clock
                return RunTaken(self.run_id, describe(holder))
            taken = connection.execute(
                """
                UPDATE heaveto_run SET owner = %(owner)s, epoch = epoch + 1, updated = at,
                       lease_until = at + make_interval(secs => %(lease_seconds)s)
                FROM clock_timestamp() AS at
                WHERE run_id = %(run_id)s AND epoch = %(epoch)s AND owner = %(holder)s AND lease_until = %(lease_until)s
                RETURNING epoch, entries
                """,
                vars(self) | {"epoch": epoch, "holder": holder, "lease_until": lease_until},
            ).fetchone()
            if taken is not None:
                drives[self.run_id] = Driven(*taken)
                return int(taken[0])
        return RunTaken(self.run_id, "another process")


@dataclass
class Append(Asked[int]):
    """Records behind the `before` that are there already."""

    epoch: int
    bodies: Sequence[bytes]
    summary: bytes
    lease_seconds: float
    before: int | None = field(default=None, init=False)
    together: ClassVar[bool] = True

    @classmethod
    def do(cls, connection: Connection, drives: Drives, asked: Sequence[Append]) -> Answers:
        """Append for several runs, each once."""
        answers: dict[int, int | JournalError] = {}
        left = list(asked)
        for _ in range(MOST_TRIES):
            _count_before(connection, drives, [each for each in left if each.before is None])
            written = _append(connection, left)
            for place, each in enumerate(left):
                if place in written:
                    answers[id(each)] = each._is_written(drives)
                elif (answer := each._refused(connection, drives)) is not None:
                    answers[id(each)] = answer
            left = [each for each in left if id(each) not in answers]
            if not left:
                break
        for each in left:
            answers[id(each)] = JournalError(f"run {each.run_id} is written to by others under the same epoch")
        return [answers[id(each)] for each in asked]

    @property
    def last(self) -> int:
        return (self.before or 0) + len(self.bodies)

    def _is_written(self, drives: Drives) -> int:
        drives[self.run_id] = Driven(self.epoch, self.last)
        return self.last

    def _refused(self, connection: Connection, drives: Drives) -> int | JournalError | None:
        """Why nothing was written; None where it is to be tried again."""
        bodies = list(self.bodies)
        if self.in_doubt and bodies and _stored(connection, self.run_id, self.before or 0, len(bodies)) == bodies:
            return self._is_written(drives)  # the answer to that was lost
        refusal = _refusal(connection, self.run_id, self.epoch)
        _forget(drives, self.run_id, self.epoch, gone=refusal is not None)
        self.before, self.in_doubt = None, False  # in its place is somebody else's: a lost attempt can come to nothing now
        return refusal


def _count_before(connection: Connection, drives: Drives, asked: Sequence[Append]) -> None:
    """Find out how many records there are, in the database where this process does not know it."""
    unknown = []
    for each in asked:
        known = drives.get(each.run_id)
        if known is not None and known.epoch == each.epoch and known.entries is not None:
            each.before = known.entries
        else:
            unknown.append(each)
    if not unknown:
        return
    rows = connection.execute(
        "SELECT run_id, entries FROM heaveto_run WHERE run_id = ANY(%s)", ([each.run_id for each in unknown],)
    )
    entries = {str(run_id): int(count) for run_id, count in rows}
    for each in unknown:
        each.before = entries.get(each.run_id, 0)


def _append(connection: Connection, asked: Sequence[Append]) -> set[int]:
    """Write what may be written, in one statement; returns the places in `asked` of what was."""
    rows = connection.execute(
        """
        WITH asked AS (
            SELECT * FROM unnest(
                %(run_ids)s::text[], %(epochs)s::bigint[], %(befores)s::bigint[], %(counts)s::bigint[],
                %(summaries)b::bytea[], %(leases)s::float8[]
            ) WITH ORDINALITY AS one (run_id, epoch, before, count, summary, lease_seconds, place)
        ), driven AS (
            UPDATE heaveto_run AS run
            SET updated = clock_timestamp(), entries = run.entries + asked.count, summary = asked.summary,
                lease_until = clock_timestamp() + make_interval(secs => asked.lease_seconds)
            FROM asked
            WHERE run.run_id = asked.run_id AND run.epoch = asked.epoch AND run.entries = asked.before
            RETURNING asked.place, asked.before, run.number, run.updated
        ), written AS (
            INSERT INTO heaveto_entry (run, seq, at, body)
            SELECT driven.number, driven.before + given.behind, driven.updated, given.body
            FROM unnest(%(places)s::bigint[], %(behinds)s::bigint[], %(bodies)b::bytea[]) AS given (place, behind, body)
            JOIN driven USING (place)
        )
        SELECT place - 1 FROM driven
        """,
        {
            "run_ids": [each.run_id for each in asked],
            "epochs": [each.epoch for each in asked],
            "befores": [each.before for each in asked],
            "counts": [len(each.bodies) for each in asked],
            "summaries": [each.summary for each in asked],
            "leases": [each.lease_seconds for each in asked],
            "places": [place for place, each in enumerate(asked, 1) for _ in each.bodies],
            "behinds": [behind for each in asked for behind in range(1, len(each.bodies) + 1)],
            "bodies": list(chain.from_iterable(each.bodies for each in asked)),
        },
    )
    return {int(place) for (place,) in rows}


@dataclass
class Release(Asked[None]):
    epoch: int

    def answer(self, connection: Connection, drives: Drives) -> None:
        connection.execute("UPDATE heaveto_run SET owner = '' WHERE run_id = %s AND epoch = %s", (self.run_id, self.epoch))
        _forget(drives, self.run_id, self.epoch, gone=True)


@dataclass
class AskStop(Asked[int]):
    cause: bytes

    def answer(self, connection: Connection, drives: Drives) -> int | JournalError:
        row = connection.execute(
            """
            UPDATE heaveto_run SET stop = %(cause)s, stop_epoch = epoch WHERE run_id = %(run_id)s AND owner <> ''
            RETURNING epoch
            """,
            vars(self),
        ).fetchone()
        if row is not None:
            return int(row[0])
        found = connection.execute("SELECT FROM heaveto_run WHERE run_id = %s", (self.run_id,)).fetchone()
        return RunNotFound(self.run_id) if found is None else 0


@dataclass
class Delete(Asked[None]):
    epoch: int

    def answer(self, connection: Connection, drives: Drives) -> JournalError | None:
        row = connection.execute(
            """
            WITH gone AS (
                DELETE FROM heaveto_run WHERE run_id = %(run_id)s AND epoch = %(epoch)s RETURNING number
            ), emptied AS (
                DELETE FROM heaveto_entry USING gone WHERE run = gone.number
            )
            SELECT number FROM gone
            """,
            vars(self),
        ).fetchone()
        if row is not None:
            _forget(drives, self.run_id, self.epoch, gone=True)
            return None
        refusal = _refusal(connection, self.run_id, self.epoch)
        return None if self.in_doubt and isinstance(refusal, RunNotFound) else refusal


def _refusal(connection: Connection, run_id: str, epoch: int) -> JournalError | None:
    """Why a driver of this epoch may not write; None where it may."""
    row = connection.execute("SELECT epoch FROM heaveto_run WHERE run_id = %s", (run_id,)).fetchone()
    if row is None:
        return RunNotFound(run_id)
    return None if row[0] == epoch else Fenced(run_id)


def _forget(drives: Drives, run_id: str, epoch: int, *, gone: bool) -> None:
    """Count on nothing any more; where the run is `gone`, this driver has done with it."""
    known = drives.get(run_id)
    if known is None or known.epoch != epoch:
        return
    known.entries = None
    if gone:
        del drives[run_id]


def _stored(connection: Connection, run_id: str, before: int, count: int) -> list[bytes]:
    """The records that lie behind so many others."""
    rows = connection.execute(
        """
        SELECT body FROM heaveto_entry JOIN heaveto_run ON number = run
        WHERE run_id = %s AND seq > %s AND seq <= %s ORDER BY seq
        """,
        (run_id, before, before + count),
        binary=True,
    )
    return [bytes(body) for (body,) in rows]


# --- reading --------------------------------------------------------------------------------------------------------


@dataclass
class AskedToStop(Asked[bytes | None]):
    """The cause that a driver is asked to stop with. That it looks is a sign of life, and renews its lease now and then."""

    epoch: int
    lease_seconds: float
    together: ClassVar[bool] = True

    @classmethod
    def do(cls, connection: Connection, drives: Drives, asked: Sequence[AskedToStop]) -> Answers:
        cls._beat(connection, drives, [each for each in asked if each._is_due(drives)])
        rows = connection.execute(
            """
            SELECT place - 1, stop
            FROM unnest(%s::text[], %s::bigint[]) WITH ORDINALITY AS one (run_id, epoch, place)
            JOIN heaveto_run AS run ON run.run_id = one.run_id AND run.stop_epoch = one.epoch
            """,
            ([each.run_id for each in asked], [each.epoch for each in asked]),
            binary=True,
        )
        causes = {int(place): bytes(stop) for place, stop in rows}
        return [causes.get(place) for place in range(len(asked))]

    def _is_due(self, drives: Drives) -> bool:
        """Whether a third of the lease is gone; a run that this process does not drive is none of its business."""
        known = drives.get(self.run_id)
        return known is not None and known.epoch == self.epoch and monotonic() - known.beat_at > self.lease_seconds / 3

    @classmethod
    def _beat(cls, connection: Connection, drives: Drives, due: Sequence[AskedToStop]) -> None:
        if not due:
            return
        connection.execute(
            """
            UPDATE heaveto_run AS run SET lease_until = clock_timestamp() + make_interval(secs => one.lease_seconds)
            FROM unnest(%s::text[], %s::bigint[], %s::float8[]) AS one (run_id, epoch, lease_seconds)
            WHERE run.run_id = one.run_id AND run.epoch = one.epoch
            """,
            ([each.run_id for each in due], [each.epoch for each in due], [each.lease_seconds for each in due]),
        )
        for each in due:
            if (known := drives.get(each.run_id)) is not None:
                known.beat_at = monotonic()


@dataclass
class Read(Asked[list[Entry]]):
    after: int

    def answer(self, connection: Connection, drives: Drives) -> list[Entry] | JournalError:
        rows = connection.execute(
            """
            SELECT seq, extract(epoch FROM at)::float8, body
            FROM heaveto_run LEFT JOIN heaveto_entry ON run = number AND seq > %s
            WHERE run_id = %s ORDER BY seq
            """,
            (self.after, self.run_id),
            binary=True,
        ).fetchall()
        if not rows:
            return RunNotFound(self.run_id)
        return [Entry(seq, at, bytes(body)) for seq, at, body in rows if seq is not None]


@dataclass
class Runs(Asked[list[RunRow]]):
    limit: int

    def answer(self, connection: Connection, drives: Drives) -> list[RunRow]:
        rows = connection.execute(
            """
            SELECT run_id, extract(epoch FROM created)::float8, extract(epoch FROM updated)::float8,
                   epoch, owner, entries, summary
            FROM heaveto_run ORDER BY updated DESC, number DESC LIMIT %s
            """,
            (max(0, self.limit),),
            binary=True,
        )
        return [listed(*row) for row in rows]


@dataclass
class Find(Asked[str]):
    """The run that `run_id`, the beginning of an id, means."""

    def answer(self, connection: Connection, drives: Drives) -> str | JournalError:
        prefix = self.run_id
        if prefix:
            pattern = "".join(f"\\{each}" if each in "\\%_" else each for each in prefix) + "%"
            rows = connection.execute(
                "SELECT run_id FROM heaveto_run WHERE run_id LIKE %s ORDER BY run_id LIMIT 2", (pattern,)
            )
        else:
            rows = connection.execute("SELECT run_id FROM heaveto_run ORDER BY updated DESC, number DESC LIMIT 1")
        try:
            return chosen(prefix, [str(run_id) for (run_id,) in rows])
        except JournalError as error:
            return error
