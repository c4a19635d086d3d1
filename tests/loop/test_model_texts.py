"""Every text of the loop's that the model reads about its calls, to the byte: the same input gives the same words.

`make pydantics` runs this with the oldest and the newest release of the validator.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import anyio
import pydantic
import pytest

from heaveto.causes import Cancelled, Shutdown
from heaveto.errors import NotEnoughTime, OutcomeUnknown, ToolError, ToolFatal
from heaveto.messages import ToolCall
from heaveto.runs import Run
from heaveto.testing.clocks import FakeClock
from heaveto.testing.scripted_model import calls
from heaveto.tools import tool

pytestmark = pytest.mark.anyio

DEEP = '{"to": ' + "[" * 10_000 + "]" * 10_000 + "}"
SHAPE = 'send JSON like {"to": "...", "copies": 1}'


class Mail:
    """What the tools do is decided by the address."""

    @tool(effect="write", seconds=10)
    async def send_mail(
        self, to: str, copies: Annotated[int, pydantic.Field(ge=1)], kind: Literal["html", "text"] = "text"
    ) -> str:
        """Send a mail."""
        return await self.act(to)

    @tool(effect="read", seconds=10)
    async def read_mail(self, to: str = "") -> str:
        """Read the mail."""
        return await self.act(to)

    @tool(effect="write", approval=True)
    async def pay(self, to: str = "") -> str:
        """Pay."""
        return await self.act(to)

    async def act(self, to: str) -> str:
        match to:
            case "nobody":
                raise ToolError("there is no such address; look it up first")
            case "bug":
                raise KeyError("subject")
            case "mute bug":
                raise ZeroDivisionError
            case "gone":
                raise ToolFatal("send_mail", "the mail server is gone")
            case "unsure":
                raise OutcomeUnknown("send_mail", "", "the server closed the connection before it answered")
            case "late":
                raise NotEnoughTime(30, 12.5, "sending")
            case "slow":
                await anyio.sleep(100)
        return "done"

    @property
    def tools(self) -> list[Any]:
        return [self.send_mail, self.read_mail, self.pay]


def send(to: str) -> tuple[str, dict[str, Any]]:
    return "send_mail", {"to": to, "copies": 1}


TEXTS: dict[str, tuple[tuple[str, Any], str]] = {
    # unknown tool
    "near": (("send_mial", "{}"),
        ('no tool named "send_mial"; did you mean send_mail, with JSON like {"to": "...", "copies": 1}? '
        "the tools are pay, read_mail, send_mail")),
    "far": (("browse", "{}"), 'no tool named "browse"; the tools are pay, read_mail, send_mail'),
    # bad arguments
    "unknown field": (("send_mail", '{"to": "a", "copies": 1, "knid": "html"}'),
        f'bad arguments for send_mail: unknown field "knid" (did you mean "kind"?); {SHAPE}'),
    "missing": (("send_mail", '{"to": "a"}'), f'bad arguments for send_mail: missing field "copies"; {SHAPE}'),
    "wrong type": (("send_mail", '{"to": "a", "copies": "two"}'),
        f'bad arguments for send_mail: copies: got "two" (string), want an integer; {SHAPE}'),
    "out of bounds": (("send_mail", '{"to": "a", "copies": 0}'),
        f"bad arguments for send_mail: copies: got 0 (integer), want 1 or more; {SHAPE}"),
    "no choice": (("send_mail", '{"to": "a", "copies": 1, "kind": "pdf"}'),
        f'bad arguments for send_mail: kind: got "pdf" (string), want one of "html", "text"; {SHAPE}'),
    "bad JSON": (("send_mail", '{"to": "a" "copies": 1}'),
        ("bad arguments for send_mail: the JSON is not valid: unexpected quotation mark at character 12, "
        f'after {{"to": "a"; {SHAPE}')),
    "truncated": (("send_mail", '{"to": "a", "cop'),
        f"bad arguments for send_mail: the JSON ends too early, at character 16: the arguments were cut off; {SHAPE}"),
    "no object": (("send_mail", "[]"),
        f"bad arguments for send_mail: the arguments must be a JSON object, not an array; {SHAPE}"),
    "deep": (("send_mail", DEEP), f"bad arguments for send_mail: the JSON is nested deeper than 100 levels; {SHAPE}"),
    "deep and cut": (("send_mail", "[" * 10_000),
        f"bad arguments for send_mail: the JSON is nested deeper than 100 levels; {SHAPE}"),
    # the tool's own
    "tool error": (send("nobody"), "there is no such address; look it up first"),
    "crashed": (send("bug"), "send_mail failed with an internal error (KeyError: 'subject'); try another way, or report it"),
    "crashed without words": (send("mute bug"),
        "send_mail failed with an internal error (ZeroDivisionError); try another way, or report it"),
    "timed out": (("read_mail", {"to": "slow"}), "read_mail: the tool timed out after 10 s (seconds)"),
    "no time": (send("late"), "send_mail: not enough time: sending needs 30 s, 12.5 s left"),
    # a person
    "denied": (("pay", {"to": "ada"}), "pay was denied: not on a Friday"),
    # nobody knows
    "timed out while it wrote": (send("slow"),
        "outcome unknown: the tool timed out after 10 s (seconds); do not assume either, check before doing it again"),
    "unsure": (send("unsure"),
        ("outcome unknown: the server closed the connection before it answered; "
        "do not assume either, check before doing it again")),
}  # fmt: skip


async def deny(call: ToolCall) -> str:
    return "not on a Friday"


@pytest.mark.parametrize("name", TEXTS)
async def test_what_the_model_reads_and_goes_on(drive: Any, name: str) -> None:
    call, text = TEXTS[name]
    driven = await drive(calls(call), "fine", tools=Mail().tools, approve=deny, on_unknown="tell_model")
    assert driven.outcome.text == "fine"
    assert [answer.content for answer in driven.answers] == [text]
    assert driven.answers[0].is_error


async def test_what_the_model_reads_of_a_stop(drive: Any, fake_clock: FakeClock) -> None:
    """It tells a call that never ran from one that may have."""

    async def stop_soon(run: Run) -> None:
        await anyio.sleep(1)
        run.cancel(Cancelled("lunch", "ada"))

    async def shut_down(run: Run) -> None:
        await anyio.sleep(1)
        run.cancel(Shutdown("SIGTERM"))

    cut = "stopped while it ran: cancelled by ada: lunch"
    for asked, during, texts in [
        ([send("slow"), send("ada")], stop_soon,
            [f"{cut}; it may have run in part or in full, so check before doing it again",
            "cancelled before it ran: cancelled by ada: lunch"]),
        ([("read_mail", {"to": "slow"})], stop_soon, [cut]),
        ([("read_mail", {"to": "slow"}), send("ada")], shut_down,
            ["stopped while it ran: shutting down: SIGTERM", "cancelled before it ran: shutting down: SIGTERM"]),
    ]:  # fmt: skip
        driven = await drive(calls(*asked), during=during, tools=Mail().tools, grace_seconds=2)
        assert [answer.content for answer in driven.answers] == texts


async def test_what_the_model_reads_of_a_fatal_tool(drive: Any) -> None:
    driven = await drive(calls(send("gone"), send("ada")), tools=Mail().tools)
    assert [answer.content for answer in driven.answers] == [
        "not run: send_mail: the mail server is gone",
        "cancelled before it ran: send_mail: the mail server is gone",
    ]


@pytest.mark.parametrize("arguments", [DEEP, "[" * 10_000, '{"a":' * 10_000], ids=["closed", "cut", "objects"])
def test_a_call_nested_as_deep_as_one_likes_has_an_identity(arguments: str) -> None:
    one, other = ToolCall("a", "send_mail", arguments), ToolCall("b", "send_mail", arguments)
    assert one.identity == other.identity
    assert one.identity != ToolCall("c", "read_mail", arguments).identity
