"""A PostgreSQL server of our own for tests: found on this machine, in a folder that is removed again, on a unix socket only.

The server ends with the process that started it, however that ends. HEAVETO_TEST_POSTGRES names another server to be used
instead, by an address with the right to create schemas; then what restarts the server is left out.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import psycopg

__all__ = ["ADDRESS_VARIABLE", "Server", "find_binaries", "other_server", "running_server", "schema_address"]

ADDRESS_VARIABLE = "HEAVETO_TEST_POSTGRES"
PR_SET_PDEATHSIG = 1
START_SECONDS = 30.0
SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",  # these tests kill processes, not machines
    "shared_buffers": "16MB",
    "max_connections": "60",
    "autovacuum": "off",
    "lc_messages": "C",
}


def find_binaries() -> Path | None:
    """The folder of the newest server programs here: Debian's, else those on the PATH."""
    folders = sorted(
        (path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")),
        key=lambda folder: int(folder.parent.name),
    )
    if folders:
        return folders[-1]
    found = shutil.which("postgres")
    return Path(found).parent if found else None


def other_server() -> str | None:
    """The address of a server that is there already."""
    return os.environ.get(ADDRESS_VARIABLE)


class Server:
    """A server that this process starts and stops."""

    def __init__(self, binaries: Path, folder: Path, settings: dict[str, str] | None = None) -> None:
        self.folder, self._binaries = folder, binaries
        self._settings = SETTINGS | (settings or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._starter = ThreadPoolExecutor(1)  # the server ends with the thread that starts it, so that one has to stay
        self._schemas: list[str] = []
        # PostgreSQL refuses root, so there its own user runs it.
        self._user = "postgres" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name

    @property
    def address(self) -> str:
        return f"postgresql://{self._user}@/postgres?host={quote(str(self.folder), safe='')}"

    def make(self) -> None:
        if os.getuid() == 0:
            account = pwd.getpwnam(self._user)
            os.chown(self.folder, account.pw_uid, account.pw_gid)
        command = ["initdb", "--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-instructions", "-D", "data"]
        subprocess.run([self._binaries / command[0], *command[1:]], check=True, capture_output=True, **self._as_user())

    def start(self) -> None:
        self._starter.submit(self._start).result()
        self._wait()

    def _start(self) -> None:
        settings = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._binaries / "postgres", "-D", "data", "-k", str(self.folder), *settings],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_end_with_parent,
                **self._as_user(),
            )

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """End it: SIGQUIT at once, as after a crash; SIGINT cleanly, with every connection cut."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None

    def close(self) -> None:
        self.stop()
        self._starter.shutdown()

    def restart(self, how: signal.Signals = signal.SIGQUIT) -> None:
        self.stop(how)
        self.start()

    def place(self) -> str:
        """The address of an empty place: a schema, which goes when the server goes. Many are made at once, for speed."""
        if not self._schemas:
            self._schemas = [f"heaveto_{secrets.token_hex(6)}" for _ in range(20)]
            with psycopg.connect(self.address, autocommit=True) as connection:
                connection.execute("; ".join(f"CREATE SCHEMA {name}" for name in self._schemas))
        return in_schema(self.address, self._schemas.pop())

    def _wait(self) -> None:
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                psycopg.connect(self.address).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > until or (self._process and self._process.poll() is not None):
                    raise RuntimeError((self.folder / "log").read_text()) from None
                time.sleep(0.02)

    def _as_user(self) -> dict[str, object]:
        options: dict[str, object] = {"cwd": self.folder}
        if os.getuid() == 0:
            account = pwd.getpwnam(self._user)
            options |= {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        return options


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGQUIT)


@contextmanager
def running_server(under: str | None = None, **settings: str) -> Iterator[Server]:
    """A server for the block. The folder's name is short, since a unix socket's path has to be."""
    binaries = find_binaries()
    if binaries is None:
        raise FileNotFoundError("no postgres")
    folder = Path(tempfile.mkdtemp(prefix="hvpg-", dir=under))
    server = Server(binaries, folder, settings)
    try:
        server.make()
        server.start()
        yield server
    finally:
        server.close()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def schema_address(address: str) -> Iterator[str]:
    """The address of an empty place of one's own on a server: a schema, which is gone at the end."""
    name = new_schema(address)
    try:
        yield in_schema(address, name)
    finally:
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(f'DROP SCHEMA "{name}" CASCADE')


def new_schema(address: str) -> str:
    name = f"heaveto_{secrets.token_hex(6)}"
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f'CREATE SCHEMA "{name}"')
    return name


def in_schema(address: str, name: str) -> str:
    return f"{address}{'&' if '?' in address else '?'}options=-csearch_path%3D{name}"
