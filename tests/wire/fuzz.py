"""`make fuzz`: the splitter and every codec, against bytes that no API would send.

Each input is made from a seed and a number, so that one can be made again: `--only SEED:NUMBER`. Half are mutations of
replies made by hand (and of recordings, where they are there), half come from a grammar of streams and bodies. Of each: no
error but ours; the same result however the bytes are cut; no more out than came in; what came back is encoded again as JSON.
Then, of a few shapes that grow: time in proportion to the bytes; and of those that never end: an end, and little kept. The
last line is the figure.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import random
import string
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
from endless import SHAPES, largest_kept
from hand_made import hand_made
from points import DIALECTS
from replies import recorded

from heaveto.errors import AgentError
from heaveto.messages import AssistantMessage, Delta, Reply, ToolCall, ToolMessage, Transcript, UserMessage
from heaveto.models import Request
from heaveto.models.error_bodies import api_error
from heaveto.models.sse import SSESplitter

__all__ = ["Input", "check", "failures", "made", "slow_shapes"]

ENDLESS_LIMIT = 2 * 1024 * 1024  # of what is kept of a reply without an end
LARGEST = 1500  # bytes of an input: what is wrong with a large one is nearly always wrong with a small one
PIECES = [b"data: ", b"data:", b"event: ", b"id: ", b": ", b"retry: 1", b"\n", b"\r", b"\r\n", b"\n\n", b"\xef\xbb\xbf"]
PIECES += [b"[DONE]", b"{", b"}", b'"', b"[", b"null", b"\\ud800", b"\xff", b"\xed\xa0\x80", b"\0", b"1e999", b"NaN", b"-1"]
PIECES += [b'"error"', b'"choices"', b'"usage"', b'"type"', b'"index"', b'"content"', b"<html>", b"9" * 40, b"[" * 50]
ODD = [
    None,
    True,
    False,
    0,
    -1,
    2**70,
    1.5,
    float("nan"),
    "",
    "x",
    "\ud800",
    "é\U0001f600",
    [],
    {},
    [[]],
    [None],
    {"": None},
]
KEYS = [
    *("choices", "delta", "message", "content", "text", "role", "index", "id", "type", "tool_calls", "function", "name"),
    *("arguments", "finish_reason", "usage", "error", "code", "status", "metadata", "reasoning", "reasoning_details"),
    *("reasoning_content", "refusal", "extra_content", "x_groq", "model", "content_block", "partial_json", "signature"),
    *(
        "stop_reason",
        "stop_details",
        "input",
        "thinking",
        "citation",
        "item",
        "item_id",
        "output",
        "output_index",
        "response",
    ),
    *(
        "response",
        "incomplete_details",
        "summary",
        "part",
        "candidates",
        "parts",
        "functionCall",
        "args",
        "thoughtSignature",
        "thought",
    ),
    *("promptFeedback", "blockReason", "finishReason", "usageMetadata", "promptTokenCount", "details"),
]
TYPES = [
    *("message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop"),
    *(
        "text_delta",
        "input_json_delta",
        "thinking_delta",
        "signature_delta",
        "citations_delta",
        "tool_use",
        "text",
        "thinking",
    ),
    *("response.created", "response.output_item.added", "response.output_item.done", "response.output_text.delta"),
    *("response.function_call_arguments.delta", "response.completed", "response.failed", "response.incomplete", "error"),
    *(
        "function_call",
        "reasoning",
        "message",
        "stop",
        "length",
        "tool_calls",
        "STOP",
        "SAFETY",
        "ping",
        "redacted_thinking",
    ),
]
TARGETS = ("splitter", *DIALECTS, "error body")


class Input(NamedTuple):
    """What one target is given."""

    seed: int
    number: int
    target: str
    stream: bool
    data: bytes
    cuts: tuple[int, ...]

    def __str__(self) -> str:
        kind = "stream" if self.stream else "body"
        return f"--only {self.seed}:{self.number} ({self.target}, {kind} of {len(self.data)} bytes)"


class Outcome(NamedTuple):
    """What a decoder made of it, but for the ids that are ours."""

    deltas: str
    error: str
    reply: Any


# --- making inputs ------------------------------------------------------------------------------------------------------


def fixtures() -> list[tuple[str, bytes]]:
    return [(reply.dialect, reply.body) for reply in (*hand_made(), *recorded()) if len(reply.body) <= 20 * LARGEST]


def made(seed: int, number: int, known: Sequence[tuple[str, bytes]]) -> Input:
    """The input of this number."""
    chance = random.Random(f"{seed}:{number}")
    target, stream = chance.choice(TARGETS), chance.random() < 0.8
    if chance.random() < 0.5:
        own = [body for dialect, body in known if dialect == target] or [body for _, body in known]
        data = mutated(chance, chance.choice(own), chance.choice(own))
    else:
        data = grown(chance, stream=stream)
    data = data[:LARGEST]
    return Input(
        seed, number, target, stream, data, tuple(chance.randrange(len(data) + 1) for _ in range(chance.randrange(6)))
    )


def mutated(chance: random.Random, data: bytes, other: bytes) -> bytes:
    """A reply with a few things wrong."""
    for _ in range(chance.randrange(1, 5)):
        at = chance.randrange(len(data) + 1)
        end = at + chance.randrange(1, 40)
        match chance.randrange(7):
            case 0:
                data = data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
            case 1:
                data = data[:at] + data[end:]
            case 2:
                data = data[:at] + chance.choice(PIECES) + data[at:]
            case 3:
                data = data[:end] + data[at:]
            case 4:
                data = data[:at] + other[chance.randrange(len(other) + 1) :]
            case 5:
                data = data.replace(*_swapped(chance, data), 1)
            case _:
                data = data[at:]
    return data


def _swapped(chance: random.Random, data: bytes) -> tuple[bytes, bytes]:
    """A value of the JSON, and an odd one for its place."""
    starts = [at for at, byte in enumerate(data) if byte == 58]  # colons
    at = chance.choice(starts) + 1 if starts else 0
    end = min((found for sign in b",}\n" if (found := data.find(bytes([sign]), at)) > 0), default=len(data))
    return data[at:end] or b"\0", json.dumps(chance.choice(ODD)).encode()


def grown(chance: random.Random, *, stream: bool) -> bytes:
    """A stream or a body of the right words in any order."""
    if not stream:
        return json.dumps(_value(chance, 0)).encode() if chance.random() < 0.9 else _rubble(chance)
    return b"".join(_event(chance) for _ in range(chance.randrange(1, 8)))


def _event(chance: random.Random) -> bytes:
    if chance.random() < 0.15:
        return _rubble(chance)
    end = chance.choice([b"\n\n", b"\r\n\r\n", b"\r\r", b"\n"])
    name = f"event: {chance.choice(TYPES)}\n".encode() if chance.random() < 0.4 else b""
    return name + b"data: " + json.dumps(_value(chance, 0)).encode() + end


def _rubble(chance: random.Random) -> bytes:
    return b"".join(chance.choice(PIECES) for _ in range(chance.randrange(1, 12)))


def _value(chance: random.Random, depth: int) -> Any:
    kind = chance.random()
    if depth == 0 or (kind < 0.5 and depth < 5):
        return {chance.choice(KEYS): _value(chance, depth + 1) for _ in range(chance.randrange(1, 5))}
    if kind < 0.65 and depth < 5:
        return [_value(chance, depth + 1) for _ in range(chance.randrange(3))]
    if kind < 0.8:
        return chance.choice(TYPES)
    return chance.choice(ODD) if kind < 0.95 else "".join(chance.choices(string.printable, k=5))


# --- judging ------------------------------------------------------------------------------------------------------------


def check(given: Input) -> None:
    """Raises AssertionError, or what should not have come out."""
    if given.target == "splitter":
        _check_splitter(given)
    elif given.target == "error body":
        _check_error_body(given)
    else:
        _check_decoder(given)


def _pieces(given: Input) -> list[bytes]:
    places = sorted({0, len(given.data), *given.cuts})
    return [given.data[begin:end] for begin, end in itertools.pairwise(places)]


def _check_splitter(given: Input) -> None:
    came = []
    for pieces in (_pieces(given), [given.data]):
        splitter = SSESplitter()
        events = [event for piece in pieces for event in splitter.feed(piece)]
        assert splitter._kept_bytes <= len(given.data), "it keeps more than it got"
        came.append((events, splitter.close()))
    assert came[0] == came[1], "it depends on how the bytes are cut"
    assert sum(len(event.data) for event in came[0][0]) <= len(given.data), "more came out than went in"


def _check_error_body(given: Input) -> None:
    error = api_error("p", 400, {"retry-after": given.data[:20].decode("latin-1")}, given.data, 1e9)
    assert len(str(error)) < 1500, "an error's text without bound"


def _check_decoder(given: Input) -> None:
    first, second = (_decoded(given, pieces) for pieces in (_pieces(given), [given.data]))
    assert first == second, f"it depends on how the bytes are cut: {first} or {second}"


def _decoded(given: Input, pieces: Sequence[bytes]) -> Outcome:
    dialect = DIALECTS[given.target]("m", provider="p")
    decoder = dialect.decoder(stream=given.stream)
    deltas: list[Delta] = []
    for piece in pieces:
        deltas += decoder.feed(piece)
    deltas += decoder.close()
    told = "".join(_text(delta) for delta in deltas)
    assert decoder.characters <= 2 * len(given.data) + 100, "more came out than went in"
    assert len(told) <= 2 * len(given.data) + 100, "more was handed out than went in"
    try:
        reply = decoder.finish()
    except AgentError as error:
        failed = error
    else:
        return Outcome(told, "", _checked(given, dialect, reply))
    assert len(str(failed)) < 1500, "an error's text without bound"
    return Outcome(told, type(failed).__name__, None)


def _checked(given: Input, dialect: Any, reply: Reply) -> tuple[Any, ...]:
    """What a reply says, but for the ids that are ours."""
    size = len(json.dumps(msgspec.to_builtins(reply), default=str))
    assert size <= 14 * len(given.data) + 4000, f"a reply of {size} bytes from {len(given.data)}"
    _check_request(dialect, reply.message)
    asked = [(call.name, call.arguments) for call in reply.message.tool_calls]
    return reply.finish, reply.message.content, reply.message.reasoning, asked, reply.usage


def _text(delta: Delta) -> str:
    return getattr(delta, "text", "") or getattr(delta, "arguments", "")


def _check_request(dialect: Any, message: AssistantMessage) -> None:
    """What a model said goes back to it in a request that can be read."""
    transcript = Transcript([UserMessage("hello \ud800"), message])
    transcript.append(*(_answer(call) for call in message.tool_calls))
    json.loads(dialect.encode(Request(transcript=transcript)).decode())


def _answer(call: ToolCall) -> ToolMessage:
    return ToolMessage(call.id, call.name, "done \udfff")


# --- running ------------------------------------------------------------------------------------------------------------


def failures(seed: int, numbers: Sequence[int]) -> tuple[list[str], Counter[str]]:
    """What went wrong with these, and how many there were of each target."""
    known, wrong, tried = fixtures(), [], Counter[str]()
    for number in numbers:
        given = made(seed, number, known)
        tried[given.target] += 1
        try:
            check(given)
        except Exception as error:
            wrong.append(f"{given}: {type(error).__name__}: {error}"[:600])
    return wrong, tried


def _shapes() -> dict[str, Callable[[int], tuple[str, list[bytes]]]]:
    chat = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
    arguments = b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"a"}}]}}]}\n\n'
    details = b'data: {"choices":[{"delta":{"reasoning_details":[{"type":"t","index":0,"text":"a"}]}}]}\n\n'
    thinking = b'data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"a"}}\n\n'
    words = b'data: {"type":"response.output_text.delta","item_id":"i","output_index":0,"delta":"a"}\n\n'
    parts = b'data: {"candidates":[{"content":{"parts":[{"text":"a"}]}}]}\n\n'
    return {
        "chunks": lambda size: ("chat", [chat] * size),
        "pieces of arguments": lambda size: ("chat", [arguments] * size),
        "pieces of reasoning": lambda size: ("chat", [details] * size),
        "calls": lambda size: ("chat", [arguments.replace(b'"index":0,"f', b'"index":%d,"f' % at) for at in range(size)]),
        "thinking": lambda size: ("anthropic", [thinking] * size),
        "blocks": lambda size: ("anthropic", [thinking.replace(b'"index":0', b'"index":%d' % at) for at in range(size)]),
        "words": lambda size: ("responses", [words] * size),
        "items": lambda size: ("responses", [words.replace(b'":0', b'":%d' % at) for at in range(size)]),
        "parts": lambda size: ("gemini", [parts] * size),
        "one long event": lambda size: ("chat", [b"data: ", *[b"x" * 50] * size, b"\n\n"]),
        "one line end at a time": lambda size: ("chat", [b"\n", b"\r"] * (size * 10)),
        "bytes one by one": lambda size: ("chat", [bytes([byte]) for byte in chat * (size // 20)]),
        "comments": lambda size: ("chat", [b": x\n"] * size + [b"\n"]),
        "fields of one event": lambda size: ("chat", [b"data: x\n"] * size + [b"\n"]),
    }


def slow_shapes(size: int) -> list[str]:
    """The shapes whose time grows with more than their bytes: sixteen times the size may take forty times as long."""
    slow = []
    for name, shape in _shapes().items():
        small, large = (min(_seconds(*shape(each)) for _ in range(3)) for each in (size, 16 * size))
        if large > 40 * small + 0.2:
            slow.append(f"{name}: {small:.4f} s, and {large:.4f} s for sixteen times as much")
    return slow


def _seconds(dialect: str, pieces: Sequence[bytes]) -> float:
    decoder = DIALECTS[dialect]("m", provider="p").decoder(stream=True)
    began = time.process_time()
    for piece in pieces:
        decoder.feed(piece)
    try:
        decoder.finish()
    except AgentError:
        pass
    return time.process_time() - began


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--inputs", type=int, default=1_000_000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options.add_argument("--only", metavar="SEED:NUMBER", help="one input, with its bytes and its traceback")
    chosen = options.parse_args()
    if chosen.only:
        seed, number = map(int, chosen.only.split(":"))
        given = made(seed, number, fixtures())
        print(given, given.cuts, given.data, sep="\n")
        check(given)
        return 0
    return _all(chosen.inputs, chosen.seed, chosen.processes)


def _all(inputs: int, seed: int, processes: int) -> int:
    began, wrong, tried = time.monotonic(), list[str](), Counter[str]()
    batches = [(seed, range(at, min(at + 2000, inputs))) for at in range(0, inputs, 2000)]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for found, counted in pool.starmap(failures, batches, chunksize=4):
            wrong += found
            tried += counted
    slow, large = slow_shapes(400), largest_kept(ENDLESS_LIMIT)
    print(*wrong[:20], *slow, *large, sep="\n", end="\n" if wrong or slow or large else "")
    targets = ", ".join(f"{target} {count:,}" for target, count in sorted(tried.items()))
    seconds = time.monotonic() - began
    print(
        f"fuzz: {tried.total():,} inputs of seed {seed} ({targets}), {len(wrong)} wrong; "
        f"{len(_shapes())} shapes that grow, {len(slow)} slow; {len(SHAPES)} without an end, {len(large)} kept; "
        f"{seconds:.0f} s"
    )
    return 1 if wrong or slow or large or tried.total() != inputs else 0


if __name__ == "__main__":
    sys.exit(main())
