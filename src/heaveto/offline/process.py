"""The offline model as others see it: a model whose API is served by a child process, started with the first call."""

from __future__ import annotations

import os
import secrets
import selectors
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from ..errors import ConfigError
from ..messages import Part, Sampling
from ..models.chat import TAKES
from ..models.limits import CallLimits
from ..models.prices import Price
from ..models.protocol import AnswerSchema, Model, ModelStream, Request
from ..models.providers import compatible
from ..scopes import call_in_thread, finish
from .engine import MODEL
from .server import PACE_VARIABLE, TOKEN_VARIABLE

__all__ = ["OfflineModel", "OfflineServer", "model"]

CHUNK_SECONDS = 0.005  # a pace at which people see text come, and that costs a demo little
LONGEST_PAUSE = 60.0  # seconds; beyond it a reply of some hundred pieces takes hours
START_SECONDS = 20.0  # a child starts in a tenth of a second; a busy machine may need many times that
STOP_SECONDS = 2.0  # for the child to notice that its pipe is closed, before it is killed
FREE = Price(Decimal(0), Decimal(0))
BOOT = "import sys; sys.path.append(sys.argv[1]); from heaveto.offline.server import main; main()"


class OfflineServer:
    """The API in a child process; `async with` starts and stops it. It ends with this process, `kill -9` included.

    Args:
        chunk_seconds: The pause between two pieces of a streamed reply.
    """

    def __init__(self, chunk_seconds: float = CHUNK_SECONDS) -> None:
        self.chunk_seconds = chunk_seconds
        self.token = secrets.token_urlsafe(24)
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0
        self._lock = threading.Lock()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def pid(self) -> int | None:
        """The child's process id while it runs."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    async def __aenter__(self) -> Self:
        try:
            await call_in_thread(self.start)
        except BaseException:
            await finish(START_SECONDS + STOP_SECONDS, self.stop)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await finish(START_SECONDS + STOP_SECONDS, self.stop)

    def start(self) -> str:
        """Start the child unless it runs, from any thread; blocks until it listens. Returns the API's address.

        Raises:
            ConfigError: When the child does not come up.
        """
        with self._lock:
            if self.pid is None:
                self._discard()
                self._process = self._spawn()
                self._port = _read_port(self._process)
            return self.base_url

    async def stop(self) -> None:
        """End the child, if there is one, and wait until it is gone."""
        await call_in_thread(self._stop)

    def _stop(self) -> None:
        with self._lock:
            self._discard()

    def _spawn(self) -> subprocess.Popen[bytes]:
        # Isolated (-I) and with a bare environment: neither the working folder nor the user's variables choose its modules.
        package = str(Path(__file__).parents[2])
        command = [sys.executable, "-I", "-S", "-X", "utf8", "-c", BOOT, package]
        environment = {TOKEN_VARIABLE: self.token, PACE_VARIABLE: repr(self.chunk_seconds)}
        return subprocess.Popen(
            command, env=environment, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )

    def _discard(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        _close(process.stdin)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        _close(process.stdout)


def _read_port(process: subprocess.Popen[bytes]) -> int:
    line = b""
    with selectors.DefaultSelector() as selector:
        if process.stdout is not None and selector.register(process.stdout, selectors.EVENT_READ):
            line = process.stdout.readline() if selector.select(START_SECONDS) else b""
    if not line.strip().isdigit():
        raise ConfigError("the offline model's server did not start", "its words on standard error say why")
    return int(line)


def _close(pipe: IO[bytes] | None) -> None:
    if pipe is not None:
        pipe.close()


class OfflineModel:
    """The repair engine as a model: no key, no network, no cost. It is no language model, and says so.

    Args:
        server: The API's process; it is started with the first call, and again should it have died.
        limits: Time limits of a call.
    """

    def __init__(self, server: OfflineServer, limits: CallLimits | None = None) -> None:
        self.server, self.limits = server, limits
        self._clients: dict[str, Model] = {}  # by address, which is another one after each start of the server

    @property
    def name(self) -> str:
        return f"offline:{MODEL}"

    @property
    def reports_cost(self) -> bool:
        return True

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[ModelStream]:
        """One call, as `Model.stream`.

        Raises:
            ConfigError: When the server's process does not come up.
        """
        base_url = await call_in_thread(self.server.start) if self.server.pid is None else self.server.base_url
        async with self._client_of(base_url).stream(request) as stream:
            yield stream

    def _client_of(self, base_url: str) -> Model:
        if base_url not in self._clients:
            self._clients[base_url] = compatible(
                MODEL, base_url=base_url, key=self.server.token, provider="offline", limits=self.limits, price=(0, 0)
            )
        return self._clients[base_url]

    def check_inputs(self, parts: Sequence[Part]) -> None:
        """Refuse what its API does not take. It sees nothing of what it takes, and the first reply says so.

        Raises:
            ConfigError: The API does not take one of them.
        """
        TAKES.check(parts, "offline")

    sampling = Sampling()

    def check_sampling(self, sampling: Sampling) -> None:
        """Refuse any setting: how it writes is fixed.

        Raises:
            ConfigError: There is one.
        """
        for name in sampling.given():
            raise ConfigError(
                f'the offline engine has no setting "{name}": it is no language model, and its edits follow from the tests',
                "leave the setting out, or choose a model with -m PROVIDER:NAME",
            )

    def check_answer(self, answer: AnswerSchema, *, with_tools: bool) -> None:
        """Refuse any form of an answer: it has one thing to say, which is how the tests went.

        Raises:
            ConfigError: Always.
        """
        raise ConfigError(
            "the offline engine holds no answer to a schema",
            "choose a language model: all that it says is how the tests went",
        )

    async def aclose(self) -> None:
        """Close the connections and end the server's process."""
        try:
            for client in self._clients.values():
                await client.aclose()
        finally:
            await finish(START_SECONDS + STOP_SECONDS, self.server.stop)


def model(*, chunk_seconds: float | None = None, limits: CallLimits | None = None) -> OfflineModel:
    """The offline model: a small repair engine behind a real HTTP server in a child process of this one.

    Args:
        chunk_seconds: The pause between two pieces of a streamed reply; larger for a demonstration. By default what
            HEAVETO_OFFLINE_CHUNK_SECONDS says, else 0.005.
        limits: Time limits of a call.

    Raises:
        ConfigError: When HEAVETO_OFFLINE_CHUNK_SECONDS is no number of seconds.
    """
    return OfflineModel(OfflineServer(_pace() if chunk_seconds is None else chunk_seconds), limits)


def _pace() -> float:
    text = os.environ.get(PACE_VARIABLE) or repr(CHUNK_SECONDS)
    try:
        seconds = float(text)
    except ValueError as error:
        raise ConfigError(f'{PACE_VARIABLE} is "{text}"', "give seconds, such as 0.05") from error
    if not 0 <= seconds <= LONGEST_PAUSE:
        raise ConfigError(f"{PACE_VARIABLE} is {text}", f"give seconds from 0 to {LONGEST_PAUSE:g}")
    return seconds
