"""Generated conversations with a server of each dialect: what was said comes back in the next request, and in no other way.

A server replies in its own bytes, streamed or not; the client's decoder reads them whole and cut anywhere; the reply goes
into the transcript, its calls are answered, and the next request is read by the server, which compares it with what it has
said and been told. At the end the same conversation goes to each of the other dialects.

`make conversations` tries many; the last line is the figure. A wrong one can be had again by its seed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from fake_servers import SERVERS, USAGE, Block, Item
from points import DIALECTS

from heaveto.messages import (
    CallDelta,
    Delta,
    File,
    Image,
    Message,
    ReasoningDelta,
    Reply,
    SystemMessage,
    TextDelta,
    ToolMessage,
    Transcript,
    UserMessage,
)
from heaveto.models import Request

__all__ = ["Conversation", "Maker", "failures", "hold"]

T = TypeVar("T")

Part: TypeAlias = str | Image | File

MODELS = {"chat": "m", "anthropic": "claude-x", "responses": "gpt-x", "gemini": "gemini-3-pro"}
NO_TEXT = "(no text)"  # where an API takes no blank text
UNSIGNED = "skip_thought_signature_validator"  # Gemini's word for a call that it did not make itself


@dataclass(frozen=True)
class Result:
    failed: bool
    parts: tuple[Part, ...]  # one text, or several parts with an image among them

    @property
    def is_plain(self) -> bool:
        return len(self.parts) == 1


@dataclass(frozen=True)
class Said:
    """A reply of the server's, how it comes, and how its calls are answered."""

    blocks: tuple[Block, ...]
    streamed: bool
    seed: int  # of the pieces and the cuts
    results: tuple[Result, ...]


@dataclass(frozen=True)
class Conversation:
    dialect: str
    system: tuple[str, ...]
    turns: tuple[tuple[tuple[tuple[Part, ...], ...], Said], ...]  # what the user says, in messages, and what comes back


# --- making conversations ---------------------------------------------------------------------------------------------

ODD = ["\ud800", "\udc00\ud83d", "\u2028", "\0", "\r\n", '"\\', "data: x\n\n", "</s>", "\ufeff", "\ud83d\ude00"]
WHOLE = ["a", "Z", "0", " ", "\n", "\t", "é", "\U0001f600", "\u0301", "\uffff", "{", "}", '"', "\\", "\u2029", "event: x\n"]
NOT_OBJECTS = ["[1]", '"x"', "null", "{'a': 1}", '{"a": 1,}', "{}{}", "\\", "1e5"]
NUMBERS = [0, -1, 2**53 + 1, -(2**63), 2**63, 1.5, 1e300, -0.0, 0.1]
PNG, PDF_HEAD = b"\x89PNG\r\n\x1a\n", b"%PDF-"
IDS = {"chat": ["call_{}", "functions.f:{}", "call_0", ""], "gemini": ["call_{}", ""]}  # else those that the API makes


