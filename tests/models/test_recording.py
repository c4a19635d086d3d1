"""Recorded exchanges hold no key and play back what came; a request that was not recorded names the nearest."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heaveto.causes import Cancelled
from heaveto.errors import APIError, ConfigError, IncompleteStream, TransportFailed
from heaveto.messages import Reply, Transcript, UserMessage
from heaveto.models import Exchange, HTTPRequest, RemoteModel, Request, anthropic, compatible, record, replay
from heaveto.models.recorded_requests import difference
from heaveto.scopes import Scope
from heaveto.testing import Answered, Cut, FaultyExchange

pytestmark = pytest.mark.anyio

KEY = "sk-or-v1-0123456789abcdef/+=="


def model_at(server: Any = None, **more: Any) -> RemoteModel:
    return compatible("m", base_url=server.url if server else "http://localhost:1/v1", key=KEY, **more)


async def ask(model: RemoteModel, text: str = "hi") -> Reply:
    async with model.stream(Request(transcript=Transcript([UserMessage(text)]))) as stream:
        async for _ in stream:
            pass
        return stream.reply
    raise AssertionError


async def send(exchange: Exchange, body: bytes, url: str = "http://localhost:1/v1/x", **headers: str) -> list[bytes]:
    answer = await exchange.send(HTTPRequest("POST", url, headers, body), lambda: None)
    pieces = []
    while piece := await answer.read():
        pieces.append(piece)
    return pieces


def text_of(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


async def test_what_was_recorded_plays_without_the_network(server: Any, wire: Any, tmp_path: Path) -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 2}
    server.answer(
        wire.chunks(wire.event({"content": "Olá"}), wire.event({"content": "!"}, "stop", usage=usage), wire.done),
        wire.whole(json.dumps({"error": {"message": "slow"}}), "429 Slow", "application/json", "retry-after: 7"),
    )
    model = record(model_at(server), tmp_path)
    recorded = await ask(model)
    with pytest.raises(APIError):
        await ask(model)
    await model.aclose()
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        f"000{number}.{ending}" for number in (1, 2) for ending in ("json", "reply", "request")
    ]
    played = model_at(exchange=replay(tmp_path))
    assert await ask(played) == recorded
    with pytest.raises(APIError) as caught:
        await ask(played)
    assert (caught.value.status, caught.value.retry_after) == (429, 7)
    assert len(server.received) == 2


async def test_pieces_come_as_they_came(server: Any, wire: Any, tmp_path: Path) -> None:
    server.answer([wire.head("200 OK", "text/plain", "content-length: 6") + b"abc", b"def"])
    real = model_at(server).exchange
    recorded = await send(record(real, tmp_path), b"{}", server.url)
    assert await send(replay(tmp_path), b"{}", "http://other.example/v1") == recorded
    await real.aclose()


async def test_a_key_reaches_no_file(server: Any, wire: Any, tmp_path: Path) -> None:
    """In headers, cookies, the query, the request's body, the reply's, and across two pieces of it."""
    query, cookie, other = "query-secret-1", "cookie-secret-2", "header-secret-3"
    told = f'{{"error": "bad key {KEY}, {query}, {cookie}, {other}"}}'.encode()
    server.answer([wire.head("400 Bad", "application/json", f"content-length: {len(told)}", "set-cookie: a=set-secret-4")])
    server.scripts[0] += [told[:25], told[25:]]
    exchange = model_at(server).exchange
    recorder = record(exchange, tmp_path)
    headers = {"authorization": f"Bearer {KEY}", "x-api-key": KEY, "cookie": f"s={cookie}; t=1", "x-own": other}
    body = json.dumps({"input": f"my key is {KEY}, and {other}"}).encode()
    await send(recorder, body, f"{server.url}/x?key={query}&alt=sse", **headers)
    await exchange.aclose()
    for secret in (KEY, query, cookie, other, "set-secret-4"):
        assert secret.encode() not in text_of(tmp_path), secret
    assert b"alt=sse" not in text_of(tmp_path)
    pieces = await send(replay(tmp_path), body.replace(KEY.encode(), b"***"), f"{server.url}/x", **{"x-own": other})
    assert b"".join(pieces).startswith(b'{"error": "bad key ***')


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    key=st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="*"), min_size=8, max_size=40),
    before=st.binary(max_size=20),
    cuts=st.lists(st.integers(0, 80), max_size=4),
)
def test_no_split_of_a_reply_lets_a_key_through(
    tmp_path_factory: pytest.TempPathFactory, key: str, before: bytes, cuts: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("recording")
    body = before + key.encode() + b"."
    edges = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]

    class InPieces:
        status, headers = 200, {}

        def __init__(self) -> None:
            self.left = [body[begin:end] for begin, end in itertools.pairwise(edges) if end > begin]

        async def read(self) -> bytes:
            return self.left.pop(0) if self.left else b""

        async def send(self, request: HTTPRequest, connected: Any) -> Any:
            return self

        async def aclose(self) -> None: ...

    anyio.run(lambda: send(record(InPieces(), folder), b"{}", authorization=f"Bearer {key}"))
    assert key.encode() not in b"".join(file.read_bytes() for file in folder.glob("*.re*"))
    assert (folder / "0001.reply").stat().st_size == len(body)


async def test_a_broken_network_plays_back_broken(tmp_path: Path) -> None:
    event = b'data: {"choices": [{"index": 0, "delta": {"content": "abc"}}]}\n\n'
    exchange = FaultyExchange(event * 3, Cut("refused"), Cut("reset", len(event)))
    model = record(model_at(exchange=exchange), tmp_path)
    for made in (lambda: model, lambda: model_at(exchange=replay(tmp_path))):
        each = made()
        with pytest.raises(TransportFailed, match="no connection: refused"):
            await ask(each)
        with pytest.raises(IncompleteStream):
            await ask(each)


async def test_an_answer_that_was_left_ends_where_it_was_left(server: Any, wire: Any, tmp_path: Path) -> None:
    server.answer([*wire.chunks(wire.event({"content": "a"}), end=False), wire.stall])
    model = record(model_at(server), tmp_path)
    with pytest.raises(Cancelled), Scope() as scope:
        async with model.stream(Request(transcript=Transcript([UserMessage("hi")]))) as stream:
            async for _ in stream:
                scope.cancel(Cancelled("enough"))
    await model.aclose()
    with pytest.raises(IncompleteStream) as caught:
        await ask(model_at(exchange=replay(tmp_path)))
    assert "the recording 0001 ends here" in str(caught.value.__cause__)


async def test_equal_requests_get_their_answers_in_order_and_others_in_any(tmp_path: Path) -> None:
    answers = [Answered(text) for text in (b"one", b"two", b"three")]
    recorder = record(FaultyExchange(b"", *answers), tmp_path)
    for body in (b'{"a": 1, "b": 2, "user": "x"}', b'{"a": 2}', b'{"a": 1, "b": 2}'):
        await send(recorder, body)
    player = replay(tmp_path)
    assert await send(player, b'{"a": 2, "metadata": {"run": 7}}') == [b"two"]
    assert await send(player, b'{"b": 2, "a": 1, "user": "y"}') == [b"one"]
    assert await send(player, b'{"b": 2, "a": 1}') == [b"three"]
    with pytest.raises(ConfigError) as caught:
        await send(player, b'{"a": 2}')
    assert str(caught.value).startswith("POST /v1/x was recorded 1 times (0002) and is sent once more")


async def test_a_request_that_was_not_recorded_names_the_nearest(tmp_path: Path) -> None:
    recorder = record(FaultyExchange(b"ok"), tmp_path)
    await send(recorder, b'{"model": "m", "messages": [{"content": "hello"}]}')
    await send(recorder, b'{"model": "other", "messages": [{"content": "what?"}, {"content": "more"}]}')
    player = replay(tmp_path)
    with pytest.raises(ConfigError) as caught:
        await send(player, b'{"model": "m", "messages": [{"content": "hullo"}]}')
    assert str(caught.value) == (
        "POST /v1/x was not recorded with this body; the nearest is 0001: "
        '$.messages[0].content was "hello", and is "hullo"; '
        "record it, or send what was recorded"
    )
    with pytest.raises(ConfigError, match=r"POST /v1/y was not recorded; the nearest is 0001, POST /v1/x"):
        await send(player, b'{"model": "m", "messages": [{"content": "hello"}]}', "http://localhost:1/v1/y")


def test_folders_that_cannot_serve_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no recordings in"):
        replay(tmp_path)
    (tmp_path / "0001.json").write_text('{"format": 9, "method": "GET", "address": "x", "headers": {}}')
    with pytest.raises(ConfigError, match="has recordings already"):
        record(FaultyExchange(b""), tmp_path)
    with pytest.raises(ConfigError, match="has the format 9, not 1"):
        replay(tmp_path)
    (tmp_path / "0001.json").write_text("{")
    with pytest.raises(ConfigError, match="is no recording"):
        replay(tmp_path)


async def test_another_dialect_is_recorded_alike(tmp_path: Path) -> None:
    """Anthropic's key goes in a header of its own."""
    model = anthropic("claude", key=KEY, exchange=FaultyExchange(Answered(b"{}", 400)))
    with pytest.raises(APIError):
        await ask(record(model, tmp_path))
    assert KEY.encode() not in text_of(tmp_path)
    assert json.loads((tmp_path / "0001.json").read_bytes())["headers"]["x-api-key"] == "***"


@settings(max_examples=40, deadline=None)
@given(
    data=st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda each: st.lists(each) | st.dictionaries(st.text(max_size=3), each),
    )
)
def test_a_body_differs_in_nothing_from_itself(data: Any) -> None:
    assert difference(data, data) == (0, "nothing differs")
