"""The same calls through heaveto and through the official SDKs, each as its users write them.

    PYTHONPATH=FOLDER_OF_THE_SDKS python benchmarks/sdk_sides.py URL REPETITIONS SCALE

Prints each side's figures, one for each repetition, as one line of JSON: microseconds of this process's CPU. The sides take
turns, each in a loop of its own. SCALE divides how often a small call is
made, for a quick look; the sizes stay, since a small size would show little but what each call costs at least.
"""

from __future__ import annotations

import asyncio
import gc
import json
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Protocol

import httpx2
from cases import used_seconds
from fake_server import STREAM_HEAD, Script

from heaveto.errors import TransportFailed
from heaveto.messages import AssistantMessage, Message, ToolCall, ToolMessage, Transcript, UserMessage
from heaveto.models import Answer, HTTPRequest, RemoteModel, Request, ToolSpec
from heaveto.models.anthropic_messages import MessagesDialect
from heaveto.models.anthropic_messages.wire import event_decoder
from heaveto.models.chat import ChatDialect
from heaveto.models.chat.wire import chunk_decoder
from heaveto.models.dialect import Dialect

__all__ = ["SIDES", "measure"]

CHUNKS, MESSAGES, TIMES = 2000, 300, 8  # of an answer; of a long conversation; how often a small call is made
READ_BYTES = 65_536
RESULT = "what the tool said " * 20
PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
LIMIT = 100  # of output tokens, which Messages demands


class Side(Protocol):
    """One client of one API."""

    fast: bool
    chat: bool

    async def open(self, url: str) -> None: ...

    async def close(self) -> None: ...

    async def streamed(self) -> int:
        """An answer in pieces; returns its characters."""
        ...

    async def whole(self) -> int:
        """A short answer that comes whole; returns its characters."""
        ...

    def remember(self, turns: int) -> None:
        """So many turns, each a call and its result, join the conversation."""
        ...

    async def ask(self) -> int:
        """Send the conversation; returns the answer's characters."""
        ...

    async def make(self) -> int:
        """The same without any network: the request goes nowhere; returns its bytes."""
        ...

    async def decode(self, reads: Sequence[bytes]) -> int:
        """Decode a stream's bytes without any network; returns the answer's characters."""
        ...


class Ours:
    """heaveto's client."""

    def __init__(self, *, chat: bool, fast: bool = False) -> None:
        self.chat, self.fast = chat, fast

    async def open(self, url: str) -> None:
        exchange = "aiohttp" if self.fast else "httpx2"
        base = url if self.chat else url.removesuffix("/v1")
        made = [(self._dialect(stream=stream), {"base_url": base, "key": "none"}) for stream in (True, False)]
        self._streaming, self._asking = (RemoteModel(dialect, exchange=exchange, **settings) for dialect, settings in made)
        self._transcript = Transcript([UserMessage("hello")])
        self._tools = [ToolSpec("read_file", "Read a file.", PARAMETERS)]
        self._sink = Sink()
        self._nowhere = self._asking.through(self._sink)

    async def close(self) -> None:
        await self._streaming.aclose()
        await self._asking.aclose()

    async def streamed(self) -> int:
        return await self._call(self._streaming, Transcript([UserMessage("hello")]))

    async def whole(self) -> int:
        return await self._call(self._asking, Transcript([UserMessage("hello")]))

    def remember(self, turns: int) -> None:
        for _ in range(turns):
            self._transcript.append(*_our_turn(len(self._transcript)))

    async def ask(self) -> int:
        return await self._call(self._asking, self._transcript)

    async def make(self) -> int:
        try:
            await self._call(self._nowhere, self._transcript)
        except TransportFailed:
            return self._sink.bytes
        raise AssertionError

    async def decode(self, reads: Sequence[bytes]) -> int:
        decoder = self._dialect(stream=True).decoder(stream=True)
        for data in reads:
            for _ in decoder.feed(data):
                pass
        return len(decoder.finish().message.content)

    async def read_json(self, reads: Sequence[bytes]) -> int:
        """The same with only what nobody can leave out: the events are split, and their JSON is read."""
        decoder = chunk_decoder if self.chat else event_decoder
        events = [each.partition(b"data: ")[2] for each in b"".join(reads).split(b"\n\n")]
        for data in events:
            if data[:1] == b"{":
                decoder.decode(data)
        return 5 * CHUNKS

    async def _call(self, model: RemoteModel, transcript: Transcript) -> int:
        async with model.stream(Request(transcript=transcript, tools=self._tools, max_output_tokens=LIMIT)) as stream:
            async for _ in stream:
                pass
            return len(stream.reply.message.content)
        raise AssertionError

    def _dialect(self, *, stream: bool) -> Dialect:
        return ChatDialect("fake", provider="p", stream=stream) if self.chat else MessagesDialect("fake", stream=stream)


