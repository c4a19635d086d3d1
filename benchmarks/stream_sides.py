"""Many streams at once, through heaveto's client and by hand on the same HTTP library, in a process of their own.

    python benchmarks/stream_sides.py SIDE URL STREAMS        prints the figures as one line of JSON

URL is a fake server's address with its script. The floors do the least that a client has to: a request with its body made
by json, the stream read to its end, split into events, each chunk decoded by json, its text kept. They check, limit, count
and price nothing. Floor and ours have the same number of httpx2 clients, or one aiohttp session.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from typing import Any, Protocol
from urllib.parse import urlsplit

import httpx2
from bare_loop import read_stream, request_body
from cases import peak_megabytes, used_seconds
from fake_server import Script, allow_many_files
from job import PROMPT, SYSTEM

from heaveto.messages import SystemMessage, TextDelta, Transcript, UserMessage
from heaveto.models import CallLimits, Request, compatible
from heaveto.models.httpx_exchange import REQUESTS_PER_CLIENT

__all__ = ["SIDES", "Side", "measure"]

MESSAGES = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": PROMPT}]
LIMITS = CallLimits(connect_seconds=600, first_byte_seconds=600, idle_seconds=600, content_idle_seconds=600)
HEADERS = {"authorization": "Bearer none", "content-type": "application/json"}


class Side(Protocol):
    """One client."""

    async def stream(self, number: int) -> int:
        """An answer in pieces, the number-th at once; returns its characters."""
        ...

    async def aclose(self) -> None: ...


class BareHttpx:
    """By hand on httpx2, in as many clients as ours has, since the cost of one grows with the requests under way."""

    def __init__(self, url: str, streams: int) -> None:
        self._url = f"{url}/chat/completions"
        count = -(-streams // REQUESTS_PER_CLIENT)
        settings: dict[str, Any] = {"timeout": None, "headers": HEADERS, "verify": False}  # there are no certificates here
        self._clients = [httpx2.AsyncClient(**settings) for _ in range(count)]

    async def stream(self, number: int) -> int:
        body, client = request_body(MESSAGES, stream=True), self._clients[number // REQUESTS_PER_CLIENT]
        async with client.stream("POST", self._url, content=body) as answer:
            answer.raise_for_status()
            return len((await read_stream(answer.aiter_bytes()))["content"])

    async def aclose(self) -> None:
        for client in self._clients:
            await client.aclose()


class BareAiohttp:
    """By hand on aiohttp."""

    def __init__(self, url: str, streams: int) -> None:
        self._url, self._streams = f"{url}/chat/completions", streams
        self._session: Any = None

    async def stream(self, number: int) -> int:
        body = request_body(MESSAGES, stream=True)
        async with self._opened().post(self._url, data=body) as answer:
            answer.raise_for_status()
            return len((await read_stream(answer.content.iter_any()))["content"])

    async def aclose(self) -> None:
        await self._opened().close()

    def _opened(self) -> Any:
        import aiohttp

        if self._session is None:
            connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=None)
            self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, headers=HEADERS)
        return self._session


class Ours:
    """heaveto's client, with its limits, errors, usage and causes."""

    def __init__(self, url: str, exchange: str) -> None:
        self._model = compatible("fake", base_url=url, key="none", exchange=exchange, limits=LIMITS)

    async def stream(self, number: int) -> int:
        request = Request(transcript=Transcript([SystemMessage(SYSTEM), UserMessage(PROMPT)]))
        async with self._model.stream(request) as stream:
            text = [delta.text async for delta in stream if isinstance(delta, TextDelta)]
            assert stream.reply.message.content == "".join(text)
        return sum(len(piece) for piece in text)

    async def aclose(self) -> None:
        await self._model.aclose()


SIDES = {
    "httpx2 bare": BareHttpx,
    "httpx2 ours": lambda url, _: Ours(url, "httpx2"),
    "aiohttp bare": BareAiohttp,
    "aiohttp ours": lambda url, _: Ours(url, "aiohttp"),
}


async def measure(name: str, url: str, streams: int) -> dict[str, float]:
    """So many streams at once: CPU and wall seconds, and the memory of each."""
    side: Side = SIDES[name](url, streams)
    wanted = 5 * Script.parse(urlsplit(url).path.split("/")[1]).chunks
    await side.stream(0)  # what is loaded and made once
    gc.collect()
    memory, began, at = peak_megabytes(), used_seconds(), time.perf_counter()
    got = await asyncio.gather(*(side.stream(number) for number in range(streams)))
    figures = {"cpu": used_seconds() - began, "wall": time.perf_counter() - at}
    figures["kilobytes"] = (peak_megabytes() - memory) * 1e3 / streams
    if got != [wanted] * streams:
        raise SystemExit(f"answers of {min(got)} to {max(got)} characters, where {wanted} were sent")
    await side.aclose()
    return figures


if __name__ == "__main__":
    allow_many_files()
    print(json.dumps(asyncio.run(measure(sys.argv[1], sys.argv[2], int(sys.argv[3])))))