class Maker:
    """Makes a conversation of chance, the same for the same seed."""

    def __init__(self, dialect: str, seed: int) -> None:
        self._dialect, self._chance, self._ids = dialect, random.Random(f"{dialect}:{seed}"), itertools.count(1)

    def conversation(self) -> Conversation:
        turns = [(self._some(2, self._user), self._reply()) for _ in range(self._chance.randrange(1, 4))]
        turns[0] = ((("hello",), *turns[0][0]), turns[0][1])
        return Conversation(self._dialect, self._some(2, self._text), tuple(turns))

    def _some(self, most: int, make: Callable[[], T]) -> tuple[T, ...]:
        return tuple(make() for _ in range(self._chance.randrange(most + 1)))

    def _text(self) -> str:
        """What no API sends, but users and tools do."""
        return "".join(self._some(4, lambda: self._chance.choice([*ODD, *WHOLE])))

    def _sent(self) -> str:
        text = "".join(self._some(8, lambda: self._chance.choice(WHOLE)))
        return text if text.strip() else ""

    def _signature(self) -> str:
        return "".join(self._chance.choices("abc/+=", k=5))

    def _bytes(self) -> bytes:
        return self._chance.randbytes(self._chance.randrange(9))

    def _media(self) -> Part:
        match self._chance.randrange(3):
            case 0:
                return File.from_bytes(PDF_HEAD + self._bytes(), name="a.pdf")
            case 1:
                return File.from_bytes(b"x" + self._sent().encode(), "text/plain", "a.txt")
        return self._image()

    def _image(self) -> Image:
        return Image.from_bytes(PNG + self._bytes())

    def _user(self) -> tuple[Part, ...]:
        if self._chance.random() < 0.6:
            return (self._text(),)
        makers: list[Callable[[], Part]] = [self._text, self._media]
        return (*self._some(3, lambda: self._chance.choice(makers)()), self._image())

    def _result(self) -> Result:
        more = self._chance.choice([(), (self._image(),), (self._image(), self._text())])
        return Result(self._chance.random() < 0.4, (self._text(), *more))

    def _value(self, depth: int = 0) -> Any:
        match self._chance.randrange(3 if depth > 1 else 5):
            case 0:
                return self._text()
            case 1:
                return self._chance.choice(NUMBERS)
            case 2:
                return self._chance.choice([None, True, False])
            case 3:
                return list(self._some(2, lambda: self._value(depth + 1)))
        return {self._text(): self._value(depth + 1) for _ in range(self._chance.randrange(3))}

    def _arguments(self, *, may_be_invalid: bool) -> str:
        kind = self._chance.random()
        if kind < 0.2:
            return ""
        if kind < 0.4 and may_be_invalid:
            return self._chance.choice(NOT_OBJECTS)
        fields = {self._text(): self._value() for _ in range(self._chance.randrange(4))}
        return json.dumps(fields, indent=self._chance.choice([None, 1]), ensure_ascii=True)

    def _reply(self) -> Said:
        streamed = self._chance.random() < 0.6
        blocks = self._blocks(streamed=streamed)
        results = tuple(self._result() for block in blocks if block[0] == "call")
        return Said(blocks, streamed, self._chance.randrange(2**32), results)

    def _blocks(self, *, streamed: bool) -> tuple[Block, ...]:
        """A reply as the API may make one."""
        may_be_invalid = self._dialect in ("chat", "responses") or (self._dialect == "anthropic" and streamed)
        kinds: list[Callable[[], Block]] = [self._thought, self._say, lambda: self._call(may_be_invalid=may_be_invalid)]
        if self._dialect == "chat":
            kinds[0] = self._thought_or_hidden
            blocks = [block for most, make in zip((2, 1, 3), kinds, strict=True) for block in self._some(most, make)]
        else:
            if self._dialect == "anthropic":
                kinds.append(self._thought_or_hidden)
            blocks = list(self._some(5, lambda: self._chance.choice(kinds)()))
        if not any(block[0] == "call" or (block[0] == "said" and block[1]) for block in blocks):
            blocks.append(("said", "well", None))
        if self._dialect == "gemini":
            self._sign_first_call(blocks)
        return tuple(blocks)

    def _sign_first_call(self, blocks: list[Block]) -> None:
        first = next((at for at, block in enumerate(blocks) if block[0] == "call"), None)
        if first is not None:
            blocks[first] = (*blocks[first][:4], self._signature())

    def _thought(self) -> Block:
        return "thought", self._sent(), self._signature()

    def _thought_or_hidden(self) -> Block:
        return self._thought() if self._chance.random() < 0.6 else ("hidden", self._signature())

    def _say(self) -> Block:
        signed = self._dialect == "gemini" and self._chance.random() < 0.3
        return "said", self._sent(), self._signature() if signed else None

    def _call(self, *, may_be_invalid: bool) -> Block:
        call_id = self._chance.choice(IDS.get(self._dialect, ["toolu_{}"])).format(next(self._ids))
        name = self._chance.choice("abX") + "".join(self._chance.choices("aZ0_-", k=self._chance.randrange(9)))
        return "call", call_id, name, self._arguments(may_be_invalid=may_be_invalid), None


# --- holding them -----------------------------------------------------------------------------------------------------


def hold(conversation: Conversation) -> None:
    """Have the conversation; an AssertionError where anything is told otherwise than it was said."""
    own = conversation.dialect
    transcript = Transcript(SystemMessage(text) for text in conversation.system)
    told: list[Item] = [item for text in conversation.system for item in system(own, text)]
    elsewhere = {
        dialect: [i for t in conversation.system for i in system(dialect, t)] for dialect in SERVERS if dialect != own
    }
    numbers = itertools.count()
    for messages, said in conversation.turns:
        for parts in messages:
            transcript.append(user_message(parts))
            told += user(own, parts)
            for dialect, items in elsewhere.items():
                items += user(dialect, parts)
        if messages:  # else the model goes on after its calls, or is asked again for nothing
            check_request(own, transcript, told)
        reply = decoded(own, said, transcript)
        transcript.append(reply.message, *result_messages(reply, said))
        first = next(numbers)
        calls = [block for block in said.blocks if block[0] == "call"]
        for _ in calls[1:]:
            next(numbers)
        if not calls:
            numbers = itertools.count(first)
        answers = list(enumerate(said.results, first))
        told += [*assistant(own, said.blocks, first), *(result(own, *each) for each in answers)]
        for dialect, items in elsewhere.items():
            items += [*foreign(dialect, said.blocks, first), *(result(dialect, *each) for each in answers)]
    transcript.append(UserMessage("and now?"))
    check_request(own, transcript, [*told, ("text", "and now?")])
    for dialect, items in elsewhere.items():
        check_request(dialect, transcript, [*items, ("text", "and now?")])


