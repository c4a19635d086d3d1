"""The floor: the least that a loop has to do, by hand, on httpx2 and json. It checks, limits, keeps and tells nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterable, Sequence
from typing import Any

import httpx2
from job import PROMPT, SYSTEM, Done, Job

__all__ = ["Loop", "read_stream", "request_body"]


def _tool(name: str, description: str, *parameters: str) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {each: {"type": "string"} for each in parameters},
        "required": parameters,
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


TOOLS = [_tool("read_note", "Read a note.", "name"), _tool("write_note", "Write a note.", "name", "text")]


class Loop:
    """Does the job."""

    def __init__(self, job: Job) -> None:
        self._url, self._streamed = f"{job.url}/chat/completions", job.streamed
        self._tools = {"read_note": job.notes.read, "write_note": job.notes.write}
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
        headers = {"authorization": "Bearer none", "content-type": "application/json"}
        self._client = httpx2.AsyncClient(limits=limits, timeout=600, headers=headers)

    async def run(self) -> Done:
        messages: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": PROMPT}]
        tool_calls = 0
        while True:
            message = await (self._stream(messages) if self._streamed else self._ask(messages))
            messages.append(message)
            calls = message.get("tool_calls")
            if not calls:
                return Done(tool_calls, len(message["content"]))
            for call in calls:
                tool_calls += 1
                function = call["function"]
                result = self._tools[function["name"]](**json.loads(function["arguments"]))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})

    async def run_many(self, count: int) -> list[Done]:
        return await asyncio.gather(*(self.run() for _ in range(count)))

    def start(self, count: int) -> BareRuns:
        return BareRuns([asyncio.create_task(self.run()) for _ in range(count)])

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _ask(self, messages: list[Any]) -> dict[str, Any]:
        answer = await self._client.post(self._url, content=request_body(messages, stream=False))
        answer.raise_for_status()
        message: dict[str, Any] = json.loads(answer.content)["choices"][0]["message"]
        return message

    async def _stream(self, messages: list[Any]) -> dict[str, Any]:
        async with self._client.stream("POST", self._url, content=request_body(messages, stream=True)) as answer:
            answer.raise_for_status()
            return await read_stream(answer.aiter_bytes())


class BareRuns:
    """Runs under way, as plain tasks."""

    def __init__(self, tasks: list[asyncio.Task[Done]]) -> None:
        self._tasks = tasks

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def ended(self) -> Sequence[object]:
        return await asyncio.gather(*self._tasks, return_exceptions=True)


def request_body(messages: list[Any], *, stream: bool) -> bytes:
    """A request."""
    body: dict[str, Any] = {"model": "fake", "messages": messages, "tools": TOOLS, "stream": stream}
    if stream:
        body["stream_options"] = {"include_usage": True}
    return json.dumps(body, separators=(",", ":")).encode()


async def read_stream(pieces: AsyncIterable[bytes]) -> dict[str, Any]:
    """A streamed reply's message. It is read to the end, or the connection is lost."""
    text: list[str] = []
    calls: dict[int, dict[str, Any]] = {}
    kept = b""
    async for data in pieces:
        *events, kept = (kept + data).split(b"\n\n")
        for event in events:
            _take(event.removeprefix(b"data: "), text, calls)
    message: dict[str, Any] = {"role": "assistant", "content": "".join(text) or None}
    if calls:
        message["tool_calls"] = [*calls.values()]
    return message


def _take(data: bytes, text: list[str], calls: dict[int, dict[str, Any]]) -> None:
    if data == b"[DONE]":
        return
    choices = json.loads(data)["choices"]
    if not choices:
        return
    delta = choices[0]["delta"]
    if piece := delta.get("content"):
        text.append(piece)
    for part in delta.get("tool_calls") or ():
        function = part["function"]
        call = calls.get(part["index"])
        if call is None:
            name = {"name": function["name"], "arguments": function["arguments"]}
            calls[part["index"]] = {"id": part["id"], "type": "function", "function": name}
        else:
            call["function"]["arguments"] += function["arguments"]
