"""A Postgres address, and what of it may be shown: never the user or the password, in whatever place somebody put it."""

from __future__ import annotations

import re
from typing import NamedTuple

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ..errors import ConfigError

__all__ = ["Address", "read_address"]

MAX_PORT = 65_535
_PORT = "5432"
_PLAIN = {  # a password with a stray "@", "/", ":" or "?" ends up in one of these
    "host": r"[\w.\-:/,%]*",
    "port": r"[\d,]*",
    "dbname": r"[\w.\- ]*",
}
_SHAPE = (
    "write it as postgresql://user@host:5432/database, and the password into PGPASSWORD or ~/.pgpass; "
    'within the address, its characters other than letters and digits are written as "%40"'
)


class Address(NamedTuple):
    """How to connect, and how to call it.

    Attributes:
        conninfo: For libpq, secrets and all.
        place: For people, such as "postgresql://db.example/agents".
        secrets: What must not be shown, should the other side repeat it.
    """

    conninfo: str
    place: str
    secrets: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Address({self.place!r})"


def read_address(text: str) -> Address:
    """The parts of a `postgresql://` address.

    Raises:
        ConfigError: It is none. What was wrong is not repeated, for it may be the password.
    """
    parts = _parts(text)
    for name, pattern in _PLAIN.items():
        if not re.fullmatch(pattern, parts.get(name, "")):
            raise ConfigError(f"the {name} in the journal's address has characters that none has", _SHAPE)
    if not all(1 <= int(port) <= MAX_PORT for port in parts.get("port", "").split(",") if port):
        raise ConfigError(f"a port in the journal's address is not between 1 and {MAX_PORT:,}", _SHAPE)
    secrets = tuple(value for name, value in parts.items() if value and ("password" in name or name == "passfile"))
    return Address(make_conninfo(text, fallback_application_name="heaveto"), _place(parts), secrets)


def _parts(text: str) -> dict[str, str]:
    try:
        return {name: str(value) for name, value in conninfo_to_dict(text).items()}
    except (ProgrammingError, ValueError):
        pass  # its text has a part of the address; raised outside, no error has it as its context
    raise ConfigError("the journal's address cannot be read", _SHAPE)


def _place(parts: dict[str, str]) -> str:
    host, port = parts.get("host", ""), parts.get("port", _PORT)
    if host.startswith("/") or not host:
        host = f"[{host or 'local'}]"
    elif ":" in host:
        host = ",".join(f"[{each}]" if ":" in each else each for each in host.split(","))
    usual = set(port.split(",")) <= {"", _PORT}
    return f"postgresql://{host}{'' if usual else f':{port}'}/{parts.get('dbname', '')}"