def check_request(dialect: str, transcript: Transcript, told: Sequence[Item]) -> None:
    model = DIALECTS[dialect](MODELS[dialect], provider=dialect)
    read = joined(SERVERS[dialect].read(model.encode(Request(transcript=transcript))))
    expected = joined(told)
    assert read == expected, f"{dialect} reads\n{read}\nand not\n{expected}"


def decoded(dialect: str, said: Said, transcript: Transcript) -> Reply:
    """The reply, which is the same however its bytes come."""
    chance = random.Random(said.seed)
    server, model = SERVERS[dialect], DIALECTS[dialect](MODELS[dialect], provider=dialect)

    def cut(text: str) -> list[str]:
        places = [0, *sorted(chance.randrange(len(text) + 1) for _ in range(chance.randrange(3))), len(text)]
        return [text[begin:end] for begin, end in itertools.pairwise(places) if begin < end]

    data = server.stream(said.blocks, cut) if said.streamed else server.body(said.blocks)
    cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.randrange(12)))
    whole = None
    for places in ([0, len(data)], [0, *cuts, len(data)], range(len(data) + 1) if len(data) < 700 else [0, len(data)]):
        decoder = model.decoder(stream=said.streamed)
        deltas: list[Delta] = []
        for begin, end in itertools.pairwise(places):
            deltas += decoder.feed(data[begin:end])
        deltas += decoder.close()
        reply = decoder.finish(transcript.call_ids)
        check_reply(reply, deltas, said)
        assert whole is None or shown(whole) == shown(reply), "it depends on how the bytes are cut"
        whole = reply
    assert whole is not None
    return whole


def shown(reply: Reply) -> Any:
    """A reply but for the ids that are ours."""
    message = reply.message
    asked = [(call.name, call.arguments) for call in message.tool_calls]
    return reply.finish, reply.native_finish, message.content, message.reasoning, asked, reply.usage, reply.id, reply.model


def check_reply(reply: Reply, deltas: Sequence[Delta], said: Said) -> None:
    calls = [block for block in said.blocks if block[0] == "call"]
    assert reply.finish == ("tool_calls" if calls else "answer")
    assert reply.message.content == "".join(block[1] for block in said.blocks if block[0] == "said")
    assert reply.message.reasoning == "".join(block[1] for block in said.blocks if block[0] == "thought")
    assert [(call.name, parsed(call.arguments)) for call in reply.message.tool_calls] == [
        (name, parsed(arguments)) for _, _, name, arguments, _ in calls
    ]
    assert len({call.id for call in reply.message.tool_calls}) == len(calls)
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == USAGE
    assert "".join(each.text for each in deltas if isinstance(each, TextDelta)) == reply.message.content
    assert "".join(each.text for each in deltas if isinstance(each, ReasoningDelta)) == reply.message.reasoning
    for index, call in enumerate(reply.message.tool_calls):
        pieces = [each for each in deltas if isinstance(each, CallDelta) and each.index == index]
        assert "".join(each.name for each in pieces) == call.name
        assert "".join(each.arguments for each in pieces) in (call.arguments, "" if call.arguments == "{}" else None)


def user_message(parts: tuple[Part, ...]) -> Message:
    return UserMessage(parts[0]) if len(parts) == 1 and isinstance(parts[0], str) else UserMessage.of(*parts)


def result_messages(reply: Reply, said: Said) -> list[ToolMessage]:
    messages = []
    for call, answer in zip(reply.message.tool_calls, said.results, strict=True):
        parts = () if answer.is_plain else answer.parts
        content = UserMessage.of(*answer.parts).content
        messages.append(ToolMessage(call.id, call.name, content, "tool_error" if answer.failed else "ok", parts))
    return messages


# --- what the documents say of it -------------------------------------------------------------------------------------

DROPS_BLANK = ("anthropic", "gemini")


