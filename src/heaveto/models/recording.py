"""Real exchanges written to files, and played back: `record(model, folder)` once, `replay(folder)` in tests.

The rules of this file:
- No secret reaches a file. Of headers only those that are known to hold none are kept; what a request's others hold is
  blotted out wherever it turns up, in bodies too, and so is what a query holds.
- A recording is written when its answer is over, however that comes about, without an await, so that no stop loses it.
- A request is known again by its method, path and body, whatever the host, the key and the order of JSON's fields.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, overload
from urllib.parse import quote, urlsplit

import anyio.lowlevel
import msgspec

from ..errors import ConfigError, TransportFailed
from .client import RemoteModel
from .exchange import Answer, Exchange, HTTPRequest, shown_address
from .recorded_requests import VOLATILE, difference, without

__all__ = ["Recording", "record", "replay"]

BLOT = b"***"
FORMAT = 1  # of the files; another number is another way to read them
MIN_SECRET_BYTES = 8  # what is shorter would blot out parts of ordinary words
KEPT_HEADERS = frozenset(  # of a request; all others may hold a key
    {
        "accept",
        "accept-encoding",
        "anthropic-beta",
        "anthropic-version",
        "content-type",
        "http-referer",
        "user-agent",
        "x-title",
    }
)
KEPT_REPLY_HEADERS = (  # as prefixes: what a client needs; others tell whose account it is, or set cookies
    "content-type",
    "location",
    "retry-after",
    "x-should-retry",
    "x-ratelimit-",
    "anthropic-ratelimit-",
    "x-request-id",
    "request-id",
)


class Recording(msgspec.Struct, kw_only=True):
    """What the JSON file of an exchange says; the bodies are in the `.request` and the `.reply` beside it.

    Attributes:
        pieces: The sizes of the reply's pieces, in bytes, as they were read.
        broken: How the network failed at the end; empty when it did not.
        whole: Whether the reply was read to its end.
    """

    format: int = FORMAT
    method: str
    address: str
    headers: dict[str, str]
    status: int = 0
    reply_headers: dict[str, str] = {}
    pieces: list[int] = []
    broken: str = ""
    whole: bool = False


@overload
def record(what: RemoteModel, folder: str | Path) -> RemoteModel: ...
@overload
def record(what: Exchange, folder: str | Path) -> Exchange: ...
def record(what: RemoteModel | Exchange, folder: str | Path) -> RemoteModel | Exchange:
    """The same model, or exchange, with all that it sends and gets written to files, without its keys.

    Args:
        folder: Made when it is not there; one JSON file for each exchange, and its bodies.

    Raises:
        ConfigError: When there are recordings already.
    """
    if isinstance(what, RemoteModel):
        return what.through(_Recorder(what.exchange, Path(folder)))
    return _Recorder(what, Path(folder))


def replay(folder: str | Path, *, ignore: Iterable[str] = VOLATILE) -> Exchange:
    """An exchange that answers from recordings: give it as `exchange`, or `model.through(replay(folder))`.

    Equal requests get the answers in the order in which they were recorded, each once.

    Args:
        ignore: Fields of a body, at its top, that may differ.

    Raises:
        ConfigError: When the folder holds none; and from `send`, when a request was not recorded.
    """
    return _Player(Path(folder), frozenset(ignore))


# --- recording ----------------------------------------------------------------------------------------------------------


class _Recorder:
    """An exchange that writes down what goes through it."""

    def __init__(self, exchange: Exchange, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.glob("*.json")):
            raise ConfigError(f"{folder} has recordings already", "give an empty folder")
        self._exchange, self._folder, self._count = exchange, folder, 0

    async def send(self, request: HTTPRequest, connected: Callable[[], None]) -> Answer:
        self._count += 1
        tape = _Tape(self._folder / f"{self._count:04}", request)
        try:
            answer = await self._exchange.send(request, connected)
        except TransportFailed as error:
            tape.write(broken=error.problem)
            raise
        return _RecordedAnswer(answer, tape)

    async def aclose(self) -> None:
        await self._exchange.aclose()


class _Tape:
    """One exchange on its way to its files."""

    def __init__(self, path: Path, request: HTTPRequest) -> None:
        self._path, self._secrets = path, secrets_of(request)
        self._body = blotted(request.body, self._secrets)
        self.recording = Recording(
            method=request.method,
            address=blotted(request.address.encode(), self._secrets).decode(),
            headers={name: value if name.lower() in KEPT_HEADERS else "***" for name, value in request.headers.items()},
        )
        self.pieces: list[bytes] = []

    def began(self, answer: Answer) -> None:
        self.recording.status = answer.status
        for name, value in answer.headers.items():
            if name.startswith(KEPT_REPLY_HEADERS):
                plain = shown_address(value) if name == "location" else value
                self.recording.reply_headers[name] = blotted(plain.encode(), self._secrets).decode()

    def write(self, *, broken: str = "", whole: bool = False) -> None:
        reply = blotted(b"".join(self.pieces), self._secrets, same_size=True)  # a secret may lie across two pieces
        self.recording.pieces = [len(piece) for piece in self.pieces]
        self.recording.broken, self.recording.whole = broken, whole
        self._path.with_suffix(".request").write_bytes(self._body)
        self._path.with_suffix(".reply").write_bytes(reply)
        told = msgspec.json.format(msgspec.json.encode(self.recording), indent=2)
        self._path.with_suffix(".json").write_bytes(told + b"\n")  # last: with it the recording is there


class _RecordedAnswer:
    """An answer that is written down while it is read."""

    def __init__(self, answer: Answer, tape: _Tape) -> None:
        self.status, self.headers = answer.status, answer.headers
        self._answer, self._tape, self._over = answer, tape, False
        tape.began(answer)

    async def read(self) -> bytes:
        try:
            piece = await self._answer.read()
        except TransportFailed as error:
            self._end(broken=error.problem)
            raise
        if piece:
            self._tape.pieces.append(piece)
        else:
            self._end(whole=True)
        return piece

    async def aclose(self) -> None:
        self._end()
        await self._answer.aclose()

    def _end(self, *, broken: str = "", whole: bool = False) -> None:
        if not self._over:
            self._over = True
            self._tape.write(broken=broken, whole=whole)


def secrets_of(request: HTTPRequest) -> list[bytes]:
    """What must not be seen of a request: the values of unknown headers, without "Bearer", and those of the query."""
    values = [value for name, value in request.headers.items() if name.lower() not in KEPT_HEADERS]
    words = [word for value in values for word in (value, *value.split(), *re.split(r"[=;\s]", value))]
    words += [pair.partition("=")[2] for pair in urlsplit(request.url).query.split("&")]
    found = {each.encode() for word in words for each in (word, quote(word, safe=""), _in_json(word))}
    return sorted((each for each in found if len(each) >= MIN_SECRET_BYTES), key=len, reverse=True)


def blotted(data: bytes, secrets: Iterable[bytes], *, same_size: bool = False) -> bytes:
    """The data with every secret replaced by asterisks."""
    for secret in secrets:
        data = data.replace(secret, b"*" * len(secret) if same_size else BLOT)
    return data


def _in_json(text: str) -> str:
    return msgspec.json.encode(text).decode()[1:-1]


# --- playing ------------------------------------------------------------------------------------------------------------


class _Player:
    """An exchange that knows only what was recorded."""

    def __init__(self, folder: Path, ignore: frozenset[str]) -> None:
        self._ignore = ignore
        self._all = [_load(path, ignore) for path in sorted(folder.glob("*.json"))]
        if not self._all:
            raise ConfigError(f"no recordings in {folder}", "make them with heaveto.models.record")
        self._left = list(self._all)

    async def send(self, request: HTTPRequest, connected: Callable[[], None]) -> Answer:
        await anyio.lowlevel.checkpoint()
        played = self._take(request)
        if not played.recording.status:
            raise TransportFailed(request.method, request.address, played.recording.broken)
        connected()
        return _PlayedAnswer(played, request)

    async def aclose(self) -> None: ...

    def _take(self, request: HTTPRequest) -> _Played:
        body = without(blotted(request.body, secrets_of(request)), self._ignore)
        key = _key(request.method, request.url, body)
        for played in self._left:
            if played.key == key:
                self._left.remove(played)
                return played
        raise ConfigError(self._not_recorded(request, key, body), "record it, or send what was recorded")

    def _not_recorded(self, request: HTTPRequest, key: str, body: object) -> str:
        what = f"{request.method} {urlsplit(request.url).path}"
        if same := [each.name for each in self._all if each.key == key]:
            return f"{what} was recorded {len(same)} times ({', '.join(same)}) and is sent once more"
        nearest = min(self._all, key=lambda each: difference(each.body, body).distance + (each.what != what))
        if nearest.what != what:
            return f"{what} was not recorded; the nearest is {nearest.name}, {nearest.what}"
        return (
            f"{what} was not recorded with this body; the nearest is {nearest.name}: {difference(nearest.body, body).text}"
        )


class _Played(msgspec.Struct, frozen=True):
    """A recording as it was read."""

    name: str
    key: str
    what: str
    body: Any
    reply: bytes
    recording: Recording


def _load(path: Path, ignore: frozenset[str]) -> _Played:
    try:
        recording = msgspec.json.decode(path.read_bytes(), type=Recording)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path} is no recording: {error}", "record it again") from error
    if recording.format != FORMAT:
        raise ConfigError(f"{path} has the format {recording.format}, not {FORMAT}", "record it again")
    body = without(path.with_suffix(".request").read_bytes(), ignore)
    key = _key(recording.method, recording.address, body)
    what = f"{recording.method} {urlsplit(recording.address).path}"
    return _Played(path.stem, key, what, body, path.with_suffix(".reply").read_bytes(), recording)


def _key(method: str, url: str, body: object) -> str:
    ordered = msgspec.json.encode(body, order="deterministic")
    return f"{method} {urlsplit(url).path} {hashlib.sha256(ordered).hexdigest()}"


class _PlayedAnswer:
    """A recorded answer, piece by piece."""

    def __init__(self, played: _Played, request: HTTPRequest) -> None:
        self.status = played.recording.status
        self.headers: Mapping[str, str] = played.recording.reply_headers
        self._played, self._request = played, request
        self._next, self._at = 0, 0

    async def read(self) -> bytes:
        await anyio.lowlevel.checkpoint()
        recording = self._played.recording
        if self._next < len(recording.pieces):
            begin, self._at = self._at, self._at + recording.pieces[self._next]
            self._next += 1
            return self._played.reply[begin : self._at]
        if recording.whole:
            return b""
        problem = recording.broken or f"the recording {self._played.name} ends here: it was not read further"
        raise TransportFailed(self._request.method, self._request.address, problem)

    async def aclose(self) -> None: ...
