"""Journals of killed processes in Postgres, each in a schema of its own."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, TypeVar

import psycopg
from crash_outside import Outside

from heaveto.journal.postgres import PostgresStore
from heaveto.journal.postgres_statements import Asked

__all__ = ["KilledPostgres", "bodies_in", "copy_schema", "make_schema"]

T = TypeVar("T")

TABLES = ("heaveto_journal", "heaveto_run", "heaveto_entry")


class KilledPostgres(PostgresStore):
    """Its process may be killed before each write, when the server has done it and nobody was told, and after it."""

    def __init__(self, server: str, schema: str, outside: Outside) -> None:
        super().__init__(f"{server}{'&' if '?' in server else '?'}options=-csearch_path%3D{schema}")
        self._outside = outside
        database: Any = self._writer._database
        database.transact = self._killed_in(database.transact)

    def _killed_in(self, transact: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
        def interrupted(connection: Any, jobs: Any) -> list[Any]:
            answers = transact(connection, jobs)
            self._outside.reach(f"untold {type(jobs[0].work).__name__.lower()}")
            return answers

        return interrupted

    async def _write(self, asked: Asked[T]) -> T:
        name = type(asked).__name__.lower()
        self._outside.reach(f"before {name}")
        result = await super()._write(asked)
        if name == "append":
            self._outside.note("acked", number=int(str(result)))
        self._outside.reach(f"after {name}")
        return result


def make_schema(server: str) -> str:
    name = f"crash_{secrets.token_hex(8)}"
    _execute(server, f"CREATE SCHEMA {name}")
    return name


def copy_schema(server: str, schema: str) -> str:
    """Another schema with the same journal; where there is none yet, an empty one."""
    name = make_schema(server)
    if _tables_in(server, schema):
        for table in TABLES:
            _execute(server, f"CREATE TABLE {name}.{table} (LIKE {schema}.{table} INCLUDING ALL)")
            _execute(server, f"INSERT INTO {name}.{table} OVERRIDING SYSTEM VALUE SELECT * FROM {schema}.{table}")
    return name


def bodies_in(server: str, schema: str) -> list[tuple[bytes]]:
    if not _tables_in(server, schema):
        return []
    return _execute(server, f"SELECT body FROM {schema}.heaveto_entry ORDER BY seq")


def _tables_in(server: str, schema: str) -> bool:
    return bool(_execute(server, f"SELECT FROM information_schema.tables WHERE table_schema = '{schema}'"))


def _execute(server: str, statement: str) -> list[Any]:
    with psycopg.connect(server, autocommit=True) as connection:
        done = connection.execute(statement.encode(), binary=True)
        return done.fetchall() if done.description is not None else []