def clean(value: Any) -> Any:
    """What arrives of text: no half of a surrogate pair."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {clean(key): clean(each) for key, each in value.items()}
    return [clean(each) for each in value] if isinstance(value, list) else value


def parsed(arguments: str) -> Any:
    """Arguments as an object, which some APIs demand."""
    try:
        value = json.loads(arguments or "{}")
    except ValueError:
        value = None
    return clean(value if isinstance(value, dict) else {"not_json": arguments})


def system(dialect: str, text: str) -> list[Item]:
    return [] if dialect in DROPS_BLANK and not text.strip() else [("system", clean(text))]


def user(dialect: str, parts: tuple[Part, ...]) -> list[Item]:
    if len(parts) == 1 and isinstance(parts[0], str):
        blank = dialect in DROPS_BLANK and not parts[0].strip()
        return [("text", NO_TEXT if blank else clean(parts[0]))]
    return items_of(dialect, parts)


def items_of(dialect: str, parts: Sequence[Part]) -> list[Item]:
    items: list[Item] = []
    for part in parts:
        match part:
            case str():
                if part.strip() or dialect not in DROPS_BLANK:
                    items.append(("text", clean(part)))
            case File(media_type="text/plain"):
                items.append(("text", f"a.txt:\n\n{part.data.decode()}"))
            case Image():
                items.append(("image", part.media_type, part.data))
            case File():
                items.append(("file", part.media_type, part.data))
    return items


def result(dialect: str, number: int, answer: Result) -> Item:
    words = clean("\n".join(part for part in answer.parts if isinstance(part, str)))
    content = clean(UserMessage.of(*answer.parts).content)
    pictures = items_of(dialect, [part for part in answer.parts if isinstance(part, Image)])
    match dialect:
        case "chat":
            return "result", number, None, content
        case "responses":
            return "result", number, None, words if answer.is_plain else items_of(dialect, answer.parts)
        case "gemini":
            return "result", number, answer.failed, [("text", words), *pictures]
    if answer.failed:
        return "result", number, True, content if content.strip() else NO_TEXT
    return "result", number, False, words if answer.is_plain else items_of(dialect, answer.parts)


def assistant(dialect: str, blocks: Sequence[Block], number: int) -> list[Item]:
    """What a server of the same API is told of its own reply."""
    if dialect == "responses":
        while blocks[-1][0] == "thought":  # the API refuses reasoning that nothing follows
            blocks = blocks[:-1]
    items: list[Item] = []
    for block in blocks:
        if block[0] == "call":
            items.append(("call", number, block[2], parsed(block[3]), block[4]))
            number += 1
        elif not (block[0] == "thought" and dialect == "gemini"):  # which has no use for them
            items.append(block)
    return items


def foreign(dialect: str, blocks: Sequence[Block], number: int) -> list[Item]:
    """What a server of another API is told: the words and the calls."""
    items: list[Item] = [("said", "".join(block[1] for block in blocks if block[0] == "said"), None)]
    for at, block in enumerate(block for block in blocks if block[0] == "call"):
        signature = UNSIGNED if dialect == "gemini" and at == 0 else None
        items.append(("call", number + at, block[2], parsed(block[3]), signature))
    return items


def joined(items: Any) -> list[Item]:
    """Texts of a reply that stand side by side as one, which is how they read; empty ones as none."""
    out: list[Item] = []
    for item in items:
        if item[0] == "said" and item[2] is None:
            if not item[1]:
                continue
            if out and out[-1][0] == "said" and out[-1][2] is None:
                out[-1] = ("said", out[-1][1] + item[1], None)
                continue
        out.append((*item[:3], clean(item[3]), *item[4:]) if item[0] == "call" else item)  # a "\\ud800" is JSON
    return out


# --- running ----------------------------------------------------------------------------------------------------------


def failures(dialect: str, seeds: Iterable[int]) -> list[str]:
    """What went wrong with these."""
    wrong = []
    for seed in seeds:
        try:
            hold(Maker(dialect, seed).conversation())
        except Exception as error:
            wrong.append(f"--only {dialect}:{seed}: {type(error).__name__}: {error}"[:2000])
    return wrong


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--examples", type=int, default=2500, help="conversations with each server")
    options.add_argument("--only", metavar="DIALECT:SEED", help="one conversation, with its traceback")
    chosen, began = options.parse_args(), time.monotonic()
    if chosen.only:
        dialect, _, seed = chosen.only.partition(":")
        print(conversation := Maker(dialect, int(seed)).conversation())
        hold(conversation)
        return 0
    wrong = [each for dialect in SERVERS for each in failures(dialect, range(chosen.examples))]
    print(*wrong[:20], sep="\n", end="\n" if wrong else "")
    held, seconds = len(SERVERS) * chosen.examples, time.monotonic() - began
    print(f"conversations: {held:,} held, each told to four servers, {len(wrong)} wrong, {seconds:.0f} s")
    return 1 if wrong or not held else 0


if __name__ == "__main__":
    sys.exit(main())
