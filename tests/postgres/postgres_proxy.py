"""A bad line to a Postgres server: a unix socket that hands everything on, but for one message, which goes wrong once.

A message here is what the client sends at one go. That is counted from `arm` on, over all connections.
"""

from __future__ import annotations

import socket
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Literal, Self, TypeAlias
from urllib.parse import quote

__all__ = ["FAULTS", "BadLine", "Fault"]

# What becomes of the message: it is lost; half of it arrives; it is answered and the answer is lost; the line is cut and it
# arrives all the same, when the client has long connected again; it is answered, and nothing is heard on an open line.
Fault: TypeAlias = Literal["lost", "half", "answer lost", "late", "mute"]
FAULTS: tuple[Fault, ...] = ("lost", "half", "answer lost", "late")
LATE_SECONDS = 0.3
SOCKET = ".s.PGSQL.5432"


class BadLine:
    """`with BadLine(server.folder) as line:` with `line.address(...)` in place of the server's."""

    def __init__(self, server: Path) -> None:
        self._server = server
        self._folder = tempfile.TemporaryDirectory(prefix="hvbl-")
        self._listener = socket.socket(socket.AF_UNIX)
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._fault: Fault | None = None
        self._at = self.messages = 0
        self.went_wrong = threading.Event()
        self.admits = threading.Event()  # new connections; the others wait
        self.admits.set()

    def __enter__(self) -> Self:
        self._listener.bind(str(Path(self._folder.name) / SOCKET))
        self._listener.listen(20)
        self._start(self._accept)
        return self

    def __exit__(self, *exc: object) -> None:
        self._close(self._listener)
        for each in list(self._open):
            self._close(each)
        for thread in self._threads:
            thread.join()
        self._folder.cleanup()

    def address(self, address: str) -> str:
        """The same place, over this line."""
        return address.replace(quote(str(self._server), safe=""), quote(self._folder.name, safe=""))

    def arm(self, fault: Fault | None, at: int) -> None:
        """Have the `at`-th message from now on go wrong."""
        with self._lock:
            self._fault, self._at, self.messages = fault, at, 0
        self.went_wrong.clear()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.admits.wait()
            server = socket.socket(socket.AF_UNIX)
            self._open |= {client, server}
            try:
                server.connect(str(self._server / SOCKET))
            except OSError:
                self._hang_up(client, server)
                continue
            lost = threading.Event()
            self._start(self._hand_on, client, server, lost)
            self._start(self._hand_back, server, client, lost)

    def _hand_on(self, client: socket.socket, server: socket.socket, lost: threading.Event) -> None:
        """From the client to the server."""
        with suppress(OSError):
            while message := client.recv(1 << 20):
                if (fault := self._fault_of_next()) is None:
                    server.sendall(message)
                else:
                    self._go_wrong(fault, message, client, server, lost)
        self._hang_up(client, server)

    def _hand_back(self, server: socket.socket, client: socket.socket, lost: threading.Event) -> None:
        with suppress(OSError):
            while answer := server.recv(1 << 20):
                if not lost.is_set():
                    client.sendall(answer)
                elif self._fault == "answer lost":
                    break
        if self._fault != "mute" or not lost.is_set():
            self._hang_up(client, server)

    def _go_wrong(
        self, fault: Fault, message: bytes, client: socket.socket, server: socket.socket, lost: threading.Event
    ) -> None:
        lost.set()
        self.went_wrong.set()
        if fault == "late":
            self._shut(client)
            time.sleep(LATE_SECONDS)
        if fault != "lost":
            server.sendall(message[: len(message) // 2] if fault == "half" else message)
        if fault in ("lost", "half", "late"):
            raise OSError("cut")

    def _fault_of_next(self) -> Fault | None:
        with self._lock:
            self.messages += 1
            return self._fault if self.messages == self._at else None

    def _start(self, fn: object, *args: object) -> None:
        thread = threading.Thread(target=fn, args=args, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _hang_up(self, *sockets: socket.socket) -> None:
        for each in sockets:
            self._close(each)

    def _shut(self, each: socket.socket) -> None:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)

    def _close(self, each: socket.socket) -> None:
        self._shut(each)
        each.close()
        self._open.discard(each)
