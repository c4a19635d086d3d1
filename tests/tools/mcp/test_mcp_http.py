"""What comes of each way in which a request over HTTP can fail: a scripted server on loopback, in the loop of the test."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from heaveto.errors import OutcomeUnknown, ToolError, ToolFatal
from heaveto.testing.exchange_server import Peer, serving
from heaveto.tools import Call
from heaveto.tools.mcp import HttpServer, McpServers, open_servers
from heaveto.tools.mcp.config import ServerOptions

pytest.importorskip("mcp", reason="no mcp")
pytestmark = [
    pytest.mark.anyio,
    # The SDK leaves a stream's generator to the collector when the answer has come.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"),
]

TOOLS = [
    {"name": name, "description": name, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": name == "look"}}
    for name in ("look", "change")
]
INFO = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}


class Script:
    """The server: everything but a call is answered as it should be; a call by the next of `answers`."""

    def __init__(self, *answers: str) -> None:
        self.answers, self.calls, self.sessions = list(answers), 0, 0

    async def __call__(self, peer: Peer) -> None:
        while await peer.request():
            head, _, body = peer._requests[-1].partition(b"\r\n\r\n")
            if not head.startswith(b"POST"):
                await peer.send(response(405))
                continue
            message = json.loads(body)
            if message["method"] == "tools/call":
                self.calls += 1
                if not await self.answer_call(peer, message["id"]):
                    return
            else:
                await peer.send(self.plain(message))

    def plain(self, message: dict[str, Any]) -> bytes:
        match message["method"]:
            case "initialize":
                self.sessions += 1
                return result(message["id"], INFO, f"mcp-session-id: s{self.sessions}\r\n")
            case "tools/list":
                return result(message["id"], {"tools": TOOLS})
            case "server/discover":
                return response(400)
        return response(202)

    async def answer_call(self, peer: Peer, number: int) -> bool:
        """Whether the connection goes on."""
        match self.answers.pop(0):
            case "good":
                await peer.send(result(number, {"content": [{"type": "text", "text": "good"}]}))
            case "reset":
                await peer.reset()
                return False
            case "cut":
                await peer.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: wait\n\n")
                await peer.close()
                return False
            case "cut json":
                await peer.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{")
                await peer.close()
                return False
            case body if body.startswith("{"):
                await peer.send(response(200, body.replace("ID", str(number)).encode("latin-1"), "application/json"))
            case body if body.startswith("data: "):
                await peer.send(response(200, body.replace("ID", str(number)).encode("latin-1"), "text/event-stream"))
            case status:
                await peer.send(response(int(status)))
        return True


def response(status: int, body: bytes = b"", kind: str = "text/plain", more: str = "") -> bytes:
    head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\n{more}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def result(number: int, value: Any, more: str = "") -> bytes:
    body = json.dumps({"jsonrpc": "2.0", "id": number, "result": value}).encode()
    return response(200, body, "application/json", more)


@asynccontextmanager
async def opened(script: Script) -> AsyncIterator[McpServers]:
    async with serving(script) as server:
        config = HttpServer(url=f"{server.url}/mcp", options=ServerOptions(trust_hints=True))
        async with open_servers({"web": config}) as servers:
            yield servers


async def call(servers: McpServers, name: str) -> str:
    tool = next(each for each in servers.tools if each.name == f"web__{name}")
    return await tool.run(Call(call_id="c1"), {})


async def test_an_old_session_is_replaced_and_the_call_made_on_the_new_one() -> None:
    script = Script("404", "good")
    async with opened(script) as servers:
        assert await call(servers, "change") == "good"
    assert (script.calls, script.sessions) == (2, 2)


async def test_a_server_that_knows_no_session_is_fatal_and_not_asked_for_ever() -> None:
    script = Script("404", "404")
    async with opened(script) as servers:
        with pytest.raises(ToolFatal, match="404"):
            await call(servers, "change")
    assert script.calls == 2


@pytest.mark.parametrize("answer", ["reset", "cut", "502"])
async def test_what_may_have_arrived_is_never_sent_again(answer: str) -> None:
    script = Script(answer, answer, "good")
    async with opened(script) as servers:
        with pytest.raises(OutcomeUnknown, match="MCP server web was lost"):
            await call(servers, "change")
        with pytest.raises(ToolError, match="nothing is lost by trying again"):
            await call(servers, "look")
        assert await call(servers, "look") == "good", "the session outlives a request that failed"
    assert (script.calls, script.sessions) == (3, 1)


@pytest.mark.parametrize("status", ["401", "403", "400"])
async def test_a_refusal_is_fatal(status: str) -> None:
    async with opened(Script(status)) as servers:
        with pytest.raises(ToolFatal, match=f"POST http://127.0.0.1:[0-9]+/mcp: {status}"):
            await call(servers, "change")


# --- a server that wants to know who asks ---------------------------------------------------------------------------

TOKEN = "secret-token-123"
OAUTH = 'Bearer resource_metadata="https://web.example/.well-known/oauth-protected-resource"'


class Guarded(Script):
    """Answers nobody without the token, and says what it wants."""

    def __init__(self, challenge: str, status: int = 401, token: str = TOKEN, kind: str = "text/plain") -> None:
        super().__init__("good")
        self.challenge, self.status, self.token, self.kind = challenge, status, token, kind

    async def __call__(self, peer: Peer) -> None:
        while await peer.request():
            head, _, body = peer._requests[-1].partition(b"\r\n\r\n")
            if f"authorization: bearer {self.token}".encode() not in head.lower():
                more = f"www-authenticate: {self.challenge}\r\n" if self.challenge else ""
                await peer.send(response(self.status, b'{"error": "no"}', self.kind, more))
            elif not head.startswith(b"POST"):
                await peer.send(response(405))
            elif (message := json.loads(body))["method"] == "tools/call":
                await self.answer_call(peer, message["id"])
                self.token = "another"  # it is taken back
            else:
                await peer.send(self.plain(message))


@asynccontextmanager
async def opened_with(script: Script, headers: dict[str, str]) -> AsyncIterator[McpServers]:
    async with serving(script) as server:
        config = HttpServer(url=f"{server.url}/mcp?key={TOKEN}", headers=headers)
        async with open_servers({"web": config}) as servers:
            yield servers


GIVE = 'give it that in mcpServers: "headers": {"Authorization": "Bearer ${TOKEN}"}'
NOT_TAKEN = "it does not take what mcpServers gives it in authorization: see whether that is right, and still valid"
WRONG = f'Bearer error="invalid_token", error_description="wrong-{TOKEN}"'


@pytest.mark.parametrize(
    ("script", "headers", "said"),
    [
        (Guarded('Bearer realm="wiki"'), {}, f'401 X; it asks for Bearer realm="wiki"; {GIVE}'),
        (Guarded(OAUTH), {"User-Agent": "me"}, f"{OAUTH}; {GIVE}; heaveto does not go through OAuth itself"),
        (
            Guarded(WRONG, token="other"),
            {"authorization": f"Bearer {TOKEN}"},
            f'it asks for Bearer error="invalid_token", error_description="wrong-..."; {NOT_TAKEN}',
        ),
        (Guarded(""), {}, f"401 X; it does not say what it asks for; {GIVE}"),
        (Guarded("Bearer " + "x" * 999), {}, f"it asks for Bearer {'x' * 293}...; give it"),
        (
            Guarded('Bearer error="insufficient_scope"', 403),
            {},
            f'403 X; it asks for Bearer error="insufficient_scope"; {GIVE}',
        ),
        (Guarded("Bearer", kind="application/json"), {}, f"401 X; it asks for Bearer; {GIVE}"),
    ],
    ids=["none given", "OAuth", "a wrong one", "says nothing", "says much", "not enough", "with a body"],
)
async def test_a_server_that_wants_a_token_is_told_of_in_full(script: Guarded, headers: dict[str, str], said: str) -> None:
    """By its name and address, with what it asks for and where to give that; never with what it was given."""
    with pytest.raises(ToolFatal) as caught:
        async with opened_with(script, headers):
            raise AssertionError("it let us in")
    text = str(caught.value)
    assert text.startswith("MCP server web: POST http://127.0.0.1:")
    assert said in text
    assert TOKEN not in text


async def test_a_token_that_is_taken_back_in_the_middle_is_told_of_too() -> None:
    async with opened_with(Guarded("Bearer"), {"Authorization": f"Bearer {TOKEN}"}) as servers:
        assert await call(servers, "change") == "good"
        with pytest.raises(ToolFatal, match="401 X; it asks for Bearer; it does not take what mcpServers gives it in Auth"):
            await call(servers, "change")


SAYS = '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"%s"}]}}'
FAILS = '{"jsonrpc":"2.0","id":ID,"error":{"code":-32000,"message":"no such page"}}'


@pytest.mark.parametrize("form", ["%s", "data: %s\n\n", "data: %s\r\n\r\n"])
@pytest.mark.parametrize(
    ("said", "read"), [(r"cut: \ud83d", "cut: \ufffd"), ("caf\xe9", "caf\ufffd"), ("x" * 1_500_000, "left out")]
)
async def test_odd_and_long_texts_are_read(form: str, said: str, read: str) -> None:
    async with opened(Script(form % (SAYS % said))) as servers:
        assert read in await call(servers, "change")


@pytest.mark.parametrize("form", ["%s", "data: %s\n\n"])
async def test_a_servers_own_error_is_no_lost_connection(form: str) -> None:
    """Whatever its code is, of which many servers use the one that is the SDK's for that."""
    async with opened(Script(form % FAILS, "good")) as servers:
        with pytest.raises(ToolError, match="web__change: no such page"):
            await call(servers, "change")
        assert await call(servers, "change") == "good"


@pytest.mark.parametrize("form", ["%s", "data: %s\n\n"])
async def test_a_message_that_is_too_long_costs_its_call_alone(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heaveto.tools.mcp.http.MAX_LINE_BYTES", 100_000)
    script = Script(form % (SAYS % ("x" * 200_000)), "good")
    async with opened(script) as servers:
        with pytest.raises(OutcomeUnknown, match="it sent a message of more than"):
            await call(servers, "change")
        assert await call(servers, "change") == "good"
    assert script.sessions == 1


async def test_an_answer_that_is_cut_off_costs_its_call_alone() -> None:
    script = Script("cut json", "good")
    async with opened(script) as servers:
        with pytest.raises(OutcomeUnknown, match="was lost: "):
            await call(servers, "change")
        assert await call(servers, "change") == "good"
    assert script.sessions == 1