class OpenAISDK:
    """`openai`, chat completions."""

    chat, fast = True, False

    async def open(self, url: str) -> None:
        import openai

        self._client = openai.AsyncOpenAI(api_key="none", base_url=url, max_retries=0)
        self._sink = SinkTransport()
        self._nowhere = self._client.with_options(http_client=httpx2.AsyncClient(transport=self._sink))
        self._messages: list[Any] = [{"role": "user", "content": "hello"}]
        function = {"name": "read_file", "description": "Read a file.", "parameters": PARAMETERS}
        self._settings = {"model": "fake", "tools": [{"type": "function", "function": function}], "max_tokens": LIMIT}

    async def close(self) -> None:
        await self._client.close()

    async def streamed(self) -> int:
        hello = [{"role": "user", "content": "hello"}]
        stream = await self._client.chat.completions.create(messages=hello, stream=True, **self._settings)
        return await self._read(stream)

    async def whole(self) -> int:
        return await self._ask([{"role": "user", "content": "hello"}])

    def remember(self, turns: int) -> None:
        for _ in range(turns):
            call_id, path = _names(len(self._messages))
            function = {"name": "read_file", "arguments": json.dumps({"path": path})}
            calls = [{"id": call_id, "type": "function", "function": function}]
            self._messages.append({"role": "assistant", "content": None, "tool_calls": calls})
            self._messages.append({"role": "tool", "tool_call_id": call_id, "content": RESULT})

    async def ask(self) -> int:
        return await self._ask(self._messages)

    async def make(self) -> int:
        import openai

        try:
            await self._ask(self._messages, self._nowhere)
        except openai.APIConnectionError:
            return self._sink.bytes
        raise AssertionError

    async def decode(self, reads: Sequence[bytes]) -> int:
        from openai import AsyncStream
        from openai.types.chat import ChatCompletionChunk

        return await self._read(AsyncStream(cast_to=ChatCompletionChunk, response=_response(reads), client=self._client))

    async def _ask(self, messages: list[Any], client: Any = None) -> int:
        reply = await (client or self._client).chat.completions.create(messages=messages, **self._settings)
        return len(reply.choices[0].message.content)

    async def _read(self, stream: Any) -> int:
        return sum([len(chunk.choices[0].delta.content or "") async for chunk in stream if chunk.choices])


class AnthropicSDK:
    """`anthropic`, Messages."""

    chat, fast = False, False

    async def open(self, url: str) -> None:
        import anthropic

        self._client = anthropic.AsyncAnthropic(api_key="none", base_url=url.removesuffix("/v1"), max_retries=0)
        self._sink = SinkTransport()
        self._nowhere = self._client.with_options(http_client=httpx2.AsyncClient(transport=self._sink))
        self._messages: list[Any] = [{"role": "user", "content": "hello"}]
        tool = {"name": "read_file", "description": "Read a file.", "input_schema": PARAMETERS}
        self._settings = {"model": "fake", "tools": [tool], "max_tokens": LIMIT}

    async def close(self) -> None:
        await self._client.close()

    async def streamed(self) -> int:
        hello = [{"role": "user", "content": "hello"}]
        return await self._read(await self._client.messages.create(messages=hello, stream=True, **self._settings))

    async def whole(self) -> int:
        return await self._ask([{"role": "user", "content": "hello"}])

    def remember(self, turns: int) -> None:
        for _ in range(turns):
            call_id, path = _names(len(self._messages))
            use = {"type": "tool_use", "id": call_id, "name": "read_file", "input": {"path": path}}
            result = {"type": "tool_result", "tool_use_id": call_id, "content": RESULT}
            self._messages += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]

    async def ask(self) -> int:
        return await self._ask(self._messages)

    async def make(self) -> int:
        import anthropic

        try:
            await self._ask(self._messages, self._nowhere)
        except anthropic.APIConnectionError:
            return self._sink.bytes
        raise AssertionError

    async def decode(self, reads: Sequence[bytes]) -> int:
        from anthropic import AsyncStream
        from anthropic.types import RawMessageStreamEvent

        return await self._read(AsyncStream(cast_to=RawMessageStreamEvent, response=_response(reads), client=self._client))

    async def _ask(self, messages: list[Any], client: Any = None) -> int:
        reply = await (client or self._client).messages.create(messages=messages, **self._settings)
        return len(reply.content[0].text)

    async def _read(self, stream: Any) -> int:
        pieces = [event.delta async for event in stream if event.type == "content_block_delta"]
        return sum(len(piece.text) for piece in pieces if piece.type == "text_delta")


