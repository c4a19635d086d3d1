"""The server over real HTTP: what it takes, what it refuses, and the pieces of a streamed reply."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from heaveto.offline.server import ApiServer

TOKEN = "a-token-of-the-test"
MESSAGES = [{"role": "user", "content": "make the tests pass"}]
CALLING = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "run_tests", "arguments": "{}"}}],
}


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer(TOKEN) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def connection(server: ApiServer) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    yield connection
    connection.close()


def post(connection: http.client.HTTPConnection, body: Any, token: str = TOKEN) -> tuple[int, bytes]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request("POST", "/v1/chat/completions", data, {"Authorization": f"Bearer {token}"})
    response = connection.getresponse()
    return response.status, response.read()


def request_of(tools: list[Any], **fields: Any) -> dict[str, Any]:
    return {"model": "repair", "messages": MESSAGES, "tools": tools, **fields}


def test_models(connection: http.client.HTTPConnection) -> None:
    connection.request("GET", "/v1/models", headers={"Authorization": f"Bearer {TOKEN}"})
    listing = json.loads(connection.getresponse().read())
    assert [model["id"] for model in listing["data"]] == ["repair"]


def test_whole_reply(connection: http.client.HTTPConnection, tools: list[Any]) -> None:
    status, body = post(connection, request_of(tools))
    reply = json.loads(body)
    choice = reply["choices"][0]
    assert status == 200
    assert choice["finish_reason"] == "tool_calls"
    assert [call["function"]["name"] for call in choice["message"]["tool_calls"]] == ["list_files", "run_tests"]
    assert reply["usage"]["cost"] == 0
    assert reply["usage"]["total_tokens"] == reply["usage"]["prompt_tokens"] + reply["usage"]["completion_tokens"]


def events_of(body: bytes) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in body.decode().split("\n\n") if line]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


def test_streamed_reply_says_the_same(connection: http.client.HTTPConnection, tools: list[Any]) -> None:
    """Joined, the pieces are the whole reply; the text and the arguments come in several."""
    whole = json.loads(post(connection, request_of(tools))[1])
    events = events_of(post(connection, request_of(tools, stream=True))[1])
    deltas = [event["choices"][0]["delta"] for event in events if event["choices"]]
    text = [delta["content"] for delta in deltas if "content" in delta]
    calls: dict[int, dict[str, str]] = {}
    for delta in deltas:
        for piece in delta.get("tool_calls", ()):
            call = calls.setdefault(piece["index"], {"id": piece.get("id", ""), "arguments": ""})
            call["arguments"] += piece["function"]["arguments"]
    message = whole["choices"][0]["message"]
    assert deltas[0]["role"] == "assistant"
    assert len(text) > 5
    assert "".join(text) == message["content"]
    assert [call["id"] for call in calls.values()] == [call["id"] for call in message["tool_calls"]]
    assert [call["arguments"] for call in calls.values()] == [
        call["function"]["arguments"] for call in message["tool_calls"]
    ]
    assert events[-2]["choices"][0]["finish_reason"] == "tool_calls"
    assert events[-1]["usage"] == whole["usage"]


def test_arguments_are_split(server: ApiServer, connection: http.client.HTTPConnection, tools: list[Any]) -> None:
    arguments = json.dumps({"path": "a.py", "old": "x" * 50, "new": "é" * 10})
    call = {"id": "c9", "type": "function", "function": {"name": "edit_file", "arguments": arguments}}
    server.reply = lambda request: {"role": "assistant", "content": "", "tool_calls": [call]}
    events = events_of(post(connection, request_of(tools, stream=True))[1])
    pieces = [
        p["function"]["arguments"] for e in events if e["choices"] for p in e["choices"][0]["delta"].get("tool_calls", ())
    ]
    assert len(pieces) > 5
    assert "".join(pieces) == arguments


def test_connection_is_kept(connection: http.client.HTTPConnection, tools: list[Any]) -> None:
    """Streamed, whole and refused replies one after the other on one connection."""
    post(connection, request_of(tools, stream=True))
    first = connection.sock
    post(connection, b"{")
    post(connection, request_of(tools))
    assert connection.sock is first
    assert first is not None


@pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1], "\xe9"])
def test_wrong_token(token: str, connection: http.client.HTTPConnection, tools: list[Any]) -> None:
    status, body = post(connection, request_of(tools), token)
    assert status == 401
    assert json.loads(body)["error"]["code"] == "invalid_api_key"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{nonsense", "the body is not valid JSON"),
        (b"\xff\xfe\xfa", "the body is not valid JSON"),
        ([], "messages must be an array"),
        ({"model": "repair", "messages": []}, "messages must be an array with at least one message"),
        ({"model": "gpt-9", "messages": MESSAGES}, "the model `gpt-9` does not exist"),
        ({"model": "repair", "messages": [{"role": "wizard"}]}, "unknown role 'wizard'"),
        ({"model": "repair", "messages": [*MESSAGES, CALLING]}, "these have no response: c1"),
        ({"model": "repair", "messages": [*MESSAGES, CALLING, *MESSAGES]}, "these have no response: c1"),
        (
            {"model": "repair", "messages": [*MESSAGES, {"role": "tool", "tool_call_id": "c1", "content": ""}]},
            "must answer a call",
        ),
        ({"model": "repair", "messages": [{"role": "assistant", "tool_calls": [{"id": "c1"}]}]}, "without id, name or"),
        ({"model": "repair", "messages": MESSAGES, "tools": [{}]}, "each of tools must have a function"),
    ],
)
def test_refuses(body: Any, words: str, connection: http.client.HTTPConnection) -> None:
    status, said = post(connection, body)
    error = json.loads(said)["error"]
    assert status == 400
    assert words in error["message"]
    assert error["type"] == "invalid_request_error"


def test_answered_calls_are_taken(connection: http.client.HTTPConnection, tools: list[Any]) -> None:
    answered = [*MESSAGES, CALLING, {"role": "tool", "tool_call_id": "c1", "content": "tests passed: 3"}]
    status, body = post(connection, request_of(tools, messages=answered))
    assert status == 200
    assert "All 3 tests pass already" in json.loads(body)["choices"][0]["message"]["content"]


def test_unknown_address(connection: http.client.HTTPConnection) -> None:
    connection.request("GET", "/v2/models", headers={"Authorization": f"Bearer {TOKEN}"})
    assert connection.getresponse().status == 404


def test_a_bug_of_the_engine_is_answered(
    server: ApiServer, connection: http.client.HTTPConnection, tools: list[Any]
) -> None:
    def fail(request: Any) -> Any:
        raise KeyError("oops")

    server.reply = fail
    status, body = post(connection, request_of(tools))
    assert status == 500
    assert "the repair engine has a bug: KeyError" in json.loads(body)["error"]["message"]
