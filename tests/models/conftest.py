"""A real HTTP/1.1 server on loopback that answers as a test tells it, byte by byte."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from heaveto.models.httpx_exchange import _trusting

STALL, RESET, CLOSE = "stall", "reset", "close"


@dataclass
class Received:
    """A request as it came in."""

    connection: int
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class ScriptedServer:
    """Answers each request with the next script: bytes to send, or STALL, RESET, CLOSE; the last script repeats."""

    scripts: list[list[bytes | str]] = field(default_factory=list)
    received: list[Received] = field(default_factory=list)
    hung_up: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"

    def answer(self, *scripts: list[bytes | str]) -> None:
        self.scripts = list(scripts)

    def close(self) -> None:
        self._over.set()
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for thread in self._threads:
            thread.join(5)
            assert not thread.is_alive()

    def _accept(self) -> None:
        connection = 0
        while not self._over.is_set():
            try:
                peer, _ = self._socket.accept()
            except OSError:
                return
            connection += 1
            thread = threading.Thread(target=self._serve, args=(peer, connection), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, peer: socket.socket, connection: int) -> None:
        peer.settimeout(0.02)
        with peer:
            while (request := self._read_request(peer, connection)) is not None:
                self.received.append(request)
                script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
                if not self._play(peer, script):
                    return

    def _play(self, peer: socket.socket, script: list[bytes | str]) -> bool:
        for step in script:
            if isinstance(step, bytes):
                try:
                    peer.sendall(step)
                except OSError:
                    self.hung_up.set()
                    return False
            elif step == STALL:
                self._wait_for_hang_up(peer)
                return False
            else:
                if step == RESET:
                    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return False
        return True

    def _wait_for_hang_up(self, peer: socket.socket) -> None:
        while not self._over.is_set():
            try:
                if not peer.recv(1):
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        self.hung_up.set()

    def _read_request(self, peer: socket.socket, connection: int) -> Received | None:
        data = b""
        while True:
            head, blank, body = data.partition(b"\r\n\r\n")
            if blank:
                lines = head.decode().split("\r\n")
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
                if len(body) >= int(headers.get("content-length", "0")):
                    return Received(connection, lines[0].split(" ")[1], headers, body)
            try:
                more = peer.recv(65536)
            except TimeoutError:
                if self._over.is_set():
                    return None
                continue
            except OSError:
                return None
            if not more:
                return None
            data += more


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """The server, with nothing to answer yet."""
    server = ScriptedServer()
    yield server
    server.close()


def head(status: str, kind: str, *more: str) -> bytes:
    return "\r\n".join((f"HTTP/1.1 {status}", f"content-type: {kind}", *more, "", "")).encode()


def whole(body: bytes | str, status: str = "200 OK", kind: str = "application/json", *more: str) -> list[bytes | str]:
    body = body.encode() if isinstance(body, str) else body
    return [head(status, kind, f"content-length: {len(body)}", *more) + body]


def chunks(*pieces: bytes, end: bool = True) -> list[bytes | str]:
    """An event stream in HTTP chunks, each a write of its own."""
    framed: list[bytes | str] = [b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces]
    return [head("200 OK", "text/event-stream", "transfer-encoding: chunked"), *framed, *([b"0\r\n\r\n"] if end else [])]


def event(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    data = {"id": "gen-1", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}
    return b"data: " + json.dumps(data).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


class Wire:
    """The pieces that tests build answers from."""

    head = staticmethod(head)
    whole = staticmethod(whole)
    chunks = staticmethod(chunks)
    event = staticmethod(event)
    done, stall, reset, close = DONE, STALL, RESET, CLOSE


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl")
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(file), "-out", str(file.with_suffix(".crt"))]
    subprocess.run(command, check=True, capture_output=True)
    file.write_text(file.read_text() + file.with_suffix(".crt").read_text())
    return file


@pytest.fixture
def tls(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ssl.SSLContext]:
    """The server's side; the client's trusts it for the time of the test, as anybody's may with `SSL_CERT_FILE`."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    _trusting.cache_clear()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.set_alpn_protocols(["h2"])
    yield context
    _trusting.cache_clear()
