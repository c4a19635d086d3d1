"""A fast fake of an API that speaks chat completions, on 127.0.0.1, for the benchmarks.

    python benchmarks/fake_server.py        prints its address, and ends when its standard input does

The base URL says what is asked of the model: `http://127.0.0.1:PORT/turns=20,chunks=5,delay=0.1/v1`.

    turns    so many turns with a tool call each, reading and writing in turn; then the answer (0)
    chunks   so many pieces of text in the answer (5)
    delay    seconds before each reply (0)
    gap      seconds between a stream's events, each of which then comes alone; 0 sends all of them at once (0)

A path that ends in "/messages" is answered with Anthropic's Messages instead, and has no tool calls.

The turn is the number of the assistant's messages in a request, so a history that loses one is noticed: the run does not
end where it should. `GET /stats` tells how many requests there were, how many wait for their reply, and how many
connections were accepted.
"""

from __future__ import annotations

import asyncio
import json
import re
import resource
import socket
import sys
from typing import Any, NamedTuple

import fake_messages

__all__ = ["Connection", "Script", "Stats", "allow_many_files", "http_answer"]

LENGTH = re.compile(rb"content-length:[ \t]*(\d+)", re.IGNORECASE)
ROLE, STREAMED = b'"role":"assistant"', re.compile(rb'"stream":[ ]?true')
JSON_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
EVENT_END = b"\n\n\r\n"  # of an event in an HTTP chunk of its own
ARGUMENT_PIECES = 4  # of a streamed tool call
USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


class Stats(NamedTuple):
    requests: int = 0
    waiting: int = 0
    connections: int = 0


class Script:
    """What is replied at each turn; the bytes of a reply are made once."""

    def __init__(self, turns: int = 0, chunks: int = 5, delay: float = 0, gap: float = 0) -> None:
        self.turns, self.chunks, self.delay, self.gap = int(turns), int(chunks), float(delay), float(gap)
        self._replies: dict[tuple[int, bool], bytes] = {}

    @classmethod
    def parse(cls, text: str) -> Script:
        """The script that a path's first part names, such as "turns=20,chunks=5"."""
        pairs = [each.partition("=") for each in text.split(",") if "=" in each]
        return cls(**{key: float(value) for key, _, value in pairs})

    def message(self, *, streamed: bool) -> bytes:
        """The whole HTTP answer in Messages."""
        if (-1, streamed) not in self._replies:
            events = fake_messages.events(self._words()) if streamed else [_encode(fake_messages.whole(self._words()))]
            self._replies[-1, streamed] = http_answer(events, streamed=streamed)
        return self._replies[-1, streamed]

    def reply(self, turn: int, *, streamed: bool) -> bytes:
        """The whole HTTP answer."""
        turn = min(turn, self.turns)
        if (turn, streamed) not in self._replies:
            self._replies[turn, streamed] = self._streamed(turn) if streamed else self._whole(turn)
        return self._replies[turn, streamed]

    def _call(self, turn: int) -> tuple[str, str, str] | None:
        """The id, the name and the arguments of the turn's call; None where the answer comes."""
        if turn >= self.turns:
            return None
        note = {"name": f"note-{turn}"}
        if turn % 2 == 0:
            return f"call{turn:05}", "read_note", json.dumps(note)
        return f"call{turn:05}", "write_note", json.dumps({**note, "text": "remember this"})

    def _words(self) -> list[str]:
        return [f" w{number % 1000:03}" for number in range(self.chunks)]

    def _whole(self, turn: int) -> bytes:
        message: dict[str, Any] = {"role": "assistant", "content": None if self._call(turn) else "".join(self._words())}
        if call := self._call(turn):
            message["tool_calls"] = [_call_object(*call)]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls" if call else "stop"}
        body = _encode({**_envelope(turn, "chat.completion"), "choices": [choice], "usage": USAGE})
        return http_answer([body], streamed=False)

    def _streamed(self, turn: int) -> bytes:
        deltas = _call_deltas(*call) if (call := self._call(turn)) else [{"content": each} for each in self._words()]
        choices = [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None} for delta in deltas]
        end = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "tool_calls" if call else "stop"}
        chunks: list[dict[str, Any]] = [{"choices": [each]} for each in (*choices, end)]
        chunks.append({"choices": [], "usage": USAGE})
        events = [b"data: " + _encode({**_envelope(turn, "chat.completion.chunk"), **chunk}) for chunk in chunks]
        return http_answer([*events, b"data: [DONE]"], streamed=True)


