"""Results that were cut, and reading on in them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from heaveto.journal import MemoryStore
from heaveto.loop.rests import Rests
from heaveto.messages import AssistantMessage, Limits, ToolMessage
from heaveto.runs import Agent
from heaveto.testing import calls, scripted
from heaveto.tools import command_tools, read_result, tool
from heaveto.tools.results import MAX_CHARS, Shortened, behind, shortened, to_text

LONG = "".join(f"{number:>7}\n" for number in range(10_000))  # 80,000 characters


@tool(effect="read")
async def count() -> str:
    """Count."""
    return LONG


def asking_for(**arguments: Any) -> Any:
    """A call of read_result for the first call of the conversation."""

    def line(request: Any) -> Any:
        first = next(message for message in request.transcript if isinstance(message, AssistantMessage))
        return calls(("read_result", {"call_id": first.tool_calls[0].id, **arguments}))

    return line


async def told(*lines: Any, tools: Any = (count, read_result), store: Any = None, **options: Any) -> list[str]:
    agent = Agent(model=scripted(*lines), tools=list(tools), store=store or MemoryStore(), **options)
    result = await agent.run("go", run_id="run")
    return [message.content for message in result.report.messages if isinstance(message, ToolMessage)]


@pytest.mark.anyio
async def test_what_was_cut_is_read_a_part_at_a_time() -> None:
    lines = [asking_for(first_char=30_001), asking_for(first_char=50_001, max_chars=40_000)]
    cut, second, third = await told(calls(("count", {})), *lines, "fine")
    assert "characters left out" in cut
    assert re.search(r"\(cut: read_result has all of its 80000 characters, with call_id call_\d+\)$", cut)
    assert len(cut) < MAX_CHARS + 200
    assert second == f"characters 30001 to 50000 of 80000:\n{LONG[30_000:50_000]}"
    assert third == f"characters 50001 to 80000 of 80000:\n{LONG[50_000:]}"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"first_char": 0}, "has 80000 characters; first_char must be from 1 to 80000, not 0"),
        ({"first_char": 80_001}, "first_char must be from 1 to 80000, not 80001"),
        ({"max_chars": 0}, "max_chars must be from 1 to 40000, not 0"),
        ({"max_chars": 40_001}, "max_chars must be from 1 to 40000, not 40001"),
    ],
)
async def test_a_part_that_is_none(arguments: dict[str, int], says: str) -> None:
    assert says in (await told(calls(("count", {})), asking_for(**arguments), "fine"))[1]


@pytest.mark.anyio
async def test_what_was_not_cut_or_is_gone() -> None:
    gone = 'nothing is kept of "x": only results that were cut are, and only while the run goes on; make the call again'
    (said,) = await told(calls(("read_result", {"call_id": "x"})), "fine")
    assert said.startswith(gone)
    store = MemoryStore()
    with pytest.raises(Exception, match="turn limit"):
        await told(calls(("count", {})), store=store, limits=Limits(turns=1))
    again = Agent(model=scripted(asking_for(), "fine"), tools=[count, read_result], store=store)
    result = await again.resume("run", limits=Limits(turns=9))
    assert "nothing is kept of" in str(result.report.messages)


@pytest.mark.anyio
async def test_where_there_is_no_such_tool_nothing_is_promised() -> None:
    (cut,) = await told(calls(("count", {})), "fine", tools=[count])
    assert "read_result" not in cut


@pytest.mark.anyio
async def test_a_command_s_output_is_read_on_too(tmp_path: Path) -> None:
    command = "i=0; while [ $i -lt 6000 ]; do echo line $i; i=$((i+1)); done; echo oops >&2"
    tools = [*command_tools(approval=False), read_result]
    cut, part = await told(
        calls(("run_command", {"command": command})), asking_for(max_chars=40_000), "fine", tools=tools, folder=tmp_path
    )
    assert "characters left out" in cut
    assert part.startswith("characters 1 to 40000 of ")
    assert "line 2999\n" in part


@pytest.mark.anyio
async def test_what_is_secret_is_hidden_in_the_rest_too() -> None:
    @tool(effect="read")
    async def echo(word: SecretStr) -> str:
        """Echo."""
        return f"{word.get_secret_value()}\n" * 10_000

    asked = calls(("echo", {"word": "correct horse"}))
    cut, part = await told(asked, asking_for(first_char=7, max_chars=30_000), "fine", tools=[echo, read_result])
    assert "correct" not in cut + part
    assert "horse" not in cut + part


def test_the_oldest_make_room() -> None:
    rests = Rests(100)
    for number in range(5):
        rests.keep(f"c{number}", str(number) * 40)
    assert [rests.get(f"c{number}") is not None for number in range(5)] == [False, False, False, True, True]
    rests.keep("big", "x" * 1_000)
    assert rests.get("big") == "x" * 100
    assert rests.get("c4") is None


@given(st.text(max_size=300), st.integers(10, 100), st.text(max_size=5))
def test_the_whole_is_kept_whatever_goes_before_it(text: str, max_chars: int, head: str) -> None:
    short = behind(head, shortened(text, max_chars))
    if len(text) <= max_chars:
        assert short == f"{head}\n{text}".rstrip()
        assert not isinstance(short, Shortened)
    else:
        assert isinstance(short, Shortened)
        assert short.whole == f"{head}\n{text}"


def test_a_result_that_fits_is_itself() -> None:
    assert not isinstance(to_text("x" * MAX_CHARS), Shortened)
    assert isinstance(to_text("x" * (MAX_CHARS + 1)), Shortened)


def test_what_was_cut_before_is_cut_once() -> None:
    """As structured content of a server's tool is, and a command's output behind its first line."""
    long = "x" * (3 * MAX_CHARS)
    again = to_text(behind("ended", shortened(long)))
    assert isinstance(again, Shortened)
    assert again.whole == f"ended\n{long}"
    assert again.count("left out") == 1
