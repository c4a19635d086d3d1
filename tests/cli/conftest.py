"""The command as a process of its own, with a state folder of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

RUN_SECONDS = 60.0  # far above what any of these takes; a hang is a failure


@dataclass(frozen=True)
class Finished:
    """A command that has ended."""

    status: int
    out: str
    err: str

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def end(self) -> dict[str, Any]:
        """The one `run.finished`, which is the last line."""
        ends = [event for event in self.events if event["type"] == "run.finished"]
        assert len(ends) == 1, self
        assert self.events[-1] == ends[0]
        return ends[0]


class WarmCommand:
    """The command, loaded once and forked for each call (`warm_command.py`): what it does is the same, it begins sooner."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("warm_command.py")), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONWARNINGS": "error"},
            )
        self._ours.settimeout(RUN_SECONDS)
        self._lines = self._ours.makefile("rw")

    def __call__(self, args: tuple[str, ...], cwd: Path | None, environment: dict[str, str]) -> Finished:
        with tempfile.NamedTemporaryFile("r") as out, tempfile.NamedTemporaryFile("r") as err:
            call = {
                "args": args,
                "cwd": str(cwd or Path.cwd()),
                "environment": environment,
                "out": out.name,
                "err": err.name,
            }
            self._lines.write(json.dumps(call) + "\n")
            self._lines.flush()
            pid = int(self._lines.readline())
            try:
                status = int(self._lines.readline())
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise
            return Finished(status, out.read(), err.read())

    def close(self) -> None:
        self._lines.close()
        self._ours.close()
        self._process.wait(RUN_SECONDS)


class Heaveto:
    """Runs the command with the environment of a test: its own state folder, no keys.

    A call of it runs to its end in a fork of the warm command; `start` gives a process that was begun as a person begins it.
    """

    def __init__(self, state: Path, warm: WarmCommand, bare_python: str) -> None:
        self._warm = warm
        kept = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
        # The projects' tests run in a bare interpreter: pytest with whatever is installed beside it takes seconds to start.
        bare = {"HEAVETO_TEST_PYTHON": bare_python}
        self.environment = {**kept, **bare, "HEAVETO_STATE": str(state), "PYTHONWARNINGS": "error"}
        self.environment.pop("HEAVETO_MODEL", None)

    def start(self, *args: str, cwd: Path | None = None, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "heaveto", *args],
            cwd=cwd,
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *args: str, cwd: Path | None = None, **environment: str) -> Finished:
        return self._warm(args, cwd, {**self.environment, **environment})

    def finish(self, process: subprocess.Popen[str]) -> Finished:
        out, err = process.communicate(timeout=RUN_SECONDS)
        return Finished(process.returncode, out, err)


@pytest.fixture(scope="session")
def warm_command() -> Iterator[WarmCommand]:
    with closing(WarmCommand()) as warm:
        yield warm


@pytest.fixture
def heaveto(tmp_path: Path, warm_command: WarmCommand, bare_python: str) -> Heaveto:
    return Heaveto(tmp_path / "state", warm_command, bare_python)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small project with one bug and a unittest that finds it."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    (folder / "test_calc.py").write_text(
        "import unittest\nfrom calc import add\n\n\nclass Add(unittest.TestCase):\n"
        "    def test_adds(self):\n        self.assertEqual(add(2, 3), 5)\n"
    )
    return folder


class ProcessTree:
    """The processes below one, each with its start time, so that a number that is given out again is not taken for it."""

    def __init__(self, root: int) -> None:
        parents = {pid: stat for pid in _pids() if (stat := _parent_and_start(pid))}
        found = {root}
        while more := {pid for pid, (parent, _) in parents.items() if parent in found} - found:
            found |= more
        self.started = {pid: parents[pid][1] for pid in found if pid in parents}

    def alive(self) -> list[int]:
        """Those that still run; a zombie does not."""
        return [pid for pid, started in self.started.items() if (stat := _parent_and_start(pid)) and stat[1] == started]


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _parent_and_start(pid: int) -> tuple[int, str] | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else (int(fields[1]), fields[19])


@pytest.fixture
def process_tree() -> type[ProcessTree]:
    """`process_tree(pid)` takes down the processes below one; `alive()` says which of them still run."""
    return ProcessTree


def wait_until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    """Wait for something that another process does."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.02)


@pytest.fixture
def until() -> Callable[..., None]:
    """`until(condition)` waits for something that another process does."""
    return wait_until


CHUNK = b'data: {"id":"x","choices":[{"index":0,"delta":{"content":"half an "},"finish_reason":null}]}\n\n'


class BadServer(ThreadingHTTPServer):
    """Misbehaves in one way, counts its requests; `released` ends those that are silent."""

    daemon_threads = True

    def __init__(self, behaviour: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.behaviour, self.requests, self.released = behaviour, 0, threading.Event()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: BadServer

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.server.requests += 1
        getattr(self, f"answer_{self.server.behaviour}")()

    def answer_401(self) -> None:
        self._send(401, b'{"error": {"message": "no such key", "type": "invalid_request_error"}}')

    def answer_429(self) -> None:
        self._send(429, b'{"error": {"message": "slow down"}}', ("retry-after", "0"))

    def answer_429_for_hours(self) -> None:
        self._send(429, b'{"error": {"message": "come back later"}}', ("retry-after", "10800"))

    def answer_500(self) -> None:
        self._send(500, b'{"error": {"message": "something broke"}}', ("retry-after-ms", "1"))

    def answer_html(self) -> None:
        self._send(200, b"<html><head><title>Sign in</title></head><body>...</body></html>", kind="text/html")

    def answer_cut(self) -> None:
        self._begin_stream()
        self._chunk(CHUNK)
        self.close_connection = True

    def answer_silent(self) -> None:
        self._begin_stream()
        self._chunk(CHUNK)
        self.server.released.wait(60)
        self.close_connection = True

    def answer_mute(self) -> None:
        self.server.released.wait(60)
        self.close_connection = True

    def _begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _send(self, status: int, body: bytes, *headers: tuple[str, str], kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def serving_badly(behaviour: str) -> Iterator[BadServer]:
    server = BadServer(behaviour)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def bad_server() -> Callable[[str], AbstractContextManager[BadServer]]:
    """A server on loopback that misbehaves in one way: `with bad_server("cut") as server`."""
    return serving_badly