def _chat(script: Script, body: bytes, streamed: bool) -> bytes:
    return script.reply(body.count(ROLE), streamed=streamed)


def _envelope(turn: int, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{turn}", "object": kind, "created": 1700000000, "model": "fake"}


def _call_object(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _call_deltas(call_id: str, name: str, arguments: str) -> list[dict[str, Any]]:
    """A call as APIs stream it: first who, then the arguments in pieces."""
    step = -(-len(arguments) // ARGUMENT_PIECES)
    pieces = [arguments[at : at + step] for at in range(0, len(arguments), step)]
    first = {"role": "assistant", "content": None, "tool_calls": [{"index": 0, **_call_object(call_id, name, "")}]}
    return [first, *({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in pieces)]


def http_answer(parts: list[bytes], *, streamed: bool) -> bytes:
    """An answer of one body, or of events, each of them an HTTP chunk of its own, as real servers flush them."""
    if not streamed:
        return JSON_HEAD % len(parts[0]) + parts[0]
    return STREAM_HEAD + b"".join(b"%x\r\n%s%s" % (len(each) + 2, each, EVENT_END) for each in parts) + b"0\r\n\r\n"


def _encode(data: dict[str, Any]) -> bytes:
    return json.dumps(data, separators=(",", ":")).encode()


class Server:
    """What the connections share."""

    def __init__(self) -> None:
        self.scripts: dict[bytes, Script] = {}
        self.stats = Stats()

    def count(self, *, requests: int = 0, waiting: int = 0, connections: int = 0) -> None:
        now = self.stats
        self.stats = Stats(now.requests + requests, now.waiting + waiting, now.connections + connections)

    def script(self, path: bytes) -> Script:
        name = path.split(b"/", 2)[1]
        if name not in self.scripts:
            self.scripts[name] = Script.parse(name.decode())
        return self.scripts[name]


class Connection(asyncio.Protocol):
    """One connection: a request, its reply, the next request."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._received = bytearray()
        self._needed = 0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._server.count(connections=1)

    def connection_lost(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._server.count(waiting=-1)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) >= self._needed and (request := self._next_request()) is not None:
            self._answer(*request)

    def _next_request(self) -> tuple[bytes, bytes] | None:
        head_end = self._received.find(b"\r\n\r\n")
        if head_end < 0:
            return None
        head = bytes(self._received[:head_end])
        length = LENGTH.search(head)
        self._needed = head_end + 4 + (int(length[1]) if length else 0)
        if len(self._received) < self._needed:
            return None
        body = bytes(self._received[head_end + 4 : self._needed])
        del self._received[: self._needed]
        self._needed = 0
        return head.split(b" ", 2)[1], body

    def _answer(self, path: bytes, body: bytes) -> None:
        if path == b"/stats":
            stats = _encode(self._server.stats._asdict())
            self._transport.write(JSON_HEAD % len(stats) + stats)
            return
        script = self._server.script(path)
        streamed = STREAMED.search(body) is not None
        reply = script.message(streamed=streamed) if path.endswith(b"/messages") else _chat(script, body, streamed)
        if script.delay:
            self._server.count(requests=1, waiting=1)
            self._timer = asyncio.get_running_loop().call_later(script.delay, self._send_late, reply, script.gap)
        else:
            self._server.count(requests=1)
            self._send(reply, script.gap)

    def _send_late(self, reply: bytes, gap: float) -> None:
        self._timer = None
        self._server.count(waiting=-1)
        self._send(reply, gap)

    def _send(self, reply: bytes, gap: float) -> None:
        if not gap:
            self._transport.write(reply)
            return
        event, end, rest = reply.partition(EVENT_END)
        self._transport.write(event + end)
        if rest and not self._transport.is_closing():
            asyncio.get_running_loop().call_later(gap, self._send, rest, gap)


def allow_many_files() -> None:
    """As many open sockets as this user may have."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    except (OSError, ValueError):  # macOS refuses "unlimited"
        pass


async def _serve() -> None:
    loop, server, over = asyncio.get_running_loop(), Server(), asyncio.Event()
    listener = await loop.create_server(lambda: Connection(server), "127.0.0.1", 0, backlog=4096)
    loop.add_reader(sys.stdin, over.set)  # nobody writes to it: it is readable at its end
    print(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}", flush=True)
    await over.wait()
    listener.close()


if __name__ == "__main__":
    allow_many_files()
    asyncio.run(_serve())
