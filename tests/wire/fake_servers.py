"""Servers of the four APIs, written from the APIs' documents: what they answer, and what they read in a request.

Nothing here calls an encoder or a decoder of ours. A server refuses what the API would refuse, by an assertion, and tells a
conversation in words of its own, the same for all four:

- ("system", text), ("text", text), ("image" | "file", media type, bytes)
- ("said", text, signature), ("thought", text, signature), ("hidden", data), ("call", number, name, arguments)
- ("result", number of the call, failed or None where the API has no word for it, items or a text)
"""

from __future__ import annotations

import base64
import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

__all__ = ["SERVERS", "USAGE", "Block", "Item", "Server"]

Item: TypeAlias = tuple[Any, ...]
Block: TypeAlias = tuple[Any, ...]  # as an item, but for ("call", id, name, arguments as text, signature)
Cut: TypeAlias = Callable[[str], list[str]]  # a text in pieces

USAGE = (11, 7)  # tokens read and written
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
DATA_URL = re.compile(r"data:([\w/.+-]+);base64,([A-Za-z0-9+/=]+)")


def sse(*events: Any, named: bool = False) -> bytes:
    lines = [(f"event: {event['type']}\n" if named else "") + f"data: {json.dumps(event)}\n\n" for event in events]
    return "".join(lines).encode()


def from_data_url(kind: str, url: str) -> Item:
    match = DATA_URL.fullmatch(url)
    assert match, url
    return kind, match[1], base64.b64decode(match[2], validate=True)


class Calls:
    """Numbers the calls of a conversation, and finds them by id: each is answered once, by what follows it."""

    def __init__(self, ids: re.Pattern[str] = NAME) -> None:
        self._numbers, self._ids = itertools.count(), ids
        self._waiting: dict[str, int] = {}

    def ask(self, call_id: str) -> int:
        assert self._ids.fullmatch(call_id), call_id
        assert call_id not in self._waiting
        self._waiting[call_id] = next(self._numbers)
        return self._waiting[call_id]

    def answer(self, call_id: str) -> int:
        return self._waiting.pop(call_id)

    def all_answered(self) -> None:
        assert not self._waiting, f"no answer: {self._waiting}"


class Server:
    def body(self, blocks: Sequence[Block]) -> bytes:
        """A reply that is not streamed."""
        raise NotImplementedError

    def stream(self, blocks: Sequence[Block], cut: Cut) -> bytes:
        raise NotImplementedError

    def read(self, body: bytes) -> Iterator[Item]:
        """The conversation in a request."""
        raise NotImplementedError


