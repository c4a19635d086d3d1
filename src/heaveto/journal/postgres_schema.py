"""The journal's tables in Postgres, their format, and how a connection to them is opened.

- The tables lie in the first schema of the connection's search path, so one database may have several journals.
- Making them is the first migration. Of several processes that come at once, one does it, all or nothing.
- A journal newer than we are is found out before anything of it is changed.
- A row's text is bytes, so that the encoding of the database does not matter.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any, TypeAlias

import psycopg
from psycopg import errors as pg
from psycopg.abc import PQGen

from ..errors import JournalDamaged, JournalNewer
from .postgres_address import Address
from .postgres_problems import Mute

__all__ = ["FORMAT", "MIGRATIONS", "Connection", "Migrations", "bring_up", "connect"]

Migrations: TypeAlias = Mapping[int, Sequence[str]]

# What makes a journal of a format into one of the next; of nothing, one of the first.
MIGRATIONS: Migrations = {
    0: (
        "CREATE TABLE heaveto_journal (format integer NOT NULL)",
        "INSERT INTO heaveto_journal (format) VALUES (0)",
        """
        CREATE TABLE heaveto_run (
            number      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            run_id      text COLLATE "C" NOT NULL UNIQUE,
            created     timestamptz NOT NULL,
            updated     timestamptz NOT NULL,
            lease_until timestamptz NOT NULL,  -- until then nobody who cannot look at the owner takes it
            epoch       bigint NOT NULL,
            owner       text NOT NULL,         -- empty: nobody drives it
            entries     bigint NOT NULL,
            summary     bytea NOT NULL,        -- JSON
            stop        bytea,                 -- the cause that somebody asks it to stop with, JSON
            stop_epoch  bigint                 -- of the driver that is asked
        )
        """,
        "CREATE INDEX heaveto_run_by_update ON heaveto_run (updated)",
        """
        CREATE TABLE heaveto_entry (
            run  bigint NOT NULL,              -- heaveto_run.number
            seq  bigint NOT NULL,
            at   timestamptz NOT NULL,
            body bytea NOT NULL,
            PRIMARY KEY (run, seq)
        )
        """,
    ),
}
FORMAT = len(MIGRATIONS)
_LOCK = 0x6876746F  # "hvto"; of the migrations
_LOCK_SHARE = 0.75  # of the time to wait: so that the error which says that a lock is held comes first

# What a database may have set otherwise, and what we count on.
_SETTINGS = """
SELECT set_config('default_transaction_isolation', 'read committed', false),
       set_config('synchronous_commit', CASE current_setting('synchronous_commit')
           WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false),  -- off loses acknowledged records
       set_config('lock_timeout', %(lock_ms)s, false),
       set_config('statement_timeout', %(wait_ms)s, false),  -- no later than we leave
       set_config('idle_in_transaction_session_timeout', %(wait_ms)s, false)  -- who is paused must not hold up others
"""


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that waits for its server no longer than it may.

    Attributes:
        until: When it gives up, by the monotonic clock.
    """

    until: float = float("inf")

    def wait(self, gen: PQGen[Any], *args: Any, **options: Any) -> Any:
        return super().wait(self._limited(gen), *args, **options)

    def _limited(self, gen: PQGen[Any]) -> PQGen[Any]:
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if (
                    not ready and time.monotonic() > self.until
                ):  # woken up to look around: psycopg does that ten times a second
                    self.pgconn.finish()
                    raise Mute("the connection stands, and nothing comes")
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value


def connect(address: Address, wait_seconds: float) -> Connection:
    """Open the journal, and make its tables where there are none. A statement is a transaction unless one is begun by hand.

    Args:
        wait_seconds: How long to wait for the server, and there for a lock.

    Raises:
        JournalNewer, JournalDamaged: It is none that this version can use. It is left as it is.
        psycopg.Error: The server cannot be reached, or refuses.
    """
    connection = Connection.connect(
        address.conninfo, autocommit=True, client_encoding="UTF8", connect_timeout=max(2, ceil(wait_seconds))
    )
    try:
        connection.until = time.monotonic() + wait_seconds
        waits = {"wait_ms": wait_seconds, "lock_ms": wait_seconds * _LOCK_SHARE}
        connection.execute(_SETTINGS, {name: str(ceil(seconds * 1000)) for name, seconds in waits.items()})
        bring_up(connection, address.place)
    except BaseException:
        connection.close()
        raise
    return connection


def bring_up(connection: Connection, place: str, migrations: Migrations = MIGRATIONS) -> None:
    """Bring the tables up to the newest format.

    Raises:
        JournalNewer, JournalDamaged: They are not ours, or of a newer version.
    """
    newest = len(migrations)
    if _format(connection, place, newest) == newest:
        return
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        for version in range(_format(connection, place, newest), newest):
            for statement in migrations[version]:
                connection.execute(statement.encode())
            connection.execute("UPDATE heaveto_journal SET format = %s", (version + 1,))


def _format(connection: Connection, place: str, newest: int) -> int:
    """The format of the tables; 0 where there are none."""
    try:
        with connection.transaction():  # a savepoint within another
            row = connection.execute("SELECT format FROM heaveto_journal").fetchone()
    except pg.UndefinedTable:
        return 0
    if row is None:
        raise JournalDamaged(place, "its format is not told; restore the tables from a copy, or name another schema")
    if row[0] > newest:
        error = JournalNewer(row[0], newest)
        error.add_note(f"in {place}")
        raise error
    return int(row[0])