class Sink:
    """heaveto's network, where there is none."""

    bytes = 0

    async def send(self, request: HTTPRequest, connected: Callable[[], None]) -> Answer:
        self.bytes = len(request.body)
        raise TransportFailed(request.method, "nowhere", "there is no network")

    async def aclose(self) -> None: ...


class SinkTransport(httpx2.AsyncBaseTransport):
    """The SDKs' network, where there is none."""

    bytes = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.bytes = len(await request.aread())
        raise httpx2.ConnectError("there is no network")


SIDES: dict[str, Callable[[], Side]] = {
    "chat": lambda: Ours(chat=True),
    "chat fast": lambda: Ours(chat=True, fast=True),
    "openai": OpenAISDK,
    "messages": lambda: Ours(chat=False),
    "messages fast": lambda: Ours(chat=False, fast=True),
    "anthropic": AnthropicSDK,
}


def _names(number: int) -> tuple[str, str]:
    return f"call_{number:05}", f"src/module_{number}.py"


def _our_turn(number: int) -> tuple[Message, Message]:
    call_id, path = _names(number)
    call = ToolCall(call_id, "read_file", json.dumps({"path": path}))
    return AssistantMessage(tool_calls=(call,)), ToolMessage(call_id, "read_file", RESULT)


def _response(reads: Sequence[bytes]) -> httpx2.Response:
    async def pieces() -> AsyncIterator[bytes]:
        for each in reads:
            yield each

    request = httpx2.Request("POST", "http://127.0.0.1/v1")
    return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=pieces(), request=request)


def _stream_bytes(chunks: int, *, chat: bool) -> list[bytes]:
    """A stream's body as it comes out of HTTP, in the reads of a fast network."""
    script = Script(chunks=chunks)
    framed = (script.reply(0, streamed=True) if chat else script.message(streamed=True)).removeprefix(STREAM_HEAD)
    body = b"".join(each + b"\n\n" for each in re.findall(rb"(?s)[0-9a-f]+\r\n((?:data|event): .*?)\n\n\r\n", framed))
    return [body[at : at + READ_BYTES] for at in range(0, len(body), READ_BYTES)]


async def _figures(side: Side, url: str, scale: int) -> dict[str, float]:
    """One repetition of one side."""
    chunks, times, turns = CHUNKS, max(2, TIMES // scale), MESSAGES // 2
    reads, characters = _stream_bytes(chunks, chat=side.chat), 5 * chunks
    await side.open(f"{url}/chunks={chunks}/v1")
    figures = {"chunk": await _timed(side.streamed, 2, characters) / chunks}
    figures["decode"] = await _timed(lambda: side.decode(reads), 2, characters) / chunks
    figures["json"] = figures["decode"]  # of the SDKs
    if isinstance(side, Ours):
        figures["json"] = await _timed(lambda: side.read_json(reads), 2, characters) / chunks
    await side.close()
    await side.open(f"{url}/chunks=5/v1")
    figures["reply"] = await _timed(side.whole, times, 25)
    side.remember(turns)
    figures["request"] = await _timed(side.ask, times, 25, before=lambda: side.remember(1))
    figures["made"] = await _timed(side.make, times, turns * len(RESULT), before=lambda: side.remember(1), exact=False)
    await side.close()
    return figures


async def _timed(
    once: Callable[[], Awaitable[int]], times: int, characters: int, before: Callable[[], object] = bool, exact: bool = True
) -> float:
    """Microseconds each; the first one does not count, since it opens the connection. Characters are checked.

    What lies about is collected once: to go through all objects before each call would leave it with empty caches, and add
    the same to what costs little and to what costs much.
    """
    used = 0.0
    gc.collect()
    for number in range(times + 1):
        before()
        began = used_seconds()
        if (got := await once()) < characters or (exact and got > characters):
            raise SystemExit(f"{got} characters or bytes, where there should be {characters}")
        used += used_seconds() - began if number else 0
    return used / times * 1e6


def measure(url: str, repetitions: int, scale: int) -> dict[str, list[dict[str, float]]]:
    """Each side's figures, the sides in turn."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in SIDES}
    for _ in range(repetitions):
        for name, make in SIDES.items():
            side = make()
            with asyncio.Runner(loop_factory=_fast_loop if side.fast else None) as runner:
                found[name].append(runner.run(_figures(side, url, scale)))
    return found


def _fast_loop() -> asyncio.AbstractEventLoop:
    import uvloop

    return uvloop.new_event_loop()


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
