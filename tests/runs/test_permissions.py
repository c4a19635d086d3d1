"""Which calls ask a person, and what a person says while the run waits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from heaveto.errors import ApprovalNeeded, ConfigError
from heaveto.journal import MemoryStore
from heaveto.messages import ToolCall, ToolMessage
from heaveto.runs import Agent, Permissions, approve_call
from heaveto.testing.scripted_model import calls, scripted
from heaveto.tools import file_tools, run_command_tool, tool

done: list[str] = []


@tool(effect="write", approval=True)
async def run_command(command: str | list[str]) -> str:
    """Run."""
    done.append(command if isinstance(command, str) else " ".join(command))
    return f"ran {command}"


@tool(effect="write")
async def edit(path: str) -> str:
    """Edit."""
    return "edited"


@tool(effect="read")
async def look(path: str) -> str:
    """Look."""
    return "seen"


def call(name: str, value: Any) -> ToolCall:
    return ToolCall("c", name, json.dumps({"x": value}))


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("ask", [None, None, True]),
        ("accept-edits", [None, True, True]),
        ("auto", [True, True, True]),
        ("deny", ["the user allows no such calls; go on without them", True, True]),
    ],
)
def test_modes(mode: Any, expected: list[Any]) -> None:
    permit = Permissions(mode)
    assert [permit(each, call(each.name, "x")) for each in (run_command, edit, look)] == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("git diff", True),
        ("git diff --stat", True),
        (["git", "diff", "a;b"], True),
        ("git push", None),
        ("git diff; rm -r .", None),
        ("git diff && curl x", None),
        ("git diff $(rm x)", None),
        ("git diff `rm x`", None),
        ("git diff > /etc/passwd", None),
        ("git diff\nrm x", None),
    ],
)
def test_a_pattern_allows_one_plain_command(command: Any, allowed: Any) -> None:
    permit = Permissions(allow=["run_command(git diff*)"])
    assert permit(run_command, call("run_command", command)) is allowed  # type: ignore[arg-type]


def test_a_denial_wins_and_reaches_into_compound_commands() -> None:
    permit = Permissions("auto", allow=["run_command"], deny=["run_command(*sudo*)"])
    assert permit(run_command, call("run_command", "ls")) is True  # type: ignore[arg-type]
    assert permit(run_command, call("run_command", "ls; sudo ls")) == "a rule of the user's forbids it"  # type: ignore[arg-type]


PATCH = "*** Begin Patch\n*** Update File: docs/a\n*** Move to: {}\n*** Add File: docs/./b\n+x\n*** End Patch"


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("run_command", {"cwd": "git diff", "command": "rm -r ."}, None),
        ("run_command", {"cwd": "x", "command": "git diff"}, True),
        ("write_file", {"content": "docs/x", "path": "src/x"}, None),
        ("write_file", {"content": "src", "path": "docs/x"}, True),
        ("write_file", {"content": "", "path": "docs/../src/x"}, None),
        ("write_file", {"content": "", "path": "./secret/x"}, False),
        ("write_file", {"content": "", "path": "/home/me/project/secret/x"}, False),
        ("write_file", {"content": "", "path": "/home/me/project/docs/x"}, None),
        ("move_file", {"path": "docs/a", "to": "docs/b"}, True),
        ("move_file", {"path": "docs/a", "to": "src/b"}, None),
        ("move_file", {"path": "docs/a", "to": "secret/b"}, False),
        ("apply_patch", {"patch": PATCH.format("docs/c")}, True),
        ("apply_patch", {"patch": PATCH.format("src/c")}, None),
        ("apply_patch", {"patch": PATCH.format("docs/../secret/c ")}, False),
    ],
)
def test_a_pattern_is_for_the_first_argument_or_for_all_paths(name: str, arguments: Any, expected: bool | None) -> None:
    """However the model orders and spells them."""
    permit = Permissions("ask", allow=["run_command(git diff*)", "*(docs/*)"], deny=["*(secret/*)"])
    tools = {each.name: each for each in (*file_tools(), run_command_tool())}
    found = permit(tools[name], ToolCall("c", name, json.dumps(arguments)))
    assert found is expected or (expected is False and found == "a rule of the user's forbids it")


def test_what_cannot_be_read_is_refused() -> None:
    with pytest.raises(ConfigError, match="no rule"):
        Permissions(allow=["run command"])
    with pytest.raises(ConfigError, match="no permission mode"):
        Permissions("yolo")  # type: ignore[arg-type]


def agent(store: MemoryStore, *lines: Any) -> Agent:
    return Agent(model=scripted(*lines), store=store, tools=[run_command, look], permit=Permissions())  # type: ignore[list-item]


async def waits(store: MemoryStore) -> str:
    done.clear()
    with pytest.raises(ApprovalNeeded) as caught:
        await agent(store, calls(("run_command", {"command": "make"}))).run("go", run_id="r")
    return caught.value.call_id


def answers(result: Any) -> list[tuple[str, str]]:
    return [(each.ending, each.content) for each in result.report.messages if isinstance(each, ToolMessage)]


@pytest.mark.anyio
async def test_an_approved_call_runs_at_the_resume() -> None:
    store = MemoryStore()
    call_id = await waits(store)
    found, entry = await approve_call(store, "r", call_id, "approved", who="ada")
    assert (found, entry.call.arguments) == ("r", '{"command": "make"}')
    result = await agent(store, "fine").resume("r")
    assert answers(result) == [("ok", "ran make")]
    assert done == ["make"]


@pytest.mark.anyio
async def test_a_denied_call_is_answered_with_the_reason() -> None:
    store = MemoryStore()
    call_id = await waits(store)
    await approve_call(store, "r", call_id, "denied", why="not today")
    result = await agent(store, "fine").resume("r")
    assert answers(result) == [("denied", "run_command was denied: not today")]
    assert done == []


@pytest.mark.anyio
async def test_edited_arguments_run_and_the_model_is_told() -> None:
    store = MemoryStore()
    call_id = await waits(store)
    await approve_call(store, "r", call_id, "approved", arguments='{"command": "make test"}')
    result = await agent(store, "fine").resume("r")
    ((ending, text),) = answers(result)
    assert (ending, text) == (
        "ok",
        'a person changed the arguments to {"command": "make test"} and allowed that\nran make test',
    )
    assert done == ["make test"]


@pytest.mark.anyio
async def test_there_must_be_such_a_call() -> None:
    store = MemoryStore()
    call_id = await waits(store)
    with pytest.raises(ConfigError, match="no call nope"):
        await approve_call(store, "r", "nope", "approved")
    with pytest.raises(ConfigError, match="no JSON"):
        await approve_call(store, "r", call_id, "approved", arguments="{")
    await approve_call(store, "r", call_id, "approved")
    await agent(store, "fine").resume("r")
    with pytest.raises(ConfigError, match="none of its calls"):
        await approve_call(store, "r", call_id, "approved")


@pytest.mark.anyio
async def test_the_word_may_be_bound_to_the_call_that_was_seen() -> None:
    store = MemoryStore()
    call_id = await waits(store)
    seen = ToolCall("other", "run_command", '{"command":"make"}').identity
    for wrong in (ToolCall("c", "run_command", '{"command": "make all"}').identity, seen[:7], f"{seen}0", ""):
        with pytest.raises(ConfigError, match=r'is not .* but .*: run_command \{"command": "make"\}'):
            await approve_call(store, "r", call_id, "approved", expect=wrong)
    await approve_call(store, "r", call_id, "approved", expect=seen[:12].upper())
    assert answers(await agent(store, "fine").resume("r")) == [("ok", "ran make")]