class ChatServer(Server):
    """OpenRouter's chat completions."""

    def _usage(self) -> dict[str, int]:
        return {"prompt_tokens": USAGE[0], "completion_tokens": USAGE[1], "total_tokens": sum(USAGE)}

    def body(self, blocks: Sequence[Block]) -> bytes:
        details = [self._detail(index, block) for index, block in enumerate(blocks) if block[0] in ("thought", "hidden")]
        message: dict[str, Any] = {"role": "assistant", "content": "".join(b[1] for b in blocks if b[0] == "said")}
        if details:
            message |= {"reasoning_details": details, "reasoning": "".join(each.get("text", "") for each in details)}
        if calls := [b for b in blocks if b[0] == "call"]:
            message["tool_calls"] = [
                {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
                for _, call_id, name, arguments, _ in calls
            ]
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
        return json.dumps({"id": "gen", "model": "m", "choices": [choice], "usage": self._usage()}).encode()

    @staticmethod
    def _detail(index: int, block: Block) -> dict[str, Any]:
        if block[0] == "hidden":
            return {"type": "reasoning.encrypted", "data": block[1], "index": index, "format": "f"}
        return {"type": "reasoning.text", "text": block[1], "signature": block[2], "index": index, "format": "f"}

    def stream(self, blocks: Sequence[Block], cut: Cut) -> bytes:
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        calls = itertools.count()
        for index, block in enumerate(blocks):
            match block:
                case ("thought", text, signature):
                    detail = {"type": "reasoning.text", "index": index, "format": "f"}
                    deltas += [{"reasoning": p, "reasoning_details": [{**detail, "text": p}]} for p in cut(text)]
                    deltas.append({"reasoning_details": [{**detail, "signature": signature}]})
                case ("hidden", _):
                    deltas.append({"reasoning_details": [self._detail(index, block)]})
                case ("said", text, _):
                    deltas += [{"content": p} for p in cut(text)]
                case (_, call_id, name, arguments, _):
                    place = next(calls)
                    function = {"name": name, "arguments": ""}
                    deltas.append(
                        {"tool_calls": [{"index": place, "id": call_id, "type": "function", "function": function}]}
                    )
                    deltas += [{"tool_calls": [{"index": place, "function": {"arguments": p}}]} for p in cut(arguments)]
        end = "tool_calls" if any(block[0] == "call" for block in blocks) else "stop"
        chunks = [{"id": "gen", "model": "m", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
        chunks.append({"id": "gen", "choices": [{"index": 0, "delta": {}, "finish_reason": end}]})
        return sse(*chunks, {"id": "gen", "choices": [], "usage": self._usage()}) + b"data: [DONE]\n\n"

    def read(self, body: bytes) -> Iterator[Item]:
        calls = Calls(re.compile(".+"))  # providers make all kinds
        for message in json.loads(body)["messages"]:
            match message["role"]:
                case "tool":
                    assert isinstance(message["content"], str)
                    yield "result", calls.answer(message["tool_call_id"]), None, message["content"]
                    continue
                case "system":
                    yield "system", message["content"]
                case "user":
                    calls.all_answered()
                    yield from self._inputs(message["content"])
                case "assistant":
                    calls.all_answered()
                    yield from self._said(message, calls)
        calls.all_answered()

    def _inputs(self, content: Any) -> Iterator[Item]:
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            match part["type"]:
                case "text":
                    yield "text", part["text"]
                case "image_url":
                    yield from_data_url("image", part["image_url"]["url"])
                case "file":
                    assert part["file"]["filename"]
                    yield from_data_url("file", part["file"]["file_data"])

    def _said(self, message: dict[str, Any], calls: Calls) -> Iterator[Item]:
        for detail in message.get("reasoning_details", ()):
            if detail["type"] == "reasoning.encrypted":
                yield "hidden", detail["data"]
            else:
                yield "thought", detail.get("text", ""), detail["signature"]
        assert message["content"] is not None or message["tool_calls"]
        if message["content"]:
            yield "said", message["content"], None
        for call in message.get("tool_calls", ()):
            assert call["type"] == "function"
            function = call["function"]
            assert NAME.fullmatch(function["name"])
            arguments = json.loads(function["arguments"])
            assert isinstance(arguments, dict)
            yield "call", calls.ask(call["id"]), function["name"], arguments, None


class AnthropicServer(Server):
    def _block(self, block: Block) -> dict[str, Any]:
        match block:
            case ("thought", text, signature):
                return {"type": "thinking", "thinking": text, "signature": signature}
            case ("hidden", data):
                return {"type": "redacted_thinking", "data": data}
            case ("said", text, _):
                return {"type": "text", "text": text}
            case (_, call_id, name, arguments, _):
                return {"type": "tool_use", "id": call_id, "name": name, "input": json.loads(arguments or "{}")}
        raise AssertionError(block)

    @staticmethod
    def _stop_reason(blocks: Sequence[Block]) -> str:
        return "tool_use" if any(block[0] == "call" for block in blocks) else "end_turn"

    def body(self, blocks: Sequence[Block]) -> bytes:
        message = {"id": "msg", "type": "message", "role": "assistant", "model": "m", "content": [*map(self._block, blocks)]}
        usage = {"input_tokens": USAGE[0], "output_tokens": USAGE[1]}
        return json.dumps({**message, "stop_reason": self._stop_reason(blocks), "usage": usage}).encode()

    def stream(self, blocks: Sequence[Block], cut: Cut) -> bytes:
        head = {"id": "msg", "type": "message", "role": "assistant", "model": "m", "content": []}
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": {**head, "usage": {"input_tokens": USAGE[0], "output_tokens": 1}}}
        ]
        for index, block in enumerate(blocks):
            begun, deltas = self._begun(block, cut)
            events.append({"type": "content_block_start", "index": index, "content_block": begun})
            events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
            events += [{"type": "content_block_stop", "index": index}, {"type": "ping"}]
        end = {"stop_reason": self._stop_reason(blocks), "stop_sequence": None}
        events.append({"type": "message_delta", "delta": end, "usage": {"output_tokens": USAGE[1]}})
        return sse(*events, {"type": "message_stop"}, named=True)

    def _begun(self, block: Block, cut: Cut) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        match block:
            case ("thought", text, signature):
                deltas = [{"type": "thinking_delta", "thinking": p} for p in cut(text)]
                return {"type": "thinking", "thinking": "", "signature": ""}, [
                    *deltas,
                    {"type": "signature_delta", "signature": signature},
                ]
            case ("said", text, _):
                return {"type": "text", "text": ""}, [{"type": "text_delta", "text": p} for p in cut(text)]
            case ("call", call_id, name, arguments, _):
                deltas = [{"type": "input_json_delta", "partial_json": p} for p in ["", *cut(arguments)]]
                return {"type": "tool_use", "id": call_id, "name": name, "input": {}}, deltas
        return self._block(block), []

    def read(self, body: bytes) -> Iterator[Item]:
        request = json.loads(body)
        assert json.dumps(request).count('"cache_control"') <= 4
        for block in request.get("system", ()):
            assert block["text"].strip()
            yield "system", block["text"]
        calls, role = Calls(), "assistant"
        for message in request["messages"]:
            assert message["role"] != role, "user and assistant take turns"
            assert message["content"]
            role = message["role"]
            blocks = message["content"]
            if role == "user":
                kinds = [block["type"] == "tool_result" for block in blocks]
                assert kinds == sorted(kinds, reverse=True), "results come first"
            for block in blocks:
                for item in self._item(block, calls):
                    yield ("said", item[1], None) if role == "assistant" and item[0] == "text" else item
            if role == "user":
                calls.all_answered()
        assert role == "user"

    def _item(self, block: dict[str, Any], calls: Calls) -> Iterator[Item]:
        match block["type"]:
            case "tool_use":
                assert NAME.fullmatch(block["name"])
                assert isinstance(block["input"], dict)
                yield "call", calls.ask(block["id"]), block["name"], block["input"], None
            case "thinking":
                assert block["signature"]
                yield "thought", block["thinking"], block["signature"]
            case "redacted_thinking":
                yield "hidden", block["data"]
            case "tool_result":
                content, failed = block["content"], block.get("is_error", False)
                if isinstance(content, str):
                    assert content.strip() or not failed
                    items: Any = content
                else:
                    items = [self._input(each) for each in content]
                    assert not failed
                yield "result", calls.answer(block["tool_use_id"]), failed, items
            case _:
                yield self._input(block)

    def _input(self, block: dict[str, Any]) -> Item:
        if block["type"] == "text":
            assert block["text"].strip(), "blank text is refused"
            return "text", block["text"]
        source = block["source"]
        assert source["type"] == "base64"
        kind = {"image": "image", "document": "file"}[block["type"]]
        return kind, source["media_type"], base64.b64decode(source["data"], validate=True)


class ResponsesServer(Server):
    def _item(self, index: int, block: Block) -> dict[str, Any]:
        match block:
            case ("thought", text, encrypted):
                summary = [{"type": "summary_text", "text": text}] if text else []
                return {"type": "reasoning", "id": f"rs_{index}", "summary": summary, "encrypted_content": encrypted}
            case ("said", text, _):
                part = {"type": "output_text", "text": text, "annotations": []}
                return {
                    "type": "message",
                    "id": f"msg_{index}",
                    "role": "assistant",
                    "status": "completed",
                    "content": [part],
                }
            case (_, call_id, name, arguments, _):
                call = {"type": "function_call", "id": f"fc_{index}", "status": "completed", "call_id": call_id}
                return {**call, "name": name, "arguments": arguments}
        raise AssertionError(block)

    def _response(self, blocks: Sequence[Block]) -> dict[str, Any]:
        usage = {"input_tokens": USAGE[0], "output_tokens": USAGE[1], "total_tokens": sum(USAGE)}
        output = [self._item(index, block) for index, block in enumerate(blocks)]
        return {"id": "resp", "model": "m", "status": "completed", "error": None, "output": output, "usage": usage}

    def body(self, blocks: Sequence[Block]) -> bytes:
        return json.dumps(self._response(blocks)).encode()

    def stream(self, blocks: Sequence[Block], cut: Cut) -> bytes:
        created = {"id": "resp", "model": "m", "status": "in_progress", "output": []}
        events: list[dict[str, Any]] = [{"type": "response.created", "response": created}]
        for index, block in enumerate(blocks):
            whole = self._item(index, block)
            empty: dict[str, Any] = {"message": {"content": []}, "reasoning": {"summary": []}}
            begun = {**whole, **empty.get(whole["type"], {"arguments": ""}), "status": "in_progress"}
            events.append({"type": "response.output_item.added", "output_index": index, "item": begun})
            at = {"output_index": index, "item_id": whole["id"]}
            text = block[3] if block[0] == "call" else block[1]
            kind = {"thought": "reasoning_summary_text", "said": "output_text", "call": "function_call_arguments"}[block[0]]
            more = {"summary_index": 0} if block[0] == "thought" else {"content_index": 0} if block[0] == "said" else {}
            events += [{"type": f"response.{kind}.delta", **at, **more, "delta": p} for p in cut(text)]
            if block[0] == "call":
                events.append({"type": f"response.{kind}.done", **at, "arguments": text})
            events.append({"type": "response.output_item.done", "output_index": index, "item": whole})
        return sse(*events, {"type": "response.completed", "response": self._response(blocks)}, named=True)

    def read(self, body: bytes) -> Iterator[Item]:
        request = json.loads(body)
        assert request["store"] is False
        calls, before = Calls(), ""
        for item in request["input"]:
            kind = item.get("type", "message")
            assert before != "reasoning" or kind in ("reasoning", "message", "function_call")
            assert before != "reasoning" or item.get("role") in (None, "assistant"), "reasoning without what followed it"
            before = kind
            match kind:
                case "reasoning":
                    yield "thought", "".join(part["text"] for part in item["summary"]), item["encrypted_content"]
                case "function_call":
                    assert NAME.fullmatch(item["name"])
                    arguments = json.loads(item["arguments"])
                    assert isinstance(arguments, dict)
                    yield "call", calls.ask(item["call_id"]), item["name"], arguments, None
                case "function_call_output":
                    output = item["output"]
                    items = output if isinstance(output, str) else [self._input(part) for part in output]
                    yield "result", calls.answer(item["call_id"]), None, items
                case "message":
                    yield from self._message(item)
        calls.all_answered()
        assert before != "reasoning"

    def _message(self, item: dict[str, Any]) -> Iterator[Item]:
        content = item["content"]
        if item["role"] == "assistant":
            yield "said", content if isinstance(content, str) else "".join(part["text"] for part in content), None
        elif item["role"] == "system":
            yield "system", content
        elif isinstance(content, str):
            yield "text", content
        else:
            yield from map(self._input, content)

    def _input(self, part: dict[str, Any]) -> Item:
        match part["type"]:
            case "input_text":
                return "text", part["text"]
            case "input_image":
                return from_data_url("image", part["image_url"])
            case "input_file":
                assert part["filename"]
                return from_data_url("file", part["file_data"])
        raise AssertionError(part)


class GeminiServer(Server):
    def _part(self, block: Block) -> dict[str, Any]:
        match block:
            case ("thought", text, _):
                return {"text": text, "thought": True}
            case ("said", text, signature):
                return {"text": text} | ({"thoughtSignature": signature} if signature else {})
            case (_, call_id, name, arguments, signature):
                call = {"name": name, "args": json.loads(arguments or "{}")} | ({"id": call_id} if call_id else {})
                return {"functionCall": call} | ({"thoughtSignature": signature} if signature else {})
        raise AssertionError(block)

    def _chunk(self, parts: Sequence[dict[str, Any]], end: str | None) -> dict[str, Any]:
        candidate = {"index": 0, "content": {"role": "model", "parts": list(parts)}} | ({"finishReason": end} if end else {})
        usage = {"promptTokenCount": USAGE[0], "candidatesTokenCount": USAGE[1], "totalTokenCount": sum(USAGE)}
        return {"responseId": "r", "modelVersion": "m", "candidates": [candidate], "usageMetadata": usage}

    def body(self, blocks: Sequence[Block]) -> bytes:
        return json.dumps(self._chunk([*map(self._part, blocks)], "STOP")).encode()

    def stream(self, blocks: Sequence[Block], cut: Cut) -> bytes:
        parts: list[dict[str, Any]] = []
        for block in blocks:
            part = self._part(block)
            whole = block[0] == "call" or "thoughtSignature" in part
            parts += [part] if whole else [{**part, "text": piece} for piece in cut(block[1])]
        return sse(*[self._chunk([part], None) for part in parts], self._chunk([], "STOP"))

    def read(self, body: bytes) -> Iterator[Item]:
        request = json.loads(body)
        for part in request.get("systemInstruction", {}).get("parts", ()):
            yield "system", part["text"]
        calls = Calls()
        for content in request["contents"]:
            assert content["parts"]
            results = ["functionResponse" in part for part in content["parts"]]
            assert all(results) or not any(results), "the results of one reply's calls are one content"
            first = True
            for part in content["parts"]:
                if "functionCall" in part:
                    assert "thoughtSignature" in part or not first, "the first call is signed"
                    first = False
                yield self._item(content["role"], part, calls)
            if content["role"] == "user":
                calls.all_answered()

    def _item(self, role: str, part: dict[str, Any], calls: Calls) -> Item:
        match part:
            case {"functionCall": call}:
                assert isinstance(call["args"], dict)
                number = calls.ask(call["id"])
                return "call", number, call["name"], call["args"], part.get("thoughtSignature")
            case {"functionResponse": result}:
                ((key, text),) = result["response"].items()
                items = [self._item("user", each, calls) for each in result.get("parts", ())]
                return "result", calls.answer(result["id"]), key == "error", [("text", text), *items]
            case {"text": text}:
                assert text.strip() or role == "model"
                return ("text", text) if role == "user" else ("said", text, part.get("thoughtSignature"))
            case {"inlineData": {"mimeType": media_type, "data": data}}:
                kind = "image" if media_type.startswith("image/") else "file"
                return kind, media_type, base64.b64decode(data, validate=True)
        raise AssertionError(part)


SERVERS: dict[str, Server] = {
    "chat": ChatServer(),
    "anthropic": AnthropicServer(),
    "responses": ResponsesServer(),
    "gemini": GeminiServer(),
}
