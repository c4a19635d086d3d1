"""Runs that are shown images and files, by people and by tools: kept, resumed, and refused in time."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from heaveto import File, Image
from heaveto.errors import ConfigError
from heaveto.journal import MemoryStore
from heaveto.messages import Message, ToolMessage, UserMessage
from heaveto.models import by_name
from heaveto.runs import Agent, read_state
from heaveto.testing import every_await
from heaveto.testing.scripted_model import calls, scripted
from heaveto.tools import tool

IMAGE = Image(b"\x89PNG\r\n\x1a\n...", name="x.png")
PROMPT: Any = ["What is this?", IMAGE]
ASKED = UserMessage.of(*PROMPT)


@tool(effect="read")
async def screenshot() -> list[str | Image]:
    """Look at the screen."""
    return ["the screen:", IMAGE]


@tool(effect="read")
def picture() -> Image:
    """Look at a picture."""
    return IMAGE


@pytest.mark.anyio
async def test_a_run_is_shown_an_image_and_its_journal_keeps_it() -> None:
    store, model = MemoryStore(), scripted("a boat", "still a boat")
    agent = Agent(model=model, store=store)
    result = await agent.run(PROMPT, run_id="r")
    assert model.requests == [[ASKED]]
    state = await read_state(store, "r")
    assert state.transcript[0] == ASKED
    assert (await store.runs())[0].summary.task == "What is this?\n[image/png x.png, 11 bytes]"
    await agent.resume(result.run_id, say=["And this?", File(b"hello", name="n.txt")])
    assert [message for message in model.requests[1] if isinstance(message, UserMessage)] == [
        ASKED,
        UserMessage.of("And this?", File(b"hello", name="n.txt")),
    ]


@pytest.mark.anyio
async def test_a_tools_image_reaches_the_model_and_the_journal() -> None:
    store, model = MemoryStore(), scripted(calls(("screenshot", {}), ("picture", {})), "a boat")
    await Agent(model=model, store=store, tools=[screenshot, picture]).run("Look", run_id="r")
    results = [message for message in model.requests[1] if isinstance(message, ToolMessage)]
    assert [(each.content, each.parts) for each in results] == [
        ("the screen:\n[image/png x.png, 11 bytes]", ("the screen:", IMAGE)),
        ("[image/png x.png, 11 bytes]", (IMAGE,)),
    ]
    assert list((await read_state(store, "r")).transcript)[2:4] == results


@pytest.mark.anyio
async def test_who_watches_sees_what_there_is_and_not_its_bytes() -> None:
    async with Agent(model=scripted("a boat"), store=MemoryStore()).start(PROMPT) as run:
        started = (await anext(aiter(run.events()))).to_data()
    assert list(started["parts"]) == [
        "What is this?",
        {"type": "image", "media_type": "image/png", "bytes": 11, "name": "x.png"},
    ]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("prompt", "says"),
    [
        (["look", 7], "the task has a part that is int; give a string"),
        ([], "the task is empty"),
        (b"look", "the task must be text, not bytes"),
        ([Image(IMAGE.data + bytes(19_000_000))] * 3, "40,000,000 is the most at once"),
        (PROMPT, "deepseek does not take image/png x.png, 11 bytes; it takes no images"),
    ],
)
async def test_what_cannot_be_asked_is_refused_before_there_is_a_run(prompt: Any, says: str) -> None:
    store = MemoryStore()
    with pytest.raises(ConfigError, match=says):
        await Agent(model=by_name("deepseek:m", key="k"), store=store).run(prompt, run_id="r")
    assert await store.runs() == []


@pytest.mark.slow
def test_a_stop_at_any_await_keeps_what_was_shown() -> None:
    stores: list[MemoryStore] = []

    async def whole() -> str:
        stores.append(MemoryStore())
        agent = Agent(model=scripted(calls(("picture", {})), "a boat"), store=stores[-1], tools=[picture])
        return (await agent.run(PROMPT, run_id="r")).text

    for stopped in every_await(whole, again_after=(1,)):
        messages = anyio.run(conversation_of, stores[-1], backend=stopped.backend)
        assert messages[:1] in ([], [ASKED]), stopped
        shown = [message.parts for message in messages if isinstance(message, ToolMessage) and message.ending == "ok"]
        assert shown in ([], [(IMAGE,)]), stopped
    assert len(stores) > 20


async def conversation_of(store: MemoryStore) -> list[Message]:
    return (await read_state(store, "r")).conversation() if await store.runs() else []
